//! Fields out of text: a model is asked for values of declared parameters, by a tool that it is to call or in words.
//!
//! `parse` reads the configuration, [`prompt`] makes the question, [`find`] finds the object in the reply, [`result`]
//! checks it and brings its values into shape. The model is asked by the worker.

pub mod find;
mod parse;
pub mod prompt;
pub mod result;

use serde_json::{Map, Value as Json, json};

use crate::dsl::Problems;
use crate::nodes::llm::message::{ModelFacts, ToolSpec};
use crate::nodes::llm::turns::CONTEXT;
use crate::nodes::llm::{Memory, ModelConfig, Vision};
use crate::value::template::{Template, mention};
use crate::value::{JsonMap, SegmentType, Selector};

/// The tool that a model is to call.
pub const TOOL: &str = "extract_parameters";
/// What the tool is for, as the model is told.
const TOOL_DESCRIPTION: &str = "Extract parameters from the natural language text";

/// Configuration of `parameter-extractor`.
#[derive(Debug, Clone)]
pub struct ParameterExtractorData {
    /// The text that values are taken from.
    pub query: Selector,
    /// Which model, and with what parameters.
    pub model: ModelConfig,
    /// What is wanted, in order.
    pub parameters: Vec<Parameter>,
    /// What else the model is told: a template, perhaps empty.
    pub instruction: String,
    /// The conversation so far.
    pub memory: Option<Memory>,
    /// Whether the model is to call a tool, if it can.
    pub by_tool: bool,
    /// The files that go with the question; none when vision is switched off.
    pub vision: Option<Vision>,
    /// Detail of pictures: `high` or `low`.
    pub detail: String,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name, which is the name of the output.
    pub name: String,
    /// What its values are.
    pub ty: ParameterType,
    /// The only values that it may have.
    pub options: Option<Vec<String>>,
    /// What it is, for the model.
    pub description: String,
    /// Whether the text must hold it.
    pub required: bool,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// One value.
    One(Kind),
    /// A list of them.
    List(Kind),
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// text
    String,
    /// number
    Number,
    /// true or false
    Boolean,
    /// mapping; only in lists
    Object,
}

impl Kind {
    /// Its name, in files and in schemas.
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
    /// Every type that a file may name.
    const ALL: [Self; 7] = [
        Self::One(Kind::String),
        Self::One(Kind::Number),
        Self::One(Kind::Boolean),
        Self::List(Kind::String),
        Self::List(Kind::Number),
        Self::List(Kind::Object),
        Self::List(Kind::Boolean),
    ];

    /// Its name, as files have it today.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One(kind) => kind.name(),
            Self::List(Kind::String) => "array[string]",
            Self::List(Kind::Number) => "array[number]",
            Self::List(Kind::Boolean) => "array[boolean]",
            Self::List(Kind::Object) => "array[object]",
        }
    }

    /// The type of a name; `bool` and `select` are those of old files.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            "bool" => "boolean",
            "select" => "string",
            name => name,
        };
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The type of list that its values are; none for single values.
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
    /// The output that holds the conversation: a parameter of that name wins.
    pub fn context_name(&self) -> &'static str {
        let is_taken = self.parameters.iter().any(|parameter| parameter.name == CONTEXT);
        if is_taken { "__context" } else { CONTEXT }
    }

    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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
            // Beside the items of a list, not within (Dify).
            if let Some(options) = parameter.options.as_ref().filter(|options| !options.is_empty()) {
                property.insert("enum".into(), json!(options));
            }
            properties.insert(parameter.name.clone(), Json::Object(property));
        }
        let required: Vec<&str> =
            self.parameters.iter().filter(|p| p.required).map(|p| p.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    /// The tool, if this model is to call it.
    pub fn tool(&self, facts: &ModelFacts) -> Option<ToolSpec> {
        let spec = || ToolSpec {
            name: TOOL.into(),
            description: TOOL_DESCRIPTION.into(),
            parameters: self.schema(),
        };
        (self.by_tool && can_call_tools(facts)).then(spec)
    }
}

/// Whether a model is known to call tools.
fn can_call_tools(facts: &ModelFacts) -> bool {
    facts.has("tool-call") || facts.has("multi-tool-call")
}

#[cfg(test)]
mod tests;
