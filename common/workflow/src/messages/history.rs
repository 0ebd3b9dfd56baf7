//! History records: what nodes did, and the three forms in which the history is shown.
//!
//! A record has the fields `seq, run_id, executor_id, executor_name, executor_status, node_id,
//! node_execution_id, step_name, step_type, step_status, action, timestamp` (ms)`, execution_time` (ms)`,
//! input_data, output_data, extra_data`. The first form has a field `details`; a record may set it, otherwise
//! it is built from the record.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

/// A form of history records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Actions: `{nodeId, timestamp, action, details}`.
    Lp,
    /// Results of nodes: `{nodeId, nodeType, status, success, output, data, executionTime, metadata}`.
    Cx,
    /// Steps: `{taskId, executorId, …, stepId, stepUuid, …, inputData, outputData, extraData}`; without failed steps.
    Se,
}

impl View {
    /// Returns the name of the form.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lp => "lp",
            Self::Cx => "cx",
            Self::Se => "se",
        }
    }
    /// Returns the form with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Lp, Self::Cx, Self::Se].into_iter().find(|view| view.name() == name)
    }
}

const SUCCESS: &str = "success";
const ERROR: &str = "error";

/// Returns the word for the outcome of a step.
pub const fn history_status(failed: bool) -> &'static str {
    if failed { ERROR } else { SUCCESS }
}

/// Converts a record to a form; `None` when the form does not show it.
pub fn view(record: &JsonMap, view: View) -> Option<Json> {
    let get = |key: &str| record.get(key).cloned().unwrap_or(Json::Null);
    let failed = record.get("step_status").and_then(Json::as_str) == Some(ERROR);
    match view {
        View::Lp => Some(json!({
            "nodeId": get("node_id"), "timestamp": get("timestamp"), "action": get("action"),
            "details": record.get("details").cloned().unwrap_or_else(|| details(record)),
        })),
        View::Cx => Some(json!({
            "nodeId": get("node_id"), "nodeType": get("step_type"),
            "status": if failed { "FAILED" } else { "COMPLETED" }, "success": !failed,
            "output": in_camel_case(record), "data": in_camel_case(record),
            "executionTime": get("execution_time"),
            "metadata": record.get("metadata").cloned().unwrap_or_else(|| get("extra_data")),
        })),
        View::Se if failed => None,
        View::Se => Some(json!({
            "taskId": get("run_id"), "executorId": get("executor_id"), "executorName": get("executor_name"),
            "executorStatus": get("executor_status"), "stepId": get("node_id"),
            "stepUuid": get("node_execution_id"), "stepName": get("step_name"), "stepType": get("step_type"), "stepStatus": get("step_status"), "inputData": get("input_data"),
            "outputData": get("output_data"), "extraData": get("extra_data"),
        })),
    }
}

/// Outputs of our own node types, with their names in the form [`View::Cx`].
const CX_NAMES: [(&str, &str); 4] = [
    ("tool_calls", "toolCalls"),
    ("tool_results", "toolResults"),
    ("finish_reason", "finishReason"),
    ("message_count", "messageCount"),
];

/// Returns the output with its names in camel case. Outputs of steps are named by their authors, and stay.
fn in_camel_case(record: &JsonMap) -> Json {
    let output = record.get("output_data").cloned().unwrap_or_default();
    let is_ours = ["llm", "context-processor", "user-interaction"]
        .iter()
        .any(|ours| record.get("step_type").and_then(Json::as_str) == Some(ours));
    let Json::Object(map) = output else { return output };
    let name = |name: String| match CX_NAMES.iter().find(|(ours, _)| is_ours && *ours == name) {
        Some((_, named)) => (*named).to_owned(),
        None => name,
    };
    Json::Object(map.into_iter().map(|(key, value)| (name(key), value)).collect())
}

fn details(record: &JsonMap) -> Json {
    let mut details = JsonMap::new();
    for (key, name) in [("input_data", "input"), ("output_data", "output"), ("error", "error")] {
        if let Some(value) = record.get(key) {
            details.insert(name.into(), value.clone());
        }
    }
    Json::Object(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: &str) -> JsonMap {
        json!({
            "seq": 1, "run_id": "r", "executor_id": "x", "executor_name": "X", "executor_status": "running",
            "node_id": "n", "node_execution_id": "e", "step_name": "N", "step_type": "llm", "step_status": status,
            "action": "llm", "timestamp": 17, "execution_time": 3, "input_data": {"q": 1},
            "output_data": {"content": "c"}, "extra_data": {},
        })
        .as_object()
        .cloned()
        .unwrap()
    }

    #[test]
    fn one_record_serves_three_views() {
        let lp = view(&record(SUCCESS), View::Lp).unwrap();
        assert_eq!(
            lp,
            json!({"nodeId": "n", "timestamp": 17, "action": "llm", "details": {"input": {"q": 1}, "output": {"content": "c"}}})
        );
        let cx = view(&record(ERROR), View::Cx).unwrap();
        assert_eq!((cx["status"].as_str(), cx["success"].as_bool()), (Some("FAILED"), Some(false)));
        let se = view(&record(SUCCESS), View::Se).unwrap();
        assert_eq!((se["taskId"].as_str(), se["stepId"].as_str()), (Some("r"), Some("n")));
        assert_eq!(se["stepUuid"].as_str(), Some("e"), "the step's own id, new in each execution");
        assert_eq!(view(&record(ERROR), View::Se), None);
    }

    #[test]
    fn the_view_of_results_has_the_names_of_its_form() {
        for (ty, output, metadata, shown) in [
            (
                "llm",
                json!({"content": "c", "tool_calls": [1], "usage": {}}),
                json!({"total_tokens": 7}),
                json!({"content": "c", "toolCalls": [1], "usage": {}}),
            ),
            (
                "context-processor",
                json!({"operation": "clear", "message_count": 2}),
                json!({}),
                json!({"operation": "clear", "messageCount": 2}),
            ),
            // The author of a Call has named its outputs.
            ("call", json!({"message_count": 2}), json!({}), json!({"message_count": 2})),
            ("llm", json!("text"), json!({}), json!("text")),
        ] {
            let mut record = record(SUCCESS);
            record.insert("step_type".into(), ty.into());
            record.insert("output_data".into(), output);
            if metadata != json!({}) {
                record.insert("metadata".into(), metadata.clone());
            }
            let cx = view(&record, View::Cx).unwrap();
            assert_eq!((&cx["output"], &cx["data"], &cx["metadata"]), (&shown, &shown, &metadata), "{ty}");
        }
    }

    #[test]
    fn own_details_of_a_record_are_shown_unchanged() {
        let mut record = record(SUCCESS);
        record.insert("details".into(), json!({"profileId": "p"}));
        assert_eq!(view(&record, View::Lp).unwrap()["details"], json!({"profileId": "p"}));
    }
}
