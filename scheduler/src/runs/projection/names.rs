//! Types of events about pauses and reasoning, beside those in [`tidemill_common::wire::event::kind`]. Events of
//! containers are recognised by their prefix.

/// A line of an agent's log.
pub(super) const AGENT_LOG: &str = "node_run_agent_log";
/// A piece of a model's reasoning.
pub(super) const REASONING_CHUNK: &str = "node_run_reasoning_chunk";
/// A node waits for a person.
pub(super) const PAUSE_REQUESTED: &str = "node_run_pause_requested";
/// A form was answered.
pub(super) const FORM_FILLED: &str = "node_run_human_input_form_filled";
/// A form was not answered in time.
pub(super) const FORM_TIMEOUT: &str = "node_run_human_input_form_timeout";
