//! Files of a run as a plugin gets them: each file object in the arguments gets an address. A stored file is offered to the
//! plugin at an address that only its process can reach, as long as the invocation lasts.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap};
use tidemill_plugins::process::Offered;
use uuid::Uuid;

use super::answers::Asker;
use crate::outside::tools::{Stage, ToolError};

/// Returns the arguments with addresses, and the files at them.
///
/// # Errors
/// A file cannot be read, or they are too large.
pub(super) async fn offered(
    mut arguments: JsonMap,
    asker: Asker<'_>,
) -> Result<(JsonMap, Offered), ToolError> {
    let mut found = Vec::new();
    for value in arguments.values_mut() {
        collect(value, &mut found);
    }
    let (mut files, mut left) = (BTreeMap::new(), asker.http.bounds.upload_bytes_max);
    for file in found {
        let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let remote = text("remote_url").filter(|_| text("transfer_method") == Some("remote_url"));
        if let Some(url) = remote.map(str::to_owned) {
            // The plugin loads it through its proxy, with the guard.
            file.insert("url".into(), url.into());
            continue;
        }
        let named = text("filename").unwrap_or("without a name").to_owned();
        let failed = |reason: String| {
            ToolError::new(Stage::Invoke, format!("the file {named} cannot be given to the plugin: {reason}"))
        };
        let Some(reference) = text("reference").or_else(|| text("related_id")) else {
            return Err(failed("it has neither a URL nor a reference".into()));
        };
        let most = asker.http.bounds.file_bytes_max.min(left);
        let bytes = asker.files.read(reference, most).await;
        let bytes = bytes.map_err(|error| {
            failed(format!("{error} (http.file_bytes_max for one file, http.upload_bytes_max for all)"))
        })?;
        left = left.saturating_sub(bytes.len() as u64);
        let extension = text("extension").unwrap_or_default().trim_start_matches('.').to_owned();
        let is_plain = extension.chars().all(|c| c.is_ascii_alphanumeric());
        let extension =
            if extension.is_empty() || !is_plain { String::new() } else { format!(".{extension}") };
        let name = format!("{}{extension}", Uuid::new_v4().simple());
        file.insert("url".into(), Offered::address(&name).into());
        file.insert("size".into(), json!(bytes.len()));
        files.insert(name, bytes.to_vec());
    }
    Ok((arguments, Offered::new(files)))
}

/// Collects the file objects of a value.
fn collect<'v>(value: &'v mut Json, found: &mut Vec<&'v mut JsonMap>) {
    match value {
        Json::Object(object) => {
            if object.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY) {
                found.push(object);
            } else {
                object.values_mut().for_each(|value| collect(value, found));
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|value| collect(value, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
