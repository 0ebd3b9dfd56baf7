//! The `list-operator` node: filters, picks from, sorts and cuts a list of texts, numbers, booleans or files, in this
//! order.
//!
//! [`filter`] and [`arrange`] hold the steps; this file holds the configuration and the record of a run. An error that
//! Dify's node reports keeps the inputs in the record; an exception that leaves the node keeps nothing.

mod arrange;
mod filter;

use std::borrow::Cow;

use serde_json::Value as Json;

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, flag, list, mapping, required, selector, text, wrong};
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::coerce::parse_python_int;
use tidemill_base::value::pyrepr::repr_texts;
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

use arrange::Order;
use filter::Condition;

/// Configuration of `list-operator`.
#[derive(Debug, Clone)]
pub struct ListOperatorData {
    variable: Selector,
    /// Conditions that an item must all meet. `None` when filtering is off.
    filter: Option<Vec<Condition>>,
    /// The number of the item to pick, from 1.
    extract: Option<Template>,
    order: Option<Order>,
    /// Items to keep; a negative number drops that many from the end.
    limit: Option<i64>,
}

impl ListOperatorData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used. As on Dify disabled
    /// parts are checked too.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let variable = optional(data, "variable", problems, Vec::new(), selector);
        let filter = required(data, "filter_by", problems, |value, problems| {
            part(value, problems, |part, problems| {
                optional(part, "conditions", problems, Vec::new(), |value, problems| {
                    list(value, problems, Condition::parse)
                })
            })
        });
        let order =
            required(data, "order_by", problems, |value, problems| part(value, problems, Order::parse));
        let limit = required(data, "limit", problems, |value, problems| {
            part(value, problems, |part, problems| optional(part, "size", problems, -1, whole))
        });
        let extract = optional(data, "extract_by", problems, None, |value, problems| {
            part(value, problems, |part, problems| {
                let serial = optional(part, "serial", problems, "1".into(), text)?;
                Some(Template::parse(&serial))
            })
        });
        Some(Self { variable: variable?, filter: filter?, extract: extract?, order: order?, limit: limit? })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.variable, into);
        self.filter.iter().flatten().for_each(|condition| condition.mentions(into));
        self.extract.iter().for_each(|serial| serial.mentions(into));
    }

    /// Runs the node.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let Some(value) = variables.found(&self.variable) else {
            let named = repr_texts(&self.variable);
            return NodeResult::failed(refused(format!("Variable not found for selector: {named}")));
        };
        if value.is_falsy() {
            let ty = if value.ty.is_array() { value.ty } else { SegmentType::ArrayAny };
            return recorded(Segment::new(ty, Json::Array(Vec::new())), outputs(ty, Vec::new()));
        }
        let (Some(kind), Json::Array(items)) = (ItemKind::of(value.ty), &value.value) else {
            return NodeResult::failed(refused(self.no_list(value.ty)));
        };
        match self.operated(kind, items.clone(), variables) {
            Ok(left) => recorded(value.clone().into_owned(), outputs(value.ty, left)),
            Err(Mistake::Escaped(message)) => NodeResult::failed(NodeFailure::escaped(message)),
            Err(Mistake::Reported(message)) => {
                let result = recorded(Cow::into_owned(value), Vec::new());
                NodeResult { failure: Some(refused(message)), ..result }
            }
        }
    }

    /// The remaining items.
    fn operated(
        &self,
        kind: ItemKind,
        mut items: Vec<Json>,
        variables: &dyn Variables,
    ) -> Result<Vec<Json>, Mistake> {
        for condition in self.filter.iter().flatten() {
            items = condition.apply(kind, items, variables)?;
        }
        if let Some(serial) = &self.extract {
            items = vec![arrange::picked(items, number(serial, variables, parse_python_int)?)?];
        }
        if let Some(order) = &self.order {
            order.sort(kind, &mut items)?;
        }
        if let Some(size) = self.limit {
            arrange::cut(&mut items, size);
        }
        Ok(items)
    }

    fn no_list(&self, ty: SegmentType) -> String {
        let named = repr_texts(&self.variable);
        // Dify uses different classes for whole variables and for parts of values.
        let class = match self.variable.as_slice() {
            [] | [_] | [_, _] => format!("variables.{}Variable", class_stem(ty)),
            [_, _, ..] => format!("segments.{}Segment", class_stem(ty)),
        };
        format!("Variable {named} is not an array type, actual type: <class 'graphon.variables.{class}'>")
    }
}

/// The item type of a list; only types that the node supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Text,
    Number,
    Boolean,
    File,
}

impl ItemKind {
    fn of(list: SegmentType) -> Option<Self> {
        match list {
            SegmentType::ArrayString => Some(Self::Text),
            SegmentType::ArrayNumber => Some(Self::Number),
            SegmentType::ArrayBoolean => Some(Self::Boolean),
            SegmentType::ArrayFile => Some(Self::File),
            SegmentType::ArrayAny
            | SegmentType::ArrayObject
            | SegmentType::None
            | SegmentType::String
            | SegmentType::Secret
            | SegmentType::Integer
            | SegmentType::Float
            | SegmentType::Boolean
            | SegmentType::Object
            | SegmentType::File => None,
        }
    }
    fn item_type(self, item: &Json) -> SegmentType {
        match self {
            Self::Text => SegmentType::String,
            Self::Number => match item {
                Json::Number(number) if number.as_i64().is_none() && number.as_u64().is_none() => {
                    SegmentType::Float
                }
                Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Array(_)
                | Json::Object(_) => SegmentType::Integer,
            },
            Self::Boolean => SegmentType::Boolean,
            Self::File => SegmentType::File,
        }
    }
}

/// The ways in which the node fails.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mistake {
    /// An error reported by the node.
    Reported(String),
    /// An exception that leaves the node.
    Escaped(String),
}

/// A failure reported by the node; Dify gives it no class.
fn refused(message: String) -> NodeFailure {
    NodeFailure::new("", message)
}

fn recorded(variable: Segment, outputs: Vec<(String, Segment)>) -> NodeResult {
    NodeResult {
        process_data: JsonMap::from_iter([("variable".into(), variable.value.clone())]),
        inputs: vec![("variable".into(), variable)],
        ..NodeResult::outputs(outputs)
    }
}

fn outputs(ty: SegmentType, items: Vec<Json>) -> Vec<(String, Segment)> {
    let record = |item: Option<&Json>| match (item, ItemKind::of(ty)) {
        (Some(item), Some(kind)) => Segment::new(kind.item_type(item), item.clone()),
        (None, _) | (_, None) => Segment::none(),
    };
    let (first, last) = (record(items.first()), record(items.last()));
    vec![
        ("result".into(), Segment::new(ty, Json::Array(items))),
        ("first_record".into(), first),
        ("last_record".into(), last),
    ]
}

/// Renders a template and reads it as a number. The error message has secrets masked.
fn number<T>(
    template: &Template,
    variables: &dyn Variables,
    read: fn(&str) -> Result<T, String>,
) -> Result<T, Mistake> {
    read(&template.render_text(variables)).map_err(|message| {
        let shown = read(&template.render_log(variables)).err();
        Mistake::Escaped(shown.unwrap_or(message))
    })
}

/// A part of the node with a switch `enabled`; `Some(None)` when it is off.
fn part<T>(
    value: &Json,
    problems: &mut Problems,
    read: impl FnOnce(&JsonMap, &mut Problems) -> Option<T>,
) -> Option<Option<T>> {
    let part = mapping(value, problems)?;
    let enabled = optional(part, "enabled", problems, false, flag);
    let read = read(part, problems)?;
    Some(enabled?.then_some(read))
}

/// An optional field.
fn optional<T>(
    data: &JsonMap,
    key: &str,
    problems: &mut Problems,
    default: T,
    read: impl FnOnce(&Json, &mut Problems) -> Option<T>,
) -> Option<T> {
    match data.get(key) {
        None => Some(default),
        Some(value) => problems.within(key, |problems| read(value, problems)),
    }
}

/// A whole number, also as text, as on Dify.
fn whole(value: &Json, problems: &mut Problems) -> Option<i64> {
    let read = match value {
        Json::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64))
        }
        Json::String(text) => parse_python_int(text).ok().and_then(|n| i64::try_from(n).ok()),
        Json::Bool(flag) => Some(i64::from(*flag)),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    };
    read.or_else(|| wrong(value, "a whole number", problems))
}

/// One of the given words.
fn word<T: Copy>(words: &[(&str, T)], value: &Json, problems: &mut Problems) -> Option<T> {
    let given = text(value, problems)?;
    let known = words.iter().find(|(name, _)| *name == given).map(|(_, word)| *word);
    if known.is_none() {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        problems.error(INVALID_NODE_DATA, format!("{given:?} is not one of {}", names.join(", ")));
    }
    known
}

/// The beginning of the class name for values of a type in Dify's engine.
const fn class_stem(ty: SegmentType) -> &'static str {
    match ty {
        SegmentType::None => "None",
        SegmentType::String => "String",
        SegmentType::Secret => "Secret",
        SegmentType::Integer => "Integer",
        SegmentType::Float => "Float",
        SegmentType::Boolean => "Boolean",
        SegmentType::Object => "Object",
        SegmentType::File => "File",
        SegmentType::ArrayAny => "ArrayAny",
        SegmentType::ArrayString => "ArrayString",
        SegmentType::ArrayNumber => "ArrayNumber",
        SegmentType::ArrayObject => "ArrayObject",
        SegmentType::ArrayBoolean => "ArrayBoolean",
        SegmentType::ArrayFile => "ArrayFile",
    }
}

#[cfg(test)]
mod tests;
