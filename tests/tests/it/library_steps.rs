//! The acceptance cases of workflow steps, with a library node `n1` that calls an API and lacks a city.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running as Model;
use tidemill_tests::client::Client;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::called::file;
use super::library::{Heads, database, echo, keep};
use super::steps::{FILLING, answer, finder, keep_profile, paused, pending, submit};
use super::{System, system};

/// A fleet with `n1` in its library, and the server that `n1` calls.
struct Fleet {
    system: System,
    calls: Heads,
    known: String,
}

impl Fleet {
    async fn start(model: &Model) -> Self {
        let settings = [
            ("scheduler.secret_key", "open sesame, open wide"),
            ("worker.providers_refresh_ms", "0"),
            ("http.allow", "127.0.0.1"),
        ];
        let system = system(&settings, model).await;
        keep_profile(&system.client, model).await;
        let (server, calls) = echo().await;
        let node = json!({
            "callId": "API",
            "knownParams": {"url": format!("{server}/weather"), "method": "get", "query": {"unit": "C"}},
            "overrideInput": {"query": {"type": "object", "required": ["city"],
                "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}},
        });
        keep(&system.client, "library", "n1", node).await;
        let known = system.cluster.redis.ask(&["HGET", "tm:library:n1", "knownParams"]).await;
        Self { system, calls, known }
    }

    fn client(&self) -> &Client {
        &self.system.client
    }

    /// The paths of the requests since the last call of this function.
    fn asked(&self) -> Vec<String> {
        let heads = std::mem::take(&mut *self.calls.lock().expect("the thread with the lock did not panic"));
        heads.iter().map(|head| head.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
    }

    /// Checks that the entry in the library is unchanged, byte for byte.
    async fn is_untouched(&self) {
        let now: String = self.system.cluster.redis.ask(&["HGET", "tm:library:n1", "knownParams"]).await;
        assert_eq!(now, self.known);
    }

    async fn history(&self, run: &str) -> Vec<Json> {
        let answer = self.client().get(&format!("/api/v1/runs/{run}/history?view=se")).await;
        answer.body["data"].as_array().cloned().unwrap_or_else(|| panic!("{}", answer.text))
    }
}

fn weather(more: Json) -> String {
    let mut node = json!({"type": "api", "title": "W", "node": "n1", "question": "{{#start.q#}}"});
    node.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    file("Weather", &["q"], &[("w", node)], &[("code", ["w", "http_code"])])
}

/// The workflow of `weather`, with a fail branch that shows the error.
fn with_branch(text: &str) -> String {
    let mut file: Json = serde_json::from_str(text).expect("JSON");
    let graph = &mut file["workflow"]["graph"];
    let last = graph["nodes"].as_array().map_or(0, Vec::len) - 1;
    let node = graph["nodes"][last - 1]["id"].clone();
    graph["nodes"][last - 1]["data"]["error_strategy"] = "fail-branch".into();
    graph["edges"][last - 1]["sourceHandle"] = "fail-branch".into();
    graph["nodes"][last]["data"]["outputs"] = json!([
        {"variable": "class", "value_selector": [node, "error_type"]},
        {"variable": "why", "value_selector": [node, "error_message"]},
    ]);
    file.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a01_se_a14_parameters_of_the_step_replace_those_of_the_library() {
    let model = finder("{}").await;
    let fleet = Fleet::start(&model).await;
    let client = fleet.client();
    let run = submit(client, &weather(json!({"params": {"query": {"city": "Rome"}}})), json!({})).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]),
        (&json!("succeeded"), &json!({"code": 200})),
        "{ended:#}"
    );
    assert_eq!(
        fleet.asked(),
        ["/weather?city=Rome"],
        "once, and the unit is replaced with the rest of the query"
    );
    assert_eq!(model.take_requests().len(), 0, "no value was searched");
    fleet.is_untouched().await;
    let history = fleet.history(&run).await;
    assert_eq!(history.len(), 1, "{history:#?}");
    let record = &history[0];
    let shown = (&record["stepName"], &record["stepType"], &record["stepStatus"]);
    assert_eq!(shown, (&json!("W"), &json!("api"), &json!("success")), "{record:#}");
    assert_eq!(record["inputData"]["query"]["city"], "Rome", "{record:#}");
    assert_eq!(record["outputData"]["http_code"], 200, "{record:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a02_se_a14_a_model_finds_what_the_library_node_lacks() {
    let model = finder(r#"{"query": {"city": "Paris"}}"#).await;
    let fleet = Fleet::start(&model).await;
    let client = fleet.client();
    let run = submit(client, &weather(json!({})), json!({})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert_eq!(fleet.asked(), ["/weather?unit=C&city=Paris"]);
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    let steps: Vec<_> = told
        .events
        .iter()
        .filter(|event| ["step_init", "step_input", "step_output"].contains(&&*event.kind))
        .collect();
    let order: Vec<_> = steps.iter().map(|event| (&*event.kind, event.node().unwrap_or_default())).collect();
    let expected = [
        ("step_init", "w"),
        ("step_input", "w_slot"),
        ("step_output", "w_slot"),
        ("step_input", "w"),
        ("step_output", "w"),
    ];
    assert_eq!(order, expected);
    let name = |at: usize| &steps[at].data["step_name"];
    assert_eq!((name(1), name(2), name(3)), (&json!(FILLING), &json!(FILLING), &json!("W")));
    let id = |at: usize| steps[at].data["step_id"].as_str().unwrap_or_default().to_owned();
    assert!(id(1) == id(2) && id(1) != "w" && id(3) == "w" && id(4) == "w", "{steps:#?}");
    let found = &steps[2].data["content"];
    assert_eq!(found["slot_data"], json!({"query": {"city": "Paris"}}), "{found:#}");
    assert_eq!((&found["remaining_schema"], &found["filled_fields"]), (&Json::Null, &json!(["query/city"])));
    let history = fleet.history(&run).await;
    assert_eq!(history.len(), 1, "no entry for the search: {history:#?}");
    fleet.is_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a03_se_a04_a_person_gives_the_value_that_the_model_does_not_find() {
    let fleet = Fleet::start(&finder("{}").await).await;
    let client = fleet.client();
    for given in [json!({"content": {"/query/city": "Lyon"}}), json!({"query": {"city": "Lyon"}})] {
        let run = submit(client, &weather(json!({})), json!({})).await;
        let shown = paused(client, &run).await;
        let pause = pending(&shown);
        assert_eq!((&pause["kind"], &pause["node_id"]), (&json!("params"), &json!("w")), "{pause:#}");
        assert_eq!(pause["schema"]["required"], json!(["/query/city"]), "{pause:#}");
        assert_eq!((&shown["status"], fleet.asked().len()), (&json!("paused"), 0));
        answer(client, &run, &pause, given).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        assert_eq!(fleet.asked(), ["/weather?unit=C&city=Lyon"]);
        let told = client.follow(&run, None).await.to_the_end().await;
        let asked: Vec<_> = told.of_kind("step_waiting_for_param").collect();
        assert_eq!((asked.len(), &asked[0].data["step_status"]), (1, &json!("param")));
        let last = told.of_kind("step_output").last().expect("it has an event");
        assert_eq!((last.node(), &last.data["step_status"]), (Some("w"), &json!("success")));
    }
    fleet.is_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a05_a_value_that_does_not_fit_is_asked_for_again_and_a_refusal_cancels_the_step() {
    let fleet = Fleet::start(&finder("{}").await).await;
    let client = fleet.client();
    let run = submit(client, &weather(json!({})), json!({})).await;
    let first = pending(&paused(client, &run).await);
    answer(client, &run, &first, json!({"query": {"city": 5}})).await;
    let second = until("another round", LONG, async || {
        let shown = client.run(&run).await;
        let mut open = shown["pauses"].as_array().into_iter().flatten();
        let open = open.find(|pause| pause["status"] == "pending" && pause["pause_id"] != first["pause_id"]);
        open.cloned().ok_or_else(|| shown.to_string())
    })
    .await;
    assert_eq!((&second["round"], &second["kind"]), (&json!(2), &json!("params")), "{second:#}");
    assert_eq!((&second["schema"]["required"], fleet.asked().len()), (&json!(["/query/city"]), 0));
    paused(client, &run).await;
    answer(client, &run, &second, json!(false)).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], fleet.asked().len()), (&json!("stopped"), 0), "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let off: Vec<_> = told.of_kind("step_cancel").collect();
    assert_eq!((off.len(), off[0].node(), &off[0].data["step_status"]), (1, Some("w"), &json!("cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a06_without_an_answer_the_node_says_which_value_is_missing() {
    let fleet = Fleet::start(&finder("{}").await).await;
    let client = fleet.client();
    let alone = json!({"interactive": false});
    let run = submit(client, &weather(json!({})), alone.clone()).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], fleet.asked().len()), (&json!("failed"), 0), "{ended:#}");
    let run = submit(client, &with_branch(&weather(json!({}))), alone).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["class"]),
        (&json!("partial-succeeded"), &json!("CallError"))
    );
    let data = &ended["outputs"]["why"]["data"];
    assert_eq!(data["error_type"], "parameter_missing", "{ended:#}");
    assert_eq!((&data["missing_fields"], fleet.asked().len()), (&json!(["query/city"]), 0), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a22_a_step_waits_for_approval_before_it_calls() {
    let fleet = Fleet::start(&finder("{}").await).await;
    let client = fleet.client();
    let text = weather(json!({"params": {"query": {"city": "Rome"}}, "require_confirm": true}));
    for (approved, status, calls) in [(true, "succeeded", 1), (false, "stopped", 0)] {
        let run = submit(client, &text, json!({})).await;
        let pause = pending(&paused(client, &run).await);
        assert_eq!((&pause["kind"], fleet.asked().len()), (&json!("confirm"), 0), "{pause:#}");
        answer(client, &run, &pause, json!(approved)).await;
        let ended = client.ended(&run).await;
        assert_eq!((&ended["status"], fleet.asked().len()), (&json!(status), calls), "{ended:#}");
        let told = client.follow(&run, None).await.to_the_end().await;
        let waits: Vec<_> = told.of_kind("step_waiting_for_start").collect();
        assert_eq!((waits.len(), &waits[0].data["step_status"]), (1, &json!("waiting")), "{waits:#?}");
        let off: Vec<_> = told.of_kind("step_cancel").collect();
        assert_eq!(off.len(), 1 - calls, "{off:#?}");
        assert!(off.iter().all(|event| event.data["step_status"] == "cancelled"), "{off:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a17_a_model_writes_the_query_and_a_permanent_failure_is_not_retried() {
    let model = llm::rules(json!([
        {"match": {"contains": "the first"}, "reply": "```sql\nselect id from t where a = 1\n```"},
        {"match": {"contains": "a poem"}, "reply": "Roses are red, and violets are blue."},
        {"match": {}, "reply": "drop table t"},
    ]))
    .await;
    let fleet = Fleet::start(&model).await;
    let client = fleet.client();
    let folder = tempfile::tempdir().expect("a folder");
    let kept = json!({"database_type": "sqlite", "database": database(folder.path())});
    keep(client, "datasources", "db", kept).await;
    let sql = |more: Json| {
        let mut node = json!({"type": "sql", "title": "S", "datasource": "db", "retry_config": {"max_retries": 3, "retry_interval": 1}});
        node.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        file("Asks", &["q"], &[("s", node)], &[("rows", ["s", "result"])])
    };
    let asks = |question: &str| sql(json!({"mode": "generate", "question": question}));
    let run = submit(client, &asks("the first"), json!({})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"], json!({"rows": [{"id": 7}]}), "{ended:#}");
    let query = |text: &str| sql(json!({"mode": "query", "sql": text}));
    for (text, class) in [
        (asks("a poem"), "SqlInvalid"),
        (asks("something else"), "SqlNotReadOnly"),
        (query("drop table t"), "SqlNotReadOnly"),
        (query("select nothing from t"), "SqlExecutionFailed"),
    ] {
        model.take_requests();
        let run = submit(client, &with_branch(&text), json!({})).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["outputs"]["class"], class, "{ended:#}");
        let told = client.follow(&run, None).await.to_the_end().await;
        assert_eq!(told.of_kind("node_run_retry").count(), 0, "{class}");
        assert!(model.take_requests().len() <= 1, "{class}");
    }
    let run = submit(client, &query("select id from t order by id"), json!({})).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        ended["outputs"],
        json!({"rows": [{"id": 7}, {"id": 8}]}),
        "the table is unchanged: {ended:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_of_a_service_describes_its_own_input() {
    let model = finder(r#"{"path": {"city": "Paris"}, "query": {"days": 2}}"#).await;
    let fleet = Fleet::start(&model).await;
    let client = fleet.client();
    let known: Json = serde_json::from_str(&fleet.known).expect("JSON");
    let server = known["url"].as_str().expect("a text").trim_end_matches("/weather");
    let document = json!({"openapi": "3.0.0", "paths": {"/forecast/{city}": {"get": {
        "operationId": "forecast",
        "parameters": [
            {"name": "city", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "days", "in": "query", "required": true, "schema": {"$ref": "#/components/schemas/Days"}},
            {"name": "lang", "in": "query", "schema": {"type": "string"}},
        ],
    }}}, "components": {"schemas": {"Days": {"type": "integer", "minimum": 1}}}});
    keep(client, "services", "svc", json!({"server": server, "openapi": document})).await;
    let step = |operation: &str| {
        let node = json!({"type": "api", "title": "F", "service_id": "svc", "operation": operation, "question": "{{#start.q#}}"});
        file("Forecast", &["q"], &[("f", node)], &[("code", ["f", "http_code"])])
    };
    for name in ["forecast", "get /forecast/{city}"] {
        let run = submit(client, &step(name), json!({})).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["outputs"], json!({"code": 200}), "{ended:#}");
        assert_eq!(fleet.asked(), ["/forecast/Paris?days=2"]);
        let told = client.follow(&run, None).await.to_the_end().await;
        let found = &told.of_kind("step_output").next().expect("it has an event").data["content"];
        assert_eq!(found["filled_fields"], json!(["path/city", "query/days"]), "{found:#}");
    }
    let run = submit(client, &with_branch(&step("nope")), json!({})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["class"], "ServiceMetadataError", "{ended:#}");
    assert_eq!(fleet.asked().len(), 0);
}
