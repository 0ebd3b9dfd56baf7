//! The variables of a loop: constants, which are read once with the file, and copies of other variables.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use crate::value::pyrepr::str_of;
use crate::value::template::mention;
use crate::value::{Lookup, Segment, SegmentType, Selector, Variables, infer_type, pyjson};

const TYPES: [SegmentType; 8] = [
    SegmentType::String,
    // Stands for `number`, be it whole or not.
    SegmentType::Integer,
    SegmentType::Object,
    SegmentType::Boolean,
    SegmentType::ArrayString,
    SegmentType::ArrayNumber,
    SegmentType::ArrayObject,
    SegmentType::ArrayBoolean,
];

/// A variable of a loop: its name, and what it begins with.
#[derive(Debug, Clone)]
pub struct LoopVariable {
    label: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// The value, or why it is none: Dify says so when the loop begins, where its error strategy may handle it.
    Constant(Result<Segment, String>),
    /// The value of another variable; none when the file has no selector here.
    Variable(Option<Selector>),
}

/// Reads `loop_variables`, which may be absent or null.
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

    /// Its name: the second part of its selector, behind the id of the loop.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Adds the variable that it begins with, as (node, name).
    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.source {
            Source::Variable(Some(selector)) => mention(selector, into),
            Source::Constant(_) | Source::Variable(None) => {}
        }
    }

    /// The value it begins with. The declared type is not held against a variable, as on Dify.
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

/// Dify writes the bare value, so that its type is found anew: an empty list forgets which type it had. Only files
/// and secrets are more than their JSON.
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

/// The value of a constant. A list must be JSON text, anything else in its place is an empty list; a list of truth
/// values and everything that is no list is taken as it stands, or as JSON text if it does not fit.
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
        (Ok(()), _) => Ok(Segment::infer(value.into_owned())),
        (Err(_), Some(Ok(decoded))) => fit(declared, &decoded).map(|()| Segment::infer(decoded)),
        (Err(mismatch), Some(Err(_)) | None) => Err(mismatch),
    }
}

/// Whether a value may stand where a type is declared; nothing is converted.
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

/// Variables with those of the loop in front, which are not written yet.
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
