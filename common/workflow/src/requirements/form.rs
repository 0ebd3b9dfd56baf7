//! Files that a run takes: fields of the start form, and the files of a message.

use serde_json::Value as Json;

use super::{Found, NodeView, Requirement, list, map_of, text};
use crate::dsl::Document;
use crate::kinds::NodeKind;

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::Start {
        return;
    }
    for field in list(node.data, "variables").iter().filter_map(Json::as_object) {
        if !["file", "file-list", "array[file]"].contains(&text(field, "type")) {
            continue;
        }
        let methods = list(field, "allowed_file_upload_methods");
        found.add(Requirement::Upload {
            field: text(field, "variable").into(),
            required: field.get("required").and_then(Json::as_bool) == Some(true),
            by_url: allows_urls(methods),
        });
    }
}

/// The files of a message, if the app takes some.
pub(super) fn of_messages(document: &Document, found: &mut Found) {
    let Some(upload) = map_of(&document.features, "file_upload") else { return };
    let is_on = |map: Option<&Json>| map.and_then(|map| map.get("enabled")?.as_bool()) == Some(true);
    let image = upload.get("image");
    let image_is_on = is_on(image);
    // Old files have only `image`; newer ones keep it beside the general switch.
    let is_enabled = match upload.get("enabled").and_then(Json::as_bool) {
        Some(enabled) => enabled,
        None => image_is_on,
    };
    if !is_enabled {
        return;
    }
    let methods = match list(upload, "allowed_file_upload_methods") {
        [] => image.and_then(Json::as_object).map_or(&[][..], |image| list(image, "transfer_methods")),
        methods => methods,
    };
    found.add(Requirement::Upload { field: String::new(), required: false, by_url: allows_urls(methods) });
}

/// True when the list allows files by URL. An empty list allows all methods.
fn allows_urls(methods: &[Json]) -> bool {
    methods.is_empty() || methods.iter().any(|method| method == "remote_url")
}
