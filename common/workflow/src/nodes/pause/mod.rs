//! The request of a paused run, one type for all kinds: a form, a wait for variables, a question to the user, missing
//! values, approval before a step begins, approval of a tool call, a person's reply instead of a model's.
//!
//! A request holds the question and the behaviour on timeout. [`input`] checks an answer; [`as_form`] shows the request
//! to clients that only support forms.

pub mod as_form;
pub mod input;

use std::time::Duration;

use serde_json::Value as Json;

use super::NodeResult;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::JsonMap;
use tidemill_base::value::secrets::Secrets;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseKind {
    /// A form with fields and buttons (Dify).
    #[default]
    Form,
    /// A wait for variables; see [`super::human_input::SimpleData`].
    Simple,
    /// A question to the user: approval, a value, a choice.
    UserInteraction,
    /// Missing values of a step.
    Params,
    /// Approval before a step begins.
    Confirm,
    /// Approval of a tool call.
    ToolApproval,
    /// A person replies instead of a model.
    HumanRelay,
}

impl PauseKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Form,
        Self::Simple,
        Self::UserInteraction,
        Self::Params,
        Self::Confirm,
        Self::ToolApproval,
        Self::HumanRelay,
    ];
    /// The name; both versions of Dify's node have the same.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Form | Self::Simple => "human_input",
            Self::UserInteraction => "user_interaction",
            Self::Params => "params",
            Self::Confirm => "confirm",
            Self::ToolApproval => "tool_approval",
            Self::HumanRelay => "human_relay",
        }
    }
    /// Finds a kind by its name; the shared name of Dify's two versions gives a form.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
    /// True when the answer is an action with fields; for all others it is one JSON value.
    pub const fn is_form(self) -> bool {
        match self {
            Self::Form | Self::Simple => true,
            Self::UserInteraction | Self::Params | Self::Confirm | Self::ToolApproval | Self::HumanRelay => {
                false
            }
        }
    }
}

/// The behaviour when there is no answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeout {
    #[default]
    Fail,
    /// The run follows the timeout handle if an edge has it; otherwise the node fails.
    Branch,
    /// The defaults become the answer.
    Default,
}

impl OnTimeout {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Branch, Self::Default];
    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Branch => "branch",
            Self::Default => "default",
        }
    }
    /// Finds a way by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

/// The request to a person. It contains no secret in plain text, since people see it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PauseRequest {
    pub kind: PauseKind,
    /// The text. For a form the values are filled in and the placeholders of its own fields (`{{#$output.x#}}`) are
    /// still open; for other kinds it is the prompt.
    pub content: String,
    /// A form's fields, a list in Dify's format; options from a variable are filled in.
    pub inputs: Json,
    /// A form's buttons: a list of `{id, title, button_style}`.
    pub actions: Json,
    /// For a form: initial values from variables, by field name. For the simple version: at most
    /// [`super::human_input::HANDLE_KEY`], the handle for an answer without an action. For other kinds: the proposed
    /// answer, used on timeout with [`OnTimeout::Default`].
    pub defaults: Json,
    /// Seconds until a form expires; the simple version never does.
    pub timeout_s: Option<u64>,
    /// The reason why the simple version waits, for people; can be empty.
    pub message: String,
    /// The JSON schema of the answer; null accepts any answer.
    pub schema: Json,
    /// The choices: a list of `{id, label}`, or null.
    pub options: Json,
    /// Milliseconds until it expires; `None` or 0: never. Not for forms.
    pub timeout_ms: Option<u64>,
    /// The behaviour on timeout.
    pub on_timeout: OnTimeout,
    /// Further details to show, by name: risk, reason, arguments, ….
    pub details: JsonMap,
}

impl PauseRequest {
    /// A request of this kind for an answer that fits a schema.
    pub fn asking(kind: PauseKind, prompt: impl Into<String>, schema: Json) -> Self {
        Self { kind, content: prompt.into(), schema, ..Self::default() }
    }

    /// Returns the request as people may see it. The run uses the masked texts as well: a default that holds a secret
    /// is a masked text, whether or not a client sends it back.
    #[must_use]
    pub fn hiding(self, secrets: &Secrets) -> Self {
        if secrets.are_none() {
            return self;
        }
        Self {
            content: secrets.masked(self.content),
            message: secrets.masked(self.message),
            inputs: secrets.hidden(self.inputs),
            actions: secrets.hidden(self.actions),
            defaults: secrets.hidden(self.defaults),
            schema: secrets.hidden(self.schema),
            options: secrets.hidden(self.options),
            details: secrets.hidden_in(self.details),
            ..self
        }
    }

    /// The longest wait.
    pub fn timeout(&self) -> Option<Duration> {
        if self.kind.is_form() {
            return self.timeout_s.map(Duration::from_secs);
        }
        self.timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// A text among the details; empty when missing.
    pub fn detail(&self, name: &str) -> &str {
        self.details.get(name).and_then(Json::as_str).unwrap_or_default()
    }
}

/// Error type: the node needs a person, but the run is not interactive.
pub const NOT_INTERACTIVE: &str = "NotInteractiveError";

/// Error type of a step that a person has called off, which is no failure. The run follows [`as_form::REJECT`] if an
/// edge has it; otherwise it is stopped.
pub const CALLED_OFF: &str = "CalledOffError";

/// The failure of a node that needs a person in a run that is not interactive.
pub fn not_interactive(kind: PauseKind) -> NodeFailure {
    let message = format!(
        "the node needs a person ({}), but the run was submitted with `interactive: false`",
        kind.name()
    );
    NodeFailure::new(NOT_INTERACTIVE, message)
}

/// The result of a node whose step a person has called off.
pub fn called_off(reason: impl Into<String>) -> NodeResult {
    NodeResult::failed(NodeFailure::new(CALLED_OFF, reason))
}
