//! The body of a request: its texts and the list of its files. The worker fetches the files.

use serde_json::Value as Json;

use super::draft::{Pairs, Show, encode, set};
use super::{Body, BodyItem, BodyKind, ErrorType, HttpRequestData};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::json_repair::{RepairError, repair};
use tidemill_base::value::pyrepr::{JsonLayout, json_into, repr_texts};
use tidemill_base::value::{SegmentType, Variables};

/// The name of the part that makes a form without files a multipart one, as on Dify.
pub const PLACEHOLDER: &str = "__multipart_placeholder__";

/// The content of a request's body.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Empty,
    /// A text, sent unchanged.
    Text(String),
    /// Fields and files, each file with its field's name.
    Multipart {
        fields: Pairs,
        /// File objects; files without content are left out.
        files: Vec<(String, Json)>,
    },
    /// The bytes of one file.
    File(Json),
}

/// Builds the content from `data`.
///
/// # Errors
/// [`ErrorType::RequestBody`] for texts that do not fit the type, [`ErrorType::FileFetch`] when the variable is not a
/// file.
pub fn content(data: &HttpRequestData, variables: &dyn Variables) -> Result<Content, NodeFailure> {
    let Some(body) = &data.body else { return Ok(Content::Empty) };
    match body.kind {
        BodyKind::None => Ok(Content::Empty),
        BodyKind::RawText => Ok(Content::Text(only(body)?.value.render_text(variables))),
        BodyKind::Json => json(&only(body)?.value.render_text(variables)),
        BodyKind::UrlEncoded => {
            Ok(Content::Text(encode(fields(body.items.iter(), variables, Show::Open).iter())))
        }
        BodyKind::FormData => Ok(Content::Multipart {
            fields: form_fields(body, variables, Show::Open),
            files: form_files(body, variables),
        }),
        BodyKind::Binary => file(only(body)?, variables).map(Content::File),
    }
}

/// The item of a body that must have exactly one.
fn only(body: &Body) -> Result<&BodyItem, NodeFailure> {
    match body.items.as_slice() {
        [item] => Ok(item),
        _ => {
            let message = format!("{} body type should have exactly one item", body.kind.name());
            Err(ErrorType::RequestBody.failure(message))
        }
    }
}

fn json(text: &str) -> Result<Content, NodeFailure> {
    match repair(text) {
        // Dify's client sends no body for null.
        Ok(Json::Null) => Ok(Content::Empty),
        Ok(value) => {
            let mut out = String::new();
            json_into(&mut out, &value, JsonLayout::Compact, false);
            Ok(Content::Text(out))
        }
        Err(RepairError::Nothing) => {
            Err(ErrorType::RequestBody.failure(format!("Failed to parse JSON: {text}")))
        }
        // On Dify this fails only on sending, with an exception that leaves the node.
        Err(error @ RepairError::NotFinite) => Err(NodeFailure::escaped(error.to_string())),
    }
}

/// Texts by key. Of two with the same key the last value counts, at the first one's position.
fn fields<'a>(items: impl Iterator<Item = &'a BodyItem>, variables: &dyn Variables, show: Show) -> Pairs {
    let mut fields = Pairs::new();
    for item in items {
        set(&mut fields, &show.text(&item.key, variables), show.text(&item.value, variables));
    }
    fields
}

/// The texts of a form.
pub(super) fn form_fields(body: &Body, variables: &dyn Variables, show: Show) -> Pairs {
    fields(body.items.iter().filter(|item| !item.is_file), variables, show)
}

/// The texts of a URL-encoded body: of all items; file items contribute their text.
pub(super) fn url_encoded_fields(body: &Body, variables: &dyn Variables, show: Show) -> Pairs {
    fields(body.items.iter(), variables, show)
}

/// The files of a form, grouped by field. Values that are not files, and files without content, are left out.
fn form_files(body: &Body, variables: &dyn Variables) -> Vec<(String, Json)> {
    let mut by_key: Vec<(String, Vec<Json>)> = Vec::new();
    for item in body.items.iter().filter(|item| item.is_file) {
        let Some(segment) = variables.found(&item.file) else { continue };
        let files: Vec<Json> = match (segment.ty, &segment.value) {
            (SegmentType::File, file) => vec![file.clone()],
            (SegmentType::ArrayFile, Json::Array(files)) => files.clone(),
            _ => continue,
        };
        let files = files.into_iter().filter(has_content);
        let key = item.key.render_text(variables);
        match by_key.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.extend(files),
            None => by_key.push((key, files.collect())),
        }
    }
    let of_key = |(key, files): (String, Vec<Json>)| files.into_iter().map(move |file| (key.clone(), file));
    by_key.into_iter().flat_map(of_key).collect()
}

fn has_content(file: &Json) -> bool {
    let given = |key: &str| file.get(key).and_then(Json::as_str).is_some_and(|text| !text.is_empty());
    given("reference") || given("related_id") || given("remote_url")
}

fn file(item: &BodyItem, variables: &dyn Variables) -> Result<Json, NodeFailure> {
    match variables.found(&item.file) {
        Some(segment) if segment.ty == SegmentType::File => Ok(segment.value.clone()),
        Some(_) | None => {
            let message = format!("cannot fetch file with selector {}", repr_texts(&item.file));
            Err(ErrorType::FileFetch.failure(message))
        }
    }
}
