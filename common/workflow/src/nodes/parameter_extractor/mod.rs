//! The `parameter-extractor` node: a model extracts the values of declared parameters from a text, by a tool call or in
//! words.
//!
//! `parse` reads the configuration, [`prompt`] builds the request, [`find`] finds the object in the reply, and
//! [`result`] validates it and converts its values. The worker calls the model.

pub mod find;
mod parse;
pub mod prompt;
pub mod result;

use serde_json::{Map, Value as Json, json};

use crate::dsl::Problems;
use crate::nodes::llm::message::{ModelFacts, ToolSpec};
use crate::nodes::llm::turns::CONTEXT;
use crate::nodes::llm::{Memory, ModelConfig, Vision};
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, SegmentType, Selector};

/// The tool that the model must call.
pub const TOOL: &str = "extract_parameters";
/// The tool's description for the model.
const TOOL_DESCRIPTION: &str = "Extract parameters from the natural language text";

/// Configuration of `parameter-extractor`.
#[derive(Debug, Clone)]
pub struct ParameterExtractorData {
    /// The text to extract from.
    pub query: Selector,
    /// The model and its parameters.
    pub model: ModelConfig,
    /// The parameters to extract, in order.
    pub parameters: Vec<Parameter>,
    /// Further instructions for the model: a template, can be empty.
    pub instruction: String,
    /// Settings for the conversation so far.
    pub memory: Option<Memory>,
    /// True when the model should call a tool, if it can.
    pub by_tool: bool,
    /// The files sent with the request. `None` when vision is off.
    pub vision: Option<Vision>,
    /// Detail of images: `high` or `low`.
    pub detail: String,
}

/// A parameter to extract.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name, also of the output.
    pub name: String,
    pub ty: ParameterType,
    /// The allowed values.
    pub options: Option<Vec<String>>,
    /// A description for the model.
    pub description: String,
    /// True when the text must contain it.
    pub required: bool,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// A single value.
    One(Kind),
    /// A list of values.
    List(Kind),
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    String,
    Number,
    Boolean,
    /// only in lists
    Object,
}

impl Kind {
    /// The name in files and in schemas.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
        }
    }
}

impl ParameterType {
    /// All types that a file can use.
    const ALL: [Self; 7] = [
        Self::One(Kind::String),
        Self::One(Kind::Number),
        Self::One(Kind::Boolean),
        Self::List(Kind::String),
        Self::List(Kind::Number),
        Self::List(Kind::Object),
        Self::List(Kind::Boolean),
    ];

    /// The name in current files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One(kind) => kind.name(),
            Self::List(Kind::String) => "array[string]",
            Self::List(Kind::Number) => "array[number]",
            Self::List(Kind::Boolean) => "array[boolean]",
            Self::List(Kind::Object) => "array[object]",
        }
    }

    /// Finds a type by its name; `bool` and `select` are from old files.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            "bool" => "boolean",
            "select" => "string",
            name => name,
        };
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The list type of its values. `None` for single values.
    const fn list(self) -> Option<SegmentType> {
        match self {
            Self::One(_) => None,
            Self::List(Kind::String) => Some(SegmentType::ArrayString),
            Self::List(Kind::Number) => Some(SegmentType::ArrayNumber),
            Self::List(Kind::Boolean) => Some(SegmentType::ArrayBoolean),
            Self::List(Kind::Object) => Some(SegmentType::ArrayObject),
        }
    }
}

impl ParameterExtractorData {
    /// The name of the output with the conversation; differs when a parameter has that name.
    pub fn context_name(&self) -> &'static str {
        let is_taken = self.parameters.iter().any(|parameter| parameter.name == CONTEXT);
        if is_taken { "__context" } else { CONTEXT }
    }

    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.query, into);
        Template::parse(&self.instruction).mentions(into);
        self.model.mentions(into);
        if let Some(vision) = &self.vision {
            mention(&vision.selector, into);
        }
        if let Some(memory) = &self.memory {
            memory.mentions(into);
        }
    }

    /// The JSON schema of the parameters.
    pub fn schema(&self) -> Json {
        let mut properties = Map::new();
        for parameter in &self.parameters {
            let mut property = Map::new();
            property.insert("description".into(), json!(parameter.description));
            match parameter.ty {
                ParameterType::One(kind) => {
                    property.insert("type".into(), json!(kind.name()));
                }
                ParameterType::List(kind) => {
                    property.insert("type".into(), json!("array"));
                    property.insert("items".into(), json!({"type": kind.name()}));
                }
            }
            // Beside the items of a list, not inside (as on Dify).
            if let Some(options) = parameter.options.as_ref().filter(|options| !options.is_empty()) {
                property.insert("enum".into(), json!(options));
            }
            properties.insert(parameter.name.clone(), Json::Object(property));
        }
        let required: Vec<&str> =
            self.parameters.iter().filter(|p| p.required).map(|p| p.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    /// The tool, if this model should call it.
    pub fn tool(&self, facts: &ModelFacts) -> Option<ToolSpec> {
        let spec = || ToolSpec {
            name: TOOL.into(),
            description: TOOL_DESCRIPTION.into(),
            parameters: self.schema(),
        };
        (self.by_tool && can_call_tools(facts)).then(spec)
    }
}

/// True when the model is known to support tool calls.
fn can_call_tools(facts: &ModelFacts) -> bool {
    facts.has("tool-call") || facts.has("multi-tool-call")
}

#[cfg(test)]
mod tests;
