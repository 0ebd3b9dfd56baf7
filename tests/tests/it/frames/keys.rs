//! The keys of every event of Dify's streams, in Dify's order.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use tidemill_tests::frames::Recording;

/// The keys around `data`, in a stream of a workflow and of a chat.
const AROUND: [(&str, &str); 2] = [
    ("workflow", "event workflow_run_id task_id data"),
    ("chat", "event conversation_id message_id created_at task_id workflow_run_id data"),
];

/// The keys of `data`.
const DATA: [(&str, &str); 18] = [
    ("workflow_started", "id workflow_id inputs created_at reason"),
    (
        "node_started",
        "id node_id node_type title index predecessor_node_id inputs inputs_truncated created_at extras iteration_id \
         loop_id agent_strategy",
    ),
    (
        "node_finished",
        "id node_id node_type title index predecessor_node_id inputs inputs_truncated process_data \
         process_data_truncated outputs outputs_truncated status error elapsed_time execution_metadata created_at \
         finished_at files iteration_id loop_id",
    ),
    (
        "node_retry",
        "id node_id node_type title index predecessor_node_id inputs inputs_truncated process_data \
         process_data_truncated outputs outputs_truncated status error elapsed_time execution_metadata created_at \
         finished_at files iteration_id loop_id retry_index",
    ),
    ("iteration_started", "id node_id node_type title created_at extras metadata inputs inputs_truncated"),
    ("iteration_next", "id node_id node_type title index created_at extras"),
    (
        "iteration_completed",
        "id node_id node_type title outputs outputs_truncated created_at extras inputs inputs_truncated status error \
         elapsed_time total_tokens execution_metadata finished_at steps",
    ),
    ("loop_started", "id node_id node_type title created_at extras metadata inputs inputs_truncated"),
    ("loop_next", "id node_id node_type title index created_at pre_loop_output extras"),
    (
        "loop_completed",
        "id node_id node_type title outputs outputs_truncated created_at extras inputs inputs_truncated status error \
         elapsed_time total_tokens execution_metadata finished_at steps",
    ),
    ("text_chunk", "text from_variable_selector"),
    ("text_replace", "text"),
    ("agent_log", "node_execution_id id label parent_id error status data metadata node_id"),
    (
        "human_input_required",
        "form_id node_id node_title form_content inputs actions display_in_ui form_token resolved_default_values \
         expiration_time",
    ),
    ("human_input_form_filled", "node_id node_title rendered_content action_id action_text submitted_data"),
    ("human_input_form_timeout", "node_id node_title expiration_time"),
    (
        "workflow_paused",
        "workflow_run_id paused_nodes outputs reasons status created_at elapsed_time total_tokens total_steps",
    ),
    (
        "workflow_finished",
        "id workflow_id status outputs error elapsed_time total_tokens total_steps created_by created_at finished_at \
         exceptions_count files",
    ),
];

/// The keys of `data` where a chat has others.
const REASONING: [(&str, &str); 2] =
    [("workflow", "reasoning node_id is_final"), ("chat", "reasoning node_id is_final message_id")];

/// The keys of events without `data`.
const FLAT: [(&str, &str); 5] = [
    ("message", "event conversation_id message_id created_at task_id id answer from_variable_selector"),
    ("message_end", "event conversation_id message_id created_at task_id id metadata files"),
    ("message_replace", "event conversation_id message_id created_at task_id answer reason"),
    // Of a failed chat, and of inputs that do not fit.
    ("error", "event conversation_id message_id created_at code status message"),
    ("error", "event message status"),
];

/// The keys of an object, in their order.
pub(super) fn keys(value: &Json) -> String {
    let map = value.as_object().unwrap_or_else(|| panic!("an object: {value}"));
    map.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn of<'a>(table: &'a [(&'a str, &'a str)], name: &str) -> Vec<&'a str> {
    table.iter().filter(|(known, _)| *known == name).map(|(_, keys)| *keys).collect()
}

/// Compares each event with the tables above, and notes its name.
pub(super) fn check(recording: &Recording, kind: &str, seen: &mut BTreeSet<String>) {
    for event in &recording.events {
        let name = event["event"].as_str().unwrap_or_else(|| panic!("a name: {event}"));
        seen.insert(name.to_string());
        let flat = of(&FLAT, name);
        if !flat.is_empty() {
            assert!(flat.contains(&keys(event).as_str()), "{event}");
            continue;
        }
        assert_eq!(of(&AROUND, kind), [keys(event)], "{event}");
        let data = if name == "reasoning_chunk" { of(&REASONING, kind) } else { of(&DATA, name) };
        assert_eq!(data, [keys(&event["data"])], "{event}");
    }
}

/// The names of all events.
pub(super) fn every_name() -> BTreeSet<String> {
    let names = DATA.iter().chain(&FLAT).map(|(name, _)| *name).chain(["reasoning_chunk"]);
    names.map(str::to_string).collect()
}
