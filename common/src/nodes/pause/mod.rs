//! What a run waits for: one object for every way of asking somebody something. A form, a mere wait, a question to the user,
//! values that are missing, leave to begin, leave for a tool, a reply in a model's place.
//!
//! A request says what is asked and what happens when nobody answers; [`input`] holds an answer to it, [`as_form`] shows it
//! to those who know only forms.

pub mod as_form;
pub mod input;

use std::time::Duration;

use serde_json::Value as Json;

use super::NodeResult;
use crate::failure::NodeFailure;
use crate::value::JsonMap;

/// Which way of asking it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseKind {
    /// A form with fields and buttons (Dify).
    #[default]
    Form,
    /// A mere wait for variables; see [`super::human_input::SimpleData`].
    Simple,
    /// A question to the user: leave, a value, a choice.
    UserInteraction,
    /// Values that a step lacks.
    Params,
    /// Leave for a step to begin.
    Confirm,
    /// Leave for a tool to be called.
    ToolApproval,
    /// A person replies in a model's place.
    HumanRelay,
}

impl PauseKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Form,
        Self::Simple,
        Self::UserInteraction,
        Self::Params,
        Self::Confirm,
        Self::ToolApproval,
        Self::HumanRelay,
    ];
    /// The word for it; both versions of Dify's node have the same.
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
    /// The kind of a word; a form for that of both versions of Dify's node.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
    /// Answered by an action and fields; all others by one JSON value.
    pub const fn is_form(self) -> bool {
        match self {
            Self::Form | Self::Simple => true,
            Self::UserInteraction | Self::Params | Self::Confirm | Self::ToolApproval | Self::HumanRelay => {
                false
            }
        }
    }
}

/// What happens when nobody answers in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeout {
    /// The node fails.
    #[default]
    Fail,
    /// It leaves by its handle for that, if an edge carries it; else it fails.
    Branch,
    /// The defaults are the answer.
    Default,
}

impl OnTimeout {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Branch, Self::Default];
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Branch => "branch",
            Self::Default => "default",
        }
    }
    /// The one of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

/// What somebody is asked. Holds no secret in the clear: people see it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PauseRequest {
    /// Which way of asking it is.
    pub kind: PauseKind,
    /// The text: of a form with the values filled in and the places of its own fields (`{{#$output.x#}}`) still open, of
    /// all others the prompt.
    pub content: String,
    /// A form's fields, a list in the shape of Dify; the options that a variable holds are filled in.
    pub inputs: Json,
    /// A form's buttons: a list of `{id, title, button_style}`.
    pub actions: Json,
    /// A form's first values that a variable holds, by the field's name; of the simple version at most
    /// [`super::human_input::HANDLE_KEY`], the handle by which an answer without an action leaves. Of all others what is
    /// proposed, and is the answer where the time is over and [`OnTimeout::Default`] is wanted.
    pub defaults: Json,
    /// Seconds after which a form expires; the simple version never does.
    pub timeout_s: Option<u64>,
    /// Why the simple version waits, for people; may be empty.
    pub message: String,
    /// The JSON schema of the answer; null takes anything.
    pub schema: Json,
    /// What there is to choose from: a list of `{id, label}`, or null.
    pub options: Json,
    /// Milliseconds after which it expires; none, or 0, for never. Not for forms.
    pub timeout_ms: Option<u64>,
    /// What happens then.
    pub on_timeout: OnTimeout,
    /// What is shown besides, under names of its own: risk, reason, arguments, ….
    pub details: JsonMap,
}

impl PauseRequest {
    /// A question of this kind, for an answer that fits a schema.
    pub fn asking(kind: PauseKind, prompt: impl Into<String>, schema: Json) -> Self {
        Self { kind, content: prompt.into(), schema, ..Self::default() }
    }

    /// How long it waits at most.
    pub fn timeout(&self) -> Option<Duration> {
        if self.kind.is_form() {
            return self.timeout_s.map(Duration::from_secs);
        }
        self.timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// A detail that is a text; empty when there is none.
    pub fn detail(&self, name: &str) -> &str {
        self.details.get(name).and_then(Json::as_str).unwrap_or_default()
    }
}

/// The class of a failure: somebody would have to be asked, and the run says that nobody is there.
pub const NOT_INTERACTIVE: &str = "NotInteractiveError";

/// The class of what is no failure: somebody has called the step off. The node leaves by [`as_form::REJECT`] if an edge
/// carries it, else the run is stopped.
pub const CALLED_OFF: &str = "CalledOffError";

/// The failure of a node that would ask in a run that nobody answers.
pub fn not_interactive(kind: PauseKind) -> NodeFailure {
    let message = format!(
        "the node would ask somebody ({}), and the run was submitted with `interactive: false`",
        kind.name()
    );
    NodeFailure::new(NOT_INTERACTIVE, message)
}

/// How a node ends whose step somebody has called off.
pub fn called_off(reason: impl Into<String>) -> NodeResult {
    NodeResult::failed(NodeFailure::new(CALLED_OFF, reason))
}
