//! Workflow steps on real processes: missing values are searched and asked for, and the results of steps are stored
//! and streamed once, whichever processes die.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running as Model;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::wait::{LONG, until};

use super::called::file;
use super::{System, system};

/// A part of the prompt for the model that searches missing input.
const LOOKS: &str = "提取工具调用缺少的参数";
const LOOKS_AGAIN: &str = "JSON Schema 输出";
pub(super) const FILLING: &str = "自动参数填充";

/// A model that searches missing fields with this answer, and answers everything else with another text.
pub(super) async fn finder(answer: &str) -> Model {
    llm::rules(json!([
        {"match": {"system_contains": LOOKS}, "reply": answer, "usage": {"prompt_tokens": 8, "completion_tokens": 2}},
        {"match": {"system_contains": LOOKS_AGAIN}, "reply": answer, "usage": {"prompt_tokens": 8, "completion_tokens": 2}},
        {"match": {}, "reply": "well"},
    ]))
    .await
}

/// Registers the default profile.
pub(super) async fn keep_profile(client: &Client, model: &Model) {
    let provider = json!({"id": "acme", "base_url": model.base_url()});
    let answer = client.post("/api/v1/providers", &provider).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let profile = json!({"id": "p", "name": "p", "provider": "acme", "model": "m", "default": true});
    let answer = client.post("/api/v1/profiles", &profile).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
}

async fn fleet(model: &Model) -> System {
    let system = system(&[("http.allow", "127.0.0.1")], model).await;
    keep_profile(&system.client, model).await;
    system
}

/// A node that posts a city to a server, and lacks the city.
fn sends(outside: &Outside) -> Json {
    json!({
        "type": "http-request", "title": "W", "method": "post", "url": format!("{}/weather", outside.base_url),
        "headers": "", "params": "", "authorization": {"type": "no-auth", "config": null},
        "body": {"type": "raw-text", "data": [{"type": "text", "value": "{{#w_slot.query.city#}}/{{#w_slot.query.unit#}}"}]},
        "question": "{{#start.q#}}", "enable_filling": true,
        "input_schema": {"type": "object", "properties": {"query": {"type": "object", "properties": {
            "city": {"type": "string"}, "unit": {"type": "string", "default": "C"}}, "required": ["city", "unit"]}},
            "required": ["query"]},
    })
}

fn weather(outside: &Outside) -> String {
    file("Weather", &["q"], &[("w", sends(outside))], &[("body", ["w", "body"])])
}

pub(super) async fn submit(client: &Client, text: &str, options: Json) -> String {
    let inputs = json!({"q": "weather in Paris tomorrow"});
    client.submit(&json!({"workflow": text, "inputs": inputs, "user": "u", "options": options})).await
}

pub(super) async fn paused(client: &Client, run: &str) -> Json {
    until("the run to pause", LONG, async || {
        let shown = client.run(run).await;
        let waits =
            shown["pauses"].as_array().into_iter().flatten().any(|pause| pause["status"] == "pending");
        if shown["status"] == "paused" && waits { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

pub(super) fn pending(shown: &Json) -> Json {
    let mut pauses = shown["pauses"].as_array().into_iter().flatten();
    pauses.rfind(|pause| pause["status"] == "pending").expect("a pause is open").clone()
}

pub(super) async fn answer(client: &Client, run: &str, pause: &Json, input: Json) {
    let id = pause["pause_id"].as_str().expect("a pause has an id");
    let answer =
        client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &json!({"input": input})).await;
    assert!(answer.status < 300, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a02_a_value_that_a_model_finds_is_filled_in_and_shown_as_its_own_node() {
    let (model, outside) =
        (finder(r#"{"query": {"city": "Paris", "unit": "C"}}"#).await, Outside::start().await);
    let system = fleet(&model).await;
    let client = &system.client;
    let run = submit(client, &weather(&outside), json!({})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let calls = outside.take();
    assert_eq!(calls.iter().map(|call| call.body.as_str()).collect::<Vec<_>>(), ["Paris/C"]);
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    let inputs: Vec<_> = told.of_kind("step_input").collect();
    assert_eq!((inputs[0].data["step_name"].as_str(), inputs[0].node()), (Some(FILLING), Some("w_slot")));
    let outputs: Vec<_> = told.of_kind("step_output").collect();
    let content = &outputs[0].data["content"];
    assert_eq!(content["slot_data"], json!({"query": {"city": "Paris", "unit": "C"}}), "{content}");
    assert_eq!((&content["remaining_schema"], &content["filled_fields"]), (&Json::Null, &json!(["query"])));
    let began = told
        .of_kind("node_run_started")
        .find(|event| event.node() == Some("w_slot"))
        .expect("there is an event");
    assert_eq!((&began.data["is_virtual"], &began.data["parent_node_id"]), (&json!(true), &json!("w")));
    assert_eq!((&ended["total_tokens"], model.take_requests().len()), (&json!(10), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a03_se_a04_a_person_is_asked_for_a_value_that_the_model_does_not_find() {
    let (model, outside) = (finder("{}").await, Outside::start().await);
    let system = fleet(&model).await;
    let client = &system.client;
    for given in [
        json!({"content": {"/query": {"city": "Lyon", "unit": "F"}}}),
        json!({"query": {"city": "Lyon", "unit": "F"}}),
    ] {
        let run = submit(client, &weather(&outside), json!({})).await;
        let shown = paused(client, &run).await;
        let pause = pending(&shown);
        assert_eq!((&pause["kind"], &pause["node_id"]), (&json!("params"), &json!("w")), "{pause:#}");
        assert_eq!(pause["schema"]["required"], json!(["/query"]), "{pause:#}");
        assert_eq!(outside.take(), []);
        answer(client, &run, &pause, given).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        assert_eq!(outside.take().iter().map(|call| call.body.as_str()).collect::<Vec<_>>(), ["Lyon/F"]);
        let told = client.follow(&run, None).await.to_the_end().await;
        let asked: Vec<_> = told.of_kind("step_waiting_for_param").collect();
        assert_eq!((asked.len(), &asked[0].data["step_status"]), (1, &json!("param")));
        assert_eq!(asked[0].data["content"]["params"]["required"], json!(["/query"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a05_an_answer_that_does_not_fit_opens_another_round_and_a_refusal_cancels_the_step() {
    let (model, outside) = (finder("{}").await, Outside::start().await);
    let system = fleet(&model).await;
    let client = &system.client;
    let run = submit(client, &weather(&outside), json!({})).await;
    let first = pending(&paused(client, &run).await);
    answer(client, &run, &first, json!({"query": {"city": 5, "unit": "C"}})).await;
    let second = until("another round", LONG, async || {
        let shown = client.run(&run).await;
        let open = shown["pauses"].as_array().into_iter().flatten();
        let mut open =
            open.filter(|pause| pause["status"] == "pending" && pause["pause_id"] != first["pause_id"]);
        open.next().cloned().ok_or_else(|| shown.to_string())
    })
    .await;
    assert_eq!(second["round"], 2, "{second:#}");
    assert_eq!(second["schema"]["required"], json!(["/query/city"]));
    paused(client, &run).await;
    answer(client, &run, &second, json!(false)).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], outside.take().len()), (&json!("stopped"), 0), "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let cancelled = told.of_kind("step_cancel").next().expect("there is an event");
    assert_eq!(cancelled.data["step_status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a06_a_run_without_an_answer_fails_and_says_which_value_is_missing() {
    let (model, outside) = (finder("{}").await, Outside::start().await);
    let system = fleet(&model).await;
    let client = &system.client;
    let run = submit(client, &weather(&outside), json!({"interactive": false})).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], outside.take().len()), (&json!("failed"), 0), "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let error = &told.of_kind("step_error").next().expect("there is an event").data["content"];
    assert_eq!(
        (&error["data"]["error_type"], &error["data"]["missing_fields"]),
        (&json!("parameter_missing"), &json!(["query"]))
    );

    let mut branches: Json = serde_json::from_str(&weather(&outside)).unwrap();
    let graph = &mut branches["workflow"]["graph"];
    graph["nodes"][1]["data"]["error_strategy"] = "fail-branch".into();
    graph["edges"][1]["sourceHandle"] = "fail-branch".into();
    graph["nodes"][2]["data"]["outputs"] =
        json!([{"variable": "why", "value_selector": ["w", "error_message"]}]);
    let run = submit(client, &branches.to_string(), json!({"interactive": false})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "partial-succeeded", "{ended:#}");
    assert_eq!(ended["outputs"]["why"]["data"]["missing_fields"], json!(["query"]), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a07_when_the_model_is_down_a_person_is_asked() {
    let model = llm::rules(json!([{"match": {}, "reply": "x", "status": 500}])).await;
    let outside = Outside::start().await;
    let system = fleet(&model).await;
    let client = &system.client;
    let run = submit(client, &weather(&outside), json!({})).await;
    let shown = paused(client, &run).await;
    let pause = pending(&shown);
    assert_eq!(pause["kind"], "params");
    assert!(pause["slot_error"].as_str().is_some_and(|error| !error.is_empty()), "{pause:#}");
    assert_eq!(shown["total_tokens"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a25_a_question_outlives_the_whole_fleet() {
    let (model, outside) = (finder("{}").await, Outside::start().await);
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], Some(&model)).await;
    let (mut scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    keep_profile(&client, &model).await;
    let run = submit(&client, &weather(&outside), json!({})).await;
    let pause = pending(&paused(&client, &run).await);
    let asked = model.take_requests().len();
    scheduler.process.kill();
    worker.process.kill();
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    answer(&client, &run, &pause, json!({"query": {"city": "Lyon", "unit": "C"}})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert_eq!(outside.take().len(), 1);
    assert_eq!(model.take_requests().len(), 0, "no model is called again");
    assert_eq!(ended["total_tokens"], json!(10 * asked), "its cost is counted once");
}

/// The data of a step of the type `llm`.
fn says(prompt: &str, more: Json) -> Json {
    let mut node = json!({"type": "llm", "title": "L", "system_prompt": "be brief", "user_prompt": prompt});
    node.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    node
}

fn prompts(model: &Model) -> Vec<String> {
    model.take_requests().iter().map(|request| request.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a19_a_summary_and_facts_are_stored_and_available_to_later_steps() {
    let model = llm::rules(json!([
        {"match": {"system_contains": "总结对话"}, "reply": "They spoke of tea."},
        {"match": {"system_contains": "提取关于用户的事实"}, "reply": "{\"facts\": [\"user likes tea\"]}"},
        {"match": {"system_contains": "关键词"}, "reply": "```json\n{\"keywords\": [\"tea\"]}\n```"},
        {"match": {}, "reply": "fine"},
    ]))
    .await;
    let system = fleet(&model).await;
    let client = &system.client;
    let asks = json!({"question": "{{#start.q#}}"});
    let summary = json!({"type": "summary", "title": "S", "question": "{{#start.q#}}"});
    let facts = json!({"type": "facts", "title": "F", "message": [
        {"role": "user", "content": "I like tea"}, {"role": "assistant", "content": "ok"}]});
    let text = file(
        "Tea",
        &["q"],
        &[("s", summary), ("f", facts), ("l", says("{{ context }} | {{ question }}", asks))],
        &[
            ("summary", ["s", "summary"]),
            ("facts", ["f", "facts"]),
            ("domain", ["f", "domain"]),
            ("said", ["l", "text"]),
        ],
    );
    let run = submit(client, &text, json!({})).await;
    let ended = client.ended(&run).await;
    let expected = json!({"summary": "They spoke of tea.", "facts": ["user likes tea"], "domain": ["tea"], "said": "fine"});
    assert_eq!(ended["outputs"], expected, "{ended:#}");
    let asked = prompts(&model);
    assert_eq!(asked.len(), 4);
    // The prompt for the facts contains what was done before: the summary.
    assert!(asked[1].contains("<steps>") && asked[1].contains("They spoke of tea."), "{}", asked[1]);
    for part in ["They spoke of tea.", "user likes tea", "| weather in Paris tomorrow"] {
        assert!(asked[3].contains(part), "{part} in {}", asked[3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a19_the_prompt_of_a_summary_contains_the_earlier_steps() {
    let model = llm::rules(json!([
        {"match": {"system_contains": "总结对话"}, "reply": "They made tea."},
        {"match": {}, "reply": "The kettle is on."},
    ]))
    .await;
    let system = fleet(&model).await;
    let summary = json!({"type": "summary", "title": "S", "question": "{{#start.q#}}"});
    let nodes = [("l", says("boil", json!({}))), ("s", summary)];
    let run = submit(&system.client, &file("Tea", &["q"], &nodes, &[]), json!({})).await;
    assert_eq!(system.client.ended(&run).await["status"], "succeeded");
    let asked = prompts(&model);
    assert!(asked[1].contains("<steps>") && asked[1].contains("The kettle is on."), "{}", asked[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a20_a_step_gets_as_many_earlier_steps_as_it_is_configured_for() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = fleet(&model).await;
    let client = &system.client;
    let steps: Vec<(String, Json)> =
        (1..=4).map(|n| (format!("s{n}"), json!({"type": "empty", "title": format!("step-{n}")}))).collect();
    let mut nodes: Vec<(&str, Json)> = steps.iter().map(|(id, node)| (id.as_str(), node.clone())).collect();
    nodes.push(("l", says("{{ context }}", json!({"step_history_size": 2}))));
    let run = submit(client, &file("Steps", &["q"], &nodes, &[]), json!({})).await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
    let asked = prompts(&model).remove(0);
    for (part, is_there) in [("step-1", false), ("step-2", false), ("step-3", true), ("step-4", true)] {
        assert_eq!(asked.contains(part), is_there, "{part} in {asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_11_a_prompt_of_a_step_that_is_too_long_is_not_sent_and_names_the_setting() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[("worker.prompt_bytes_max", "2000")], &model).await;
    let client = &system.client;
    keep_profile(client, &model).await;
    for (node, says) in [
        (says("{{ question }}", json!({"question": "x".repeat(3000)})), "worker.prompt_bytes_max"),
        (
            json!({"type": "facts", "title": "F", "message": [{"role": "user", "content": "x".repeat(3000)}]}),
            "may have 2000",
        ),
    ] {
        let run = submit(client, &file("Long", &["q"], &[("l", node)], &[]), json!({})).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "failed", "{ended:#}");
        assert!(ended["error"].as_str().is_some_and(|error| error.contains(says)), "{ended:#}");
    }
    assert_eq!(model.take_requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a24_text_of_a_dead_worker_is_withdrawn_and_is_in_the_answer_once() {
    let pieces = ["one ", "two ", "three ", "four ", "five ", "six"];
    let model = llm::slow(&pieces, 300).await;
    let cluster = Cluster::start(&[("worker.job_lease_ms", "1500")], Some(&model)).await;
    let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    keep_profile(&client, &model).await;
    let text = file("Says", &["q"], &[("l", says("x", json!({})))], &[("said", ["l", "text"])]);
    let run = submit(&client, &text, json!({})).await;
    client.follow(&run, None).await.until_text("three").await;
    worker.process.kill();
    let _other = cluster.worker().await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["said"], pieces.concat(), "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    assert!(told.of_kind("node_run_stream_replaced").next().is_some());
    assert_eq!(told.text(), pieces.concat());
    let rt = client.get(&format!("/api/v1/runs/{run}/rt")).await;
    assert_eq!(rt.body["answer"], pieces.concat(), "{}", rt.text);
    // A client can tell by these numbers which text counts: that with the newest pair of attempt and delivery.
    let numbers = |data: &Json| [data["attempt"].as_u64(), data["delivery"].as_u64()];
    let newest = told.of_kind("text_add").map(|event| numbers(&event.data)).max().expect("there is a text");
    assert!(
        told.of_kind("text_add").any(|event| numbers(&event.data) < newest),
        "the first worker streamed some text"
    );
    let stands = told.of_kind("text_add").filter(|event| numbers(&event.data) == newest);
    let stands: String = stands.filter_map(|event| event.data["text"].as_str()).collect();
    assert_eq!(stands, pieces.concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a26_a_stop_ends_a_stream_and_leaves_no_record() {
    let model = llm::slow(&["a "; 200], 50).await;
    let system = fleet(&model).await;
    let client = &system.client;
    let text = file("Says", &["q"], &[("l", says("x", json!({})))], &[("said", ["l", "text"])]);
    let run = submit(client, &text, json!({})).await;
    client.follow(&run, None).await.until_text("a a").await;
    let stop = json!({"command": "stop", "reason": "enough"});
    assert_eq!(client.post(&format!("/api/v1/runs/{run}/commands"), &stop).await.status, 202);
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "stopped", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let cancelled = told.of_kind("step_cancel").next().expect("there is an event");
    assert_eq!((cancelled.node(), &cancelled.data["step_status"]), (Some("l"), &json!("cancelled")));
    let history = client.get(&format!("/api/v1/runs/{run}/history?view=se")).await;
    assert_eq!(history.body["data"], json!([]), "{}", history.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a27_a_tool_gets_the_result_of_a_child_and_the_value_that_a_model_has_found() {
    let model = llm::rules(json!([
        {"match": {"contains": "Extract the zone"}, "reply": "Europe/Oslo", "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
        {"match": {"system_contains": LOOKS}, "reply": "{\"current_time\": \"2026-01-31 10:00:00\", \"current_timezone\": \"Asia/Tokyo\"}",
         "usage": {"prompt_tokens": 8, "completion_tokens": 2}},
        {"match": {}, "reply": "It is ten in Oslo.", "usage": {"prompt_tokens": 2, "completion_tokens": 2}},
    ]))
    .await;
    let system = fleet(&model).await;
    let client = &system.client;
    let asks = json!({"type": "llm", "title": "A", "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "{{#start.q#}}"}], "context": {"enabled": false}});
    let tool = json!({
        "type": "tool", "title": "T", "provider_id": "time", "provider_name": "time", "provider_type": "builtin",
        "tool_name": "timezone_conversion", "tool_label": "T", "tool_configurations": {}, "enable_filling": true,
        "question": "{{#start.q#}}",
        "tool_parameters": {
            "current_timezone": {"type": "extraction", "value": {
                "source_node_id": "a", "source_variable": "context", "extraction_prompt": "Extract the zone"}},
        },
    });
    let text = file("Zones", &["q"], &[("a", asks), ("t", tool)], &[("text", ["t", "text"])]);
    let ended = client.ended(&submit(client, &text, json!({})).await).await;
    assert_eq!(ended["outputs"]["text"], "2026-01-31 18:00:00", "{ended:#}");
    assert_eq!((&ended["total_tokens"], model.take_requests().len()), (&json!(4 + 4 + 10), 3), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_may_begin_with_a_summary_and_end_with_facts() {
    let model = llm::rules(json!([
        {"match": {"system_contains": "总结对话"}, "reply": "They spoke of tea."},
        {"match": {"system_contains": "提取关于用户的事实"}, "reply": "{\"facts\": [\"user likes tea\"]}"},
        {"match": {"system_contains": "关键词"}, "reply": "{\"keywords\": []}"},
        {"match": {}, "reply": "fine"},
    ]))
    .await;
    let system = fleet(&model).await;
    let client = &system.client;
    let text = file("Tea", &["q"], &[("l", says("{{ context }}", json!({})))], &[("said", ["l", "text"])]);
    let plain = submit(client, &text, json!({})).await;
    assert_eq!(client.ended(&plain).await["status"], "succeeded");
    model.take_requests();
    let around = json!({"step_executor": {"summary_before": true, "facts_after": true}});
    let run = submit(client, &text, around).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]),
        (&json!("succeeded"), &json!({"said": "fine"})),
        "{ended:#}"
    );
    let rt = client.get(&format!("/api/v1/runs/{run}/rt")).await.body;
    assert_eq!(
        (&rt["summary"], &rt["facts"]),
        (&json!("They spoke of tea."), &json!(["user likes tea"])),
        "{rt:#}"
    );
    assert_eq!(rt["answer"], "fine", "the steps around it say nothing to the user");
    let asked = prompts(&model);
    assert_eq!(asked.len(), 4);
    assert!(asked[0].contains("总结对话") && asked[1].contains("They spoke of tea."), "{asked:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_explained_when_the_run_asks_for_it_and_the_run_fails() {
    let model = llm::rules(json!([{"match": {"contains": "nope"}, "reply": "There is no such step."}])).await;
    let system = fleet(&model).await;
    let client = &system.client;
    let text = file("Fails", &["q"], &[("s", json!({"type": "empty", "title": "S", "node": "nope"}))], &[]);
    let run = submit(client, &text, json!({"on_error": {"use_llm": true}, "language": "en"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let said: String = told.of_kind("text_add").filter_map(|event| event.data["text"].as_str()).collect();
    assert_eq!(said, "There is no such step.");
    let silent = submit(client, &text, json!({})).await;
    assert_eq!(client.ended(&silent).await["status"], "failed");
    assert_eq!(model.take_requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_can_be_requested_in_the_format_of_a_step_executor() {
    let model = llm::rules(json!([{"match": {}, "chunks": ["He", "llo"]}])).await;
    let system = fleet(&model).await;
    let client = &system.client;
    let text =
        file("Hello", &["q"], &[("l", says("x", json!({"title": "Say"})))], &[("said", ["l", "text"])]);
    let run = submit(client, &text, json!({})).await;
    client.ended(&run).await;
    let told = client.get(&format!("/api/v1/runs/{run}/events?dialect=step")).await.text;
    let payloads: Vec<Json> = told
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = payloads.iter().filter_map(|payload| payload["event"].as_str()).collect();
    let expected = [
        "flow.start",
        "step.init",
        "step.input",
        "text.add",
        "text.add",
        "step.output",
        "flow.success",
        "done",
    ];
    assert_eq!(names, expected, "{told}");
    let output = payloads.iter().find(|payload| payload["event"] == "step.output").unwrap();
    assert_eq!((&output["taskId"], &output["content"]), (&json!(run), &json!({"text": "Hello"})), "{told}");
    let flow = &output["flow"];
    assert_eq!(
        (&flow["stepId"], &flow["stepName"], &flow["stepStatus"]),
        (&json!("l"), &json!("Say"), &json!("success"))
    );
    assert_eq!((&flow["flowName"], &payloads[6]["flow"]["flowStatus"]), (&json!("Hello"), &json!("success")));
    assert!(output["metadata"]["outputTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{output}");
    assert_eq!(client.get(&format!("/api/v1/runs/{run}/events?dialect=other")).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a23_a_value_that_was_found_survives_the_death_of_the_worker() {
    let (model, outside) =
        (finder(r#"{"query": {"city": "Paris", "unit": "C"}}"#).await, Outside::start().await);
    let settings = [("http.allow", "127.0.0.1"), ("worker.job_lease_ms", "1500")];
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    keep_profile(&client, &model).await;
    // It dies when the second entry is recorded. The first is the model's reply, the second is the value that was
    // found in it.
    let mut command = cluster.command("tidemill-worker");
    command.args(["--listen", "127.0.0.1:0"]).env("TIDEMILL_CRASH_AT", "worker.step_kept:2");
    let mut dying = cluster.spawn("dying", command);
    dying.wait_for_log("worker started").await;
    let run = submit(&client, &weather(&outside), json!({})).await;
    until("the model to be called", LONG, async || {
        if model.requests().is_empty() { Err("no call yet".to_string()) } else { Ok(()) }
    })
    .await;
    let _other = cluster.worker().await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert_eq!((model.take_requests().len(), outside.take().len()), (1, 1), "{ended:#}");
    assert_eq!(ended["total_tokens"], 10);
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told.count("node_run_succeeded", "w_slot"), 1);
}
