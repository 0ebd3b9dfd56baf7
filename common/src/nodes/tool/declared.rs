//! What a tool says of itself: its parameters, and the form in which a model is told of them.

use serde_json::{Value as Json, json};

use crate::value::JsonMap;
use crate::value::pyrepr::str_of;

/// The types of parameters, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParameterType {
    /// Text.
    String,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// One of some options.
    Select,
    /// Text that is not shown.
    SecretInput,
    /// One file.
    File,
    /// Files.
    Files,
    /// A box to tick.
    Checkbox,
    /// An app.
    AppSelector,
    /// A model.
    ModelSelector,
    /// Anything.
    #[default]
    Any,
    /// One of some options that the tool finds.
    DynamicSelect,
    /// A list.
    Array,
    /// A mapping.
    Object,
    /// The files of the run.
    SystemFiles,
}

impl ParameterType {
    /// Every type.
    pub const ALL: [Self; 15] = [
        Self::String,
        Self::Number,
        Self::Boolean,
        Self::Select,
        Self::SecretInput,
        Self::File,
        Self::Files,
        Self::Checkbox,
        Self::AppSelector,
        Self::ModelSelector,
        Self::Any,
        Self::DynamicSelect,
        Self::Array,
        Self::Object,
        Self::SystemFiles,
    ];

    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Select => "select",
            Self::SecretInput => "secret-input",
            Self::File => "file",
            Self::Files => "files",
            Self::Checkbox => "checkbox",
            Self::AppSelector => "app-selector",
            Self::ModelSelector => "model-selector",
            Self::Any => "any",
            Self::DynamicSelect => "dynamic-select",
            Self::Array => "array",
            Self::Object => "object",
            Self::SystemFiles => "system-files",
        }
    }

    /// The type of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The name that a model is told: texts of all kinds are texts.
    pub const fn normal_name(self) -> &'static str {
        match self {
            Self::Select | Self::SecretInput | Self::Checkbox | Self::DynamicSelect | Self::String => {
                "string"
            }
            Self::Number
            | Self::Boolean
            | Self::File
            | Self::Files
            | Self::AppSelector
            | Self::ModelSelector
            | Self::Any
            | Self::Array
            | Self::Object
            | Self::SystemFiles => self.name(),
        }
    }
}

/// Who fills a parameter in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// The operator, once for the provider.
    Schema,
    /// The author, once for the node.
    Form,
    /// The workflow, or a model, for each call.
    #[default]
    Llm,
}

impl Form {
    /// The form of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "schema" => Some(Self::Schema),
            "form" => Some(Self::Form),
            "llm" => Some(Self::Llm),
            _ => None,
        }
    }
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ParameterType,
    /// Who fills it in.
    pub form: Form,
    /// Whether it must be there.
    pub required: bool,
    /// What it is when nobody fills it in.
    pub default: Option<Json>,
    /// What it may be; empty: anything.
    pub options: Vec<String>,
    /// What it means, for a model.
    pub description: String,
    /// The JSON schema of a list or a mapping.
    pub schema: Option<Json>,
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Whether it takes others besides.
    pub takes_more: bool,
    /// Whether it says what its structured answers look like (MCP).
    pub has_output_schema: bool,
}

/// The parameters that a tool is known to have.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// They.
    pub parameters: &'a [Parameter],
    /// Whether whatever else it is given is a parameter too.
    pub takes_more: bool,
}

impl<'a> Known<'a> {
    /// A tool that does not tell: everything that it is given is a parameter.
    pub const NOTHING: Known<'static> = Known { parameters: &[], takes_more: true };

    /// Just these.
    pub const fn just(parameters: &'a [Parameter]) -> Self {
        Self { parameters, takes_more: false }
    }
    /// The parameter of a name.
    pub fn find(&self, name: &str) -> Option<&'a Parameter> {
        self.parameters.iter().find(|one| one.name == name)
    }
}

impl Parameter {
    /// A parameter in Dify's form: `name`, `type`, `form`, `required`, `default`, `options`, a description. Nothing for
    /// what has no name; a type that nobody knows is `any`.
    pub fn from_json(value: &Json) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Json::as_str);
        let options = value.get("options").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        Some(Self {
            name: text("name")?.to_owned(),
            ty: text("type").and_then(ParameterType::from_name).unwrap_or_default(),
            form: text("form").and_then(Form::from_name).unwrap_or_default(),
            required: value.get("required").and_then(Json::as_bool).unwrap_or(false),
            default: value.get("default").filter(|default| !default.is_null()).cloned(),
            options: options
                .iter()
                .map(|option| str_of(option.get("value").unwrap_or(option)).into_owned())
                .collect(),
            description: text("llm_description")
                .or_else(|| text("description"))
                .unwrap_or_default()
                .to_owned(),
            schema: value.get("input_schema").filter(|schema| schema.is_object()).cloned(),
        })
    }

    fn schema(&self) -> Json {
        let mut schema = match &self.schema {
            Some(Json::Object(schema)) => schema.clone(),
            Some(_) | None => JsonMap::new(),
        };
        if !schema.contains_key("type") && self.ty != ParameterType::Any {
            schema.insert("type".into(), json!(self.ty.normal_name()));
        }
        if !self.description.is_empty() {
            schema.insert("description".into(), json!(self.description));
        }
        if !self.options.is_empty() {
            schema.insert("enum".into(), json!(self.options));
        }
        Json::Object(schema)
    }
}

impl Declaration {
    /// Its parameters.
    pub fn known(&self) -> Known<'_> {
        Known { parameters: &self.parameters, takes_more: self.takes_more }
    }

    /// The JSON schema of what a model fills in: an object. Files are no business of a model, as on Dify.
    pub fn schema(&self) -> Json {
        let is_file =
            |ty| matches!(ty, ParameterType::File | ParameterType::Files | ParameterType::SystemFiles);
        let asked = || self.parameters.iter().filter(|one| one.form == Form::Llm && !is_file(one.ty));
        let properties: JsonMap = asked().map(|one| (one.name.clone(), one.schema())).collect();
        let required: Vec<&str> = asked().filter(|one| one.required).map(|one| one.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_of_what_it_fills_in() {
        let parameters = [
            json!({"name": "q", "type": "string", "required": true, "llm_description": "What to look for"}),
            json!({"name": "kind", "type": "select", "options": [{"value": "a", "label": "A"}, "b"]}),
            json!({"name": "list", "type": "array", "input_schema": {"type": "array", "items": {"type": "string"}}}),
            json!({"name": "key", "type": "secret-input", "form": "form"}),
            json!({"name": "file", "type": "file"}),
            json!({"name": "odd", "type": "quantum"}),
            json!({"type": "string"}),
        ];
        let parameters = parameters.iter().filter_map(Parameter::from_json).collect();
        let declaration = Declaration { parameters, ..Declaration::default() };
        let expected = json!({
            "type": "object",
            "properties": {
                "q": {"type": "string", "description": "What to look for"},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "list": {"type": "array", "items": {"type": "string"}},
                "odd": {},
            },
            "required": ["q"],
        });
        assert_eq!(declaration.schema(), expected);
    }
}
