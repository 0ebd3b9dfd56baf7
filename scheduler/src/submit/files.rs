//! Reads files in requests: Dify's mapping `{type, transfer_method, url}` becomes a file object. Name and type follow
//! from the URL; nothing is fetched.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::start::InputField;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap, mime};
use uuid::Uuid;

use super::SubmitError;

const TRANSFER_METHODS: [&str; 4] = ["remote_url", "local_file", "tool_file", "datasource_file"];

/// Kinds of files, and the extensions that Dify accepts for each.
const KINDS: [(&str, &[&str]); 4] = [
    ("image", &["jpg", "jpeg", "png", "webp", "gif", "svg"]),
    ("video", &["mp4", "mov", "mpeg", "webm"]),
    ("audio", &["mp3", "m4a", "wav", "amr", "mpga"]),
    (
        "document",
        &[
            "txt",
            "markdown",
            "md",
            "mdx",
            "pdf",
            "html",
            "htm",
            "xlsx",
            "xls",
            "vtt",
            "properties",
            "doc",
            "docx",
            "csv",
            "eml",
            "msg",
            "ppt",
            "pptx",
            "xml",
            "epub",
            "odt",
        ],
    ),
];

/// Media types that are missing in Python's table, which Dify uses first.
const MORE_MEDIA_TYPES: [(&str, &str); 2] = [("m4a", "audio/mp4"), ("mpga", "audio/mpeg")];

/// Reads the file of a form field.
pub(super) fn of_field(field: &InputField, mapping: &JsonMap) -> Result<JsonMap, SubmitError> {
    // A file object from the outputs of another run is accepted unchanged.
    if mapping.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY) {
        return Ok(mapping.clone());
    }
    let file = file(mapping)?;
    let allowed = |list: &[String], value: &str| list.is_empty() || list.iter().any(|v| v == value);
    let text = |key: &str| file.get(key).and_then(Json::as_str).unwrap_or_default();
    let is_custom = text("type") == "custom";
    let extension = text("extension").to_lowercase();
    let of_extension = field
        .allowed_file_extensions
        .iter()
        .any(|known| known.trim_start_matches('.').eq_ignore_ascii_case(extension.trim_start_matches('.')));
    let fits = (is_custom || allowed(&field.allowed_file_types, text("type")))
        && (!is_custom || field.allowed_file_extensions.is_empty() || of_extension)
        && allowed(&field.allowed_file_upload_methods, text("transfer_method"));
    if !fits {
        return refuse(format!("File validation failed for file: {}", text("filename")));
    }
    Ok(file)
}

/// Reads the files in a request's `files`. They are ignored unless the app's features enable uploads.
pub(super) fn of_request(features: &JsonMap, mappings: &[Json]) -> Result<Vec<Json>, SubmitError> {
    let upload = features.get("file_upload");
    let number = |path: &str| upload.and_then(|u| u.pointer(path)).and_then(Json::as_u64).unwrap_or(0);
    if upload.and_then(|u| u.get("enabled")).and_then(Json::as_bool) != Some(true) {
        return Ok(Vec::new());
    }
    let known = |mapping: &&JsonMap| {
        mapping.get("transfer_method").and_then(Json::as_str).is_some_and(|m| TRANSFER_METHODS.contains(&m))
    };
    let files: Vec<JsonMap> =
        mappings.iter().filter_map(Json::as_object).filter(known).map(file).collect::<Result<_, _>>()?;
    let images = files.iter().filter(|file| file.get("type").and_then(Json::as_str) == Some("image")).count();
    for (count, max, what) in [
        (files.len(), number("/number_limits"), "Number of files"),
        (images, number("/image/number_limits"), "Number of image files"),
    ] {
        if max > 0 && count as u64 > max {
            return refuse(format!("{what} exceeds the maximum limit {max}"));
        }
    }
    Ok(files.into_iter().map(Json::Object).collect())
}

/// Reads a file in a person's answer to a form. The caller checks it against its field.
pub(crate) fn of_answer(mapping: &JsonMap) -> Result<JsonMap, SubmitError> {
    if mapping.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY) {
        return Ok(mapping.clone());
    }
    file(mapping)
}

fn file(mapping: &JsonMap) -> Result<JsonMap, SubmitError> {
    let text = |key: &str| mapping.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    match text("transfer_method") {
        None => return refuse("transfer_method is required in file mapping"),
        Some("remote_url") => {}
        Some(method) if TRANSFER_METHODS.contains(&method) => {
            return not_here(method, text("upload_file_id"));
        }
        Some(method) => return refuse(format!("invalid transfer_method {method:?} in file mapping")),
    }
    let Some(url) = text("url").or_else(|| text("remote_url")) else { return refuse("Invalid file url") };
    let Some(named) = name_in_url(url) else { return refuse("Invalid file url") };
    let filename = text("filename").unwrap_or(named);
    let extension = filename.rsplit_once('.').map(|(_, ext)| ext.to_lowercase()).unwrap_or_default();
    let media_type = mime::of_name(filename).or_else(|| {
        MORE_MEDIA_TYPES.iter().find(|(known, _)| *known == extension).map(|(_, media_type)| *media_type)
    });
    let detected = kind_of(&extension, media_type);
    let declared = text("type").unwrap_or("custom");
    // A URL without an extension does not say its type, so the declared type counts.
    if declared != "custom" && detected.is_some_and(|kind| kind != declared) {
        return refuse("Detected file type does not match the specified type. Please verify the file.");
    }
    let value = json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY,
        "id": null,
        "type": declared,
        "transfer_method": "remote_url",
        "remote_url": url,
        "reference": null,
        "related_id": null,
        "filename": filename,
        "extension": if extension.is_empty() { ".bin".to_string() } else { format!(".{extension}") },
        "mime_type": text("mime_type").or(media_type).unwrap_or("application/octet-stream"),
        "size": mapping.get("size").and_then(Json::as_i64).unwrap_or(-1),
        "url": url,
    });
    Ok(value.as_object().cloned().unwrap_or_default())
}

/// The kind of file for an extension, or `None` when the extension is unknown.
fn kind_of(extension: &str, media_type: Option<&str>) -> Option<&'static str> {
    let by_extension = KINDS.iter().find(|(_, known)| known.contains(&extension)).map(|(kind, _)| *kind);
    by_extension.or_else(|| {
        let main = media_type?.split('/').next()?;
        Some(["image", "video", "audio"].into_iter().find(|kind| *kind == main).unwrap_or("custom"))
    })
}

/// Refuses a file that is stored at Dify. If its id is invalid, the error has Dify's words.
fn not_here<T>(method: &str, id: Option<&str>) -> Result<T, SubmitError> {
    match id {
        None if method == "local_file" => refuse("Invalid upload file id"),
        Some(id) if method == "local_file" && Uuid::try_parse(id).is_err() => {
            refuse("Invalid upload file id format")
        }
        None | Some(_) => Err(SubmitError::NotSupported(format!(
            "files of transfer_method {method} are not supported yet; give the file by its URL, with transfer_method remote_url"
        ))),
    }
}

/// The last part of a URL's path, or `None` for anything but an http(s) URL.
fn name_in_url(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() || url.contains(char::is_whitespace) {
        return None;
    }
    Some(path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("file"))
}

fn refuse<T>(message: impl Into<String>) -> Result<T, SubmitError> {
    Err(SubmitError::Inputs { message: message.into(), invalid_param: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(mapping: Json) -> Result<Json, String> {
        file(mapping.as_object().unwrap()).map(Json::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn name_and_type_of_a_remote_file_follow_from_its_url() {
        let url = "https://h/a/cat.PNG?x=1";
        let file = made(json!({"type": "image", "transfer_method": "remote_url", "url": url})).unwrap();
        assert_eq!(file["dify_model_identity"], "__dify__file__");
        let part = |key: &str| file[key].as_str().unwrap().to_string();
        assert_eq!((part("filename"), part("extension")), ("cat.PNG".into(), ".png".into()));
        assert_eq!(
            (part("mime_type"), part("remote_url"), part("url")),
            ("image/png".into(), url.into(), url.into())
        );
        assert_eq!(file["size"], -1);
    }

    #[test]
    fn wrong_mappings_are_refused_in_difys_words() {
        for (mapping, said) in [
            (
                json!({"type": "image", "url": "https://h/x.png"}),
                "transfer_method is required in file mapping",
            ),
            (json!({"type": "image", "transfer_method": "remote_url"}), "Invalid file url"),
            (
                json!({"type": "image", "transfer_method": "remote_url", "url": "ftp://h/x.png"}),
                "Invalid file url",
            ),
            (
                json!({"type": "image", "transfer_method": "remote_url", "url": "https://h/x.pdf"}),
                "Detected file type does not match the specified type. Please verify the file.",
            ),
        ] {
            assert_eq!(made(mapping), Err(said.to_string()));
        }
        let local = |id: Json| {
            let mapping = json!({"type": "image", "transfer_method": "local_file", "upload_file_id": id});
            made(mapping).unwrap_err()
        };
        assert_eq!(local(json!(null)), "Invalid upload file id");
        assert_eq!(local(json!("x")), "Invalid upload file id format");
        assert!(local(json!(Uuid::nil().to_string())).contains("not supported yet"));
    }

    #[test]
    fn a_file_whose_name_shows_another_kind_than_declared_is_refused() {
        for (kind, name, fits) in [
            ("image", "x.PNG", true),
            ("image", "x.tiff", true),
            ("document", "x.tiff", false),
            ("audio", "x.m4a", true),
            ("document", "x.epub", true),
            ("document", "x.zip", false),
            ("custom", "x.zip", true),
            ("custom", "x.png", true),
            ("document", "x.unheard", true),
            ("video", "x", true),
        ] {
            let url = format!("https://h/{name}");
            let file = made(json!({"type": kind, "transfer_method": "remote_url", "url": url}));
            assert_eq!(file.is_ok(), fits, "{kind} {name}: {file:?}");
        }
    }

    #[test]
    fn a_field_accepts_the_types_extensions_and_methods_that_it_lists() {
        let field = |extra: Json| {
            let mut field = json!({"variable": "f", "label": "f", "type": "file"});
            field.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let text = json!({
                "nodes": [{"id": "s", "data": {"type": "start", "variables": [field]}}], "edges": [],
            });
            let graph = tidemill_common::graph::import(text.to_string().as_bytes()).graph.unwrap();
            let tidemill_common::nodes::NodeData::Start(data) = &graph.node(graph.root).data else {
                panic!()
            };
            data.variables[0].clone()
        };
        for (extra, kind, name, fits) in [
            (json!({}), "image", "a.png", true),
            (json!({"allowed_file_types": ["image"]}), "image", "a.png", true),
            (json!({"allowed_file_types": ["document"]}), "image", "a.png", false),
            (
                json!({"allowed_file_types": ["custom"], "allowed_file_extensions": [".zip"]}),
                "custom",
                "a.ZIP",
                true,
            ),
            (
                json!({"allowed_file_types": ["custom"], "allowed_file_extensions": ["zip"]}),
                "custom",
                "a.zip",
                true,
            ),
            (
                json!({"allowed_file_types": ["custom"], "allowed_file_extensions": [".zip"]}),
                "custom",
                "a.rar",
                false,
            ),
            (json!({"allowed_file_upload_methods": ["remote_url"]}), "image", "a.png", true),
            (json!({"allowed_file_upload_methods": ["local_file"]}), "image", "a.png", false),
        ] {
            let mapping =
                json!({"type": kind, "transfer_method": "remote_url", "url": format!("https://h/{name}")});
            let taken = of_field(&field(extra.clone()), mapping.as_object().unwrap());
            let said = format!("File validation failed for file: {name}");
            let expected = if fits { Ok(()) } else { Err(said) };
            assert_eq!(taken.map(drop).map_err(|error| error.to_string()), expected, "{extra} {name}");
        }
    }

    #[test]
    fn files_of_a_request_are_ignored_unless_the_app_enables_uploads() {
        let image = json!({"type": "image", "transfer_method": "remote_url", "url": "https://h/x.png"});
        let features = |limit: u64| json!({"file_upload": {"enabled": true, "number_limits": limit}});
        let taken = |features: Json, files: &[Json]| {
            of_request(features.as_object().unwrap(), files).map(|f| f.len()).map_err(|e| e.to_string())
        };
        assert_eq!(taken(json!({}), std::slice::from_ref(&image)), Ok(0));
        assert_eq!(taken(features(0), &[image.clone(), json!({"type": "image"})]), Ok(1));
        let many = taken(features(1), &[image.clone(), image]);
        assert_eq!(many, Err("Number of files exceeds the maximum limit 1".into()));
    }
}
