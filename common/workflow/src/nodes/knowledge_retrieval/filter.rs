//! Selects documents by metadata: conditions from the file, filled in and compared with a document.
//!
//! External services get the conditions and filter themselves; our own store calls [`Filters::matches`].

use serde_json::{Value as Json, json};

use crate::dsl::Problems;
use crate::nodes::llm::blocks::{INVALID, present};
use tidemill_base::value::pyrepr::str_of;
use tidemill_base::value::template::{Template, TemplatePiece};
use tidemill_base::value::{JsonMap, Segment, SegmentType, Variables};

/// The way in which conditions are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logic {
    /// All must hold.
    And,
    /// One must hold.
    Or,
}

impl Logic {
    /// Dify's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
        }
    }
}

macro_rules! operators {
    ($($kind:ident $wire:literal;)*) => {
        /// A comparison of a field, with Dify's names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operator { $(#[doc = $wire] $kind,)* }
        impl Operator {
            /// All operators.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];
            /// The name in files and requests.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $wire,)* }
            }
        }
    };
}

operators! {
    Contains "contains";
    NotContains "not contains";
    StartWith "start with";
    EndWith "end with";
    Is "is";
    IsNot "is not";
    Empty "empty";
    NotEmpty "not empty";
    In "in";
    NotIn "not in";
    Equal "=";
    NotEqual "≠";
    More ">";
    Less "<";
    AtLeast "≥";
    AtMost "≤";
    Before "before";
    After "after";
}

impl Operator {
    /// Finds an operator by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operator| operator.name() == name)
    }
    /// True when the operator only checks for a value's presence.
    pub const fn is_about_presence(self) -> bool {
        matches!(self, Self::Empty | Self::NotEmpty)
    }
}

/// A condition. In a file its value can be a template; once filled in it is a text, a number, a list or null.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The field.
    pub name: String,
    pub operator: Operator,
    /// The expected value.
    pub value: Json,
}

/// The filters in a file; their variables are not filled in yet.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterTemplate {
    pub logic: Logic,
    pub conditions: Vec<Condition>,
}

/// Filters for a search; at least one condition, and none without effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Filters {
    logic: Logic,
    conditions: Vec<Condition>,
}

impl FilterTemplate {
    pub(super) fn parse(map: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let logic = match present(map, "logical_operator").map(Json::as_str) {
            None | Some(Some("and")) => Some(Logic::And),
            Some(Some("or")) => Some(Logic::Or),
            Some(Some(_) | None) => {
                problems.within("logical_operator", |p| {
                    p.error(INVALID, "logical_operator must be and or or");
                });
                None
            }
        };
        let conditions = problems.within("conditions", |p| match present(map, "conditions") {
            None => Some(Vec::new()),
            Some(Json::Array(items)) => {
                let read = |(at, item)| p.within(format!("[{at}]"), |p| condition(item, p));
                // Collected first, so that all conditions are checked.
                items.iter().enumerate().map(read).collect::<Vec<_>>().into_iter().collect()
            }
            Some(_) => {
                p.error(INVALID, "conditions must be a list");
                None
            }
        });
        Some(Self { logic: logic?, conditions: conditions? })
    }

    /// Adds the variables that the values mention.
    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        for condition in &self.conditions {
            match &condition.value {
                Json::String(text) => Template::parse(text).mentions(into),
                Json::Array(items) => {
                    items
                        .iter()
                        .filter_map(Json::as_str)
                        .for_each(|text| Template::parse(text).mentions(into));
                }
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {}
            }
        }
    }

    /// Fills in the variables. A value that is exactly one reference keeps the variable's type. `None` when no
    /// condition is left.
    pub fn fill(&self, variables: &dyn Variables) -> Option<Filters> {
        let filled = self.conditions.iter().map(|condition| {
            let value = match &condition.value {
                Json::String(text) => filled(text, variables),
                Json::Array(items) => items
                    .iter()
                    .map(|item| item.as_str().map_or_else(|| item.clone(), |text| filled(text, variables)))
                    .collect(),
                value @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) => value.clone(),
            };
            Condition { value, ..condition.clone() }
        });
        Filters::new(self.logic, filled.collect())
    }
}

fn condition(item: &Json, problems: &mut Problems) -> Option<Condition> {
    let text = |key: &str| item.get(key).and_then(Json::as_str);
    let Some(name) = text("name") else {
        problems.error(INVALID, "a condition needs the name of a field");
        return None;
    };
    let Some(operator) = text("comparison_operator").and_then(Operator::from_name) else {
        problems.within("comparison_operator", |p| {
            p.error(INVALID, "comparison_operator is not a comparison for metadata");
        });
        return None;
    };
    let value = item.get("value").cloned().unwrap_or_default();
    if !may_be_value(&value) {
        problems.within("value", |p| p.error(INVALID, "value must be text, a number or a list of texts"));
        return None;
    }
    Some(Condition { name: name.into(), operator, value })
}

fn may_be_value(value: &Json) -> bool {
    match value {
        Json::Null | Json::Number(_) | Json::String(_) => true,
        Json::Array(items) => items.iter().all(Json::is_string),
        Json::Bool(_) | Json::Object(_) => false,
    }
}

fn filled(text: &str, variables: &dyn Variables) -> Json {
    let template = Template::parse(text);
    if let [TemplatePiece::Variable(selector) | TemplatePiece::PerhapsVariable(selector)] = template.parts()
        && let Some(segment) = variables.found(selector)
    {
        return native(&segment);
    }
    Json::String(template.render_text(variables))
}

/// A variable as a condition's value: numbers and texts stay, items of lists become texts, other values become their
/// text.
fn native(segment: &Segment) -> Json {
    match (segment.ty, &segment.value) {
        (SegmentType::None, _) | (_, Json::Null) => Json::Null,
        (_, value @ (Json::Number(_) | Json::String(_))) => value.clone(),
        (_, Json::Array(items)) => items.iter().map(|item| str_of(item)).collect(),
        (_, Json::Bool(_) | Json::Object(_)) => Json::String(segment.text().into_owned()),
    }
}

impl Filters {
    /// Builds filters. A condition without a value is ignored, unless it only checks for presence (as on Dify).
    pub fn new(logic: Logic, conditions: Vec<Condition>) -> Option<Self> {
        let counts = |it: &Condition| it.operator.is_about_presence() || !it.value.is_null();
        let conditions: Vec<_> = conditions.into_iter().filter(counts).collect();
        (!conditions.is_empty()).then_some(Self { logic, conditions })
    }

    /// The format of the External Knowledge API (`metadata_condition`).
    pub fn to_json(&self) -> Json {
        let condition = |it: &Condition| json!({"name": it.name, "comparison_operator": it.operator.name(), "value": it.value});
        json!({
            "logical_operator": self.logic.name(),
            "conditions": self.conditions.iter().map(condition).collect::<Json>(),
        })
    }

    /// True when a document with this metadata passes.
    pub fn matches(&self, metadata: &JsonMap) -> bool {
        let mut held = self.conditions.iter().map(|condition| condition.holds(metadata.get(&condition.name)));
        match self.logic {
            Logic::And => held.all(|holds| holds),
            Logic::Or => held.any(|holds| holds),
        }
    }
}

impl Condition {
    /// A missing or null field only passes `empty`, as in Dify's database.
    fn holds(&self, field: Option<&Json>) -> bool {
        let Some(field) = field.filter(|field| !field.is_null()) else {
            return self.operator == Operator::Empty;
        };
        let (text, wanted) = (str_of(field), str_of(&self.value));
        match self.operator {
            Operator::Contains => text.contains(&*wanted),
            Operator::NotContains => !text.contains(&*wanted),
            Operator::StartWith => text.starts_with(&*wanted),
            Operator::EndWith => text.ends_with(&*wanted),
            Operator::Is | Operator::Equal => self.equals(field),
            Operator::IsNot | Operator::NotEqual => !self.equals(field),
            Operator::Empty => false,
            Operator::NotEmpty => true,
            Operator::In => self.is_among(&text),
            Operator::NotIn => !self.is_among(&text),
            Operator::Less | Operator::Before => self.compares(field, |a, b| a < b),
            Operator::More | Operator::After => self.compares(field, |a, b| a > b),
            Operator::AtMost => self.compares(field, |a, b| a <= b),
            Operator::AtLeast => self.compares(field, |a, b| a >= b),
        }
    }

    fn equals(&self, field: &Json) -> bool {
        match &self.value {
            Json::Number(_) => self.compares(field, |a, b| a == b),
            value @ (Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => {
                str_of(field) == str_of(value)
            }
        }
    }

    fn is_among(&self, text: &str) -> bool {
        match &self.value {
            Json::Array(items) => items.iter().any(|item| str_of(item) == text),
            Json::String(list) => list.split(',').map(str::trim).any(|item| !item.is_empty() && item == text),
            value @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) => str_of(value) == text,
        }
    }

    /// Dates are stored as seconds, so they are numbers too.
    fn compares(&self, field: &Json, holds: fn(f64, f64) -> bool) -> bool {
        number(field).zip(number(&self.value)).is_some_and(|(field, wanted)| holds(field, wanted))
    }
}

fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}
