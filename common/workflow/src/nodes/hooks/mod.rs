//! Hooks of a node: user-defined events, sent before the node begins or after it has ended.
//!
//! A hook has a condition and a payload, both filled in from variables; after the end also from the node's result
//! (`output`, `status`, `error`). A hook only sends the event; it makes no calls.

mod expression;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use tidemill_base::failure::NodeFailure;
use tidemill_base::value::jinja::UndefinedNames;
use tidemill_base::value::{JsonMap, Segment, Variables};

use expression::{Condition, Payload};

/// Fuel for one condition, or one text of a payload.
const FUEL: u64 = 50_000;
/// Most bytes of one text of a payload.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The error type of a node whose hook failed.
pub const HOOK_ERROR: &str = "HookExecutionError";

/// The moment at which a hook sends its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookType {
    /// Before the node begins.
    Before,
    /// After the node has ended.
    After,
}

impl HookType {
    /// The name in the file.
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
    pub hook_type: HookType,
    /// The index in the file's list.
    pub place: usize,
    condition: Option<Condition>,
    event_name: String,
    payload: Payload,
    weight: i64,
    create_checkpoint: bool,
    continue_on_error: bool,
}

/// The node's result, for a hook after its end.
#[derive(Debug, Clone, Default)]
pub struct NodeOutcome {
    pub output: JsonMap,
    /// `succeeded` or `failed`; `running` before the end.
    pub status: &'static str,
    /// The error message; empty without a failure.
    pub error: String,
}

/// The hooks of one node.
#[derive(Debug, Clone, Default)]
pub struct Hooks(Vec<Hook>);

impl PartialEq for Hooks {
    /// Compares places only: lists compared here come from the same file, and parsed parts cannot be compared.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a.place == b.place)
    }
}

impl Hooks {
    /// True when there are no hooks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when there is a hook of the type.
    pub fn has(&self, hook_type: HookType) -> bool {
        self.0.iter().any(|hook| hook.hook_type == hook_type)
    }

    /// The hooks of a type, the heaviest first; those of equal weight in file order.
    pub fn of(&self, hook_type: HookType) -> Vec<&Hook> {
        let mut found: Vec<&Hook> = self.0.iter().filter(|hook| hook.hook_type == hook_type).collect();
        found.sort_by_key(|hook| std::cmp::Reverse(hook.weight));
        found
    }

    /// Adds the variables that the hooks mention, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.0.iter().for_each(|hook| hook.mentions(into));
    }

    /// The variables that the hooks after the end mention, as (node, name). They must be loaded when only these hooks
    /// run.
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

    /// The hook's event. `None` when its condition does not hold.
    ///
    /// # Errors
    /// The condition or the payload cannot be evaluated, and the hook is set to fail the node then.
    pub fn event(
        &self,
        variables: &dyn Variables,
        outcome: &NodeOutcome,
    ) -> Result<Option<JsonMap>, NodeFailure> {
        match self.evaluate(variables, outcome) {
            Ok(event) => Ok(event),
            Err(_) if self.continue_on_error => Ok(None),
            Err(error) => {
                let (name, place) = (self.hook_type.name(), self.place);
                Err(NodeFailure::new(HOOK_ERROR, format!("hook {name} [{place}] failed: {error}")))
            }
        }
    }

    fn evaluate(&self, variables: &dyn Variables, outcome: &NodeOutcome) -> Result<Option<JsonMap>, String> {
        let names = names(outcome);
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
fn names(outcome: &NodeOutcome) -> Vec<(String, Segment)> {
    let named = |name: &str, value: Json| (name.to_string(), Segment::infer(value));
    vec![
        named("output", Json::Object(outcome.output.clone())),
        named("status", json!(outcome.status)),
        named("error", json!(outcome.error)),
    ]
}

/// Unknown names are empty, so that a condition over an output that the node did not make does not hold.
const UNDEFINED: UndefinedNames = UndefinedNames::Empty;
