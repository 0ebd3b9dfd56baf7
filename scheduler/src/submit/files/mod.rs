//! Reads files in requests: Dify's mapping `{type, transfer_method, url}` becomes a file object. What the request does not
//! say about a file comes from its server's answer ([`remote_files`](super::remote_files)), and else from its URL. An upload
//! is what its record says.

use serde_json::{Value as Json, json};
use tidemill_common::files::UploadId;
use tidemill_common::nodes::start::{FileRules, InputField};
use tidemill_common::value::file_name::{FileFacts, Known, UNKNOWN_EXTENSION};
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap};
use uuid::Uuid;

pub(crate) use self::stored::runs_of;
use super::remote_files::Answers;
use super::{SubmitError, uploads};

mod stored;

const TRANSFER_METHODS: [&str; 4] = ["remote_url", "local_file", "tool_file", "datasource_file"];

/// Dify's message for an upload that does not exist, or is another user's.
pub(crate) const NO_UPLOAD: &str = "Invalid upload file";
const MISTYPED: &str = "Detected file type does not match the specified type. Please verify the file.";

/// The URL of a file whose server must be asked what it is, or `None` if the mapping knows or is not a remote file.
pub(crate) fn to_ask(mapping: &JsonMap) -> Option<&str> {
    let text = |key: &str| text(mapping, key);
    let knows = text("filename").is_some() && text("mime_type").is_some();
    let url = text("url").or_else(|| text("remote_url")).filter(|url| is_url(url));
    url.filter(|_| text("transfer_method") == Some("remote_url") && !knows)
}

/// The id of the upload that a mapping names. A file object of an earlier run names it as `related_id`.
pub(crate) fn upload_id(mapping: &JsonMap) -> Option<UploadId> {
    let id = text(mapping, "upload_file_id").or_else(|| text(mapping, "related_id"))?;
    (text(mapping, "transfer_method") == Some("local_file")).then(|| id.parse().ok()).flatten()
}

/// Returns true for a file object whose upload is still there: the run then gets its own copy of it.
fn is_upload(mapping: &JsonMap, answers: &Answers) -> bool {
    upload_id(mapping).is_some_and(|id| answers.uploads().is_some_and(|uploads| uploads.contains_key(&id)))
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
    if is_object(mapping) && !is_upload(mapping, answers) {
        let object = completed(mapping, answers);
        // What a tool has made was not chosen by a person; Dify does not check it. Such a file is stored with a run.
        let is_of_a_tool = text(&object, "transfer_method") == Some("tool_file")
            && text(&object, "reference").and_then(tidemill_common::files::run_of).is_some();
        let is_checked = answers.are_for_a_client() && !is_of_a_tool;
        return if is_checked { allowed(field.rules(), object) } else { Ok(object) };
    }
    let mut file = file(mapping, answers)?;
    choose_type(&field.allowed_file_types, mapping, &mut file);
    allowed(field.rules(), file)
}

/// A form with types of its own gives its files that type. A client that gives none leaves it to the form.
fn choose_type(types: &[String], mapping: &JsonMap, file: &mut JsonMap) {
    let takes = |kind: &str| types.iter().any(|allowed| allowed == kind);
    if text(mapping, "type").is_none() && takes("custom") && !text(file, "type").is_some_and(takes) {
        file.insert("type".into(), "custom".into());
    }
}

/// Refuses a file that breaks a rule.
fn allowed(rules: FileRules<'_>, file: JsonMap) -> Result<JsonMap, SubmitError> {
    let about = |key: &str| text(&file, key).unwrap_or_default();
    match rules.refusal(about("type"), about("extension"), about("transfer_method")) {
        // Dify's words end with the name.
        Some(rule) => refuse(format!("File validation failed for file: {}: {rule}", about("filename"))),
        None => Ok(file),
    }
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
    let mappings = mappings.iter().filter_map(Json::as_object).filter(|mapping| names_file(mapping));
    let texts = |key: &str| -> Vec<String> {
        let list = upload.and_then(|upload| upload.get(key)).and_then(Json::as_array).into_iter().flatten();
        list.filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let (types, extensions) = (texts("allowed_file_types"), texts("allowed_file_extensions"));
    let methods = texts("allowed_file_upload_methods");
    let rules = FileRules {
        name: "files",
        types: &types,
        extensions: &extensions,
        methods: &methods,
        methods_count_for_images: true,
    };
    let read = |mapping| {
        let mut file = file(mapping, answers)?;
        choose_type(&types, mapping, &mut file);
        allowed(rules, file)
    };
    let files: Vec<JsonMap> = mappings.map(read).collect::<Result<_, _>>()?;
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

/// Returns false for a mapping that names no file: Dify leaves it out.
fn names_file(mapping: &JsonMap) -> bool {
    let is_given = |key: &str| match mapping.get(key) {
        None | Some(Json::Null) => false,
        Some(Json::String(text)) => !text.is_empty(),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => true,
    };
    let is_remote = text(mapping, "transfer_method") == Some("remote_url");
    is_given("transfer_method") && (!is_remote || is_given("url") || is_given("remote_url"))
}

/// Returns true if the app's features enable files in requests.
pub(super) fn are_enabled(features: &JsonMap) -> bool {
    features.get("file_upload").and_then(|upload| upload.get("enabled")).and_then(Json::as_bool) == Some(true)
}

/// Reads a file in a person's answer to a form, or in a value for a variable. The caller checks it against its field.
pub(crate) fn of_answer(mapping: &JsonMap, answers: &Answers) -> Result<JsonMap, SubmitError> {
    if is_object(mapping) && !is_upload(mapping, answers) {
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
        Some("local_file") if answers.uploads().is_some() => return uploaded(mapping, answers),
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
    check_type(declared, facts.kind, answers)?;
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

/// Refuses a file of another type than declared. If neither its server nor its name says the type, the declared one counts.
fn check_type(declared: &str, found: Option<&str>, answers: &Answers) -> Result<(), SubmitError> {
    let is_other = declared != "custom" && found.is_some_and(|kind| kind != declared);
    if is_other && !answers.trust_types() { refuse(MISTYPED) } else { Ok(()) }
}

/// The file object of an upload. The run adopts the file when it is created.
fn uploaded(mapping: &JsonMap, answers: &Answers) -> Result<JsonMap, SubmitError> {
    let Some(id) = upload_id(mapping) else {
        return not_here("local_file", text(mapping, "upload_file_id"));
    };
    let Some(upload) = answers.uploads().and_then(|uploads| uploads.get(&id)) else {
        return refuse(NO_UPLOAD);
    };
    let known =
        Known { given_name: Some(&upload.name), said_type: Some(&upload.mime_type), ..Known::default() };
    let kind = FileFacts::of(known).kind;
    let declared = text(mapping, "type").or(kind).unwrap_or("custom");
    check_type(declared, kind, answers)?;
    let value = json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY,
        "id": null,
        "type": declared,
        "transfer_method": "local_file",
        "remote_url": null,
        "reference": uploads::waiting(id),
        "related_id": id.to_string(),
        "filename": upload.name,
        "extension": upload.extension,
        "mime_type": upload.mime_type,
        "size": upload.size,
        "url": null,
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
mod tests;
