use serde_json::{Value as Json, json};
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::nodes::NodeKind;
use tidemill_common::wire::event::EventRecord;

use crate::api::tests::fixtures;
use crate::runs::forms::FormTokens;
use crate::runs::projection::{FormsOfRun, Projection, RunFacts, Totals};

fn record(kind: &str, ts: i64, data: Json) -> EventRecord {
    let data = data.as_object().cloned().unwrap();
    EventRecord { entry: EntryId::new(1, 0), last_of_entry: true, kind: kind.into(), seq: 1, ts, data }
}

fn projection() -> Projection {
    let run = RunFacts {
        chat: None,
        id: "run-1".into(),
        workflow_id: "v1".into(),
        end_user_id: "e-1".into(),
        user: "u".into(),
        answered_by: None,
        inputs: json!({"name": "Ada", "sys.user_id": "u"}).as_object().cloned().unwrap(),
        created_at: 1_700_000_000,
        links: None,
        forms: None,
    };
    Projection::new(run, fixtures::graph())
}

/// Projects events and returns the payloads as lines of JSON, so that the order of keys is compared too.
fn projected(projection: &mut Projection, events: &[(&str, i64, Json)]) -> Vec<String> {
    let payloads =
        events.iter().flat_map(|(kind, ts, data)| projection.project(&record(kind, *ts, data.clone())));
    payloads.map(|payload| payload.to_string()).collect()
}

/// A projection of a graph with an iteration and a loop. Only the parts that the projection reads are right.
fn with_containers() -> Projection {
    let text = fixtures::GREETER.replace(
        "    - {id: end,",
        "    - {id: it, data: {type: template-transform, title: Each, template: x, variables: []}}
    - {id: its, data: {type: template-transform, title: Begin, template: x, variables: []}}
    - {id: lp, data: {type: template-transform, title: Again, template: x, variables: []}}
    - {id: say, data: {type: template-transform, title: Say, template: x, variables: []}}
    - {id: end,",
    );
    let imported = tidemill_common::graph::import(text.as_bytes());
    let mut graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    for node in &mut graph.nodes {
        node.kind = match node.id.as_str() {
            "it" => NodeKind::Iteration,
            "its" => NodeKind::IterationStart,
            "lp" => NodeKind::Loop,
            _ => node.kind,
        };
    }
    Projection { graph: graph.into(), ..projection() }
}

fn line(event: &str, data: &str) -> String {
    format!(r#"{{"event":"{event}","workflow_run_id":"run-1","task_id":"run-1","data":{data}}}"#)
}

#[test]
fn a_run_begins_and_ends_with_every_key_in_difys_order() {
    let mut projection = projection();
    let begun = projected(&mut projection, &[("graph_run_started", 1_700_000_001_500, json!({}))]);
    let expected = r#"{"id":"run-1","workflow_id":"v1","inputs":{"name":"Ada","sys.user_id":"u"},"created_at":1700000000,"reason":"initial"}"#;
    assert_eq!(begun, [line("workflow_started", expected)]);

    projection.set_totals(Totals { steps: 3, tokens: 7, elapsed: Some(2.5) });
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image"});
    let outputs = json!({"text": "hi", "pictures": [file]});
    let ended = projected(
        &mut projection,
        &[("graph_run_succeeded", 1_700_000_004_000, json!({"outputs": outputs}))],
    );
    let file = r#"{"dify_model_identity":"__dify__file__","type":"image"}"#;
    let expected = format!(
        r#"{{"id":"run-1","workflow_id":"v1","status":"succeeded","outputs":{{"text":"hi","pictures":[{file}]}},"error":null,"elapsed_time":2.5,"total_tokens":7,"total_steps":3,"created_by":{{"id":"e-1","user":"u"}},"created_at":1700000000,"finished_at":1700000004,"exceptions_count":0,"files":[{file}]}}"#
    );
    assert_eq!(ended, [line("workflow_finished", &expected)]);
}

#[test]
fn each_end_of_a_run_has_its_status_and_its_reason() {
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
fn nodes_are_numbered_in_order_of_their_start_and_have_every_key_in_difys_order() {
    let mut projection = projection();
    let lines = projected(
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
fn the_start_of_an_agent_names_its_strategy() {
    for (strategy, name) in [("function_calling", "function_calling"), ("ReAct", "ReAct")] {
        let agent = json!({
            "type": "agent", "title": "Agent", "agent_strategy_name": strategy,
            "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "L",
            "agent_parameters": {
                "model": {"type": "constant", "value": {"provider": "p", "model": "m", "mode": "chat", "completion_params": {}}},
                "query": {"type": "constant", "value": "go"},
            },
        });
        let text = fixtures::GREETER
            .replace("    - {id: end,", &format!("    - {{id: a, data: {agent}}}\n    - {{id: end,"));
        let imported = tidemill_common::graph::import(text.as_bytes());
        let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
        let mut projection = Projection { graph: graph.into(), ..projection() };
        let payloads = projection.project(&record("node_run_started", 1, json!({"id": "e", "node_id": "a"})));
        assert_eq!(payloads[0]["data"]["agent_strategy"], json!({"name": name, "icon": null}));
        assert_eq!(payloads[0]["data"]["node_type"], "agent");
    }
}

#[test]
fn only_the_start_of_a_node_inside_another_says_so() {
    let child = json!({"id": "c", "type": "template-transform", "data": {"template": "x", "variables": []}});
    let parent = json!({"type": "template-transform", "title": "T", "template": "x", "variables": [], "virtual_nodes": [child]});
    let text = fixtures::GREETER
        .replace("    - {id: end,", &format!("    - {{id: t, data: {parent}}}\n    - {{id: end,"));
    let imported = tidemill_common::graph::import(text.as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    let mut projection = Projection { graph: graph.into(), ..projection() };
    let mut started = |node: &str| {
        let payloads =
            projection.project(&record("node_run_started", 1, json!({"id": node, "node_id": node})));
        payloads[0]["data"].as_object().cloned().unwrap_or_default()
    };
    let fields = ["is_virtual", "parent_node_id", "extraction_source", "extraction_prompt"];
    let of = |data: &tidemill_common::value::JsonMap| fields.map(|field| data.get(field).cloned());
    let (inside, plain) = (started("t_c"), started("t"));
    assert_eq!(of(&inside), [json!(true), json!("t"), Json::Null, Json::Null].map(Some));
    assert_eq!(of(&plain), [None, None, None, None]);
    assert_eq!(inside.len(), plain.len() + fields.len());
}

#[test]
fn text_that_no_answer_shows_is_no_text_of_the_run() {
    let mut projection = projection();
    let data = |more: Json| {
        let mut data = json!({"id": "e", "node_id": "end", "selector": ["end", "text"], "chunk": "secretly", "text": ""});
        if let (Some(data), Json::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        data
    };
    for kind in ["node_run_stream_chunk", "node_run_stream_replaced"] {
        let payloads = projection.project(&record(kind, 1, data(json!({"in_answer": false}))));
        assert!(payloads.is_empty(), "{payloads:?}");
    }
    let payloads = projection.project(&record("node_run_stream_chunk", 1, data(json!({}))));
    assert_eq!((payloads.len(), projection.answer()), (1, "secretly".to_owned()));
}

#[test]
fn failures_have_their_error_and_retries_their_number() {
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
fn after_a_text_is_withdrawn_the_whole_remaining_text_is_sent() {
    let mut projection = projection();
    let chunk =
        |of: &str, text: &str| ("node_run_stream_chunk", 1, json!({"selector": [of, "text"], "chunk": text}));
    let lines = projected(
        &mut projection,
        &[
            chunk("a", "one "),
            chunk("llm", "tw"),
            chunk("llm", "o"),
            ("node_run_stream_replaced", 1, json!({"selector": ["llm", "text"], "text": ""})),
            chunk("llm", "TWO"),
            ("node_run_stream_replaced", 1, json!({"selector": ["llm", "reasoning_content"], "text": ""})),
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
fn events_that_dify_does_not_have_are_left_out() {
    let mut projection = projection();
    assert!(
        projected(
            &mut projection,
            &[("graph_edge_skipped", 1, json!({})), ("of_a_newer_version", 1, json!({}))]
        )
        .is_empty()
    );
}

#[test]
fn a_container_has_its_own_events_and_its_nodes_name_their_containers() {
    let about = |id: &str, node: &str, frame: &str| json!({"id": id, "node_id": node, "frame": frame});
    let with = |mut data: Json, more: Json| {
        data.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        data
    };
    let it = || about("e1", "it", "");
    let (second, ms) = (1_700_000_001, 1_700_000_001_000);
    let mut projection = with_containers();
    let lines = projected(
        &mut projection,
        &[
            ("node_run_started", ms, it()),
            (
                "node_run_iteration_started",
                ms,
                with(
                    it(),
                    json!({"inputs": {"iterator_selector": [1]}, "metadata": {"iteration_length": 1}}),
                ),
            ),
            ("node_run_iteration_next", ms, with(it(), json!({"index": 0}))),
            ("node_run_started", ms, about("e2", "its", "it#0")),
            ("node_run_succeeded", ms, about("e2", "its", "it#0")),
            (
                "node_run_iteration_succeeded",
                ms + 500,
                with(
                    it(),
                    json!({"start_at": 1_700_000_001.0, "finished_at": 1_700_000_001.5, "inputs": {},
                    "outputs": {"output": ["x"]}, "metadata": {"total_tokens": 9}, "steps": 1}),
                ),
            ),
            ("node_run_succeeded", ms, it()),
        ],
    );
    let head = r#""id":"it","node_id":"it","node_type":"iteration","title":"Each""#;
    let expected = [
        line(
            "iteration_started",
            &format!(
                r#"{{{head},"created_at":{second},"extras":{{}},"metadata":{{"iteration_length":1}},"inputs":{{"iterator_selector":[1]}},"inputs_truncated":false}}"#
            ),
        ),
        line("iteration_next", &format!(r#"{{{head},"index":0,"created_at":{second},"extras":{{}}}}"#)),
        line(
            "iteration_completed",
            &format!(
                r#"{{{head},"outputs":{{"output":["x"]}},"outputs_truncated":false,"created_at":{second},"extras":{{}},"inputs":{{}},"inputs_truncated":false,"status":"succeeded","error":null,"elapsed_time":0.5,"total_tokens":9,"execution_metadata":{{"total_tokens":9}},"finished_at":{second},"steps":1}}"#
            ),
        ),
    ];
    assert_eq!(lines, expected);

    let frame = "it#3/lp#0";
    for (kind, data) in [
        ("node_run_started", about("e3", "say", frame)),
        ("node_run_succeeded", with(about("e3", "say", frame), json!({"metadata": {"total_price": "1"}}))),
    ] {
        let payload = projection.project(&record(kind, ms, data))[0]["data"].clone();
        assert_eq!((&payload["iteration_id"], &payload["loop_id"]), (&json!("it"), &json!("lp")));
        if kind == "node_run_succeeded" {
            let metadata = json!({"total_price": "1", "iteration_id": "it", "iteration_index": 3,
                "loop_id": "lp", "loop_index": 0});
            assert_eq!(payload["execution_metadata"], metadata);
        }
    }
    let failed = with(about("e4", "lp", "it#3"), json!({"error": "no", "steps": 2}));
    let payload = projection.project(&record("node_run_loop_failed", ms, failed))[0].clone();
    assert_eq!((&payload["event"], &payload["data"]["error"]), (&json!("loop_completed"), &json!("no")));
    let next = with(about("e4", "lp", ""), json!({"index": 1, "pre_loop_output": {"n": 1}}));
    let payload = projection.project(&record("node_run_loop_next", ms, next))[0]["data"].clone();
    let keys: Vec<&String> = payload.as_object().unwrap().keys().collect();
    assert_eq!(keys[4..], ["index", "created_at", "pre_loop_output", "extras"]);
    // A client that joins later sees containers as nodes too.
    let old = projection.project_old(&record("node_run_started", ms, it()));
    assert_eq!(old[0]["event"], "node_started");
}

#[test]
fn a_pause_contains_its_forms_completely() {
    let run = RunId::new(1, 2, ShardId(0));
    let tokens = FormTokens::of_secret("secret");
    let mut projection = projection();
    projection.run.forms = Some(FormsOfRun { run, tokens: tokens.clone() });
    projection.set_totals(Totals { steps: 2, tokens: 5, elapsed: None });
    let pause = json!({"pause_id": "p", "node_id": "end", "node_title": "Finish", "content": "c",
        "inputs": [], "actions": [], "defaults": {}, "expires_at": "1700000100000000", "status": "pending"});
    let asked = json!({"id": "e", "node_id": "end", "pause": pause});
    let paused = json!({"outputs": {}, "pauses": [pause], "reasons": [
        {"TYPE": "hitl_required", "session_id": "p", "node_id": "end", "node_title": "Finish"},
        {"TYPE": "scheduled_pause", "message": "look"},
    ]});
    let lines = projected(
        &mut projection,
        &[
            ("graph_run_started", 1_000, json!({})),
            ("node_run_pause_requested", 2_000, asked),
            ("graph_run_paused", 3_500, paused),
        ],
    );
    let form = format!(
        r#""form_id":"p","node_id":"end","node_title":"Finish","form_content":"c","inputs":[],"actions":[],"display_in_ui":true,"form_token":"{}","resolved_default_values":{{}},"expiration_time":1700000100"#,
        tokens.token(run, "p")
    );
    assert_eq!(lines[1], line("human_input_required", &format!("{{{form}}}")));
    let expected = format!(
        r#"{{"workflow_run_id":"run-1","paused_nodes":["end"],"outputs":{{}},"reasons":[{{"TYPE":"human_input_required",{form}}},{{"TYPE":"scheduled_pause","message":"look"}}],"status":"paused","created_at":1700000000,"elapsed_time":2.5,"total_tokens":5,"total_steps":2}}"#
    );
    assert_eq!(lines[2], line("workflow_paused", &expected));
    let timeout = json!({"id": "e", "node_id": "end", "expiration_time": 1_700_000_100});
    let lines = projected(&mut projection, &[("node_run_human_input_form_timeout", 4_000, timeout)]);
    let expected = r#"{"node_id":"end","node_title":"Finish","expiration_time":1700000100}"#;
    assert_eq!(lines, [line("human_input_form_timeout", expected)]);
}

#[test]
fn sources_that_are_reported_again_count_once() {
    let mut chat = projection();
    let mut graph = (*chat.graph).clone();
    graph.features.insert("retriever_resource".into(), json!({"enabled": true}));
    chat.graph = graph.into();
    chat.run.chat = Some(super::ChatFacts { conversation_id: "c".into(), simple: None });
    let report = |id: &str, passages: &[&str]| {
        let data =
            json!({"id": id, "node_id": "llm", "data": {"retriever_resources": passages, "context": ""}});
        ("node_run_retriever_resource", 1, data)
    };
    // The second round of a loop is another execution; the third event comes from the first job, delivered again.
    let events =
        [report("e1", &["a", "b"]), report("e2", &["a"]), report("e1", &["a", "b"]), report("e3", &[])];
    projected(&mut chat, &events);
    assert_eq!(chat.metadata()["retriever_resources"], json!(["a", "b", "a"]));
    let mut graph = (*chat.graph).clone();
    graph.features.insert("retriever_resource".into(), json!({"enabled": false}));
    chat.graph = graph.into();
    assert_eq!(chat.metadata()["retriever_resources"], json!([]), "an app that does not show them");
}
