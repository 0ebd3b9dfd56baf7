use serde_json::{Value as Json, json};
use tidemill_common::ids::EntryId;
use tidemill_common::wire::event::EventRecord;

use super::{Projection, RunFacts, Totals};
use crate::api::tests::fixtures;

fn record(kind: &str, ts: i64, data: Json) -> EventRecord {
    let data = data.as_object().cloned().unwrap();
    EventRecord { entry: EntryId::new(1, 0), last_of_entry: true, kind: kind.into(), seq: 1, ts, data }
}

fn projection() -> Projection {
    let run = RunFacts {
        id: "run-1".into(),
        workflow_id: "v1".into(),
        user: "u".into(),
        inputs: json!({"name": "Ada", "sys.user_id": "u"}).as_object().cloned().unwrap(),
        created_at: 1_700_000_000,
        forms: None,
    };
    Projection::new(run, fixtures::graph())
}

/// Projects events and answers the payloads as lines of JSON, so that the order of keys counts.
fn told(projection: &mut Projection, events: &[(&str, i64, Json)]) -> Vec<String> {
    let payloads =
        events.iter().flat_map(|(kind, ts, data)| projection.project(&record(kind, *ts, data.clone())));
    payloads.map(|payload| payload.to_string()).collect()
}

fn line(event: &str, data: &str) -> String {
    format!(r#"{{"event":"{event}","workflow_run_id":"run-1","task_id":"run-1","data":{data}}}"#)
}

#[test]
fn a_run_begins_and_ends_with_every_key_in_difys_order() {
    let mut projection = projection();
    let begun = told(&mut projection, &[("graph_run_started", 1_700_000_001_500, json!({}))]);
    let expected = r#"{"id":"run-1","workflow_id":"v1","inputs":{"name":"Ada","sys.user_id":"u"},"created_at":1700000000,"reason":"initial"}"#;
    assert_eq!(begun, [line("workflow_started", expected)]);

    projection.set_totals(Totals { steps: 3, tokens: 7, elapsed: Some(2.5) });
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image"});
    let outputs = json!({"text": "hi", "pictures": [file]});
    let ended =
        told(&mut projection, &[("graph_run_succeeded", 1_700_000_004_000, json!({"outputs": outputs}))]);
    let file = r#"{"dify_model_identity":"__dify__file__","type":"image"}"#;
    let expected = format!(
        r#"{{"id":"run-1","workflow_id":"v1","status":"succeeded","outputs":{{"text":"hi","pictures":[{file}]}},"error":null,"elapsed_time":2.5,"total_tokens":7,"total_steps":3,"created_by":{{"id":"u","user":"u"}},"created_at":1700000000,"finished_at":1700000004,"exceptions_count":0,"files":[{file}]}}"#
    );
    assert_eq!(ended, [line("workflow_finished", &expected)]);
}

#[test]
fn every_end_has_its_status_and_its_reason() {
    for (kind, data, status, error, exceptions) in [
        ("graph_run_succeeded", json!({"outputs": {}}), "succeeded", Json::Null, 0),
        ("graph_run_partial_succeeded", json!({"exceptions_count": 2}), "partial-succeeded", Json::Null, 2),
        ("graph_run_failed", json!({"error": "boom", "exceptions_count": 1}), "failed", json!("boom"), 1),
        ("graph_run_aborted", json!({"reason": "Aborted: x"}), "stopped", json!("Aborted: x"), 0),
    ] {
        let mut projection = projection();
        projection.project(&record("graph_run_started", 1_000, json!({})));
        let payloads = projection.project(&record(kind, 3_500, data));
        let data = &payloads[0]["data"];
        assert_eq!(payloads[0]["event"], "workflow_finished");
        assert_eq!((&data["status"], &data["error"]), (&json!(status), &error), "{kind}");
        assert_eq!((&data["exceptions_count"], &data["elapsed_time"]), (&json!(exceptions), &json!(2.5)));
        assert_eq!(data["outputs"], json!({}));
    }
}

#[test]
fn nodes_are_numbered_as_they_begin_and_have_every_key_in_difys_order() {
    let mut projection = projection();
    let lines = told(
        &mut projection,
        &[
            ("node_run_started", 1_500, json!({"id": "e1", "node_id": "start"})),
            ("node_run_started", 1_600, json!({"id": "e2", "node_id": "end"})),
            (
                "node_run_succeeded",
                2_000,
                json!({"id": "e1", "node_id": "start", "start_at": 1.5, "finished_at": 2.0,
                    "inputs": {"name": "Ada"}, "outputs": {"sys.user_id": "u", "name": "Ada"}}),
            ),
        ],
    );
    let started = |id: &str, node: &str, title: &str, index: u32| {
        let data = format!(
            r#"{{"id":"{id}","node_id":"{node}","node_type":"{node}","title":"{title}","index":{index},"predecessor_node_id":null,"inputs":null,"inputs_truncated":false,"created_at":1,"extras":{{}},"iteration_id":null,"loop_id":null,"agent_strategy":null}}"#
        );
        line("node_started", &data)
    };
    let finished = r#"{"id":"e1","node_id":"start","node_type":"start","title":"Begin","index":1,"predecessor_node_id":null,"inputs":{"name":"Ada"},"inputs_truncated":false,"process_data":{},"process_data_truncated":false,"outputs":{"name":"Ada"},"outputs_truncated":false,"status":"succeeded","error":null,"elapsed_time":0.5,"execution_metadata":null,"created_at":1,"finished_at":2,"files":[],"iteration_id":null,"loop_id":null}"#;
    let expected = [
        started("e1", "start", "Begin", 1),
        started("e2", "end", "Finish", 2),
        line("node_finished", finished),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn failures_tell_their_error_and_retries_their_number() {
    let mut projection = projection();
    for (kind, event, status) in [
        ("node_run_failed", "node_finished", "failed"),
        ("node_run_exception", "node_finished", "exception"),
        ("node_run_retry", "node_retry", "retry"),
    ] {
        let data = json!({"id": "e", "node_id": "end", "error": "no route", "retry_index": 2, "metadata": {"total_price": "0.1"}});
        let payload = &projection.project(&record(kind, 5_000, data))[0];
        assert_eq!(payload["event"], event);
        let data = payload["data"].as_object().unwrap();
        assert_eq!((&data["status"], &data["error"]), (&json!(status), &json!("no route")));
        assert_eq!(data["execution_metadata"], json!({"total_price": "0.1"}));
        assert_eq!(data.get("retry_index"), (status == "retry").then_some(&json!(2)));
    }
}

#[test]
fn withdrawn_text_is_replaced_by_the_whole_text_that_is_left() {
    let mut projection = projection();
    let chunk =
        |of: &str, text: &str| ("node_run_stream_chunk", 1, json!({"selector": [of, "text"], "chunk": text}));
    let lines = told(
        &mut projection,
        &[
            chunk("a", "one "),
            chunk("llm", "tw"),
            chunk("llm", "o"),
            ("node_run_stream_replaced", 1, json!({"selector": ["llm", "text"], "text": ""})),
            chunk("llm", "TWO"),
            ("node_run_stream_replaced", 1, json!({"selector": ["a", "text"], "text": "ONE "})),
        ],
    );
    let chunk = |of: &str, text: &str| {
        line("text_chunk", &format!(r#"{{"text":"{text}","from_variable_selector":["{of}","text"]}}"#))
    };
    let replace = |text: &str| line("text_replace", &format!(r#"{{"text":"{text}"}}"#));
    let expected = [
        chunk("a", "one "),
        chunk("llm", "tw"),
        chunk("llm", "o"),
        replace("one "),
        chunk("llm", "TWO"),
        replace("ONE TWO"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(projection.reset()["data"], json!({"text": ""}));
}

#[test]
fn what_dify_does_not_tell_is_not_told() {
    let mut projection = projection();
    assert!(
        told(&mut projection, &[("graph_edge_skipped", 1, json!({})), ("of_a_newer_version", 1, json!({}))])
            .is_empty()
    );
}
