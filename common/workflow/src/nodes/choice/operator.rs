//! Comparisons by the type in their name: `string_contains`, `number_equal`, ….

use regex::RegexBuilder;
use serde_json::Value as Json;

/// Largest size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// A type and a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    ty: Type,
    test: Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    String,
    Number,
    List,
    Bool,
    Dict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    NotEqual,
    Contains,
    NotContains,
    StartsWith,
    EndsWith,
    Matches,
    ContainsKey,
    NotContainsKey,
    Compare(Order),
    Length(Order),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Order {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
        }
    }
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "equal" => Self::Equal,
            "greater_than" => Self::Greater,
            "greater_than_or_equal" => Self::GreaterOrEqual,
            "less_than" => Self::Less,
            "less_than_or_equal" => Self::LessOrEqual,
            _ => return None,
        })
    }
}

impl Operator {
    /// Finds an operator by its name, such as `string_length_equal`.
    pub fn from_name(name: &str) -> Option<Self> {
        let (ty, test) = name.split_once('_')?;
        let ty = match ty {
            "string" => Type::String,
            "number" => Type::Number,
            "list" => Type::List,
            "bool" => Type::Bool,
            "dict" => Type::Dict,
            _ => return None,
        };
        let test = match (ty, test) {
            (_, "equal") => Test::Equal,
            (_, "not_equal") => Test::NotEqual,
            (Type::String | Type::List, "contains") => Test::Contains,
            (Type::String | Type::List, "not_contains") => Test::NotContains,
            (Type::String, "starts_with") => Test::StartsWith,
            (Type::String, "ends_with") => Test::EndsWith,
            (Type::String, "regex_match") => Test::Matches,
            (Type::Dict, "contains_key") => Test::ContainsKey,
            (Type::Dict, "not_contains_key") => Test::NotContainsKey,
            (Type::Number, order) => Test::Compare(Order::from_name(order)?),
            (Type::String | Type::List, length) => {
                Test::Length(Order::from_name(length.strip_prefix("length_")?)?)
            }
            (Type::Bool | Type::Dict, _) => return None,
        };
        Some(Self { ty, test })
    }

    /// Compares. Returns `None` when an operand has the wrong type.
    pub fn compare(&self, left: &Json, right: &Json) -> Option<bool> {
        if !self.ty.has(left) {
            return None;
        }
        let same_type = || self.ty.has(right).then_some(());
        match self.test {
            Test::Equal => same_type().map(|()| equal(left, right)),
            Test::NotEqual => same_type().map(|()| !equal(left, right)),
            Test::Contains => self.contains(left, right),
            Test::NotContains => self.contains(left, right).map(|found| !found),
            Test::StartsWith => Some(left.as_str()?.starts_with(right.as_str()?)),
            Test::EndsWith => Some(left.as_str()?.ends_with(right.as_str()?)),
            Test::Matches => matches(left.as_str()?, right.as_str()?),
            Test::ContainsKey => Some(left.as_object()?.contains_key(right.as_str()?)),
            Test::NotContainsKey => Some(!left.as_object()?.contains_key(right.as_str()?)),
            Test::Compare(order) => Some(order.holds(left.as_f64()?, right.as_f64()?)),
            Test::Length(order) => Some(order.holds(length(left)? as f64, right.as_f64()?)),
        }
    }

    fn contains(&self, left: &Json, right: &Json) -> Option<bool> {
        match left {
            Json::String(text) => Some(text.contains(right.as_str()?)),
            Json::Array(items) => Some(items.iter().any(|item| equal(item, right))),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
        }
    }
}

impl Type {
    fn has(self, value: &Json) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::List => value.is_array(),
            Self::Bool => value.is_boolean(),
            Self::Dict => value.is_object(),
        }
    }
}

/// Numbers are compared by value: 1 equals 1.0.
fn equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (left, right) => left == right,
    }
}

/// The length; of a text in characters.
fn length(value: &Json) -> Option<usize> {
    match value {
        Json::String(text) => Some(text.chars().count()),
        Json::Array(items) => Some(items.len()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
    }
}

/// True when the text begins with the pattern. `None` for an invalid pattern.
fn matches(text: &str, pattern: &str) -> Option<bool> {
    let pattern = RegexBuilder::new(&format!("^(?:{pattern})")).size_limit(PATTERN_BYTES_MAX).build().ok()?;
    Some(pattern.is_match(text))
}
