//! The `code` node: its configuration, the inputs of the user's code, and the parsing and checks of its result.
//!
//! All of this is pure. The worker runs the code: it passes [`CodeData::inputs`] to a sandbox and the printed output to
//! [`result::read`], then to [`check::outputs`].

pub mod check;
pub mod config;
pub mod modules;
mod python;
pub mod result;
mod validate;

use std::borrow::Cow;

use serde_json::Value as Json;

use super::fields::named_values;
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

pub use config::{CodeConfig, CodeLimits};
pub use python::{PythonConfig, PythonTable};

/// Configuration of `code`.
#[derive(Debug, Clone)]
pub struct CodeData {
    pub language: CodeLanguage,
    /// The code; it defines `main`.
    pub code: String,
    /// The arguments of `main`, by parameter name.
    pub variables: Vec<(String, Selector)>,
    /// The declared outputs, in file order.
    pub outputs: Vec<Output>,
}

/// A language of code nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeLanguage {
    /// Python 3: `main` gets keyword arguments.
    Python,
    /// JavaScript: `main` gets one object.
    JavaScript,
}

impl CodeLanguage {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::JavaScript => "javascript",
        }
    }
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }
}

/// An output that a code node declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub name: String,
    pub ty: OutputType,
    /// The declared fields of its objects. `None`: any fields within the limits.
    pub children: Option<Vec<Output>>,
}

/// The type of a declared output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputType {
    String,
    Number,
    Object,
    /// Any value: Dify does not check it.
    Boolean,
    ArrayString,
    ArrayNumber,
    ArrayObject,
    ArrayBoolean,
}

impl OutputType {
    /// All types, in the order of Dify's list.
    pub const ALL: [Self; 8] = [
        Self::String,
        Self::Number,
        Self::Object,
        Self::Boolean,
        Self::ArrayString,
        Self::ArrayNumber,
        Self::ArrayObject,
        Self::ArrayBoolean,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Object => "object",
            Self::Boolean => "boolean",
            Self::ArrayString => "array[string]",
            Self::ArrayNumber => "array[number]",
            Self::ArrayObject => "array[object]",
            Self::ArrayBoolean => "array[boolean]",
        }
    }
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }
}

impl CodeData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        validate::check(data, problems);
        Some(Self {
            language: CodeLanguage::from_name(data.get("code_language")?.as_str()?)?,
            code: data.get("code")?.as_str()?.to_owned(),
            variables: data.get("variables")?.as_array()?.iter().map(variable).collect::<Option<_>>()?,
            outputs: outputs(data.get("outputs")?.as_object()?)?,
        })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for (_, selector) in &self.variables {
            mention(selector, into);
        }
    }

    /// The arguments of `main`. Null for a missing variable, and for an empty list of files.
    ///
    /// # Errors
    /// A single file, which Dify cannot pass. The exception loses the record of the inputs.
    pub fn inputs(&self, variables: &dyn Variables) -> Result<Vec<(String, Segment)>, NodeFailure> {
        let mut inputs = named_values(&self.variables, variables);
        for (_, value) in &mut inputs {
            match value.ty {
                SegmentType::File => {
                    return Err(NodeFailure::escaped("Type is not JSON serializable: File"));
                }
                SegmentType::ArrayFile if value.is_falsy() => *value = Segment::none(),
                SegmentType::None
                | SegmentType::String
                | SegmentType::Secret
                | SegmentType::Integer
                | SegmentType::Float
                | SegmentType::Boolean
                | SegmentType::Object
                | SegmentType::ArrayAny
                | SegmentType::ArrayString
                | SegmentType::ArrayNumber
                | SegmentType::ArrayObject
                | SegmentType::ArrayBoolean
                | SegmentType::ArrayFile => {}
            }
        }
        Ok(inputs)
    }
}

/// The inputs as one JSON object for the sandbox.
pub fn inputs_json(inputs: &[(String, Segment)]) -> String {
    struct Pairs<'a>(&'a [(String, Segment)]);
    impl serde::Serialize for Pairs<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(name, segment)| (name, &segment.value)))
        }
    }
    // Text keys and JSON values: serialization cannot fail.
    serde_json::to_string(&Pairs(inputs)).unwrap_or_default()
}

/// The code as it is run. Dify fills a text template, so a placeholder in the user's code is filled too.
pub fn filled(code: &str, inputs_base64: impl FnOnce() -> String) -> Cow<'_, str> {
    const PLACEHOLDER: &str = "{{inputs}}";
    if code.contains(PLACEHOLDER) {
        return Cow::Owned(code.replace(PLACEHOLDER, &inputs_base64()));
    }
    Cow::Borrowed(code)
}

fn variable(item: &Json) -> Option<(String, Selector)> {
    let name = item.get("variable")?.as_str()?.to_owned();
    let parts = item.get("value_selector")?.as_array()?.iter();
    Some((name, parts.map(|part| part.as_str().map(str::to_owned)).collect::<Option<_>>()?))
}

// Recursion is bounded by the depth of the file.
fn outputs(declared: &JsonMap) -> Option<Vec<Output>> {
    let one = |(name, output): (&String, &Json)| {
        let children = match output.get("children") {
            None | Some(Json::Null) => None,
            Some(children) => Some(outputs(children.as_object()?)?),
        };
        let ty = OutputType::from_name(output.get("type")?.as_str()?)?;
        Some(Output { name: name.clone(), ty, children })
    };
    declared.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
