//! Steps: nodes that run a *call*. A call has a name, a schema of its input, and an output in pieces of text or
//! objects. The worker runs the calls. This module holds the pure parts: the configuration ([`parse`]), the parameters
//! ([`params`]), the pieces ([`chunk`]) and errors ([`error`]).

pub mod api;
pub mod background;
pub mod chunk;
pub mod error;
pub mod params;
mod parse;
#[cfg(test)]
mod tests;
pub mod texts;

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::lax_bool;
use crate::kinds::{CALL, FAIL_BRANCH_HANDLE, NodeKind, SOURCE_HANDLE, SQL};
use tidemill_base::language::Language;
use tidemill_base::value::JsonMap;

pub use crate::kinds::{STEP_FORMS, StepForm, is_llm_step};
pub use chunk::{Chunk, Gathered};
pub use error::CallError;
pub use params::{MASK, Param, Secrets, merged};

/// The namespace of values that a run stores for its steps; see [`RUNTIME`].
pub const RUNTIME_NODE: &str = "#rt";
/// The variable with these values.
pub const RUNTIME: &str = "rt";
/// The namespace of the run's history: the variable `n` has its last n records.
pub const HISTORY_NODE: &str = "#history";
/// The namespace of lists of messages.
pub const MESSAGES_NODE: &str = "#messages";
/// The default list of a run.
pub const MAIN_MESSAGES: &str = "main";
/// Default number of history records for a step.
pub const HISTORY_SIZE: u64 = 3;

/// Configuration of a step. The call is determined by `node`, else by the node's type.
#[derive(Debug, Clone, PartialEq)]
pub struct StepData {
    /// The id of a library node or a call. `None`: the call of the node's type.
    pub node: Option<String>,
    /// The call of the node's type.
    pub call: &'static str,
    /// Parameters, in order.
    pub params: Vec<(String, Param)>,
    /// True when missing input is filled in. `None`: as the call declares.
    pub enable_filling: Option<bool>,
    /// True when the user sees its pieces. `None`: as the call declares.
    pub to_user: Option<bool>,
    /// Replaced properties of the input's schema.
    pub override_input: JsonMap,
    /// Replaced properties of the output's schema.
    pub override_output: JsonMap,
    /// True when output that does not fit its schema is a failure.
    pub strict_output: bool,
    /// The language of texts for people. `None`: the run's.
    pub language: Option<Language>,
    /// Settings for filling in missing input.
    pub filling: Filling,
}

/// Settings for filling in missing input. Any node with `enable_filling` has them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filling {
    /// The profile of the model that fills in. `None`: the namespace's default.
    pub profile_id: Option<String>,
    /// The user's request, a text with references. `None`: `sys.query`, or the run's question.
    pub question: Option<String>,
    /// The schema of the input, for types without their own.
    pub input_schema: Option<Json>,
}

impl Filling {
    /// Reads these settings from `data` of a node.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::filling(data, problems)
    }

    /// Adds the variables that filling reads, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.question {
            Some(text) => params::text_mentions(text, into),
            None => into.push(("sys".into(), "query".into())),
        }
        background_mentions(HISTORY_SIZE, into);
    }
}

/// Adds the variables for a step's background: the run's own values, its history and its messages.
pub fn background_mentions(history: u64, into: &mut Vec<(String, String)>) {
    let size = history.to_string();
    for (node, name) in
        [(RUNTIME_NODE, RUNTIME), (HISTORY_NODE, size.as_str()), (MESSAGES_NODE, MAIN_MESSAGES)]
    {
        into.push((node.into(), name.into()));
    }
}

/// True when a node of this type with this `data` runs a call.
pub fn is_step(kind: NodeKind, data: &JsonMap) -> bool {
    match kind {
        NodeKind::Llm => is_llm_step(data),
        kind => STEP_FORMS.iter().any(|form| form.kind == kind),
    }
}

/// True when missing input of such a node can be filled in: it is enabled, or unset and the call may enable it.
pub fn may_fill(kind: NodeKind, data: &JsonMap) -> bool {
    let given = data.get("enable_filling").filter(|value| !value.is_null());
    let form = || STEP_FORMS.iter().find(|form| form.kind == kind).filter(|_| is_step(kind, data));
    let has_library = || data.get("node").and_then(Json::as_str).is_some_and(|id| !id.is_empty());
    match given {
        Some(value) => lax_bool(value) == Some(true),
        None => form().is_some_and(|form| form.fills || has_library()),
    }
}

impl StepData {
    /// Reads `data` of a node of this type. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(kind: NodeKind, data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(kind, data, problems)
    }

    /// True when an edge can have this handle: steps have one way out, but a registered Call can choose its handle.
    pub fn chooses(&self, handle: &str) -> bool {
        self.chooses_any() && ![SOURCE_HANDLE, FAIL_BRANCH_HANDLE].contains(&handle)
    }

    /// True when the step can choose any handle.
    pub fn chooses_any(&self) -> bool {
        self.call == CALL
    }

    /// The id for looking up the call.
    pub fn id(&self) -> &str {
        self.node.as_deref().unwrap_or(self.call)
    }

    /// The entry of its type.
    pub fn form(&self) -> Option<&'static StepForm> {
        STEP_FORMS.iter().find(|form| form.call == self.call)
    }

    /// True when missing input can be filled in: enabled, or left to the call.
    pub fn may_fill(&self) -> bool {
        self.enable_filling
            .unwrap_or_else(|| self.node.is_some() || self.form().is_some_and(|form| form.fills))
    }

    /// True when the parameters alone determine the call: a given SQL statement needs no question.
    fn is_whole(&self) -> bool {
        let given = |name: &str| self.params.iter().find(|(known, _)| known == name).map(|(_, param)| param);
        let asks = given("mode").is_some_and(
            |mode| !matches!(mode, Param::Constant(mode) | Param::Mixed(mode) if mode == "query"),
        );
        self.call == SQL && given("sql").is_some() && !asks
    }

    /// The number of history records for the step.
    pub fn history_size(&self) -> u64 {
        let given = self.params.iter().find(|(name, _)| name == "step_history_size");
        let size = given.and_then(|(_, param)| match param {
            Param::Constant(value) | Param::Mixed(value) => value.as_u64(),
            Param::Variable(_) => None,
        });
        size.unwrap_or(HISTORY_SIZE)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.params.iter().for_each(|(_, param)| param.mentions(into));
        if self.may_fill() {
            self.filling.mentions(into);
        }
        // A registered Call gets the ids of the run's user, app and conversation.
        if self.node.is_some() {
            into.extend(["user_id", "app_id", "conversation_id"].map(|name| ("sys".into(), name.into())));
        }
        // A library node can refer to any call.
        if self.node.is_some() || self.form().is_some_and(|form| form.has_background) && !self.is_whole() {
            match &self.filling.question {
                Some(text) => params::text_mentions(text, into),
                None => into.push(("sys".into(), "query".into())),
            }
            background_mentions(self.history_size(), into);
        }
    }
}
