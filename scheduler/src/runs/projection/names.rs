//! Types of events around pauses and of what models think, beside those in [`tidemill_common::wire::event::kind`]; containers are told by what
//! their types begin with.

/// A line of an agent's log.
pub(super) const AGENT_LOG: &str = "node_run_agent_log";
/// A piece of what a model thinks.
pub(super) const REASONING_CHUNK: &str = "node_run_reasoning_chunk";
/// A node waits for somebody.
pub(super) const PAUSE_REQUESTED: &str = "node_run_pause_requested";
/// A form was answered.
pub(super) const FORM_FILLED: &str = "node_run_human_input_form_filled";
/// A form was not answered in time.
pub(super) const FORM_TIMEOUT: &str = "node_run_human_input_form_timeout";
