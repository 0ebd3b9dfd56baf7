//! `llm` nodes with a profile, on real processes, against a model that remembers its requests.

use std::time::Instant;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::check::Transcript;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::wait::{LONG, until};

/// A fleet whose workers have two profiles in their settings: `fast`, which is the default, and `relay`.
struct Fleet {
    client: Client,
    model: Running,
    outside: Outside,
    cluster: Cluster,
    _scheduler: Scheduler,
    _worker: Worker,
}

impl Fleet {
    async fn start(rules: Json) -> Self {
        let (model, outside) = (llm::rules(rules).await, Outside::start().await);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("tidemill.toml");
        let profiles = format!(
            "[profiles.fast]\nprovider = \"OPENAI_CHAT\"\nmodel = \"m-small\"\nmaxRetries = 0\napiKey = \"k\"\n\
             baseUrl = \"{}\"\nparameters = {{ temperature = 0.7, opts = {{ a = 1 }} }}\n\
             [profiles.relay]\nprovider = \"HUMAN_RELAY\"\nmodel = \"person\"\n",
            model.base_url()
        );
        std::fs::write(&file, profiles).expect("it is written");
        let endpoint = format!("{}/tools", outside.base_url);
        let settings = [
            ("config", file.to_str().expect("a text")),
            ("worker.default_profile", "fast"),
            ("tools.endpoint", endpoint.as_str()),
        ];
        let cluster = Cluster::start(&settings, None).await;
        let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
        Self { client: scheduler.client(), model, outside, cluster, _scheduler: scheduler, _worker: worker }
    }

    /// Runs `start -> llm -> end` to its end. Returns the run and its events.
    async fn runs(&self, llm: Json, name: &str) -> (Json, Transcript) {
        let run = self.client.start(&one(llm), &[("name", name)]).await;
        let shown = self.client.ended(&run).await;
        (shown, self.client.follow(&run, None).await.to_the_end().await)
    }

    fn requests(&self) -> Vec<Json> {
        self.model.take_requests()
    }
}

fn one(llm: Json) -> Flow {
    Flow::new("start -> llm -> end")
        .inputs(&["name"])
        .with("llm", profile(llm))
        .with("end", outputs(&["llm"]))
}

/// The data of an `llm` node with a profile.
fn profile(more: Json) -> Json {
    let mut data =
        json!({"profile_id": "fast", "prompt": "Hi {{name}}", "model": null, "prompt_template": null});
    data.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    data
}

/// The outputs of an end node that passes on all outputs of these nodes.
fn outputs(nodes: &[&str]) -> Json {
    let names = ["content", "text", "tool_calls", "tool_results", "usage", "finish_reason"];
    let of = |node: &str, name: &str| json!({"variable": format!("{node}_{name}"), "value_selector": [node, name]});
    let all: Vec<Json> = nodes.iter().flat_map(|node| names.map(|name| of(node, name))).collect();
    json!({"outputs": all})
}

fn said(shown: &Json) -> &str {
    shown["outputs"]["llm_content"].as_str().unwrap_or_else(|| panic!("no content: {shown:#}"))
}

fn node<'a>(shown: &'a Json, id: &str) -> &'a Json {
    let mut all = shown["nodes"].as_array().into_iter().flatten();
    all.find(|node| node["id"] == id).unwrap_or_else(|| panic!("no node {id}: {shown:#}"))
}

/// The result of the model's node.
fn result(told: &Transcript, kind: &str) -> Json {
    let mut ends = told.of_kind(kind).filter(|event| event.data["node_id"] == "llm");
    ends.next().unwrap_or_else(|| panic!("no {kind}: {told:#?}")).data["node_run_result"].clone()
}

fn messages(request: &Json) -> Vec<(String, String)> {
    let text = |message: &Json, key: &str| message[key].as_str().unwrap_or_default().to_owned();
    let all = request["messages"].as_array().into_iter().flatten();
    all.map(|message| (text(message, "role"), text(message, "content"))).collect()
}

fn pair(role: &str, text: &str) -> (String, String) {
    (role.into(), text.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a01_lp_a02_lp_a17_a_profile_answers_and_its_messages_are_kept() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2});
    let fleet = Fleet::start(json!([
        {"match": {"equals": "params"}, "echo": "params"},
        {"match": {}, "reply": "Hello", "usage": usage},
    ]))
    .await;
    let (shown, told) = fleet.runs(json!({}), "Ann").await;
    assert_eq!((said(&shown), &shown["outputs"]["llm_text"]), ("Hello", &json!("Hello")), "{shown:#}");
    assert_eq!(shown["outputs"]["llm_usage"]["total_tokens"], 7);
    assert_eq!(told.count("node_run_retry", "llm"), 0);
    let requests = fleet.requests();
    assert_eq!((requests.len(), &requests[0]["model"]), (1, &json!("m-small")));
    assert_eq!(messages(&requests[0]), [pair("user", "Hi Ann")]);
    assert_ne!(requests[0]["stream"], true);

    let run = shown["id"].as_str().expect("an id");
    let keys: Vec<String> = fleet.cluster.redis.ask(&["KEYS", &format!("*{run}*:history")]).await;
    let record: Vec<String> = fleet.cluster.redis.ask(&["LRANGE", &keys[0], "0", "-1"]).await;
    let record: Json = serde_json::from_str(&record[0]).expect("JSON");
    assert_eq!(record["action"], "llm", "{record:#}");
    let details = &record["details"];
    let shown = ["profileId", "prompt", "response"].map(|key| details[key].as_str().unwrap_or_default());
    assert_eq!((shown, &details["usage"]["total_tokens"]), (["fast", "Hi Ann", "Hello"], &json!(7)));

    let parameters = json!({"temperature": 0.1, "opts": {"b": 2}});
    let (shown, told) =
        fleet.runs(json!({"profileId": "default", "prompt": "params", "parameters": parameters}), "").await;
    let sent: Json = serde_json::from_str(said(&shown)).expect("JSON");
    assert_eq!(sent, json!({"temperature": 0.1, "opts": {"a": 1, "b": 2}}));
    let process = &result(&told, "node_run_succeeded")["process_data"];
    assert_eq!(
        (&process["profile_id"], &process["profile_version"]),
        (&json!("fast"), &json!(0)),
        "{process:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a03_lp_a04_lp_a05_an_invalid_node_or_profile_makes_no_call() {
    let fleet = Fleet::start(json!([{"match": {}, "reply": "Hello"}])).await;
    for wrong in [json!({"prompt": ""}), json!({"profile_id": ""})] {
        let refused = fleet.client.submit_answer(&one(wrong)).await;
        assert!(
            refused.status >= 400 && refused.text.contains("LLM node must have profileId and prompt"),
            "{}",
            refused.text
        );
    }
    let retry = json!({"max_retries": 3, "retry_interval": 10});
    let (shown, told) = fleet.runs(json!({"profile_id": "ghost", "retry_config": retry}), "").await;
    assert_eq!(
        (&shown["status"], &node(&shown, "llm")["error"]),
        (&json!("failed"), &json!("LLM Profile not found: ghost"))
    );
    assert_eq!(told.count("node_run_retry", "llm"), 0);
    let failed = told.of_kind("node_run_failed").next().expect("it fails").data.clone();
    assert_eq!(failed["node_run_result"]["error_type"], "NotFoundError", "{failed:#}");

    let flow = Flow::new("start -> llm; llm[fail-branch] -> other -> end; llm[source] -> end2")
        .inputs(&["name"])
        .with("llm", profile(json!({"profile_id": "ghost", "error_strategy": "fail-branch"})))
        .with("end", json!({"outputs": [{"variable": "why", "value_selector": ["llm", "error_type"]}]}))
        .with("end2", json!({"outputs": []}));
    let run = fleet.client.start(&flow, &[]).await;
    let shown = fleet.client.ended(&run).await;
    assert_eq!(shown["outputs"]["why"], "NotFoundError", "{shown:#}");

    let (shown, told) = fleet.runs(json!({"prompt": "Hi {{missing}}"}), "").await;
    assert_eq!(node(&shown, "llm")["error"], "Variable not found: missing");
    let failed = told.of_kind("node_run_failed").next().expect("it fails").data.clone();
    assert_eq!(failed["node_run_result"]["error_type"], "ValidationError");
    assert!(fleet.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a08_lp_a09_a_temporary_failure_is_retried_when_the_node_says_so() {
    let fleet = Fleet::start(json!([
        {"match": {"contains": "down"}, "status": 500, "reply": "-"},
        {"match": {"contains": "key"}, "status": 401, "reply": "-"},
        {"match": {"contains": "busy"}, "status": 429, "fail_times": 1, "headers": {"retry-after": "1"}, "reply": "well"},
    ]))
    .await;
    let retry = json!({"max_retries": 1, "retry_interval": 10});
    let node_of = |prompt: &str| json!({"prompt": prompt, "retry_config": retry});
    let (shown, told) = fleet.runs(node_of("down"), "").await;
    assert_eq!((fleet.requests().len(), told.count("node_run_retry", "llm")), (2, 1));
    let failed = told.of_kind("node_run_failed").next().expect("it fails").data.clone();
    assert_eq!(failed["node_run_result"]["error_type"], "LLMError");
    let error = node(&shown, "llm")["error"].as_str().expect("a text");
    assert!(error.starts_with("LLM call failed: "), "{error}");

    let (shown, told) = fleet.runs(node_of("key"), "").await;
    assert_eq!((fleet.requests().len(), told.count("node_run_retry", "llm")), (1, 0));
    let data = &result(&told, "node_run_failed")["process_data"]["error"]["data"];
    let expected =
        json!({"type": "CONFIG_ERROR", "provider": "OPENAI_CHAT", "model": "m-small", "status_code": 401});
    assert_eq!(*data, expected, "{shown:#}");

    let began = Instant::now();
    let (shown, told) = fleet.runs(node_of("busy"), "").await;
    assert_eq!((said(&shown), told.count("node_run_retry", "llm")), ("well", 1));
    assert!(began.elapsed().as_millis() >= 1000, "it waits as long as the server demands");
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a10_a_reply_streams_when_the_node_says_so() {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 4});
    let fleet = Fleet::start(json!([
        {"match": {}, "chunks": ["a", "b"], "chunk_delay_ms": 100, "usage": usage},
    ]))
    .await;
    let chunks = |told: &Transcript| -> Vec<(String, bool)> {
        let of_llm = told.of_kind("node_run_stream_chunk").filter(|event| event.data["node_id"] == "llm");
        let chunk =
            |data: &Json| (data["chunk"].as_str().unwrap_or_default().to_owned(), data["is_final"] == true);
        of_llm.map(|event| chunk(&event.data)).collect()
    };
    // An end node that passes these values on would stream them as text.
    let silent = Flow::new("start -> llm -> end")
        .inputs(&["name"])
        .with("llm", profile(json!({})))
        .with("end", json!({"outputs": []}));
    let run = fleet.client.start(&silent, &[("name", "x")]).await;
    let shown = fleet.client.ended(&run).await;
    let told = fleet.client.follow(&run, None).await.to_the_end().await;
    assert_eq!(shown["status"], "succeeded", "{shown:#}");
    let result = result(&told, "node_run_succeeded");
    assert_eq!((&result["outputs"]["content"], chunks(&told)), (&json!("ab"), vec![]));
    let run = fleet.client.start(&streams("Hi"), &[]).await;
    fleet.client.ended(&run).await;
    let told = fleet.client.follow(&run, None).await.to_the_end().await;
    let expected: Vec<_> =
        [("a", false), ("b", false), ("", true)].map(|(text, last)| (text.to_owned(), last)).into();
    assert_eq!(chunks(&told), expected);
    let succeeded =
        told.of_kind("node_run_succeeded").find(|event| event.data["node_id"] == "llm").expect("it ends");
    assert_eq!(succeeded.data["node_run_result"]["outputs"]["content"], "ab");
    assert_eq!(succeeded.data["node_run_result"]["outputs"]["usage"]["total_tokens"], 7);
}

/// A workflow whose reply streams into an answer node.
fn streams(prompt: &str) -> Flow {
    let llm =
        json!({"stream": true, "prompt": prompt, "retry_config": {"max_retries": 1, "retry_interval": 10}});
    Flow::new("start -> llm -> answer").with("llm", profile(llm)).answer("answer", "{{#llm.text#}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a11_a_stream_that_breaks_off_is_discarded_and_retried() {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 4});
    let fleet = Fleet::start(json!([
        {"match": {}, "reply": ["a", "xy"], "break_stream": true, "break_times": 1, "usage": usage},
    ]))
    .await;
    let run = fleet.client.start(&streams("break"), &[]).await;
    let shown = fleet.client.ended(&run).await;
    let told = fleet.client.follow(&run, None).await.to_the_end().await;
    let succeeded =
        told.of_kind("node_run_succeeded").find(|event| event.data["node_id"] == "llm").expect("it ends");
    assert_eq!(
        (&succeeded.data["node_run_result"]["outputs"]["content"], fleet.requests().len()),
        (&json!("xy"), 2)
    );
    assert_eq!((told.count("llm_stream_error", "llm"), told.count("node_run_retry", "llm")), (1, 1));
    let ledger: Vec<String> = {
        let keys: Vec<String> = fleet.cluster.redis.ask(&["KEYS", &format!("*{run}*:ledger")]).await;
        fleet.cluster.redis.ask(&["HVALS", &keys[0]]).await
    };
    let counted = ledger.iter().filter(|entry| entry.contains("\"total_tokens\":7")).count();
    assert_eq!(
        (&shown["total_tokens"], counted),
        (&json!(7), 1),
        "the broken stream is not counted: {ledger:?}"
    );
}

fn tools(more: Json) -> Json {
    let mut data = json!({"prompt": "look", "tools": ["acme/search", "acme/calc"]});
    data.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    data
}

fn call(name: &str, arguments: &str) -> Json {
    json!({"name": name, "arguments": arguments})
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a12_tools_of_a_reply_are_called_once_in_their_order() {
    let calls = json!([call("search", r#"{"q":"x"}"#), call("calc", r#"{"e":"1+1"}"#)]);
    let fleet = Fleet::start(json!([
        {"match": {"messages": 1, "has_tools": true}, "reply": "Looking", "tool_calls": calls},
        {"match": {"messages": 4}, "reply": "done"},
        {"match": {}, "echo": "messages"},
    ]))
    .await;
    let (shown, told) = fleet.runs(tools(json!({})), "").await;
    assert_eq!(
        (said(&shown), fleet.requests().len(), fleet.outside.take().len()),
        ("Looking", 1, 2),
        "{shown:#}"
    );
    let results = &shown["outputs"]["llm_tool_results"];
    let names = [0, 1].map(|at| (results[at]["tool_name"].clone(), results[at]["success"].clone()));
    assert_eq!(names, [(json!("search"), json!(true)), (json!("calc"), json!(true))]);
    assert_eq!(shown["outputs"]["llm_tool_calls"][1]["function"]["name"], "calc");
    let steps: Vec<_> = told.events.iter().filter(|event| event.kind.starts_with("tool_call_")).collect();
    let order: Vec<_> =
        steps.iter().map(|event| (event.kind.as_str(), event.data["tool_name"].clone())).collect();
    let expected = [
        ("tool_call_started", "search"),
        ("tool_call_completed", "search"),
        ("tool_call_started", "calc"),
        ("tool_call_completed", "calc"),
    ];
    assert_eq!(order, expected.map(|(kind, name)| (kind, json!(name))));

    // The list of messages has two results with the ids of their calls.
    let flow = Flow::new("start -> llm -> llm2 -> end")
        .with("llm", profile(tools(json!({}))))
        .with("llm2", profile(json!({"prompt": "next"})))
        .with("end", outputs(&["llm2"]));
    let run = fleet.client.start(&flow, &[]).await;
    fleet.client.ended(&run).await;
    let request = fleet.requests().pop().expect("it was called");
    let sent = request["messages"].as_array().expect("messages");
    let ids: Vec<_> =
        sent.iter().filter(|message| message["role"] == "tool").map(|m| m["tool_call_id"].clone()).collect();
    let asked: Vec<_> = [0, 1].map(|at| sent[1]["tool_calls"][at]["id"].clone()).into();
    assert_eq!((ids.len(), &ids), (2, &asked), "{request:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a15_results_go_back_to_the_model_when_rounds_are_allowed() {
    let fleet = Fleet::start(json!([
        {"match": {"messages": 1}, "reply": "Looking", "tool_calls": [call("search", "{}"), call("calc", "{}")]},
        {"match": {"messages": 4}, "reply": "done"},
    ]))
    .await;
    let (shown, _) = fleet.runs(tools(json!({"max_tool_rounds": 2})), "").await;
    assert_eq!(
        (said(&shown), fleet.requests().len(), fleet.outside.take().len()),
        ("done", 2, 2),
        "{shown:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a14_a_reply_with_too_many_tool_calls_fails_and_no_tool_is_called() {
    let many: Vec<Json> = (0..4).map(|_| call("search", "{}")).collect();
    let fleet = Fleet::start(json!([{"match": {}, "tool_calls": many, "reply": ""}])).await;
    let (shown, told) = fleet.runs(tools(json!({})), "").await;
    let error = node(&shown, "llm")["error"].as_str().expect("it fails").to_owned();
    assert!(error.contains("returned 4 tool calls, exceeds limit of 3"), "{error}");
    assert!(fleet.outside.take().is_empty(), "none of them is called");
    assert_eq!(told.count("tool_call_started", "llm"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a24_arguments_that_are_not_json_fail_their_call_and_not_the_node() {
    let calls = [call("search", "{}"), call("calc", "{\"q\":")];
    let fleet = Fleet::start(json!([{"match": {}, "reply": "", "tool_calls": calls}])).await;
    let (shown, told) = fleet.runs(tools(json!({})), "").await;
    let results = &shown["outputs"]["llm_tool_results"];
    assert_eq!(
        (&shown["status"], &results[0]["success"], &results[1]["error_type"]),
        (&json!("succeeded"), &json!(true), &json!("PARSE_ERROR")),
        "{shown:#}"
    );
    assert_eq!((told.count("tool_call_failed", "llm"), fleet.outside.take().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a13_a_failing_tool_fails_the_node_only_when_the_node_says_so() {
    let fleet = Fleet::start(json!([
        {"match": {}, "reply": "", "tool_calls": [call("search", "{}"), call("nowhere", "{}")]},
    ]))
    .await;
    let (shown, told) = fleet.runs(tools(json!({})), "").await;
    let results = &shown["outputs"]["llm_tool_results"];
    assert_eq!((&results[0]["success"], &results[1]["success"]), (&json!(true), &json!(false)), "{shown:#}");
    assert_eq!(told.count("tool_call_failed", "llm"), 1);
    let (shown, told) = fleet.runs(tools(json!({"on_tool_error": "fail"})), "").await;
    let failed = told.of_kind("node_run_failed").next().expect("it fails").data.clone();
    assert_eq!(
        (&shown["status"], &failed["node_run_result"]["error_type"]),
        (&json!("failed"), &json!("ToolError")),
        "{shown:#}"
    );
}

async fn paused(client: &Client, run: &str) -> Json {
    until("the run to pause", LONG, async || {
        let shown = client.run(run).await;
        if shown["status"] == "paused" { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

async fn answer(client: &Client, run: &str, input: Json) {
    let shown = paused(client, run).await;
    let mut all = shown["pauses"].as_array().into_iter().flatten();
    let pause = all.find(|pause| pause["status"] == "pending").unwrap_or_else(|| panic!("{shown:#}"));
    let id = pause["pause_id"].as_str().expect("an id");
    let answered =
        client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &json!({"input": input})).await;
    assert!(answered.status < 300, "{}", answered.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a19_a_profile_that_is_removed_while_a_run_waits_is_not_found_by_the_next_node() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let settings = [("scheduler.secret_key", "open sesame, open wide"), ("worker.providers_refresh_ms", "0")];
    let cluster = Cluster::start(&settings, None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let keep = async |id: &str, profile: Json| {
        let request = client.request(reqwest::Method::PUT, &format!("/api/v1/profiles/{id}"));
        client.send(request.header("content-type", "application/json").body(profile.to_string())).await
    };
    let fast = json!({
        "name": "fast", "provider": "OPENAI_CHAT", "model": "m", "apiKey": "a-key-of-somebody", "baseUrl": model.base_url(),
    });
    assert_eq!(keep("fast", fast).await.status, 201);
    let lacks = keep("half", json!({"name": "half", "provider": "OPENAI_CHAT", "apiKey": "k"})).await;
    assert!(lacks.status == 400 && lacks.text.contains("Profile model is required"), "{}", lacks.text);
    let shown = client.get("/api/v1/profiles").await.text;
    assert!(shown.contains("\"***\"") && !shown.contains("a-key-of-somebody"), "{shown}");

    let asks = json!({"type": "user-interaction", "interaction_type": "ask_for_approval"});
    let nodes = [
        ("one", profile(json!({"prompt": "one"}))),
        ("ask", asks),
        ("two", profile(json!({"prompt": "two"}))),
    ];
    let nodes = nodes.map(|(id, mut data)| {
        let kind = data["type"].as_str().unwrap_or("llm").to_owned();
        data["type"] = kind.into();
        (id, data)
    });
    let text = super::called::file("Removed", &[], &nodes, &[("two", ["two", "content"])]);
    let run = client.submit(&json!({"workflow": text, "inputs": {}, "user": "tester"})).await;
    paused(&client, &run).await;
    let removed =
        client.send(client.request(reqwest::Method::DELETE, "/api/v1/profiles/fast?force=true")).await;
    assert!(removed.status < 300, "{}", removed.text);
    answer(&client, &run, json!(true)).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["error"], model.requests().len()),
        (&json!("failed"), &json!("LLM Profile not found: fast"), 1),
        "{ended:#}"
    );
    let told = client.follow(&run, None).await.to_the_end().await;
    let failed = told.of_kind("node_run_failed").next().expect("it fails").data.clone();
    assert_eq!(failed["node_run_result"]["error_type"], "NotFoundError");
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a16_a_tool_without_approval_waits_for_it() {
    let fleet = Fleet::start(json!([
        {"match": {}, "reply": "Looking", "tool_calls": [call("search", r#"{"q":"x"}"#)]},
    ]))
    .await;
    let start = async || {
        let options = json!({"tool_approval": {"auto_approved_tools": ["calc"]}});
        let body =
            json!({"workflow": one(tools(json!({}))).text(), "inputs": {}, "user": "t", "options": options});
        fleet.client.submit(&body).await
    };
    let run = start().await;
    let shown = paused(&fleet.client, &run).await;
    let pause = &shown["pauses"][0];
    assert_eq!(
        (&pause["kind"], pause.to_string().contains(r#"{"q":"x"}"#)),
        (&json!("tool_approval"), true),
        "{pause:#}"
    );
    assert!(fleet.outside.take().is_empty());
    answer(&fleet.client, &run, json!({"approved": true, "editedParameters": {"q": "y"}})).await;
    let shown = fleet.client.ended(&run).await;
    let called = fleet.outside.take();
    assert!(called.len() == 1 && called[0].body.contains("\"y\""), "{called:?} {shown:#}");
    assert_eq!(shown["outputs"]["llm_tool_results"][0]["arguments"], json!({"q": "y"}));

    let run = start().await;
    answer(&fleet.client, &run, json!({"approved": false})).await;
    let shown = fleet.client.ended(&run).await;
    assert_eq!(shown["outputs"]["llm_tool_results"][0]["rejected"], true, "{shown:#}");
    assert!(fleet.outside.take().is_empty());
    assert_eq!(fleet.requests().len(), 2, "the model is called once for each run");
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a20_a_person_answers_in_place_of_a_model() {
    let fleet = Fleet::start(json!([])).await;
    let run = fleet.client.start(&one(json!({"profile_id": "relay"})), &[("name", "Ann")]).await;
    let shown = paused(&fleet.client, &run).await;
    let pause = shown["pauses"][0].clone();
    assert_eq!((&pause["kind"], &pause["prompt"]), (&json!("human_relay"), &json!("Hi Ann")), "{pause:#}");
    assert!(pause.to_string().contains(r#""message_count":1"#), "{pause:#}");
    answer(&fleet.client, &run, json!("typed")).await;
    let shown = fleet.client.ended(&run).await;
    assert_eq!(said(&shown), "typed", "{shown:#}");
    let told = fleet.client.follow(&run, None).await.to_the_end().await;
    let kinds = ["human_relay_requested", "human_relay_responded", "human_relay_processed"];
    assert_eq!(kinds.map(|kind| told.count(kind, "llm")), [1, 1, 1]);
    let processed = told.of_kind("human_relay_processed").next().expect("there is an event");
    assert!(processed.data["execution_time"].as_u64().is_some_and(|ms| ms > 0), "{processed:?}");
    assert!(fleet.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a21_nodes_share_one_list_of_messages_unless_switched_off() {
    let usage = json!({"prompt_tokens": 0, "completion_tokens": 0});
    let fleet = Fleet::start(json!([{"match": {}, "reply": "reply", "usage": usage}])).await;
    let flow = Flow::new("start -> llm -> llm2 -> llm3 -> end")
        .with("llm", profile(json!({"prompt": "one"})))
        .with("llm2", profile(json!({"prompt": "two"})))
        .with("llm3", profile(json!({"prompt": "three", "conversation": {"enabled": false}})))
        .with(
            "end",
            json!({"outputs": [
                {"variable": "context", "value_selector": ["llm2", "context"]},
                {"variable": "usage", "value_selector": ["llm2", "usage"]},
            ]}),
        );
    let run = fleet.client.start(&flow, &[]).await;
    let shown = fleet.client.ended(&run).await;
    let requests = fleet.requests();
    assert_eq!(
        messages(&requests[1]),
        [pair("user", "one"), pair("assistant", "reply"), pair("user", "two")]
    );
    assert_eq!(messages(&requests[2]), [pair("user", "three")]);
    let context = shown["outputs"]["context"].as_array().expect("the context is a list");
    assert_eq!((context.len(), &context[3]["text"]), (4, &json!("reply")), "{shown:#}");

    // The provider reported no usage: the output is null, and the ledger has an estimate.
    assert_eq!(shown["outputs"]["usage"], Json::Null);
    let keys: Vec<String> = fleet.cluster.redis.ask(&["KEYS", &format!("*{run}*:ledger")]).await;
    let entries: Vec<String> = fleet.cluster.redis.ask(&["HVALS", &keys[0]]).await;
    assert!(
        entries.len() == 3 && entries.iter().all(|entry| entry.contains(r#""estimated":true"#)),
        "{entries:?}"
    );
}
