//! `dialect=step`: sends the events of a run as a step executor does, with dotted names and one envelope that names
//! flow and step. Events without such a name are left out.

use serde_json::{Value as Json, json};
use tidemill_common::graph::Graph;
use tidemill_common::ids::RunId;
use tidemill_common::wire::event::EventRecord;

/// Data that is the same for all events of a run.
pub(super) struct Flow<'a> {
    pub(super) run: &'a RunId,
    pub(super) graph: &'a Graph,
    pub(super) app: &'a str,
    pub(super) conversation: &'a str,
}

/// The name and payload of an event, or `None` when the dialect has no name for it.
pub(super) fn step_event(record: &EventRecord, flow: &Flow<'_>) -> Option<(String, Json)> {
    // Fields of a step are inside the event's data.
    let of_step = record.data.get("data");
    let field = |key: &str| of_step.and_then(|fields| fields.get(key)).or_else(|| record.data.get(key));
    let data = |key: &str| field(key).cloned().unwrap_or(Json::Null);
    let text = |key: &str| field(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let event = match record.kind.as_str() {
        "graph_run_started" => "flow.start".to_owned(),
        "graph_run_paused" => "flow.stop".to_owned(),
        "graph_run_succeeded" | "graph_run_partial_succeeded" => "flow.success".to_owned(),
        "graph_run_failed" => "flow.failed".to_owned(),
        "graph_run_aborted" => "flow.cancel".to_owned(),
        "step_init" => "step.init".to_owned(),
        "step_input" => "step.input".to_owned(),
        "step_output" => "step.output".to_owned(),
        "step_error" => "step.error".to_owned(),
        "step_cancel" => "step.cancel".to_owned(),
        "step_waiting_for_start" => "step.waiting_for_start".to_owned(),
        "step_waiting_for_param" => "step.waiting_for_param".to_owned(),
        "text_add" => "text.add".to_owned(),
        // An object is sent under the type of the step that created it.
        "step_data" => text("step_type"),
        _ => return None,
    };
    let content = match record.kind.as_str() {
        "text_add" => json!({"text": data("text"), "attempt": data("attempt"), "delivery": data("delivery")}),
        "graph_run_succeeded" | "graph_run_partial_succeeded" => data("outputs"),
        "graph_run_failed" => json!({"error": data("error")}),
        "graph_run_aborted" => json!({"reason": data("reason")}),
        _ => match data("content") {
            Json::Null => json!({}),
            content => content,
        },
    };
    let metadata = |key: &str| field("metadata").and_then(|it| it.get(key)).cloned().unwrap_or(json!(0));
    let payload = json!({
        "event": event,
        "id": record.entry.to_string(),
        "groupId": flow.run.to_string(),
        "conversationId": flow.conversation,
        "taskId": flow.run.to_string(),
        "flow": {
            "appId": flow.app,
            "flowId": flow.graph.hash.to_string(),
            "flowName": flow.graph.name,
            "flowStatus": status(&record.kind),
            "stepId": text("step_id"),
            "stepName": text("step_name"),
            "stepDescription": text("step_description"),
            "stepStatus": text("step_status"),
        },
        "content": content,
        "metadata": {
            "timeCost": metadata("time_cost"),
            "inputTokens": metadata("input_tokens"),
            "outputTokens": metadata("output_tokens"),
        },
    });
    Some((event, payload))
}

/// The status of the run that an event implies.
fn status(kind: &str) -> &'static str {
    match kind {
        "graph_run_paused" | "step_waiting_for_start" | "step_waiting_for_param" => "waiting",
        "graph_run_succeeded" | "graph_run_partial_succeeded" => "success",
        "graph_run_failed" => "error",
        "graph_run_aborted" => "cancelled",
        _ => "running",
    }
}
