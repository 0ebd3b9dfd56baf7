//! Hooks of a node: events that its author has defined, told before the node begins or behind its end.
//!
//! A hook has a condition and a payload, both filled in from variables; behind the end also from what came of the node
//! (`output`, `status`, `error`). Nothing else happens: a hook calls nobody.

mod expression;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use super::evaluate::UndefinedNames;
use crate::failure::NodeFailure;
use crate::value::{JsonMap, Segment, Variables};

use expression::{Condition, Payload};

/// Fuel of one condition or text of a payload.
const FUEL: u64 = 50_000;
/// Most bytes of a text of a payload.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The class of the failure of a node whose hook failed.
pub const HOOK_ERROR: &str = "HookExecutionError";

/// When a hook is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookType {
    /// Before the node.
    Before,
    /// Behind its end.
    After,
}

impl HookType {
    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before_execute",
            Self::After => "after_execute",
        }
    }
}

/// A hook.
#[derive(Debug, Clone)]
pub struct Hook {
    /// When.
    pub hook_type: HookType,
    /// Its place in the file's list.
    pub place: usize,
    condition: Option<Condition>,
    event_name: String,
    payload: Payload,
    weight: i64,
    create_checkpoint: bool,
    continue_on_error: bool,
}

/// What came of the node, for a hook behind its end.
#[derive(Debug, Clone, Default)]
pub struct Came {
    /// Its outputs.
    pub output: JsonMap,
    /// `succeeded` or `failed`; `running` before the end.
    pub status: &'static str,
    /// Why it failed.
    pub error: String,
}

/// Hooks of one node.
#[derive(Debug, Clone, Default)]
pub struct Hooks(Vec<Hook>);

impl PartialEq for Hooks {
    /// Two lists of one file are one list; what was parsed is not compared.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a.place == b.place)
    }
}

impl Hooks {
    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there are any of a type.
    pub fn has(&self, hook_type: HookType) -> bool {
        self.0.iter().any(|hook| hook.hook_type == hook_type)
    }

    /// Those of a type, the heaviest first, and of one weight in the order of the file.
    pub fn of(&self, hook_type: HookType) -> Vec<&Hook> {
        let mut found: Vec<&Hook> = self.0.iter().filter(|hook| hook.hook_type == hook_type).collect();
        found.sort_by_key(|hook| std::cmp::Reverse(hook.weight));
        found
    }

    /// Adds what they mention, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.0.iter().for_each(|hook| hook.mentions(into));
    }

    /// What those behind the end mention, as (node, name): what has to be at hand to tell them alone.
    pub fn late_mentions(&self) -> Vec<(String, String)> {
        let mut mentions = Vec::new();
        let late = self.0.iter().filter(|hook| hook.hook_type == HookType::After);
        late.for_each(|hook| hook.mentions(&mut mentions));
        mentions
    }
}

impl Hook {
    fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.condition.iter().for_each(|condition| condition.mentions(into));
        self.payload.mentions(into);
    }

    /// What it tells: nothing when its condition does not hold.
    ///
    /// # Errors
    /// Its condition or its payload cannot be evaluated, and the node is to fail for it.
    pub fn event(&self, variables: &dyn Variables, came: &Came) -> Result<Option<JsonMap>, NodeFailure> {
        match self.evaluate(variables, came) {
            Ok(event) => Ok(event),
            Err(_) if self.continue_on_error => Ok(None),
            Err(error) => {
                let (name, place) = (self.hook_type.name(), self.place);
                Err(NodeFailure::new(HOOK_ERROR, format!("hook {name} [{place}] failed: {error}")))
            }
        }
    }

    fn evaluate(&self, variables: &dyn Variables, came: &Came) -> Result<Option<JsonMap>, String> {
        let names = names(came);
        if let Some(condition) = &self.condition
            && !condition.holds(variables, &names)?
        {
            return Ok(None);
        }
        let mut event = JsonMap::new();
        event.insert("event_name".into(), self.event_name.as_str().into());
        event.insert("event_data".into(), self.payload.fill(variables, &names)?);
        event.insert("hook_type".into(), self.hook_type.name().into());
        if self.create_checkpoint {
            event.insert("create_checkpoint".into(), true.into());
        }
        Ok(Some(event))
    }
}

/// The names that a condition can use besides references.
fn names(came: &Came) -> Vec<(String, Segment)> {
    let named = |name: &str, value: Json| (name.to_string(), Segment::infer(value));
    vec![
        named("output", Json::Object(came.output.clone())),
        named("status", json!(came.status)),
        named("error", json!(came.error)),
    ]
}

/// How names are read that nobody knows: as nothing, so that a condition over what a node did not make does not hold.
const UNDEFINED: UndefinedNames = UndefinedNames::Empty;
