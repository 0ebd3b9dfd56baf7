//! Every type of the table, with its native event and its document.

use super::*;

/// Fields of a node that every native event about one has.
fn about(more: Json) -> Json {
    let mut data = json!({
        "id": "x", "node_id": "n", "node_type": "llm", "node_title": "N", "node_version": "1",
        "in_iteration_id": null, "in_loop_id": "lp", "frame": "lp#0",
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        data[name] = value.clone();
    }
    data
}

fn ended(status: &str, more: Json) -> Json {
    let mut data = about(json!({
        "start_at": 1_704_067_200.25, "finished_at": 1_704_067_201.0,
        "node_run_result": {
            "status": status, "inputs": {"a": 1}, "process_data": {}, "outputs": {"text": "hi"},
            "metadata": {"total_tokens": 3},
            "llm_usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_unit_price": "1",
                "prompt_price": "0.5", "completion_price": "0.25", "total_price": "0.75", "currency": "EUR",
                "latency": 0.5, "time_to_first_token": null},
            "edge_source_handle": "source", "error": "", "error_type": "", "retry_index": 0, "worker": "w",
        },
    }));
    for (name, value) in more.as_object().into_iter().flatten() {
        data[name] = value.clone();
    }
    data
}

fn shown_end(status: &str, more: Json) -> Json {
    let mut data = json!({
        "id": "x", "node_id": "n", "node_type": "llm", "node_version": "1",
        "node_run_result": {
            "status": status, "inputs": {"a": 1}, "process_data": {}, "outputs": {"text": "hi"},
            "metadata": {"total_tokens": 3},
            "llm_usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_price": 0.5,
                "completion_price": 0.25, "total_price": 0.75, "currency": "EUR", "latency": 0.5},
            "edge_source_handle": "source", "error": "", "error_type": "", "retry_index": 0,
        },
        "in_iteration_id": null, "in_loop_id": "lp", "start_at": "2024-01-01T00:00:00.250000Z",
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        data[name] = value.clone();
    }
    data
}

/// Native type and data, and the type and data of the document.
fn rows() -> Vec<(&'static str, Json, &'static str, Json)> {
    let begun =
        json!({"start_at": 1_704_067_200, "inputs": {"list": [1]}, "metadata": {"iteration_length": 1}});
    let shown_begun = json!({"id": "x", "node_id": "n", "node_title": "N", "start_at": "2024-01-01T00:00:00.000000Z",
        "inputs": {"list": [1]}, "metadata": {"iteration_length": 1}});
    let next = json!({"id": "x", "node_id": "n", "node_title": "N", "index": 1});
    let body = json!({"outputs": {"o": 1}, "steps": 2, "error": "", "metadata": {}, "finished_at": 1});
    let shown_body = json!({"id": "x", "node_id": "n", "node_title": "N", "outputs": {"o": 1}, "steps": 2, "metadata": {}});
    let broken = json!({"error": "no", "steps": 2, "metadata": {}, "outputs": {}});
    let shown_broken =
        json!({"id": "x", "node_id": "n", "node_title": "N", "error": "no", "steps": 2, "metadata": {}});
    let failed = json!({"error": "no"});
    let reason = json!({"TYPE": "hitl_required", "session_id": "p", "node_id": "n", "node_title": "N"});
    let log = json!({"message_id": "m", "label": "l", "status": "success", "data": {"a": 1}, "parent_id": null,
        "error": null, "metadata": {}, "node_execution_id": "x"});
    vec![
        (
            "graph_run_started",
            json!({"reason": "initial"}),
            "graph_run_started",
            json!({"reason": "initial"}),
        ),
        (
            "graph_run_succeeded",
            json!({"outputs": {"a": 1}, "warnings": []}),
            "graph_run_succeeded",
            json!({"outputs": {"a": 1}}),
        ),
        (
            "graph_run_partial_succeeded",
            json!({"exceptions_count": 1, "outputs": {}}),
            "graph_run_partial_succeeded",
            json!({"exceptions_count": 1, "outputs": {}}),
        ),
        (
            "graph_run_failed",
            json!({"error": "no", "exceptions_count": 0}),
            "graph_run_failed",
            json!({"error": "no", "exceptions_count": 0}),
        ),
        (
            "graph_run_aborted",
            json!({"reason": "enough", "outputs": {}}),
            "graph_run_aborted",
            json!({"reason": "enough", "outputs": {}}),
        ),
        (
            "graph_run_paused",
            json!({"reasons": [reason], "pauses": [{"pause_id": "p"}], "outputs": {}}),
            "graph_run_paused",
            json!({"reasons": [reason], "outputs": {}}),
        ),
        (
            "node_run_started",
            about(
                json!({"predecessor_node_id": "s", "start_at": 1_704_067_200.5, "extras": {}, "is_virtual": false}),
            ),
            "node_run_started",
            json!({"id": "x", "node_id": "n", "node_type": "llm", "node_title": "N", "node_version": "1",
                "predecessor_node_id": "s", "in_iteration_id": null, "in_loop_id": "lp",
                "start_at": "2024-01-01T00:00:00.500000Z"}),
        ),
        (
            "node_run_succeeded",
            ended("succeeded", json!({})),
            "node_run_succeeded",
            shown_end("succeeded", json!({})),
        ),
        (
            "node_run_failed",
            ended("failed", failed.clone()),
            "node_run_failed",
            shown_end("failed", failed.clone()),
        ),
        (
            "node_run_exception",
            ended("exception", failed.clone()),
            "node_run_exception",
            shown_end("exception", failed),
        ),
        (
            "node_run_stream_chunk",
            about(json!({"selector": ["n", "text"], "chunk": "hi", "is_final": false})),
            "node_run_stream_chunk",
            json!({"id": "x", "node_id": "n", "node_type": "llm", "selector": ["n", "text"], "chunk": "hi",
                "is_final": false}),
        ),
        (
            "node_run_retry",
            ended("retry", json!({"error": "no", "retry_index": 1})),
            "node_run_retry",
            json!({"id": "x", "node_id": "n", "node_type": "llm", "node_title": "N", "error": "no", "retry_index": 1,
                "start_at": "2024-01-01T00:00:00.250000Z"}),
        ),
        (
            "node_run_pause_requested",
            about(json!({"reason": reason, "pause": {"pause_id": "p"}})),
            "node_run_pause_requested",
            json!({"id": "x", "node_id": "n", "node_type": "llm", "reason": reason}),
        ),
        ("node_run_iteration_started", about(begun.clone()), "iteration_started", shown_begun.clone()),
        (
            "node_run_iteration_next",
            about(json!({"index": 1, "pre_iteration_output": null})),
            "iteration_next",
            next.clone(),
        ),
        ("node_run_iteration_succeeded", about(body.clone()), "iteration_succeeded", shown_body.clone()),
        ("node_run_iteration_failed", about(broken.clone()), "iteration_failed", shown_broken.clone()),
        ("node_run_loop_started", about(begun), "loop_started", shown_begun),
        ("node_run_loop_next", about(json!({"index": 1, "pre_loop_output": {}})), "loop_next", next),
        ("node_run_loop_succeeded", about(body), "loop_succeeded", shown_body),
        ("node_run_loop_failed", about(broken), "loop_failed", shown_broken),
        (
            "node_run_agent_log",
            about(log),
            "agent_log",
            json!({"id": "x", "node_id": "n", "message_id": "m", "label": "l", "status": "success", "data": {"a": 1},
                "parent_id": null, "error": null, "metadata": {}}),
        ),
    ]
}

#[test]
fn every_type_of_the_table_has_its_fields() {
    let rows = rows();
    for (native, data, name, expected) in &rows {
        let shown = of(native, data, Times::Iso);
        assert_eq!(shown, json!({"type": name, "data": expected}), "{native}");
        let order = |value: &Json| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        let of_table = TYPES.iter().find(|known| known.native == *native).map(|known| known.fields);
        assert_eq!(
            order(&shown["data"]),
            of_table.map(|fields| fields.iter().map(|f| (*f).into()).collect())
        );
    }
    let tested: Vec<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!(tested, TYPES.map(|known| known.native), "a type has no row in this test");
}

#[test]
fn other_events_keep_their_fields_and_get_their_times() {
    let expired = about(json!({"expiration_time": 1_704_067_200}));
    let shown = of("node_run_human_input_form_timeout", &expired, Times::Iso);
    assert_eq!(shown["type"], "node_run_human_input_form_timeout");
    assert_eq!(shown["data"]["expiration_time"], "2024-01-01T00:00:00.000000Z");
    assert_eq!(shown["data"]["frame"], "lp#0");
    let edge =
        json!({"edge_id": "e", "source_node_id": "a", "target_node_id": "b", "source_handle": "source"});
    assert_eq!(
        of("graph_edge_skipped", &edge, Times::Iso),
        json!({"type": "graph_edge_skipped", "data": edge})
    );
}

#[test]
fn times_can_be_unix_numbers() {
    let shown = of("node_run_succeeded", &ended("succeeded", json!({})), Times::Unix);
    assert_eq!(shown["data"]["start_at"], 1_704_067_200.25);
    assert_eq!(time(&Json::Null, Times::Iso), Json::Null);
}

#[test]
fn a_node_without_a_model_has_a_usage_of_zeros() {
    let shown = result(&json!({"status": "succeeded", "llm_usage": null}));
    assert_eq!(
        shown["llm_usage"],
        json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_price": 0.0,
            "completion_price": 0.0, "total_price": 0.0, "currency": "USD", "latency": 0.0})
    );
}
