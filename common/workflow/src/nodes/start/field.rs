//! The declared inputs of a run, in a start node.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value as Json;

use super::schema;
use crate::dsl::Problems;
use crate::nodes::condition::INVALID_NODE_DATA;
use tidemill_base::value::JsonMap;

/// The kind of an input's field in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// one line of text
    TextInput,
    /// one of the options
    Select,
    /// several lines of text
    Paragraph,
    Number,
    /// text from an external service (never used by Dify in a workflow); not checked
    ExternalDataTool,
    File,
    FileList,
    /// a boolean
    Checkbox,
    /// a mapping, optionally with a schema
    JsonObject,
}

impl InputKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::TextInput,
        Self::Select,
        Self::Paragraph,
        Self::Number,
        Self::ExternalDataTool,
        Self::File,
        Self::FileList,
        Self::Checkbox,
        Self::JsonObject,
    ];

    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TextInput => "text-input",
            Self::Select => "select",
            Self::Paragraph => "paragraph",
            Self::Number => "number",
            Self::ExternalDataTool => "external_data_tool",
            Self::File => "file",
            Self::FileList => "file-list",
            Self::Checkbox => "checkbox",
            Self::JsonObject => "json_object",
        }
    }

    /// Finds a kind by its name. The name of a value type gives the field for such values.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "string" => Some(Self::TextInput),
            "integer" | "float" => Some(Self::Number),
            "boolean" => Some(Self::Checkbox),
            "object" => Some(Self::JsonObject),
            "array[file]" => Some(Self::FileList),
            name => Self::ALL.into_iter().find(|kind| kind.name() == name),
        }
    }
}

/// One declared input.
#[derive(Debug, Clone)]
pub struct InputField {
    /// The name in the pool.
    pub variable: String,
    /// Shown in the form; defaults to the name.
    pub label: String,
    /// Text for people.
    pub description: String,
    pub kind: InputKind,
    pub required: bool,
    /// True when the form does not show it.
    pub hide: bool,
    /// The value used for a missing or null one; null for none.
    pub default: Json,
    /// Most characters of a text, or most files; `None` and 0: no limit.
    pub max_length: Option<u64>,
    /// The options of a `select`.
    pub options: Vec<String>,
    /// Allowed kinds of files.
    pub allowed_file_types: Vec<String>,
    /// Allowed file extensions.
    pub allowed_file_extensions: Vec<String>,
    /// Allowed transfer methods of files.
    pub allowed_file_upload_methods: Vec<String>,
    /// The compiled schema of a `json_object`. `None` for no schema or an empty one.
    pub schema: Option<Arc<Validator>>,
    /// The schema as in the file; null for none.
    pub json_schema: Json,
}

const FILE_TYPES: &[&str] = &["image", "document", "audio", "video", "custom"];
const UPLOAD_METHODS: &[&str] = &["remote_url", "local_file", "tool_file", "datasource_file"];

impl InputField {
    /// Reads one of a start node's `variables` and reports all its problems.
    pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let read = &mut Reader { data, problems };
        let variable = read.text("variable", None);
        let label = read.text("label", variable.as_deref());
        let description = read.text("description", Some(""));
        let kind = read.kind();
        let required = read.flag("required");
        let hide = read.flag("hide");
        let max_length = read.max_length();
        let options = read.texts("options", None);
        let allowed_file_types = read.texts("allowed_file_types", Some(FILE_TYPES));
        let allowed_file_extensions = read.texts("allowed_file_extensions", None);
        let allowed_file_upload_methods = read.texts("allowed_file_upload_methods", Some(UPLOAD_METHODS));
        let schema = read.schema();
        Some(Self {
            variable: variable?,
            label: label?,
            description: description?,
            kind: kind?,
            required: required?,
            hide: hide?,
            default: data.get("default").cloned().unwrap_or_default(),
            max_length: max_length?,
            options: options?,
            allowed_file_types: allowed_file_types?,
            allowed_file_extensions: allowed_file_extensions?,
            allowed_file_upload_methods: allowed_file_upload_methods?,
            schema: schema?,
            json_schema: data.get("json_schema").cloned().unwrap_or_default(),
        })
    }

    /// Returns why the start node would refuse this value of a `json_object` input.
    pub fn violation(&self, value: &Json) -> Option<String> {
        let name = &self.variable;
        if !value.is_object() {
            return Some(super::not_an_object(name));
        }
        let first = super::schema::violation(self.schema.as_deref()?, value)?;
        Some(format!("JSON object for '{name}' does not match schema: {first}"))
    }
}

/// Reads the keys of a field as leniently as Dify: `"48"` is a number and `"true"` a boolean.
struct Reader<'a> {
    data: &'a JsonMap,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn refuse<T>(&mut self, message: String) -> Option<T> {
        self.problems.error(INVALID_NODE_DATA, message);
        None
    }

    fn text(&mut self, key: &str, default: Option<&str>) -> Option<String> {
        match (self.data.get(key), default) {
            (Some(Json::String(text)), _) => Some(text.clone()),
            (None | Some(Json::Null), Some(default)) => Some(default.to_owned()),
            (None | Some(_), _) => self.refuse(format!("{key} of an input must be a text")),
        }
    }

    fn kind(&mut self) -> Option<InputKind> {
        let name = self.text("type", None)?;
        let kind = InputKind::read(&name);
        if kind.is_none() {
            let message = format!("type {name:?} is not a kind of input");
            let hint = format!("the kinds are: {}", InputKind::ALL.map(InputKind::name).join(", "));
            self.problems.error_with_hint(INVALID_NODE_DATA, message, hint);
        }
        kind
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        match self.data.get(key) {
            None => Some(false),
            Some(Json::Bool(flag)) => Some(*flag),
            Some(Json::Number(n)) if n.as_f64() == Some(1.0) => Some(true),
            Some(Json::Number(n)) if n.as_f64() == Some(0.0) => Some(false),
            Some(Json::String(text)) => match text.to_lowercase().as_str() {
                "true" | "1" | "yes" | "y" | "on" | "t" => Some(true),
                "false" | "0" | "no" | "n" | "off" | "f" => Some(false),
                _ => self.refuse(format!("{key} of an input must be true or false")),
            },
            Some(_) => self.refuse(format!("{key} of an input must be true or false")),
        }
    }

    /// The outer option is `None` for an invalid value.
    fn max_length(&mut self) -> Option<Option<u64>> {
        let whole = match self.data.get("max_length") {
            None | Some(Json::Null) => return Some(None),
            Some(Json::Number(n)) => n.as_i64().or_else(|| whole(n.as_f64()?)),
            Some(Json::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        match whole {
            // Dify accepts a negative limit and then refuses every text.
            Some(limit) => match u64::try_from(limit) {
                Ok(limit) => Some(Some(limit)),
                Err(_) => self.refuse("max_length of an input must not be negative".into()),
            },
            None => self.refuse("max_length of an input must be a whole number".into()),
        }
    }

    fn texts(&mut self, key: &str, among: Option<&[&str]>) -> Option<Vec<String>> {
        let items = match self.data.get(key) {
            None | Some(Json::Null) => return Some(Vec::new()),
            Some(Json::Array(items)) => items,
            Some(_) => return self.refuse(format!("{key} of an input must be a list of texts")),
        };
        let Some(texts) =
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        else {
            return self.refuse(format!("{key} of an input must be a list of texts"));
        };
        let among = among.unwrap_or_default();
        let unknown = texts.iter().find(|text| !among.is_empty() && !among.contains(&text.as_str()));
        if let Some(unknown) = unknown {
            return self
                .refuse(format!("{key} of an input holds {unknown:?}; known are: {}", among.join(", ")));
        }
        Some(texts)
    }

    fn schema(&mut self) -> Option<Option<Arc<Validator>>> {
        let given = self.data.get("json_schema").unwrap_or(&Json::Null);
        match schema::compile(given) {
            Ok(schema) => Some(schema.map(Arc::new)),
            Err(message) => self.refuse(message),
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
fn whole(float: f64) -> Option<i64> {
    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
}
