//! Streams of Dify's service API, byte for byte: each frame has one `data:` line and no id, and each event has Dify's keys in
//! Dify's order. All types of events are produced by real runs.

mod keys;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::frames::Recording;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use self::keys::{check, every_name, keys};
use super::{System, system};

const ASK: &str = include_str!("../workflows/ask_twice.yml");
const SAVINGS: &str = include_str!("../../../../examples/savings.yml");
const BATCH: &str = include_str!("../../../../examples/batch.yml");

async fn publish(system: &System, workflow: &str) -> Client {
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": workflow})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    system.client.with_key(answer.body["key"].as_str())
}

/// Sends a request in streaming mode and records its stream.
async fn stream(app: &Client, path: &str, mut body: Json) -> Recording {
    body["response_mode"] = "streaming".into();
    let answer = app.post(path, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(answer.headers["cache-control"], "no-cache");
    assert_eq!(answer.headers["x-accel-buffering"], "no");
    Recording::of(&answer.text).unwrap_or_else(|error| panic!("{error}"))
}

async fn run(app: &Client, inputs: Json) -> Recording {
    stream(app, "/v1/workflows/run", json!({"inputs": inputs, "user": "u"})).await
}

async fn say(app: &Client, query: &str) -> Recording {
    stream(app, "/v1/chat-messages", json!({"inputs": {}, "query": query, "user": "u"})).await
}

/// A model node that tries again, and separates its reasoning.
fn asking(flow: &str) -> Flow {
    let retry = json!({"retry_enabled": true, "max_retries": 2, "retry_interval": 10});
    let llm = json!({"retry_config": retry, "reasoning_format": "separated"});
    Flow::new(flow).with("llm", llm).prompt("llm", "{{#sys.query#}}")
}

fn agent() -> Json {
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let tool = json!({
        "enabled": true, "type": "builtin", "provider_name": "maths", "tool_name": "eval_expression", "settings": {},
        "parameters": {"expression": {"auto": 1, "value": null}}, "extra": {"description": "Counts"},
    });
    let model = json!({"provider": "openai", "model": "m", "mode": "chat", "completion_params": {}});
    json!({
        "type": "agent", "title": "Agent", "tidemill": {}, "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
        "agent_parameters": {
            "model": constant(model), "tools": constant(json!([tool])), "instruction": constant(json!("Count.")),
            "query": constant(json!("what is it")), "maximum_iterations": constant(json!(5)),
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_has_difys_frame_and_difys_keys_in_difys_order() {
    let call = json!([{"name": "eval_expression", "arguments": {"expression": "6*7"}}]);
    let model = llm::rules(json!([
        {"match": {"contains": "break"}, "chunks": ["one ", "two ", "three"], "chunk_delay_ms": 150,
         "break_stream": true, "break_times": 1},
        {"match": {"contains": "snap"}, "chunks": ["one ", "two ", "three"], "chunk_delay_ms": 150,
         "break_stream": true, "break_times": 1},
        {"match": {"contains": "fail"}, "status": 400, "error": "no"},
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": call},
        {"match": {"contains": "think"}, "chunks": ["<think>", "hm", "</think>", "well"]},
        {"match": {}, "reply": "yes"},
    ]))
    .await;
    let system = system(&[], &model).await;
    let mut seen = BTreeSet::new();

    let workflow =
        publish(&system, &asking("start -> llm -> end").inputs(&["q"]).prompt("llm", "{{#start.q#}}").text())
            .await;
    for q in ["break", "think", "fail"] {
        check(&run(&workflow, json!({"q": q})).await, "workflow", &mut seen);
    }
    let chat =
        publish(&system, &asking("start -> llm -> answer").answer("answer", "{{#llm.text#}}").text()).await;
    for (query, last) in [("snap", "workflow_finished"), ("think", "workflow_finished"), ("fail", "error")] {
        let said = say(&chat, query).await;
        assert_eq!(said.names().last(), Some(&last), "{}", said.text);
        check(&said, "chat", &mut seen);
    }
    let counting = publish(&system, &Flow::new("start -> a -> end").with("a", agent()).text()).await;
    check(&run(&counting, json!({})).await, "workflow", &mut seen);
    let savings = publish(&system, SAVINGS).await;
    check(&run(&savings, json!({"amount": 1000, "target": 2000})).await, "workflow", &mut seen);
    check(&run(&savings, json!({})).await, "workflow", &mut seen);
    let letters = json!({"post": {"letters": ["Hi", "Ho"]}});
    check(&run(&publish(&system, BATCH).await, letters).await, "workflow", &mut seen);
    forms(&system, &mut seen).await;

    let mut all = every_name();
    // A form waits for an hour at least; the test of the projection has the keys of its end.
    all.remove("human_input_form_timeout");
    let missing: Vec<&String> = all.difference(&seen).collect();
    assert!(missing.is_empty(), "not produced: {missing:?}");
}

/// All events of a run, with ids, of which the recording is free.
async fn whole(app: &Client, id: &str) -> Recording {
    let request =
        app.request(Method::GET, &format!("/v1/workflow/{id}/events?user=u&continue_on_pause=True"));
    let answer = app.send(request.header("last-event-id", "0")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.text.contains("\n\nid: "), "{}", answer.text);
    let lines = answer.text.lines().filter(|line| !line.starts_with("id: "));
    let bare: String = lines.map(|line| format!("{line}\n")).collect();
    Recording::of(&bare).unwrap_or_else(|error| panic!("{error}"))
}

/// Forms that are answered.
async fn forms(system: &System, seen: &mut BTreeSet<String>) {
    let app = publish(system, ASK).await;
    let paused = run(&app, json!({"name": "Ada"})).await;
    check(&paused, "workflow", seen);
    assert_eq!(paused.names().last(), Some(&"workflow_paused"), "{}", paused.text);
    let id = paused.events[0]["workflow_run_id"].as_str().expect("a run").to_string();
    let forms: Vec<&Json> = paused.of_name("human_input_required").collect();
    assert_eq!(forms.len(), 2, "{}", paused.text);
    let events = format!("/v1/workflow/{id}/events?user=u");
    for form in forms {
        let (token, action) = (&form["data"]["form_token"], &form["data"]["actions"][0]["id"]);
        let path = format!("/v1/form/human_input/{}", token.as_str().expect("a token"));
        let answer =
            app.post(&path, &json!({"user": "u", "action": action, "inputs": {"word": "deep"}})).await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "{}"), "{action}");
        let again =
            app.post(&path, &json!({"user": "u", "action": action, "inputs": {"word": "deep"}})).await;
        let says = format!(
            "This form has already been submitted by another user, form_id={}",
            form["data"]["form_id"].as_str().expect("an id")
        );
        assert_eq!((again.status, &again.body["message"]), (412, &json!(says)), "{}", again.text);
    }
    // Between the two answers the run may pause once more.
    let rest = until("the run to end", LONG, async || {
        let rest = Recording::of(&app.get(&events).await.text)?;
        if rest.names().last() == Some(&"workflow_finished") { Ok(rest) } else { Err(rest.text) }
    })
    .await;
    check(&rest, "workflow", seen);
    check(&whole(&app, &id).await, "workflow", seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_every_field_of_difys_and_a_user_may_be_a_number_or_absent() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3});
    let model = llm::rules(json!([{"match": {}, "reply": "yes", "usage": usage}])).await;
    let system = system(&[], &model).await;
    let flow = asking("start -> llm -> answer").answer("answer", "{{#llm.text#}}");
    let app = publish(&system, &flow.text()).await;
    let body = json!({"inputs": {}, "query": "q", "user": 42, "auto_generate_name": "False"});
    let answer = app.post("/v1/chat-messages", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let conversation = answer.body["conversation_id"].as_str().expect("an id").to_string();
    let version = conversation.as_bytes()[14];
    assert!((b'1'..=b'5').contains(&version), "old clients take UUIDs of versions 1 to 5: {conversation}");
    assert_eq!(app.get("/v1/conversations?user=42").await.body["data"][0]["name"], "New conversation");
    let listed = until("the message to have its usage", LONG, async || {
        let listed = app.get(&format!("/v1/messages?user=42&conversation_id={conversation}")).await;
        if listed.body["data"][0]["total_tokens"] == 10 { Ok(listed) } else { Err(listed.text) }
    })
    .await;
    let message = &listed.body["data"][0];
    assert_eq!(
        keys(message),
        "id conversation_id parent_message_id inputs query answer feedback retriever_resources created_at \
         agent_thoughts message_files message_tokens answer_tokens provider_response_latency total_price currency status \
         error extra_contents total_tokens"
    );
    assert_eq!((&message["message_tokens"], &message["answer_tokens"]), (&json!(7), &json!(3)));
    assert_eq!((&message["total_price"], &message["currency"]), (&json!("0.0000000"), &json!("USD")));
    assert!(
        message["provider_response_latency"].as_f64().is_some_and(|seconds| seconds > 0.0),
        "{message:#}"
    );
    assert_eq!((&message["extra_contents"], &message["error"]), (&json!([]), &Json::Null));

    for path in ["/v1/conversations".to_string(), format!("/v1/messages?conversation_id={conversation}")] {
        let of_default = app.get(&path).await;
        assert!(
            of_default.status == 404 || of_default.body["data"] == json!([]),
            "{path}: {}",
            of_default.text
        );
    }
    let missing = app.post("/v1/chat-messages", &json!({"inputs": {}, "query": "q", "user": 0})).await;
    assert_eq!((missing.status, &missing.body["message"]), (400, &json!("Arg user must be provided.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_stands_in_the_message_and_the_time_of_a_run_is_counted_from_its_answer() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let form = json!({
        "type": "human-input", "tidemill": {}, "delivery_methods": [], "form_content": "Fine? {{#$output.note#}}", "timeout": 1,
        "timeout_unit": "hour", "inputs": [{"type": "paragraph", "output_variable_name": "note"}],
        "user_actions": [{"id": "go", "title": "Go"}],
    });
    let flow = Flow::new("start -> ask; ask[go] -> answer").with("ask", form).answer("answer", "done");
    let app = publish(&system, &flow.text()).await;
    let paused = say(&app, "q").await;
    let event = &paused.events[0];
    let text = |key: &str| event[key].as_str().expect("a text").to_string();
    let (id, conversation) = (text("message_id"), text("conversation_id"));
    let path = format!("/v1/messages?user=u&conversation_id={conversation}");
    let form = app.get(&path).await.body["data"][0]["extra_contents"][0].clone();
    assert_eq!(
        keys(&form),
        "workflow_run_id submitted form_definition form_submission_data type",
        "{form:#}"
    );
    assert_eq!((&form["submitted"], &form["form_submission_data"]), (&json!(false), &Json::Null));
    let token = form["form_definition"]["form_token"].as_str().expect("it waits").to_string();
    let detail = format!("/v1/workflows/run/{id}");
    let elapsed = |data: &Json| data["elapsed_time"].as_f64().expect("a number");
    until("the run to have waited", LONG, async || {
        let shown = app.get(&detail).await;
        if elapsed(&shown.body) > 1.5 { Ok(()) } else { Err(shown.text) }
    })
    .await;
    let said = json!({"user": "u", "action": "go", "inputs": {"note": "ok"}});
    assert_eq!(app.post(&format!("/v1/form/human_input/{token}"), &said).await.status, 200);
    let rest = Recording::of(&app.get(&format!("/v1/workflow/{id}/events?user=u")).await.text);
    let rest = rest.unwrap_or_else(|error| panic!("{error}"));
    let finished = rest.of_name("workflow_finished").next().expect("it ends");
    assert!(elapsed(&finished["data"]) < 1.4, "{finished:#}");
    let detail = app.get(&detail).await.body;
    assert!(elapsed(&detail) < 1.4, "{detail:#}");

    let form = until("the answer to be shown", LONG, async || {
        let listed = app.get(&path).await;
        let form = listed.body["data"][0]["extra_contents"][0].clone();
        if form["submitted"] == true { Ok(form) } else { Err(listed.text) }
    })
    .await;
    let submitted = &form["form_submission_data"];
    assert_eq!(keys(submitted), "node_id node_title rendered_content action_id action_text submitted_data");
    assert_eq!((&submitted["action_id"], &submitted["submitted_data"]["note"]), (&json!("go"), &json!("ok")));
    assert_eq!(form["form_definition"]["form_token"], Json::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn end_users_do_not_read_what_only_the_operator_may_know() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let system = System { client: scheduler.client(), cluster, _scheduler: scheduler, _worker: worker };
    let ask = json!({
        "type": "http-request", "tidemill": {}, "method": "get", "url": "http://me:hush@127.0.0.1:9/x", "headers": "", "params": "",
        "authorization": {"type": "no-auth"}, "body": {"type": "none", "data": []}, "timeout": {},
    });
    let flow = Flow::new("start -> ask -> end").with("ask", ask);
    let app = publish(&system, &flow.text()).await;
    let told = run(&app, json!({})).await;
    let finished = told.of_name("workflow_finished").next().expect("it ends");
    let id = finished["workflow_run_id"].as_str().expect("a run").to_string();
    assert_eq!(finished["data"]["status"], "failed", "{finished:#}");
    let detail = app.get(&format!("/v1/workflows/run/{id}")).await;
    for error in [finished["data"]["error"].to_string(), detail.body["error"].to_string()] {
        assert!(error.contains("blocked") && !error.contains("hush"), "{error}");
        assert!(!error.contains("http.allow") && !error.contains("http.guard"), "{error}");
    }
    let own = system.client.run(&id).await["error"].to_string();
    assert!(own.contains("http.allow"), "the operator reads the setting: {own}");

    // No worker has a model.
    let flow = Flow::new("start -> llm -> answer");
    let app = publish(&system, &flow.text()).await;
    let blocking = app.post("/v1/chat-messages", &json!({"inputs": {}, "query": "q", "user": "u"})).await;
    let code = json!("provider_not_initialize");
    assert_eq!((blocking.status, &blocking.body["code"]), (400, &code), "{}", blocking.text);
    let said = say(&app, "q").await;
    let error = said.of_name("error").next().expect("a failed chat ends with an error");
    assert_eq!((&error["code"], &error["status"]), (&code, &json!(400)), "{}", said.text);
}
