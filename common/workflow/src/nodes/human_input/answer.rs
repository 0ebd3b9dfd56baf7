//! Checks the answer to a form, and builds the node's result after an answer or a timeout.
//!
//! This needs only the pause, not the node: a form is answered as it was shown, even if the workflow has a newer
//! version by then.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value as Json;

use super::TIMEOUT_HANDLE;
use super::field::{FieldKind, FileRules, FormField};
use super::simple::HANDLE_KEY;
use crate::nodes::{NodeResult, PauseKind, PauseRequest, SOURCE_HANDLE};
use tidemill_base::value::pyrepr::str_of;
use tidemill_base::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap, Segment, SegmentType};

/// An answer that does not fit the form; the form stays open.
///
/// Dify stops at the first problem and reports the text of the first of [`AnswerError::problems`]. The list is never
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.problems))]
pub struct AnswerError {
    /// All problems, in the order of Dify's checks.
    pub problems: Vec<AnswerProblem>,
}

impl AnswerError {
    /// The answer as one value does not fit, for this reason.
    pub fn misfit(reason: impl Into<String>) -> Self {
        Self { problems: vec![AnswerProblem::Misfit { place: String::new(), reason: reason.into() }] }
    }
}

/// A problem of an answer. The texts are Dify's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerProblem {
    /// The form has no such button.
    #[error("Invalid action: {0}")]
    UnknownAction(String),
    /// Fields without a value, in the form's order.
    #[error("Missing required inputs: {}", .0.join(", "))]
    MissingInputs(Vec<String>),
    /// A value that its field does not accept.
    #[error("Invalid value for {kind} input '{name}': {reason}")]
    InvalidValue {
        /// `select`, `file` or `file list`.
        kind: &'static str,
        /// The field's name.
        name: String,
        /// The problem; for a select the value that is not an option.
        reason: String,
    },
    /// The answer does not match the requested schema.
    #[error("{}{reason}", prefix(.place))]
    Misfit {
        /// The JSON pointer of the mismatch; empty for the root.
        place: String,
        reason: String,
    },
}

fn prefix(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("{place}: ") }
}

fn joined(problems: &[AnswerProblem]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Checks an answer. The result has the declared fields in the form's order; all other values are dropped.
///
/// - A form without actions accepts an answer with an empty action. (On Dify it cannot be answered.)
/// - An option is checked only against a list in the file. When a variable holds the options, Dify accepts any text. A
///   paragraph accepts any value, as on Dify.
/// - A simple pause accepts any action, which is the handle, and no values.
///
/// The caller completes the request's file mappings first, as for run inputs.
///
/// # Errors
/// [`AnswerError`] with one problem for the action, one for all missing fields and one for each wrong value.
pub fn check_answer(pause: &PauseRequest, action: &str, inputs: &JsonMap) -> Result<JsonMap, AnswerError> {
    if pause.kind == PauseKind::Simple {
        return Ok(JsonMap::new());
    }
    let fields = pause.fields();
    let mut problems = Vec::new();
    let without_actions = actions(pause).next().is_none();
    if title_of(pause, action).is_none() && !(without_actions && action.is_empty()) {
        problems.push(AnswerProblem::UnknownAction(action.to_owned()));
    }
    let is_missing = |field: &&FormField| !inputs.contains_key(&field.name);
    let missing: Vec<String> = fields.iter().filter(is_missing).map(|field| field.name.clone()).collect();
    if !missing.is_empty() {
        problems.push(AnswerProblem::MissingInputs(missing));
    }
    let mut submitted = JsonMap::new();
    for field in &fields {
        let Some(value) = inputs.get(&field.name) else { continue };
        problems.extend(wrong_value(field, value));
        submitted.insert(field.name.clone(), value.clone());
    }
    if problems.is_empty() { Ok(submitted) } else { Err(AnswerError { problems }) }
}

/// The node's result for an answer that passed [`check_answer`]. Outputs are the fields, the action and the form's text
/// with the answer filled in; the handle is the action.
pub fn answered(pause: &PauseRequest, action: &str, submitted: &JsonMap) -> NodeResult {
    if pause.kind == PauseKind::Simple {
        return NodeResult { handle: simple_handle(pause, action), ..NodeResult::default() };
    }
    let fields = pause.fields();
    let values: Vec<(String, Segment)> = fields
        .iter()
        .filter_map(|field| Some((field.name.clone(), segment_of(&field.kind, submitted.get(&field.name)?))))
        .collect();
    let title = title_of(pause, action).unwrap_or_default();
    let mut outputs = values.clone();
    outputs.extend(special(action, title, filled(&pause.content, &fields, submitted)));
    let handle = if action.is_empty() { SOURCE_HANDLE } else { action };
    NodeResult { inputs: values, outputs, handle: handle.to_owned(), ..NodeResult::default() }
}

/// The node's result after a timeout: no action, and the form's text as it was shown.
pub fn expired(pause: &PauseRequest) -> NodeResult {
    let outputs = special("", "", pause.content.clone()).into();
    NodeResult { handle: TIMEOUT_HANDLE.to_owned(), ..NodeResult::outputs(outputs) }
}

/// Ids and titles of the buttons.
fn actions(pause: &PauseRequest) -> impl Iterator<Item = (&str, &str)> {
    let items = pause.actions.as_array().into_iter().flatten();
    items.filter_map(|action| {
        let text = |key: &str| action.get(key).and_then(Json::as_str);
        Some((text("id")?, text("title").unwrap_or_default()))
    })
}

fn title_of<'a>(pause: &'a PauseRequest, action: &str) -> Option<&'a str> {
    actions(pause).find(|(id, _)| *id == action).map(|(_, title)| title)
}

fn simple_handle(pause: &PauseRequest, action: &str) -> String {
    let known = || pause.defaults.get(HANDLE_KEY).and_then(Json::as_str);
    Some(action.trim()).filter(|action| !action.is_empty()).or_else(known).unwrap_or(SOURCE_HANDLE).to_owned()
}

fn special(action: &str, title: &str, content: String) -> [(String, Segment); 3] {
    [
        ("__action_id".into(), Segment::string(action)),
        ("__action_value".into(), Segment::string(title)),
        ("__rendered_content".into(), Segment::string(content)),
    ]
}

/// A submitted value with the type of its field. An empty list has no element type, as everywhere.
fn segment_of(kind: &FieldKind, value: &Json) -> Segment {
    match (kind, value) {
        (FieldKind::File(_), Json::Object(file)) => Segment::new(SegmentType::File, marked(file)),
        (FieldKind::FileList { .. }, Json::Array(files)) if !files.is_empty() => {
            let files =
                files.iter().map(|file| file.as_object().map_or_else(|| file.clone(), marked)).collect();
            Segment::new(SegmentType::ArrayFile, Json::Array(files))
        }
        (
            FieldKind::Paragraph { .. }
            | FieldKind::Select { .. }
            | FieldKind::File(_)
            | FieldKind::FileList { .. },
            _,
        ) => Segment::infer(value.clone()),
    }
}

fn marked(file: &JsonMap) -> Json {
    let mut file = file.clone();
    file.insert(FILE_IDENTITY_KEY.to_owned(), FILE_IDENTITY.into());
    Json::Object(file)
}

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    // Older files write `$outputs`.
    Regex::new(r"\{\{#\$outputs?\.([a-zA-Z_][a-zA-Z0-9_]{0,29})#\}\}").expect("the pattern is well formed")
});

/// The form's text with the answer filled in. It is filled once and inserted values are not scanned again, so an answer
/// with placeholders cannot make the text grow.
fn filled(content: &str, fields: &[FormField], submitted: &JsonMap) -> String {
    let show = |place: &Captures<'_>| match (
        fields.iter().find(|field| field.name == place[1]),
        submitted.get(&place[1]),
    ) {
        (None, _) | (_, None | Some(Json::Null)) => String::new(),
        (Some(field), Some(value)) => match &field.kind {
            FieldKind::File(_) => "[file]".to_owned(),
            FieldKind::FileList { .. } => format!("[{} files]", value.as_array().map_or(0, Vec::len)),
            FieldKind::Paragraph { .. } | FieldKind::Select { .. } => str_of(value).into_owned(),
        },
    };
    PLACE.replace_all(content, show).into_owned()
}

fn wrong_value(field: &FormField, value: &Json) -> Option<AnswerProblem> {
    let (kind, reason) = match &field.kind {
        FieldKind::Paragraph { .. } => return None,
        FieldKind::Select { options } => {
            let reason = match value.as_str() {
                None => "expected string",
                Some(text) if !options.variable && options.value.iter().all(|option| option != text) => text,
                Some(_) => return None,
            };
            ("select", reason)
        }
        FieldKind::File(rules) => ("file", wrong_file(rules, value)?),
        FieldKind::FileList { rules, files_max } => match value.as_array() {
            None => ("file list", "expected list"),
            Some(files) if !files.iter().all(Json::is_object) => ("file list", "expected list of mappings"),
            Some(files) if *files_max > 0 && files.len() as u64 > *files_max => {
                ("file list", "exceeds number limit")
            }
            Some(files) => ("file", files.iter().find_map(|file| wrong_file(rules, file))?),
        },
    };
    Some(AnswerProblem::InvalidValue { kind, name: field.name.clone(), reason: reason.to_owned() })
}

/// The problem of a file mapping, by the rules for run inputs.
fn wrong_file(rules: &FileRules, file: &Json) -> Option<&'static str> {
    let Some(file) = file.as_object() else { return Some("expected mapping") };
    let text = |key: &str| file.get(key).and_then(Json::as_str).unwrap_or_default();
    let (kind, method) = (text("type"), text("transfer_method"));
    if !["image", "document", "audio", "video", "custom"].contains(&kind) {
        return Some("unsupported file type");
    }
    match method {
        // Files made by a tool were not chosen by a person; Dify does not check them.
        "tool_file" => return None,
        "remote_url" | "local_file" | "datasource_file" => {}
        _ => return Some("unsupported transfer method"),
    }
    let names = |list: &[String], word: &str| list.iter().any(|known| known == word);
    let kind_fits = rules.types.is_empty() || names(&rules.types, kind);
    // Extensions are checked for custom files, and for other files that only `custom` allows.
    let by_extension = kind == "custom" || !kind_fits;
    let bare = |extension: &str| extension.trim().trim_start_matches('.').to_lowercase();
    let extension = bare(extension_of(file));
    let extension_fits =
        rules.extensions.is_empty() || rules.extensions.iter().any(|known| bare(known) == extension);
    let fits = (kind_fits || names(&rules.types, "custom"))
        && (!by_extension || extension_fits)
        && (rules.upload_methods.is_empty() || names(&rules.upload_methods, method));
    (!fits).then_some("file is not allowed by config")
}

/// The file's extension: declared, else from its name, else from its URL.
fn extension_of(file: &JsonMap) -> &str {
    let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    text("extension")
        .or_else(|| text("filename")?.rsplit_once('.').map(|(_, extension)| extension))
        .or_else(|| {
            let url = text("url").or_else(|| text("remote_url"))?;
            let path = url.split(['?', '#']).next().unwrap_or(url);
            path.rsplit('/').next()?.rsplit_once('.').map(|(_, extension)| extension)
        })
        .unwrap_or_default()
}
