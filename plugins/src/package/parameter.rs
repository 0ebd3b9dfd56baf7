//! Parameters of tools and strategies, and the fields of credentials: the same form in all files.

use serde_json::Value as Json;
use tidemill_common::value::pyrepr;

use super::spot::Spot;

/// The kind of a parameter or of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Secret,
    Number,
    Boolean,
    Checkbox,
    Select,
    DynamicSelect,
    DynamicTreeSelect,
    File,
    Files,
    Model,
    App,
    Tool,
    Tools,
    Array,
    Object,
    Any,
}

/// The kinds with all their spellings.
const KINDS: [(&str, Kind); 23] = [
    ("string", Kind::Text),
    ("text-input", Kind::Text),
    ("secret-input", Kind::Secret),
    ("number", Kind::Number),
    ("integer", Kind::Number),
    ("float", Kind::Number),
    ("boolean", Kind::Boolean),
    ("switch", Kind::Boolean),
    ("checkbox", Kind::Checkbox),
    ("select", Kind::Select),
    ("radio", Kind::Select),
    ("dynamic-select", Kind::DynamicSelect),
    ("dynamic-tree-select", Kind::DynamicTreeSelect),
    ("file", Kind::File),
    ("files", Kind::Files),
    ("system-files", Kind::Files),
    ("model-selector", Kind::Model),
    ("app-selector", Kind::App),
    ("tool-selector", Kind::Tool),
    ("array[tools]", Kind::Tools),
    ("array", Kind::Array),
    ("object", Kind::Object),
    ("any", Kind::Any),
];

impl Kind {
    /// The kind of a word. `array[string]` and the like are arrays.
    pub fn from_word(word: &str) -> Option<Self> {
        let known = KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
        known.or_else(|| word.starts_with("array[").then_some(Self::Array))
    }

    /// The word of a kind.
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("any", |(word, _)| word)
    }
}

/// Where the value of a parameter comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A person sets it when the tool is added.
    Schema,
    /// A person sets it in the form of the node.
    Form,
    /// A model, or a variable of the workflow.
    Llm,
}

/// A parameter, or a field of credentials.
#[derive(Debug, Clone)]
pub struct Parameter {
    pub name: String,
    pub label: String,
    pub kind: Kind,
    pub form: Form,
    pub required: bool,
    pub default: Option<Json>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// The values that a select offers.
    pub options: Vec<String>,
    /// A select that takes several values.
    pub multiple: bool,
    pub help: String,
    /// It is asked for only if these fields have these values. `__model_type` is the kind of the model. Only in forms of
    /// models.
    pub show_on: Vec<(String, String)>,
}

/// Reads the list of parameters of a tool or strategy.
pub(super) fn list(owner: &Spot<'_>) -> Vec<Parameter> {
    let mut read: Vec<Parameter> = Vec::new();
    for spot in owner.list("parameters") {
        let Some(parameter) = one(&spot, None) else { continue };
        if read.iter().any(|known| known.name == parameter.name) {
            spot.warn(format!("the parameter {:?} occurs twice; the first is used", parameter.name));
        } else {
            read.push(parameter);
        }
    }
    read
}

/// Reads credentials: a mapping by name, or a list whose items have names.
pub(super) fn credentials(owner: &Spot<'_>, key: &str) -> Vec<Parameter> {
    let Some(spot) = owner.get(key) else { return Vec::new() };
    let fields: Vec<_> = if spot.value.is_array() {
        spot.items().iter().filter_map(|item| one(item, None)).collect()
    } else {
        spot.entries().iter().filter_map(|(name, field)| one(field, Some(name))).collect()
    };
    fields
}

/// Reads the form of a provider of models. A field that does not say it is required.
pub(super) fn model_form(owner: &Spot<'_>, key: &str) -> Vec<Parameter> {
    let Some(schema) = owner.get(key) else { return Vec::new() };
    let read = |spot: Spot<'_>| {
        let field = one(&spot, None)?;
        let is_silent = spot.get("required").is_none();
        Some(Parameter { required: field.required || is_silent, ..field })
    };
    schema.list("credential_form_schemas").into_iter().filter_map(read).collect()
}

/// Reads the conditions of a field.
fn show_on(spot: &Spot<'_>) -> Vec<(String, String)> {
    let condition = |one: &Spot<'_>| (one.need_text("variable"), one.need_text("value"));
    spot.list("show_on").iter().map(condition).collect()
}

fn one(spot: &Spot<'_>, name: Option<&str>) -> Option<Parameter> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => spot.maybe_text("name").or_else(|| spot.maybe_text("variable")).or_else(|| {
            spot.error("name is missing".into());
            None
        })?,
    };
    let word = spot.need_text("type");
    let kind = Kind::from_word(&word).unwrap_or_else(|| {
        if !word.is_empty() {
            spot.error(format!("the type {word:?} is not known"));
        }
        Kind::Any
    });
    let form = match spot.maybe_text("form").as_deref() {
        Some("llm") => Form::Llm,
        Some("schema") => Form::Schema,
        Some("form") | None => Form::Form,
        Some(other) => {
            spot.error(format!("the form {other:?} is not known: llm, form or schema"));
            Form::Form
        }
    };
    let number = |key: &str| spot.get(key).and_then(|spot| spot.value.as_f64());
    let option = |option: Spot<'_>| match option.value {
        Json::Object(_) => option.get("value").map(|value| pyrepr::str_of(value.value).into_owned()),
        // Dify makes texts of them as Python does: `True`.
        other => Some(pyrepr::str_of(other).into_owned()),
    };
    Some(Parameter {
        name,
        label: spot.label("label"),
        kind,
        form,
        required: spot.flag("required"),
        default: spot.get("default").map(|spot| spot.value.clone()),
        min: number("min"),
        max: number("max"),
        options: spot.list("options").into_iter().filter_map(option).collect(),
        multiple: spot.flag("multiple"),
        help: [spot.label("llm_description"), spot.label("human_description"), spot.label("help")]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
        show_on: show_on(spot),
    })
}
