//! Steps: nodes that run a *call*, which is something with a name, a schema of its input, and pieces of text or objects as
//! its output. What the calls do is in the worker; here is what needs no outside world: the configuration ([`parse`]), the
//! parameters ([`params`]), the pieces ([`chunk`]) and errors ([`error`]).

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

use super::{FAIL_BRANCH_HANDLE, NodeKind, SOURCE_HANDLE};
use crate::dsl::Problems;
use crate::dsl::fields::lax_bool;
use crate::language::Language;
use crate::value::JsonMap;

pub use chunk::{Chunk, Gathered};
pub use error::CallError;
pub use params::{MASK, Param, Secrets, merged};

/// The namespace of what a run keeps for its steps; see [`RUNTIME`].
pub const RUNTIME_NODE: &str = "#rt";
/// The variable in it.
pub const RUNTIME: &str = "rt";
/// The namespace of the run's history: the variable `n` holds its last n records.
pub const HISTORY_NODE: &str = "#history";
/// The namespace of lists of messages.
pub const MESSAGES_NODE: &str = "#messages";
/// The list that a run has unless another is named.
pub const MAIN_MESSAGES: &str = "main";
/// How many records of the history a step is told unless it says otherwise.
pub const HISTORY_SIZE: u64 = 3;

/// Configuration of a step. Which call it runs follows from `node` and, without one, from the node's type.
#[derive(Debug, Clone, PartialEq)]
pub struct StepData {
    /// A library node, or a call, by id; absent: the call of the node's type.
    pub node: Option<String>,
    /// The call of the node's type.
    pub call: &'static str,
    /// Parameters, in order.
    pub params: Vec<(String, Param)>,
    /// Whether missing input is looked for; absent: as the call says.
    pub enable_filling: Option<bool>,
    /// Whether the user sees its pieces; absent: as the call says.
    pub to_user: Option<bool>,
    /// Properties of the input's schema that are replaced.
    pub override_input: JsonMap,
    /// Properties of the output's schema that are replaced.
    pub override_output: JsonMap,
    /// Whether output that does not fit its schema is a failure.
    pub strict_output: bool,
    /// The language of texts for people; absent: the run's.
    pub language: Option<Language>,
    /// Who is asked for what is missing.
    pub filling: Filling,
}

/// Where values for missing input come from. Any node with `enable_filling` has this.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filling {
    /// The profile that is asked; absent: the namespace's default.
    pub profile_id: Option<String>,
    /// What the user wants, as a text with references; absent: `sys.query`, or the run's question.
    pub question: Option<String>,
    /// The schema of the input, for types that have none of their own.
    pub input_schema: Option<Json>,
}

impl Filling {
    /// Reads what concerns it in `data` of a node.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::filling(data, problems)
    }

    /// Adds the variables that it reads, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.question {
            Some(text) => params::text_mentions(text, into),
            None => into.push(("sys".into(), "query".into())),
        }
        background_mentions(HISTORY_SIZE, into);
    }
}

/// Adds what every step with a background reads: the run's own values, its history and its messages.
pub fn background_mentions(history: u64, into: &mut Vec<(String, String)>) {
    let size = history.to_string();
    for (node, name) in
        [(RUNTIME_NODE, RUNTIME), (HISTORY_NODE, size.as_str()), (MESSAGES_NODE, MAIN_MESSAGES)]
    {
        into.push((node.into(), name.into()));
    }
}

/// What a node type adds: the call that it stands for, and the keys of `data` that are parameters of it.
#[derive(Debug, Clone, Copy)]
pub struct StepForm {
    /// The type.
    pub kind: NodeKind,
    /// The call.
    pub call: &'static str,
    /// Keys that may stand in `data` as well as in `params`.
    pub keys: &'static [&'static str],
    /// Whether it reads what the run keeps for its steps, its history and its messages.
    pub has_background: bool,
    /// Whether its call looks for missing input unless the node says otherwise.
    pub fills: bool,
}

/// The types that run a call.
pub const STEP_FORMS: &[StepForm] = &[
    StepForm { kind: NodeKind::Empty, call: "EMPTY", keys: &[], has_background: false, fills: false },
    StepForm {
        kind: NodeKind::Summary,
        call: "SUMMARY",
        keys: &["profile_id"],
        has_background: true,
        fills: false,
    },
    StepForm {
        kind: NodeKind::Facts,
        call: "FACTS",
        keys: &["profile_id", "message"],
        has_background: true,
        fills: false,
    },
    StepForm {
        kind: NodeKind::Slot,
        call: "SLOT",
        keys: &["schema", "data", "on_missing", "target_node", "profile_id"],
        has_background: true,
        fills: false,
    },
    StepForm { kind: NodeKind::Llm, call: "LLM", keys: LLM_KEYS, has_background: true, fills: false },
    StepForm { kind: NodeKind::Api, call: "API", keys: API_KEYS, has_background: false, fills: true },
    StepForm { kind: NodeKind::Sql, call: SQL, keys: SQL_KEYS, has_background: true, fills: false },
    StepForm { kind: NodeKind::Call, call: CALL, keys: &[], has_background: true, fills: true },
];

/// What a `call` node stands for by itself: nothing.
const CALL: &str = "CALL";
/// What a `sql` node stands for.
const SQL: &str = "SQL";
/// What `api` takes.
const API_KEYS: &[&str] = &[
    "operation",
    "path",
    "url",
    "method",
    "content_type",
    "timeout",
    "query",
    "body",
    "headers",
    "accept_text",
    "idempotent",
    "service_id",
];
/// What `sql` takes.
const SQL_KEYS: &[&str] = &[
    "mode",
    "datasource",
    "sql",
    "bind",
    "question",
    "table_name_list",
    "read_only",
    "rows_max",
    "timeout",
    "profile_id",
];
/// What the step form of `llm` takes.
const LLM_KEYS: &[&str] =
    &["system_prompt", "user_prompt", "enable_context", "step_history_size", "temperature", "profile_id"];
/// The keys by which the step form of `llm` is known.
const LLM_MARKS: [&str; 4] = ["system_prompt", "user_prompt", "enable_context", "step_history_size"];

/// Whether `data` of an `llm` node is in the step form.
pub fn is_llm_step(data: &JsonMap) -> bool {
    let params = data.get("params").and_then(Json::as_object);
    LLM_MARKS.iter().any(|key| data.contains_key(*key) || params.is_some_and(|map| map.contains_key(*key)))
}

/// Whether a node of this type and with this `data` runs a call.
pub fn is_step(kind: NodeKind, data: &JsonMap) -> bool {
    match kind {
        NodeKind::Llm => is_llm_step(data),
        kind => STEP_FORMS.iter().any(|form| form.kind == kind),
    }
}

/// Whether missing input of such a node may be looked for: it says so, or leaves it to a call that may want it.
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
    /// Reads `data` of a node of this type; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(kind: NodeKind, data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(kind, data, problems)
    }

    /// Whether an edge with this handle may be the way out, though steps have one: a registered Call may choose.
    pub fn chooses(&self, handle: &str) -> bool {
        self.call == CALL && ![SOURCE_HANDLE, FAIL_BRANCH_HANDLE].contains(&handle)
    }

    /// The id by which the call is looked up.
    pub fn id(&self) -> &str {
        self.node.as_deref().unwrap_or(self.call)
    }

    /// What is known of its type.
    pub fn form(&self) -> Option<&'static StepForm> {
        STEP_FORMS.iter().find(|form| form.call == self.call)
    }

    /// Whether missing input may be looked for: said so, or left to the call.
    pub fn may_fill(&self) -> bool {
        self.enable_filling
            .unwrap_or_else(|| self.node.is_some() || self.form().is_some_and(|form| form.fills))
    }

    /// Whether all that its call reads is in its parameters: a statement that is written down answers no question.
    fn is_whole(&self) -> bool {
        let given = |name: &str| self.params.iter().find(|(known, _)| known == name).map(|(_, param)| param);
        let asks = given("mode").is_some_and(
            |mode| !matches!(mode, Param::Constant(mode) | Param::Mixed(mode) if mode == "query"),
        );
        self.call == SQL && given("sql").is_some() && !asks
    }

    /// How many records of the history it is told.
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
        // What a registered Call is told of whose run it is.
        if self.node.is_some() {
            into.extend(["user_id", "app_id", "conversation_id"].map(|name| ("sys".into(), name.into())));
        }
        // A library node may name any call.
        if self.node.is_some() || self.form().is_some_and(|form| form.has_background) && !self.is_whole() {
            match &self.filling.question {
                Some(text) => params::text_mentions(text, into),
                None => into.push(("sys".into(), "query".into())),
            }
            background_mentions(self.history_size(), into);
        }
    }
}
