//! Options of a run.

pub mod breakpoint;
pub mod budget;
pub mod choices;
pub mod compat;

use std::borrow::Cow;

use tidemill_base::limits;
use tidemill_base::warning::Warning;
use tidemill_workflow::messages::{GivenMessages, MessageLimits};
use tidemill_workflow::nodes::evaluate::UndefinedNames;

use crate::state::options::budget::Budget;
use crate::state::options::choices::Choices;
use crate::state::options::compat::{ConversationWrites, DifyWays, NestedAnswers};

/// Options of one run. They are fixed when it is submitted, so that a run does not depend on the settings of a later
/// owner.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// The most node starts (`max_steps`).
    pub steps_max: u64,
    /// The longest working time, in seconds (`max_execution_time_s`). Time in a pause does not count.
    pub seconds_max: u64,
    /// The longest time from submission to end, in milliseconds, pauses included (`deadline_ms`).
    pub deadline_ms: Option<u64>,
    /// The treatment of unknown names in Jinja templates (`template_undefined`).
    pub template_undefined: UndefinedNames,
    /// The longest output of a template, in characters (`template_chars_max`).
    pub template_chars_max: usize,
    /// Values with more bytes than this become blobs (`inline_bytes_max`).
    pub inline_bytes_max: usize,
    /// The effect of writes of iterations to conversation variables.
    pub iteration_conversation_writes: ConversationWrites,
    /// The way in which answers inside containers are streamed.
    pub nested_answer_stream: NestedAnswers,
    /// Whether failures inside an iteration count among the run's exceptions, as in graphon.
    pub iteration_failures_count: bool,
    /// Whether a loop emits an event for a next round after its last one.
    pub loop_next_after_last: bool,
    /// The places where the run follows Dify although another result is right.
    pub dify_ways: DifyWays,
    /// The most items of an iteration and rounds of a loop (`container_rounds_max`).
    pub container_rounds_max: u64,
    /// The longest time that forms of this run may wait, in seconds; 0 means no limit (`human_input_timeout_s`).
    pub human_input_timeout_s: u64,
    /// The most that the run may spend on models (`budget_tokens`, `budget_price`).
    pub budget: Option<Box<Budget>>,
    /// Choices that few runs make; `None` for a run that makes none of them.
    pub choices: Option<Box<Choices>>,
    /// Limits of messages, `rt` and history; `None` for the defaults.
    pub message_limits: Option<Box<MessageLimits>>,
    /// Lists of messages that the run begins with, by name; `None` once it has begun.
    pub messages: Option<Box<GivenMessages>>,
    /// The most warnings that the run keeps (`run.warnings_max`).
    pub warnings_max: usize,
    /// Warnings that the run begins with; empty once it has begun.
    pub warnings: Vec<Warning>,
}

impl RunOptions {
    /// Returns the choices of the run, or the defaults.
    pub fn choices(&self) -> Cow<'_, Choices> {
        self.choices.as_deref().map_or_else(|| Cow::Owned(Choices::default()), Cow::Borrowed)
    }
    /// Returns the limits of messages, `rt` and history.
    pub fn object_limits(&self) -> MessageLimits {
        self.message_limits.as_deref().copied().unwrap_or_default()
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            steps_max: limits::STEPS_MAX,
            seconds_max: limits::RUN_SECONDS_MAX,
            deadline_ms: None,
            template_undefined: UndefinedNames::Empty,
            template_chars_max: limits::TEMPLATE_CHARS_MAX,
            inline_bytes_max: limits::INLINE_BYTES_MAX,
            iteration_conversation_writes: ConversationWrites::default(),
            nested_answer_stream: NestedAnswers::default(),
            iteration_failures_count: true,
            loop_next_after_last: false,
            dify_ways: DifyWays::default(),
            container_rounds_max: limits::CONTAINER_ROUNDS_MAX,
            human_input_timeout_s: limits::HUMAN_INPUT_SECONDS_MAX,
            budget: None,
            choices: None,
            message_limits: None,
            messages: None,
            warnings_max: limits::RUN_WARNINGS_MAX,
            warnings: Vec::new(),
        }
    }
}
