//! The variables of a loop: constants, which are parsed once with the file, and copies of other variables.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use tidemill_base::value::pyrepr::str_of;
use tidemill_base::value::template::mention;
use tidemill_base::value::{Lookup, Segment, SegmentType, Selector, Variables, infer_type, pyjson};

const TYPES: [SegmentType; 8] = [
    SegmentType::String,
    // Covers `number`, whole or not.
    SegmentType::Integer,
    SegmentType::Object,
    SegmentType::Boolean,
    SegmentType::ArrayString,
    SegmentType::ArrayNumber,
    SegmentType::ArrayObject,
    SegmentType::ArrayBoolean,
];

/// A variable of a loop: its name and its initial value.
#[derive(Debug, Clone)]
pub struct LoopVariable {
    label: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// The value, or its error. As on Dify the error is reported when the loop begins, so that its error strategy can
    /// handle it.
    Constant(Result<Segment, String>),
    /// The value of another variable. `None` when the file has no valid selector.
    Variable(Option<Selector>),
}

/// Reads `loop_variables`, which can be absent or null.
pub(super) fn parse(fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<LoopVariable>> {
    if fields.given("loop_variables").is_none() {
        return Some(Vec::new());
    }
    let items = fields.list("loop_variables", problems)?.iter().enumerate();
    let read: Vec<_> = items
        .map(|(at, item)| {
            problems.within(format!("loop_variables[{at}]"), |problems| LoopVariable::parse(item, problems))
        })
        .collect();
    read.into_iter().collect()
}

impl LoopVariable {
    fn parse(item: &Json, problems: &mut Problems) -> Option<Self> {
        let Some(map) = item.as_object() else {
            let message = format!("a loop variable must be a mapping, not {}", kind_of(item));
            problems.error(BUILD_FAILED, message);
            return None;
        };
        let fields = Fields::new(map, BUILD_FAILED);
        let label = fields.text("label", problems);
        let declared = fields.one_of("var_type", &TYPES.map(SegmentType::exposed_name), problems);
        let source = fields.one_of("value_type", &["variable", "constant"], problems);
        let declared = declared.and_then(|name| TYPES.into_iter().find(|ty| ty.exposed_name() == name));
        let (label, declared, source) = (label?.to_owned(), declared?, source?);
        let value = map.get("value").unwrap_or(&Json::Null);
        let source = match source {
            "constant" => Source::Constant(constant(declared, value)),
            _ => Source::Variable(value.as_array().and_then(|parts| {
                parts.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<Selector>>()
            })),
        };
        Some(Self { label, source })
    }

    /// The name: the second part of the variable's selector, after the loop's id.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Adds the variable that gives the initial value, as (node, name).
    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.source {
            Source::Variable(Some(selector)) => mention(selector, into),
            Source::Constant(_) | Source::Variable(None) => {}
        }
    }

    /// The initial value. As on Dify the declared type is not checked for a variable.
    pub(super) fn first_value(&self, variables: &dyn Variables) -> Result<Segment, String> {
        match &self.source {
            Source::Constant(value) => value.clone(),
            Source::Variable(selector) => selector
                .as_ref()
                .and_then(|selector| variables.found(selector))
                .map(|found| as_written(found.into_owned()))
                .ok_or_else(|| format!("Invalid value for loop variable {}", self.label)),
        }
    }
}

/// Dify copies the bare value and infers its type again: an empty list loses its type. Only files and secrets are more
/// than their JSON.
fn as_written(segment: Segment) -> Segment {
    match segment.ty {
        SegmentType::File | SegmentType::Secret => segment,
        SegmentType::ArrayFile if !segment.is_falsy() => segment,
        SegmentType::None
        | SegmentType::String
        | SegmentType::Integer
        | SegmentType::Float
        | SegmentType::Boolean
        | SegmentType::Object
        | SegmentType::ArrayAny
        | SegmentType::ArrayString
        | SegmentType::ArrayNumber
        | SegmentType::ArrayObject
        | SegmentType::ArrayBoolean
        | SegmentType::ArrayFile => Segment::infer(segment.value),
    }
}

/// The value of a constant. A list must be JSON text; other values give an empty list. A list of booleans, and types
/// other than lists, are used as they are, or parsed as JSON text if they do not fit.
fn constant(declared: SegmentType, given: &Json) -> Result<Segment, String> {
    let text = given.as_str();
    let by_text =
        matches!(declared, SegmentType::ArrayString | SegmentType::ArrayNumber | SegmentType::ArrayObject);
    let value = match text {
        Some(text) if by_text && !text.is_empty() => Cow::Owned(pyjson::loads(text)?),
        Some(_) | None if by_text => Cow::Owned(Json::Array(Vec::new())),
        Some(_) | None => Cow::Borrowed(given),
    };
    match (fit(declared, &value), text.map(pyjson::loads)) {
        (Ok(()), _) => Ok(typed(declared, value.into_owned())),
        (Err(_), Some(Ok(decoded))) => fit(declared, &decoded).map(|()| typed(declared, decoded)),
        (Err(mismatch), Some(Err(_)) | None) => Err(mismatch),
    }
}

/// A value that fits. An empty list keeps the declared type, which decides what can be added and how the list is written.
fn typed(declared: SegmentType, value: Json) -> Segment {
    match value.as_array() {
        Some(items) if items.is_empty() => Segment::new(declared, value),
        Some(_) | None => Segment::infer(value),
    }
}

/// Checks a value against a declared type; converts nothing.
fn fit(declared: SegmentType, value: &Json) -> Result<(), String> {
    let expected = declared.exposed_name();
    let found = infer_type(value);
    match value {
        Json::Null => Err(format!("Type mismatch: expected {expected}, but got None")),
        Json::Array(items) if items.is_empty() && declared.is_array() => Ok(()),
        Json::Array(items) if items.is_empty() => {
            Err(format!("Type mismatch: expected {expected}, but got empty list"))
        }
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_)
            if found.exposed_name() == expected =>
        {
            Ok(())
        }
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            Err(format!("Type mismatch: expected {expected}, but got {found}, value={}", str_of(value)))
        }
    }
}

/// Variables, preceded by the loop's own, which are not written yet.
pub(super) struct WithOwn<'a> {
    node: &'a str,
    outer: &'a dyn Variables,
    pub(super) values: Vec<(String, Segment)>,
}

impl<'a> WithOwn<'a> {
    pub(super) fn new(node: &'a str, outer: &'a dyn Variables) -> Self {
        Self { node, outer, values: Vec::new() }
    }
    fn own(&self, node: &str, name: &str) -> Option<&Segment> {
        let mut own = self.values.iter().filter(|_| node == self.node);
        own.find(|(label, _)| label == name).map(|(_, value)| value)
    }
}

impl Variables for WithOwn<'_> {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match self.own(node, name) {
            Some(value) => Lookup::Found(Cow::Borrowed(value)),
            None => self.outer.variable(node, name),
        }
    }
    fn names(&self) -> Vec<(String, String)> {
        let mut names = self.outer.names();
        names.retain(|(node, name)| self.own(node, name).is_none());
        names.extend(self.values.iter().map(|(label, _)| (self.node.to_owned(), label.clone())));
        names
    }
}
