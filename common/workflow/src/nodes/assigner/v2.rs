//! Version 2: a list of operations, run in order. Each is checked against the type of its target; the first that does
//! not fit fails the node.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::Refusal;
use super::change::{ChangeKind, VariableChange};
use super::operand::fits;
use super::operation::{InputType, Operation};
use super::working::Working;
use crate::dsl::Problems;
use crate::nodes::fields::{list, mapping, required, selector};
use tidemill_base::value::coerce::zero_value;
use tidemill_base::value::pyrepr::{repr_texts, str_of};
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

/// The operations of one node.
#[derive(Debug, Clone)]
pub(super) struct Items {
    items: Vec<Item>,
    /// The inputs in Dify's record: the whole configuration.
    declared: Vec<(String, Segment)>,
}

#[derive(Debug, Clone)]
struct Item {
    target: Selector,
    input: InputType,
    operation: Operation,
    /// The constant, or the source's selector as written in the file.
    value: Segment,
}

impl Items {
    pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let items = match data.get("items") {
            None => Vec::new(),
            Some(items) => problems.within("items", |problems| list(items, problems, Item::parse))?,
        };
        let declared = declared(data, &items);
        Some(Self { items, declared })
    }

    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        for item in &self.items {
            mention(&item.target, into);
            if item.reads_variable() {
                mention(&item.source().unwrap_or_default(), into);
            }
        }
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &Selector> {
        self.items.iter().map(|item| &item.target)
    }

    /// The operations that replace a value: the number of the item, the target and the name of the operation.
    pub(super) fn replacing(&self) -> impl Iterator<Item = (usize, &Selector, &'static str)> {
        let replaces = |(_, item): &(usize, &Item)| ChangeKind::of(item.operation).is_none();
        let items = self.items.iter().enumerate().filter(replaces);
        items.map(|(at, item)| (at, &item.target, item.operation.name()))
    }

    pub(super) fn declared(&self) -> &[(String, Segment)] {
        &self.declared
    }

    pub(super) fn run(&self, working: &mut Working<'_>) -> Result<(), Refusal> {
        for item in &self.items {
            if let Some((value, change)) = item.outcome(working)? {
                working.write(&item.target, value, change);
            }
        }
        Ok(())
    }
}

impl Item {
    fn parse(value: &Json, problems: &mut Problems) -> Option<Self> {
        let item = mapping(value, problems)?;
        let target = required(item, "variable_selector", problems, selector);
        let input = required(item, "input_type", problems, InputType::read);
        let operation = required(item, "operation", problems, Operation::read);
        let value = Segment::infer(item.get("value").cloned().unwrap_or(Json::Null));
        Some(Self { target: target?, input: input?, operation: operation?, value })
    }

    /// The target's new value, and the operation that made it unless it replaces the old one. `None` when the source is
    /// null: then the item is skipped.
    fn outcome(&self, working: &Working<'_>) -> Result<Option<(Segment, Option<VariableChange>)>, Refusal> {
        let not_found = || Refusal::Returned(format!("Variable {} not found", repr_texts(&self.target)));
        let target = working.target(&self.target).ok_or_else(not_found)?;
        let ty = target.ty;
        self.check_usable(ty)?;
        let Some(operand) = self.operand(ty, working)? else { return Ok(None) };
        if !fits(ty, self.operation, &operand) {
            return Err(invalid(&operand.value));
        }
        let value = self.apply(&target, &operand.value)?;
        let change = ChangeKind::of(self.operation).map(|kind| VariableChange::new(kind, &operand));
        // The variable keeps its type even if the value no longer fits: an integer can now be 5.5.
        Ok(Some((Segment::new(ty, value), change)))
    }

    fn check_usable(&self, ty: SegmentType) -> Result<(), Refusal> {
        let (operation, input) = (self.operation.name(), self.input.name());
        if !self.operation.fits_target(ty) {
            let message = format!("Operation {operation} is not supported for type {ty}");
            return Err(Refusal::Returned(message));
        }
        if !self.operation.takes(self.input, ty) {
            let message = format!("Input type {input} is not supported for operation {operation}");
            return Err(Refusal::Returned(message));
        }
        Ok(())
    }

    /// True when the operand must be looked up. A null instead of a selector counts as the value.
    fn reads_variable(&self) -> bool {
        self.input == InputType::Variable && self.operation.takes_operand() && !self.value.value.is_null()
    }

    fn source(&self) -> Option<Selector> {
        let parts = self.value.value.as_array()?.iter();
        parts.map(|part| part.as_str().map(str::to_owned)).collect()
    }

    fn operand<'a>(
        &'a self,
        ty: SegmentType,
        working: &'a Working<'_>,
    ) -> Result<Option<Cow<'a, Segment>>, Refusal> {
        let operand = if self.reads_variable() {
            // As on Dify, an invalid selector finds nothing.
            let found = self.source().and_then(|source| Some(working.found(&source)?.into_owned()));
            let not_found = || Refusal::Returned(format!("Variable {} not found", str_of(&self.value.value)));
            let found = found.ok_or_else(not_found)?;
            if found.ty == SegmentType::None {
                return Ok(None);
            }
            Cow::Owned(found)
        } else {
            Cow::Borrowed(&self.value)
        };
        match &operand.value {
            Json::String(text) if self.operation == Operation::Set && ty == SegmentType::Object => {
                let decoded = serde_json::from_str(text).map_err(|_| invalid(&operand.value))?;
                Ok(Some(Cow::Owned(Segment::infer(decoded))))
            }
            Json::Null
            | Json::Bool(_)
            | Json::Number(_)
            | Json::String(_)
            | Json::Array(_)
            | Json::Object(_) => Ok(Some(operand)),
        }
    }

    fn apply(&self, target: &Segment, operand: &Json) -> Result<Json, Refusal> {
        match self.operation {
            Operation::OverWrite | Operation::Set => Ok(operand.clone()),
            Operation::Clear => zero_value(target.ty).map_err(Refusal::Escaped),
            Operation::Compute(_)
            | Operation::Append
            | Operation::Extend
            | Operation::RemoveFirst
            | Operation::RemoveLast => {
                let changed = self.operation.change(&target.value, operand);
                changed.ok_or_else(|| self.misfit(target, operand))
            }
        }
    }

    /// The failure of an operation whose target holds a value of another kind (version 1 checks no types), or whose
    /// number has no finite result.
    fn misfit(&self, target: &Segment, operand: &Json) -> Refusal {
        if let Operation::Compute(_) = self.operation {
            let (left, right) = (str_of(&target.value), str_of(operand));
            return Refusal::Escaped(format!(
                "{left} {} {right} has no finite result",
                self.operation.name()
            ));
        }
        let variable = repr_texts(&self.target);
        Refusal::Escaped(format!("variable {variable} is declared as {} but is not a list", target.ty))
    }
}

fn invalid(value: &Json) -> Refusal {
    Refusal::Returned(format!("Invalid input value {}", str_of(value)))
}

/// The configuration in the form that Dify's model of it prints: common fields with their defaults, items, then
/// everything else.
fn declared(data: &JsonMap, items: &[Item]) -> Vec<(String, Segment)> {
    let given = |key: &str, default: Json| data.get(key).cloned().unwrap_or(default);
    let retry = |key: &str, default: Json| {
        data.get("retry_config").and_then(|config| config.get(key)).cloned().unwrap_or(default)
    };
    let items = items.iter().map(|item| {
        json!({
            "variable_selector": item.target,
            "input_type": item.input.name(),
            "operation": item.operation.name(),
            "value": item.value.value,
        })
    });
    let mut all = JsonMap::from_iter([
        ("type".to_owned(), "assigner".into()),
        ("title".into(), given("title", "".into())),
        ("desc".into(), given("desc", Json::Null)),
        ("version".into(), given("version", "2".into())),
        ("error_strategy".into(), given("error_strategy", Json::Null)),
        ("default_value".into(), given("default_value", Json::Null)),
        (
            "retry_config".into(),
            json!({
                "max_retries": retry("max_retries", 0.into()),
                "retry_interval": retry("retry_interval", 0.into()),
                "retry_enabled": retry("retry_enabled", false.into()),
            }),
        ),
        ("items".into(), items.collect::<Vec<_>>().into()),
    ]);
    for (key, value) in data {
        if !all.contains_key(key) {
            all.insert(key.clone(), value.clone());
        }
    }
    all.into_iter().map(|(key, value)| (key, Segment::infer(value))).collect()
}
