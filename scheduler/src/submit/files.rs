//! Reads files in requests: Dify's mapping `{type, transfer_method, url}` becomes a file object. What the request does not
//! say about a file comes from its server's answer ([`remote_files`](super::remote_files)), and else from its URL.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::start::InputField;
use tidemill_common::value::file_name::{FileFacts, Known, UNKNOWN_EXTENSION};
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap};
use uuid::Uuid;

use super::SubmitError;
use super::remote_files::Answers;

const TRANSFER_METHODS: [&str; 4] = ["remote_url", "local_file", "tool_file", "datasource_file"];

/// The URL of a file whose server must be asked what it is, or `None` if the mapping knows or is not a remote file.
pub(crate) fn to_ask(mapping: &JsonMap) -> Option<&str> {
    let text = |key: &str| text(mapping, key);
    let knows = text("filename").is_some() && text("mime_type").is_some();
    let url = text("url").or_else(|| text("remote_url")).filter(|url| is_url(url));
    url.filter(|_| text("transfer_method") == Some("remote_url") && !knows)
}

/// A text of a mapping; an empty one counts as absent.
fn text<'a>(mapping: &'a JsonMap, key: &str) -> Option<&'a str> {
    mapping.get(key).and_then(Json::as_str).filter(|text| !text.is_empty())
}

/// Reads the file of a form field.
pub(super) fn of_field(
    field: &InputField,
    mapping: &JsonMap,
    answers: &Answers,
) -> Result<JsonMap, SubmitError> {
    // A file object from the outputs of another run is accepted.
    if is_object(mapping) {
        return Ok(completed(mapping, answers));
    }
    let file = file(mapping, answers)?;
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
pub(super) fn of_request(
    features: &JsonMap,
    mappings: &[Json],
    answers: &Answers,
) -> Result<Vec<Json>, SubmitError> {
    let upload = features.get("file_upload");
    let number = |path: &str| upload.and_then(|u| u.pointer(path)).and_then(Json::as_u64).unwrap_or(0);
    if !are_enabled(features) {
        return Ok(Vec::new());
    }
    let known = |mapping: &&JsonMap| {
        mapping.get("transfer_method").and_then(Json::as_str).is_some_and(|m| TRANSFER_METHODS.contains(&m))
    };
    let mappings = mappings.iter().filter_map(Json::as_object).filter(known);
    let files: Vec<JsonMap> = mappings.map(|mapping| file(mapping, answers)).collect::<Result<_, _>>()?;
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

/// Returns true if the app's features enable files in requests.
pub(super) fn are_enabled(features: &JsonMap) -> bool {
    features.get("file_upload").and_then(|upload| upload.get("enabled")).and_then(Json::as_bool) == Some(true)
}

/// Reads a file in a person's answer to a form, or in a value for a variable. The caller checks it against its field.
pub(crate) fn of_answer(mapping: &JsonMap, answers: &Answers) -> Result<JsonMap, SubmitError> {
    if is_object(mapping) {
        return Ok(completed(mapping, answers));
    }
    file(mapping, answers)
}

fn is_object(mapping: &JsonMap) -> bool {
    mapping.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY)
}

/// A file object with what its server says in the place of what it lacks.
fn completed(object: &JsonMap, answers: &Answers) -> JsonMap {
    let mut object = object.clone();
    let Some(url) = to_ask(&object).map(str::to_owned) else { return object };
    if answers.of(&url).is_none() {
        return object;
    }
    let facts = facts(&object, &url, answers);
    let said_size = answers.of(&url).and_then(|said| said.size);
    for (key, value) in [("extension", facts.extension), ("mime_type", facts.mime_type)] {
        if text(&object, key).is_none() {
            object.insert(key.into(), value.into());
        }
    }
    if let Some(name) = facts.name.filter(|_| text(&object, "filename").is_none()) {
        object.insert("filename".into(), name.into());
    }
    if let Some(size) = said_size.filter(|_| given_size(&object).is_none()) {
        object.insert("size".into(), size.into());
    }
    object
}

/// The size in bytes that a mapping gives; -1 stands for an unknown one.
fn given_size(mapping: &JsonMap) -> Option<i64> {
    mapping.get("size").and_then(Json::as_i64).filter(|size| *size >= 0)
}

fn facts(mapping: &JsonMap, url: &str, answers: &Answers) -> FileFacts {
    let said = answers.of(url);
    FileFacts::of(Known {
        given_name: text(mapping, "filename"),
        given_type: text(mapping, "mime_type"),
        said_name: said.and_then(|said| said.name.as_deref()),
        said_type: said.and_then(|said| said.content_type.as_deref()),
        url,
        last_url: said.map(|said| said.last_url.as_str()),
    })
}

fn file(mapping: &JsonMap, answers: &Answers) -> Result<JsonMap, SubmitError> {
    let text = |key: &str| text(mapping, key);
    match text("transfer_method") {
        None => return refuse("transfer_method is required in file mapping"),
        Some("remote_url") => {}
        Some(method) if TRANSFER_METHODS.contains(&method) => {
            return not_here(method, text("upload_file_id"));
        }
        Some(method) => return refuse(format!("invalid transfer_method {method:?} in file mapping")),
    }
    let Some(url) = text("url").or_else(|| text("remote_url")) else { return refuse("Invalid file url") };
    if !is_url(url) {
        return refuse("Invalid file url");
    }
    let facts = facts(mapping, url, answers);
    let declared = text("type").or(facts.kind).unwrap_or("custom");
    // If neither server nor URL says the type, the declared type counts.
    if declared != "custom" && facts.kind.is_some_and(|kind| kind != declared) {
        return refuse("Detected file type does not match the specified type. Please verify the file.");
    }
    let ending = Some(facts.extension.as_str()).filter(|extension| *extension != UNKNOWN_EXTENSION);
    let filename = facts.name.unwrap_or_else(|| format!("file{}", ending.unwrap_or_default()));
    let said_size = answers.of(url).and_then(|said| said.size).and_then(|size| i64::try_from(size).ok());
    let value = json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY,
        "id": null,
        "type": declared,
        "transfer_method": "remote_url",
        "remote_url": url,
        "reference": null,
        "related_id": null,
        "filename": filename,
        "extension": facts.extension,
        "mime_type": facts.mime_type,
        "size": given_size(mapping).or(said_size).unwrap_or(-1),
        "url": url,
    });
    Ok(value.as_object().cloned().unwrap_or_default())
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

/// Returns true for an http(s) URL with a host.
fn is_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    host.is_some_and(|host| !host.is_empty()) && !url.contains(char::is_whitespace)
}

fn refuse<T>(message: impl Into<String>) -> Result<T, SubmitError> {
    Err(SubmitError::Inputs { message: message.into(), invalid_param: true })
}

#[cfg(test)]
mod tests {
    use tidemill_common::http::Said;

    use super::*;

    fn made(mapping: Json) -> Result<Json, String> {
        made_with(mapping, &Answers::default())
    }

    fn made_with(mapping: Json, answers: &Answers) -> Result<Json, String> {
        file(mapping.as_object().unwrap(), answers).map(Json::Object).map_err(|error| error.to_string())
    }

    fn said(url: &str, name: Option<&str>, content_type: &str, size: u64) -> Answers {
        let said = Said {
            name: name.map(str::to_owned),
            content_type: Some(content_type.to_owned()),
            size: Some(size),
            last_url: url.to_owned(),
        };
        Answers::given([(url.to_owned(), said)])
    }

    #[test]
    fn a_remote_file_is_what_its_server_says() {
        let url = "https://h/get?id=1";
        let mapping = json!({"type": "document", "transfer_method": "remote_url", "url": url});
        for (name, content_type, shown) in [
            (None, "text/plain; charset=utf-8", json!(["get", ".txt", "text/plain", 7, "document"])),
            (
                Some("note.txt"),
                "application/octet-stream",
                json!(["note.txt", ".txt", "text/plain", 7, "document"]),
            ),
            (Some("港.pdf"), "application/pdf", json!(["港.pdf", ".pdf", "application/pdf", 7, "document"])),
        ] {
            let file = made_with(mapping.clone(), &said(url, name, content_type, 7)).unwrap();
            let have =
                json!([file["filename"], file["extension"], file["mime_type"], file["size"], file["type"]]);
            assert_eq!(have, shown, "{name:?} {content_type}");
        }
        let picture = said(url, None, "image/png", 7);
        let refused = made_with(mapping, &picture).unwrap_err();
        assert!(refused.starts_with("Detected file type does not match"), "{refused}");
        let untyped = json!({"transfer_method": "remote_url", "url": url});
        assert_eq!(made_with(untyped, &picture).unwrap()["type"], "image");
    }

    #[test]
    fn what_the_request_says_about_a_file_counts_more_than_its_server() {
        let url = "https://h/a.bin";
        let mapping = json!({"type": "document", "transfer_method": "remote_url", "url": url, "mime_type": "text/csv", "size": 3});
        let file = made_with(mapping.clone(), &said(url, None, "image/png", 7)).unwrap();
        assert_eq!(
            json!([file["extension"], file["mime_type"], file["size"]]),
            json!([".csv", "text/csv", 3])
        );
        let file = made(mapping).unwrap();
        assert_eq!(json!([file["extension"], file["mime_type"]]), json!([".csv", "text/csv"]));
    }

    #[test]
    fn servers_are_asked_about_remote_files_whose_name_or_type_is_not_given() {
        let remote = |extra: Json| {
            let mut mapping = json!({"transfer_method": "remote_url", "url": "https://h/a"});
            mapping.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            mapping
        };
        for (mapping, asked) in [
            (remote(json!({})), true),
            (remote(json!({"filename": "a.txt"})), true),
            (remote(json!({"filename": "a.txt", "mime_type": "text/plain"})), false),
            (remote(json!({"filename": null, "mime_type": "text/plain"})), true),
            (remote(json!({"url": "ftp://h/a"})), false),
            (remote(json!({"transfer_method": "local_file"})), false),
            (json!({"transfer_method": "remote_url"}), false),
        ] {
            assert_eq!(to_ask(mapping.as_object().unwrap()).is_some(), asked, "{mapping}");
        }
    }

    #[test]
    fn a_file_object_gets_only_what_it_lacks() {
        let url = "https://h/a";
        let object = json!({
            FILE_IDENTITY_KEY: FILE_IDENTITY, "id": "1", "transfer_method": "remote_url", "remote_url": url,
            "filename": "b", "extension": null, "mime_type": null, "size": -1,
        });
        let answers = said(url, Some("c.csv"), "text/csv", 7);
        let file = Json::Object(of_answer(object.as_object().unwrap(), &answers).unwrap());
        let have = json!([file["id"], file["filename"], file["extension"], file["mime_type"], file["size"]]);
        assert_eq!(have, json!(["1", "b", ".csv", "text/csv", 7]));
        let unchanged = of_answer(object.as_object().unwrap(), &Answers::default()).unwrap();
        assert_eq!(Json::Object(unchanged), object);
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
            let taken = of_field(&field(extra.clone()), mapping.as_object().unwrap(), &Answers::default());
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
            of_request(features.as_object().unwrap(), files, &Answers::default())
                .map(|f| f.len())
                .map_err(|e| e.to_string())
        };
        assert_eq!(taken(json!({}), std::slice::from_ref(&image)), Ok(0));
        assert_eq!(taken(features(0), &[image.clone(), json!({"type": "image"})]), Ok(1));
        let many = taken(features(1), &[image.clone(), image]);
        assert_eq!(many, Err("Number of files exceeds the maximum limit 1".into()));
    }
}
