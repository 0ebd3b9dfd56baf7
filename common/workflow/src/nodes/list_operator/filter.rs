//! Filters the items. The allowed operators and values depend on the item type, so errors show only when the list is
//! known.

use serde_json::Value as Json;

use super::{ItemKind, Mistake, number, optional, word};
use crate::dsl::Problems;
use crate::nodes::condition::compare::class_name;
use crate::nodes::fields::{list, mapping, text, wrong};
use tidemill_base::value::Variables;
use tidemill_base::value::coerce::parse_python_float;
use tidemill_base::value::pyrepr::repr_texts;
use tidemill_base::value::template::Template;

/// A condition on an item.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// The file attribute; unused for other items.
    key: String,
    operator: Operator,
    value: Expected,
}

/// The expected value.
#[derive(Debug, Clone)]
enum Expected {
    Text(Template),
    /// Not rendered, as on Dify.
    List(Vec<String>),
    Flag(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Contains,
    StartWith,
    EndWith,
    Is,
    In,
    Empty,
    NotContains,
    IsNot,
    NotIn,
    NotEmpty,
    Equal,
    NotEqual,
    Less,
    Greater,
    GreaterOrEqual,
    LessOrEqual,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("contains", Operator::Contains),
    ("start with", Operator::StartWith),
    ("end with", Operator::EndWith),
    ("is", Operator::Is),
    ("in", Operator::In),
    ("empty", Operator::Empty),
    ("not contains", Operator::NotContains),
    ("is not", Operator::IsNot),
    ("not in", Operator::NotIn),
    ("not empty", Operator::NotEmpty),
    ("=", Operator::Equal),
    ("≠", Operator::NotEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("≥", Operator::GreaterOrEqual),
    ("≤", Operator::LessOrEqual),
];

impl Condition {
    pub(super) fn parse(value: &Json, problems: &mut Problems) -> Option<Self> {
        let data = mapping(value, problems)?;
        let key = optional(data, "key", problems, String::new(), text);
        let operator =
            optional(data, "comparison_operator", problems, Operator::Contains, |value, problems| {
                word(OPERATORS, value, problems)
            });
        let value = optional(data, "value", problems, Expected::Text(Template::default()), expected);
        Some(Self { key: key?, operator: operator?, value: value? })
    }

    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.value {
            Expected::Text(template) => template.mentions(into),
            Expected::List(_) | Expected::Flag(_) => {}
        }
    }

    /// The items that meet the condition.
    pub(super) fn apply(
        &self,
        kind: ItemKind,
        items: Vec<Json>,
        variables: &dyn Variables,
    ) -> Result<Vec<Json>, Mistake> {
        match kind {
            ItemKind::Text => {
                let Expected::Text(template) = &self.value else { return Err(self.bad_value()) };
                let wanted = template.render_text(variables);
                let test = self.text_test().ok_or_else(|| self.bad_operator())?;
                retained(items, |item| Ok(test(item.as_str().unwrap_or_default(), &wanted)))
            }
            ItemKind::Number => {
                let Expected::Text(template) = &self.value else { return Err(self.bad_value()) };
                let wanted = number(template, variables, parse_python_float)?;
                let test = self.number_test().ok_or_else(|| self.bad_operator())?;
                retained(items, |item| Ok(test(item.as_f64().unwrap_or_default(), wanted)))
            }
            ItemKind::Boolean => {
                let Expected::Flag(wanted) = &self.value else {
                    return Err(self.wrong_class("Boolean filter expects a boolean value"));
                };
                let same = match self.operator {
                    Operator::Is => true,
                    Operator::IsNot => false,
                    Operator::Contains
                    | Operator::StartWith
                    | Operator::EndWith
                    | Operator::In
                    | Operator::Empty
                    | Operator::NotContains
                    | Operator::NotIn
                    | Operator::NotEmpty
                    | Operator::Equal
                    | Operator::NotEqual
                    | Operator::Less
                    | Operator::Greater
                    | Operator::GreaterOrEqual
                    | Operator::LessOrEqual => return Err(self.bad_operator()),
                };
                retained(items, |item| Ok((item.as_bool() == Some(*wanted)) == same))
            }
            ItemKind::File => self.files(items, variables),
        }
    }

    /// As on Dify, an invalid operator or size is found at the first file, so an empty list never fails.
    fn files(&self, items: Vec<Json>, variables: &dyn Variables) -> Result<Vec<Json>, Mistake> {
        match (FileKey::of(&self.key), &self.value) {
            (_, Expected::Flag(_)) => Err(self.wrong_class("File filter expects a string value")),
            (Some(FileKey::Choice(field)), value) => {
                let among: Box<dyn Fn(&str) -> bool> = match value {
                    Expected::List(wanted) => Box::new(move |item| wanted.iter().any(|one| one == item)),
                    Expected::Text(template) => {
                        let wanted = template.render_text(variables);
                        Box::new(move |item| wanted.contains(item))
                    }
                    Expected::Flag(_) => Box::new(|_| false),
                };
                let wants = match self.operator {
                    Operator::In => Some(true),
                    Operator::NotIn => Some(false),
                    Operator::Contains
                    | Operator::StartWith
                    | Operator::EndWith
                    | Operator::Is
                    | Operator::Empty
                    | Operator::NotContains
                    | Operator::IsNot
                    | Operator::NotEmpty
                    | Operator::Equal
                    | Operator::NotEqual
                    | Operator::Less
                    | Operator::Greater
                    | Operator::GreaterOrEqual
                    | Operator::LessOrEqual => None,
                };
                retained(items, |item| {
                    let wants = wants.ok_or_else(|| self.bad_operator())?;
                    Ok(among(file_text(item, field)) == wants)
                })
            }
            (Some(FileKey::Text(field)), Expected::Text(template)) => {
                let wanted = template.render_text(variables);
                let test = self.text_test();
                retained(items, |item| {
                    let test = test.ok_or_else(|| self.bad_operator())?;
                    Ok(test(file_text(item, field), &wanted))
                })
            }
            (Some(FileKey::Size), Expected::Text(template)) => {
                let test = self.number_test();
                retained(items, |item| {
                    let wanted = number(template, variables, parse_python_float)?;
                    let test = test.ok_or_else(|| self.bad_operator())?;
                    Ok(test(file_size(item), wanted))
                })
            }
            (None, Expected::Text(_) | Expected::List(_))
            | (Some(FileKey::Text(_) | FileKey::Size), Expected::List(_)) => {
                Err(Mistake::Reported(format!("Invalid key: {}", self.key)))
            }
        }
    }

    /// The test of an item's text against the expected text. `None` when the operator is not for texts.
    fn text_test(&self) -> Option<fn(&str, &str) -> bool> {
        Some(match self.operator {
            Operator::Contains => |item, wanted| item.contains(wanted),
            Operator::NotContains => |item, wanted| !item.contains(wanted),
            Operator::StartWith => |item, wanted| item.starts_with(wanted),
            Operator::EndWith => |item, wanted| item.ends_with(wanted),
            Operator::Is => |item, wanted| item == wanted,
            Operator::IsNot => |item, wanted| item != wanted,
            Operator::In => |item, wanted| wanted.contains(item),
            Operator::NotIn => |item, wanted| !wanted.contains(item),
            Operator::Empty => |item, _| item.is_empty(),
            Operator::NotEmpty => |item, _| !item.is_empty(),
            Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::Greater
            | Operator::GreaterOrEqual
            | Operator::LessOrEqual => return None,
        })
    }

    fn number_test(&self) -> Option<fn(f64, f64) -> bool> {
        Some(match self.operator {
            Operator::Equal => |item, wanted| item == wanted,
            Operator::NotEqual => |item, wanted| item != wanted,
            Operator::Less => |item, wanted| item < wanted,
            Operator::Greater => |item, wanted| item > wanted,
            Operator::GreaterOrEqual => |item, wanted| item >= wanted,
            Operator::LessOrEqual => |item, wanted| item <= wanted,
            Operator::Contains
            | Operator::StartWith
            | Operator::EndWith
            | Operator::Is
            | Operator::In
            | Operator::Empty
            | Operator::NotContains
            | Operator::IsNot
            | Operator::NotIn
            | Operator::NotEmpty => return None,
        })
    }

    fn bad_operator(&self) -> Mistake {
        let name = OPERATORS.iter().find(|(_, known)| *known == self.operator).map_or("", |(name, _)| name);
        Mistake::Reported(format!("Invalid condition: {name}"))
    }
    fn bad_value(&self) -> Mistake {
        let shown = match &self.value {
            Expected::List(texts) => repr_texts(texts),
            Expected::Flag(true) => "True".into(),
            Expected::Flag(false) => "False".into(),
            Expected::Text(_) => String::new(),
        };
        Mistake::Reported(format!("Invalid filter value: {shown}"))
    }
    fn wrong_class(&self, wanted: &str) -> Mistake {
        let sample = match &self.value {
            Expected::Text(_) => Json::String(String::new()),
            Expected::List(_) => Json::Array(Vec::new()),
            Expected::Flag(flag) => Json::Bool(*flag),
        };
        Mistake::Escaped(format!("{wanted}, got <class '{}'>", class_name(&sample)))
    }
}

/// The attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKey {
    /// A text; holds the key in the file object.
    Text(&'static str),
    /// One of a few words; holds the key in the file object.
    Choice(&'static str),
    Size,
}

impl FileKey {
    pub(super) fn of(key: &str) -> Option<Self> {
        Some(match key {
            "name" => Self::Text("filename"),
            "extension" => Self::Text("extension"),
            "mime_type" => Self::Text("mime_type"),
            // The URL that the file came from, not a download URL: files stored here have none.
            "url" => Self::Text("remote_url"),
            "related_id" => Self::Text("related_id"),
            "type" => Self::Choice("type"),
            "transfer_method" => Self::Choice("transfer_method"),
            "size" => Self::Size,
            _ => return None,
        })
    }
}

pub(super) fn file_text<'a>(file: &'a Json, field: &str) -> &'a str {
    file.get(field).and_then(Json::as_str).unwrap_or_default()
}

pub(super) fn file_size(file: &Json) -> f64 {
    // As on Dify an unknown size is -1.
    file.get("size").and_then(Json::as_f64).unwrap_or(-1.0)
}

fn retained(items: Vec<Json>, test: impl Fn(&Json) -> Result<bool, Mistake>) -> Result<Vec<Json>, Mistake> {
    let mut left = Vec::new();
    for item in items {
        if test(&item)? {
            left.push(item);
        }
    }
    Ok(left)
}

fn expected(value: &Json, problems: &mut Problems) -> Option<Expected> {
    match value {
        Json::String(text) => Some(Expected::Text(Template::parse(text))),
        Json::Bool(flag) => Some(Expected::Flag(*flag)),
        Json::Array(_) => list(value, problems, text).map(Expected::List),
        Json::Null | Json::Number(_) | Json::Object(_) => {
            wrong(value, "a text, a list of texts, true or false", problems)
        }
    }
}
