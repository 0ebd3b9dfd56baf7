//! A tool's own declaration: its parameters, and its description for a model.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;
use tidemill_base::value::pyrepr::str_of;

/// The types of parameters, with Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParameterType {
    String,
    Number,
    Boolean,
    /// One of several options.
    Select,
    /// Hidden text.
    SecretInput,
    File,
    Files,
    /// A box to tick.
    Checkbox,
    AppSelector,
    ModelSelector,
    /// Any value.
    #[default]
    Any,
    /// One of several options that the tool determines.
    DynamicSelect,
    Array,
    Object,
    /// The files of the run.
    SystemFiles,
}

impl ParameterType {
    /// All types.
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

    /// Finds a type by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The name for a model: all kinds of text are `string`.
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

/// The party that fills in a parameter.
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
    /// Finds a form by its name.
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
    pub name: String,
    pub ty: ParameterType,
    pub form: Form,
    pub required: bool,
    /// The value when none is given.
    pub default: Option<Json>,
    /// The allowed values; empty: any.
    pub options: Vec<String>,
    /// A description for a model.
    pub description: String,
    /// The JSON schema of a list or a mapping.
    pub schema: Option<Json>,
}

/// A tool's description for a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Declaration {
    pub name: String,
    /// The tool's purpose.
    pub description: String,
    pub parameters: Vec<Parameter>,
    /// True when it accepts further parameters.
    pub takes_more: bool,
    /// True when it declares a schema of its structured answers (MCP).
    pub has_output_schema: bool,
}

/// The known parameters of a tool.
#[derive(Debug, Clone, Copy)]
pub struct KnownParameters<'a> {
    pub parameters: &'a [Parameter],
    /// True when all other given values are parameters too.
    pub takes_more: bool,
}

impl<'a> KnownParameters<'a> {
    /// A tool without a declaration: all given values are parameters.
    pub const NOTHING: KnownParameters<'static> = KnownParameters { parameters: &[], takes_more: true };

    /// Exactly these parameters.
    pub const fn just(parameters: &'a [Parameter]) -> Self {
        Self { parameters, takes_more: false }
    }
    /// Finds a parameter by its name.
    pub fn find(&self, name: &str) -> Option<&'a Parameter> {
        self.parameters.iter().find(|one| one.name == name)
    }
}

impl Parameter {
    /// Reads a parameter in Dify's format: `name`, `type`, `form`, `required`, `default`, `options`, a description.
    /// `None` without a name; an unknown type becomes `any`.
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
    /// The known parameters.
    pub fn known(&self) -> KnownParameters<'_> {
        KnownParameters { parameters: &self.parameters, takes_more: self.takes_more }
    }

    /// The JSON schema of the values that a model fills in, an object. As on Dify it has no files.
    pub fn schema(&self) -> Json {
        let is_file =
            |ty| matches!(ty, ParameterType::File | ParameterType::Files | ParameterType::SystemFiles);
        let by_model = || self.parameters.iter().filter(|one| one.form == Form::Llm && !is_file(one.ty));
        let properties: JsonMap = by_model().map(|one| (one.name.clone(), one.schema())).collect();
        let required: Vec<&str> =
            by_model().filter(|one| one.required).map(|one| one.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_gets_only_the_parameters_it_fills_in() {
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
