//! The defaults of runs, and the choices that depart from Dify.

use serde::{Deserialize, Serialize};

use tidemill_base::limits;
use tidemill_workflow::dsl::{HttpRetryDefault, RetryWithoutEnabled};

/// `[run]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Maximum number of node starts (Dify: `WORKFLOW_MAX_EXECUTION_STEPS`).
    pub max_steps: u64,
    /// Longest working time, in seconds. Waiting does not count (Dify: `WORKFLOW_MAX_EXECUTION_TIME`).
    pub max_execution_time_s: u64,
    /// Longest output of a template, in characters (Dify: `TEMPLATE_TRANSFORM_MAX_LENGTH`).
    pub template_chars_max: usize,
    /// Largest environment or conversation variable, in bytes (Dify: `MAX_VARIABLE_SIZE`).
    pub variable_bytes_max: usize,
    /// Larger values, in bytes, are stored as blobs; at most 32768.
    pub inline_bytes_max: usize,
    /// Longest time to answer a form, in seconds; 0 for no limit (Dify:
    /// `HUMAN_INPUT_GLOBAL_TIMEOUT_SECONDS`).
    pub human_input_timeout_s: u64,
    /// Most items of an iteration and most rounds of a loop; a larger container fails.
    pub container_rounds_max: u64,
    /// Deepest nesting of workflows that call workflows (Dify: `WORKFLOW_CALL_MAX_DEPTH`).
    pub call_depth_max: u64,
    /// Tokens that a run may spend on models; 0 for no limit.
    pub budget_tokens: u64,
    /// Money that a run may spend on models, `"0.50 EUR"`; empty for no limit.
    pub budget_price: String,
    /// Most messages of a list of a run, including those no longer visible.
    pub messages_max: u64,
    /// Most bytes of a message list.
    pub messages_bytes_max: u64,
    /// Most bytes of a run's runtime values (`rt`).
    pub runtime_bytes_max: u64,
    /// Most records of a run's history.
    pub history_records_max: u64,
    /// Largest history record, in bytes.
    pub history_record_bytes_max: u64,
    /// Tokens of visible messages above which a list is reported as too long; 0: never.
    pub messages_tokens_limit: u64,
    /// A list is reported with a warning above four fifths of this number of tokens of visible messages; 0:
    /// never.
    pub messages_tokens_warning: u64,
    /// Largest single value, in bytes.
    pub value_bytes_max: usize,
    /// Largest workflow file, in bytes.
    pub import_bytes_max: usize,
    /// Most child nodes of a node.
    pub children_max: usize,
    /// Most warnings that a run keeps; 0: none.
    pub warnings_max: usize,
    /// Most labels of a run.
    pub labels_max: usize,
    /// Longest name and longest value of a label, in characters.
    pub label_chars_max: usize,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            max_steps: limits::STEPS_MAX,
            max_execution_time_s: limits::RUN_SECONDS_MAX,
            template_chars_max: limits::TEMPLATE_CHARS_MAX,
            variable_bytes_max: limits::VARIABLE_BYTES_MAX,
            inline_bytes_max: limits::INLINE_BYTES_MAX,
            human_input_timeout_s: limits::HUMAN_INPUT_SECONDS_MAX,
            container_rounds_max: limits::CONTAINER_ROUNDS_MAX,
            call_depth_max: limits::CALL_DEPTH_MAX,
            budget_tokens: 0,
            budget_price: String::new(),
            messages_max: limits::MESSAGES_MAX,
            messages_bytes_max: limits::MESSAGES_BYTES_MAX,
            runtime_bytes_max: limits::RUNTIME_BYTES_MAX,
            history_records_max: limits::HISTORY_RECORDS_MAX,
            history_record_bytes_max: limits::HISTORY_RECORD_BYTES_MAX,
            messages_tokens_limit: limits::MESSAGES_TOKENS_LIMIT,
            messages_tokens_warning: limits::MESSAGES_TOKENS_WARNING,
            value_bytes_max: limits::VALUE_BYTES_MAX,
            import_bytes_max: limits::IMPORT_BYTES_MAX,
            children_max: limits::CHILDREN_MAX,
            warnings_max: limits::RUN_WARNINGS_MAX,
            labels_max: limits::RUN_LABELS_MAX,
            label_chars_max: limits::RUN_LABEL_CHARS_MAX,
        }
    }
}

/// `[compat]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompatConfig {
    /// Unknown names in Jinja templates: `empty` (Dify's service) or `strict` (bare graphon: an error).
    pub template_undefined: Undefined,
    /// The effect of an iteration's writes to conversation variables: `parent` or `local`.
    pub iteration_conversation_writes: ConversationWrites,
    /// Streaming of answers inside containers: `whole`, `segments` or `none`.
    pub nested_answer_stream: NestedAnswers,
    /// Whether failures inside an iteration count among a run's exceptions (bare graphon) or not (earlier Dify).
    pub iteration_failures_count: bool,
    /// Whether a loop emits a next-round event after its last round, as earlier Dify did.
    pub loop_next_after_last: bool,
    /// Whether an `error` event ends a stream of `/v1`; Dify keeps it open until it is idle.
    pub error_event_closes_stream: bool,
    /// Whether a secret in an output appears in the run's outputs unmasked (Dify), or masked.
    pub secrets_in_outputs: bool,
    /// Whether workflows with moderation may be published and then run without it.
    pub moderation_left_out: bool,
    /// Whether a file that `http-request` fetched has a name and an extension (Dify), or neither (bare graphon).
    pub fetched_file_names: bool,
    /// Whether the charset of an `http-request` answer that declares none and is not UTF-8 is guessed, or its invalid
    /// bytes become replacement characters (graphon).
    pub guess_charset: bool,
    /// Whether older files are migrated as Dify's editor does it when it opens them.
    pub editor_migrations: bool,
    /// Whether an `http-request` node without `retry_config` has tries: `none` (Dify's server) or `editor`: three.
    pub http_retry_default: HttpRetryDefault,
    /// Whether a `retry_config` without `retry_enabled` is on: `by_file` (in a bare graph only), `on` or `off`.
    pub retry_without_enabled: RetryWithoutEnabled,
    /// Whether a text in a code node's result that looks like `1e+3` becomes a number whatever its declared type (Dify).
    pub code_texts_become_numbers: bool,
    /// Whether an absent optional parameter makes a parameter extractor unsuccessful (Dify).
    pub extractor_requires_all: bool,
    /// Whether a missing file parameter of a webhook has all files of the request as its value (Dify), or null.
    pub webhook_missing_file_is_all: bool,
    /// Whether failed attempts count among a run's exceptions when a later attempt follows (Dify).
    pub retries_count_as_exceptions: bool,
    /// Whether the conditions of a loop say when it ends (Dify), or when it continues.
    pub loop_conditions_break: bool,
    /// Whether a run over its limit of steps or time is stopped (Dify), or fails.
    pub limits_stop_runs: bool,
}

impl Default for CompatConfig {
    fn default() -> Self {
        Self {
            template_undefined: Undefined::Empty,
            iteration_conversation_writes: ConversationWrites::Parent,
            nested_answer_stream: NestedAnswers::Whole,
            iteration_failures_count: true,
            loop_next_after_last: false,
            error_event_closes_stream: true,
            secrets_in_outputs: false,
            moderation_left_out: false,
            fetched_file_names: true,
            guess_charset: true,
            editor_migrations: true,
            http_retry_default: HttpRetryDefault::None,
            retry_without_enabled: RetryWithoutEnabled::ByFile,
            code_texts_become_numbers: false,
            extractor_requires_all: false,
            webhook_missing_file_is_all: false,
            retries_count_as_exceptions: true,
            loop_conditions_break: true,
            limits_stop_runs: true,
        }
    }
}

/// The handling of unknown names in templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Undefined {
    /// An empty text.
    Empty,
    /// An error.
    Strict,
}

/// The effect of an iteration's writes to conversation variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConversationWrites {
    /// They remain after the iteration.
    Parent,
    /// They are lost after the iteration.
    Local,
}

/// The streaming of answers inside containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NestedAnswers {
    /// In one piece, when the answer is complete.
    Whole,
    /// In pieces.
    Segments,
    /// Not at all.
    None,
}
