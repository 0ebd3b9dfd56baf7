//! Parses conditions. Configurations that Dify refuses when it builds a graph are refused here, with their path.

use regex::Regex;
use serde_json::Value as Json;

use super::compare::class_name;
use super::operator::advice;
use super::{
    Condition, ConditionGroup, Expected, FileCondition, FileConditions, INVALID_NODE_DATA, Logical, Operator,
};
use crate::dsl::Problems;
use tidemill_base::value::JsonMap;
use tidemill_base::value::template::{Template, TemplatePiece};

impl Logical {
    /// Reads a `logical_operator`.
    pub fn parse(value: Option<&Json>, problems: &mut Problems) -> Option<Self> {
        match value.and_then(Json::as_str) {
            Some("and") => Some(Self::And),
            Some("or") => Some(Self::Or),
            Some(_) | None => {
                problems.error(INVALID_NODE_DATA, "logical_operator must be \"and\" or \"or\"");
                None
            }
        }
    }
}

impl ConditionGroup {
    /// Reads a list of conditions and reports all that are invalid. The caller has put the key of the list into the
    /// path of `problems`.
    pub fn parse(logical: Logical, conditions: Option<&Json>, problems: &mut Problems) -> Option<Self> {
        let conditions = each(conditions, problems, Condition::parse)?;
        Some(Self { logical, conditions })
    }
}

/// Reads all items of a list of objects. `None` when one of them is invalid.
pub(in crate::nodes) fn each<T>(
    list: Option<&Json>,
    problems: &mut Problems,
    parse: impl Fn(&JsonMap, &mut Problems) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(items) = list.and_then(Json::as_array) else {
        problems.error(INVALID_NODE_DATA, "a list is needed here");
        return None;
    };
    let read = |(at, item): (usize, &Json)| {
        problems.within(format!("[{at}]"), |problems| match item.as_object() {
            Some(item) => parse(item, problems),
            None => {
                problems.error(INVALID_NODE_DATA, "an object is needed here");
                None
            }
        })
    };
    // Collected first, so that all bad items are reported.
    let parsed: Vec<Option<T>> = items.iter().enumerate().map(read).collect();
    parsed.into_iter().collect()
}

impl Condition {
    fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let selector = selector(data.get("variable_selector"), problems);
        let operator = operator(data, problems);
        let value = value(data.get("value"), problems);
        let files = file_conditions(data.get("sub_variable_condition"), problems);
        let (selector, operator, value, files) = (selector?, operator?, value?, files?);
        let declared = Json::Object(JsonMap::from_iter([
            ("variable_selector".into(), Json::from(selector.as_slice())),
            ("comparison_operator".into(), operator.name().into()),
            ("value".into(), value.clone()),
            ("sub_variable_condition".into(), files.as_ref().map_or(Json::Null, FileConditions::declared)),
        ]));
        let pattern = pattern(operator, &value, problems)?;
        let expected = Expected::of(value);
        Some(Self { selector, operator, expected, files, pattern, declared })
    }
}

impl Expected {
    fn of(value: Json) -> Self {
        let Json::String(text) = &value else { return Self::Constant(value) };
        let template = Template::parse(text);
        let mut mentions = Vec::new();
        template.mentions(&mut mentions);
        if mentions.is_empty() { Self::Constant(value) } else { Self::Template { template, mentions } }
    }
}

impl FileConditions {
    fn declared(&self) -> Json {
        let conditions = self.conditions.iter().map(|condition| {
            Json::Object(JsonMap::from_iter([
                ("key".into(), condition.key.as_str().into()),
                ("comparison_operator".into(), condition.operator.name().into()),
                ("value".into(), condition.expected.clone()),
            ]))
        });
        Json::Object(JsonMap::from_iter([
            ("logical_operator".into(), self.logical.name().into()),
            ("conditions".into(), conditions.collect()),
        ]))
    }
}

fn selector(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<String>> {
    let parts = value.and_then(Json::as_array).and_then(|parts| {
        parts.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    if parts.is_none() {
        problems.error(INVALID_NODE_DATA, "variable_selector must be a list of texts");
    }
    parts
}

fn operator(data: &JsonMap, problems: &mut Problems) -> Option<Operator> {
    let Some(text) = data.get("comparison_operator").and_then(Json::as_str) else {
        problems.error(INVALID_NODE_DATA, "comparison_operator is missing or not a text");
        return None;
    };
    let operator = Operator::read(text);
    if operator.is_none() {
        let message = format!("comparison_operator {text:?} is not an operator");
        problems.error_with_hint(INVALID_NODE_DATA, message, advice(text));
    }
    operator
}

/// Reads a `value`: text, list of texts, boolean (also as 1 and 0) or null.
fn value(value: Option<&Json>, problems: &mut Problems) -> Option<Json> {
    let given = value.unwrap_or(&Json::Null);
    match given {
        Json::Null | Json::Bool(_) | Json::String(_) => Some(given.clone()),
        Json::Array(items) if items.iter().all(Json::is_string) => Some(given.clone()),
        Json::Array(_) => refuse(given, "every item of a list must be a text", problems),
        Json::Number(number) if number.as_f64() == Some(1.0) => Some(Json::Bool(true)),
        Json::Number(number) if number.as_f64() == Some(0.0) => Some(Json::Bool(false)),
        Json::Number(_) => refuse(given, &format!("put it in quotes: \"{given}\""), problems),
        Json::Object(_) => refuse(given, "write a text, a list of texts, true, false or null", problems),
    }
}

fn refuse(given: &Json, hint: &str, problems: &mut Problems) -> Option<Json> {
    let message = format!("value of a condition cannot be {}", class_name(given));
    problems.error_with_hint(INVALID_NODE_DATA, message, hint);
    None
}

/// The outer option is `None` for invalid data, the inner one when there are no sub-conditions.
fn file_conditions(data: Option<&Json>, problems: &mut Problems) -> Option<Option<FileConditions>> {
    let data = match data {
        None | Some(Json::Null) => return Some(None),
        Some(data) => data,
    };
    problems.within("sub_variable_condition", |problems| {
        let logical = Logical::parse(data.get("logical_operator"), problems);
        let conditions = problems
            .within("conditions", |problems| each(data.get("conditions"), problems, FileCondition::parse));
        Some(Some(FileConditions { logical: logical?, conditions: conditions? }))
    })
}

impl FileCondition {
    fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let key = data.get("key").and_then(Json::as_str);
        if key.is_none() {
            problems.error(INVALID_NODE_DATA, "key is missing or not a text");
        }
        let operator = operator(data, problems);
        let expected = match data.get("value") {
            Some(given @ Json::Bool(_)) => {
                refuse(given, "the attributes of files are texts and numbers; write a text", problems)
            }
            Some(given @ Json::Number(_)) => {
                refuse(given, &format!("put it in quotes: \"{given}\""), problems)
            }
            given => value(given, problems),
        };
        let (key, operator, expected) = (key?.to_owned(), operator?, expected?);
        let pattern = pattern(operator, &expected, problems)?;
        Some(Self { key, operator, expected, pattern })
    }
}

/// Compiles the expression of `regex match`, unless it refers to variables. The outer option is `None` for invalid
/// data.
fn pattern(operator: Operator, expected: &Json, problems: &mut Problems) -> Option<Option<Regex>> {
    let (Operator::RegexMatch, Json::String(text)) = (operator, expected) else { return Some(None) };
    // Nearly every expression has a dot and so could be a variable's path; that is decided when it is rendered.
    if Template::parse(text).parts().iter().any(|part| matches!(part, TemplatePiece::Variable(_))) {
        return Some(None);
    }
    match Regex::new(text) {
        Ok(regex) => Some(Some(regex)),
        Err(error) => {
            let message = format!("value of \"regex match\" is not a regular expression: {error}");
            let hint = "look-around and back-references are not supported";
            problems.error_with_hint(INVALID_NODE_DATA, message, hint);
            None
        }
    }
}
