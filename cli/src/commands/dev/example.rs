//! Values for the form of a workflow with which a first run succeeds: each required field gets a value of its kind.

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::start::{InputField, InputKind};
use tidemill_mock_llm::friendly;

/// A picture of one point.
const PNG: &str = "printf iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== | base64 -d";
/// A text.
const TEXT: &str = r"printf 'An example.\n'";

/// A file that is uploaded before the run.
pub(super) struct Upload {
    /// Stands in the inputs for the id of the file.
    pub(super) mark: String,
    pub(super) name: String,
    pub(super) media_type: &'static str,
    /// A shell command that prints the file.
    pub(super) bytes: &'static str,
}

/// Returns the inputs, and the files that must be uploaded for them.
pub(super) fn inputs(form: &[InputField]) -> (Map<String, Json>, Vec<Upload>) {
    let mut uploads = Vec::new();
    let fields = form.iter().filter(|field| field.required);
    let inputs = fields.map(|field| (field.variable.clone(), example(field, &mut uploads))).collect();
    (inputs, uploads)
}

fn example(field: &InputField, uploads: &mut Vec<Upload>) -> Json {
    if !matches!(&field.default, Json::Null) && field.default != "" {
        return field.default.clone();
    }
    match field.kind {
        InputKind::Number => json!(1),
        InputKind::Checkbox => json!(true),
        InputKind::JsonObject if field.json_schema.is_object() => {
            friendly::fitting(&field.json_schema, &field.variable)
        }
        InputKind::JsonObject => json!({}),
        InputKind::File => file(field, uploads),
        InputKind::FileList => json!([file(field, uploads)]),
        InputKind::Select => {
            field.options.first().map_or_else(|| json!(field.variable), |option| json!(option))
        }
        InputKind::TextInput | InputKind::Paragraph | InputKind::ExternalDataTool => {
            let longest = field.max_length.filter(|longest| *longest > 0);
            let longest = longest.and_then(|longest| usize::try_from(longest).ok()).unwrap_or(usize::MAX);
            field.variable.chars().take(longest).collect::<String>().into()
        }
    }
}

/// A file that the field takes: an upload, or by its URL where the field takes no upload.
fn file(field: &InputField, uploads: &mut Vec<Upload>) -> Json {
    let extension = extension(&field.allowed_file_types, &field.allowed_file_extensions);
    let methods = &field.allowed_file_upload_methods;
    let kind = kind(&field.allowed_file_types, &extension);
    if !methods.is_empty() && !methods.iter().any(|method| method == "local_file") {
        let url = format!("https://example.com/file.{extension}");
        return json!({"type": kind, "transfer_method": "remote_url", "url": url});
    }
    let (media_type, bytes) = match extension.as_str() {
        "png" => ("image/png", PNG),
        "txt" | "md" => ("text/plain", TEXT),
        _ => ("application/octet-stream", TEXT),
    };
    let mark = format!("@upload-{}@", uploads.len());
    uploads.push(Upload { mark: mark.clone(), name: format!("example.{extension}"), media_type, bytes });
    json!({"type": kind, "transfer_method": "local_file", "upload_file_id": mark})
}

/// The kinds of files with an extension of each.
const KINDS: [(&str, &str); 4] = [("document", "txt"), ("image", "png"), ("audio", "mp3"), ("video", "mp4")];

/// The kind of a file, as the request names it.
fn kind(types: &[String], extension: &str) -> &'static str {
    let takes = |kind: &str| types.is_empty() || types.iter().any(|one| one == kind);
    let known = KINDS.iter().find(|(kind, of)| takes(kind) && *of == extension);
    match known {
        Some((kind, _)) => kind,
        None if takes("document") => "document",
        None => "custom",
    }
}

/// An extension that a field takes. The list of extensions counts for custom files only.
fn extension(types: &[String], extensions: &[String]) -> String {
    let takes = |kind: &str| types.is_empty() || types.iter().any(|one| one == kind);
    if let Some(first) = extensions.first().filter(|_| takes("custom")) {
        return first.trim_start_matches('.').to_lowercase();
    }
    let found = KINDS.iter().find(|(kind, _)| takes(kind));
    found.map_or("txt", |(_, extension)| *extension).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_extension_that_the_form_takes() {
        for (types, extensions, expected) in [
            (&["custom"][..], &[".TXT", ".md"][..], "txt"),
            (&[], &[], "txt"),
            (&["image"], &[], "png"),
            (&["video", "audio"], &[], "mp3"),
            (&[], &["txt"], "txt"),
            (&["document", "custom"], &[".txt"], "txt"),
            // The editor keeps a list that no longer counts.
            (&["image"], &[".txt"], "png"),
            (&["custom"], &[], "txt"),
        ] {
            let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
            assert_eq!(extension(&owned(types), &owned(extensions)), expected, "{types:?} {extensions:?}");
        }
    }
}
