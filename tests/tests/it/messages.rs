//! Lists of messages on real processes: nodes change them, models receive them, and later turns of a chat read them.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::{System, called, system};

/// A `context-processor`.
fn processor(operation: Json) -> Json {
    let mut data = json!({"type": "context-processor", "title": "C", "tidemill": {}});
    data.as_object_mut().expect("an object").extend(operation.as_object().cloned().expect("an object"));
    data
}

fn add(role: &str, content: &str) -> Json {
    processor(json!({"operation": "append", "append": {"messages": [{"role": role, "content": content}]}}))
}

fn keep_last(count: u64) -> Json {
    processor(json!({"operation": "truncate", "truncate": {"keepLast": count}}))
}

/// The conversation of the documented cases.
fn conversation() -> Json {
    json!({"main": [
        {"role": "system", "content": "S"}, {"role": "user", "content": "foo"}, {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "bar baz"}, {"role": "assistant", "content": "A2"},
    ]})
}

async fn list(client: &Client, run: &str) -> Json {
    let answer = client.get(&format!("/api/v1/runs/{run}/messages/main")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// The visible messages, in their order.
fn visible(list: &Json) -> Vec<String> {
    let text = |idx: &Json| {
        list["data"][idx.as_u64().expect("a place") as usize]["content"].as_str().map(str::to_owned)
    };
    list["visible"].as_array().into_iter().flatten().filter_map(text).collect()
}

async fn run(client: &Client, flow: &Flow, messages: Json) -> (String, Json) {
    let body =
        json!({"workflow": flow.text(), "inputs": {}, "user": "tester", "options": {"messages": messages}});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    (run, ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a01_a_list_is_shown_with_its_index_its_hidden_messages_and_its_history() {
    let system = system(&[], &llm::rules(json!([])).await).await;
    let client = &system.client;
    let flow = Flow::new("start -> cut -> end").with("cut", keep_last(2));
    let (run, ended) = run(client, &flow, conversation()).await;
    let shown = list(client, &run).await;
    assert_eq!(visible(&shown), ["bar baz", "A2"]);
    assert_eq!(
        (&shown["message_count"], &shown["stored_count"], &shown["current_batch"], &shown["version"]),
        (&json!(2), &json!(5), &json!(1), &json!(1))
    );
    assert_eq!(
        shown["mark_map"],
        json!({"originalIndices": [3, 4], "batchBoundaries": [0, 5], "boundaryToBatch": [0, 1], "currentBatch": 1})
    );
    assert_eq!(shown["batches"][1]["operation"], "truncate");
    assert_eq!(shown["batches"][0]["visible"], json!([0, 1, 2, 3, 4]));
    assert_eq!(
        shown["data"][0],
        json!({"idx": 0, "role": "system", "content": "S", "visible": false, "by": ""})
    );
    assert_eq!(ended["lists"]["main"]["stored_count"], 5);

    let page = client.get(&format!("/api/v1/runs/{run}/messages/main?from=1&limit=2")).await.body;
    assert_eq!((page["data"][0]["content"].as_str(), page["next"].as_u64()), (Some("foo"), Some(3)));
    assert_eq!(client.get(&format!("/api/v1/runs/{run}/messages/none")).await.status, 404);
    assert_eq!(client.get(&format!("/api/v1/runs/{run}/messages/main?limit=0")).await.status, 400);

    let history = |query: &str| format!("/api/v1/runs/{run}/history{query}");
    let whole = client.get(&history("")).await.body;
    assert_eq!(
        (&whole["data"][0]["step_type"], &whole["data"][0]["seq"]),
        (&json!("context-processor"), &json!(1))
    );
    let cx = client.get(&history("?view=cx")).await.body;
    assert_eq!(
        (&cx["data"][0]["status"], &cx["data"][0]["data"]["messageCount"]),
        (&json!("COMPLETED"), &json!(2))
    );
    let lp = client.get(&history("?view=lp")).await.body;
    assert_eq!(
        (&lp["data"][0]["nodeId"], &lp["data"][0]["action"]),
        (&json!("cut"), &json!("context-processor"))
    );
    let se = client.get(&history("?view=se")).await.body;
    assert_eq!((&se["data"][0]["stepId"], &se["data"][0]["stepStatus"]), (&json!("cut"), &json!("success")));
    assert_eq!(client.get(&history("?view=xx")).await.status, 400);
    assert_eq!(client.get(&format!("/api/v1/runs/{run}/rt")).await.body, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a12_a_model_gets_the_visible_messages_and_its_own_prompt() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let flow = Flow::new("start -> cut -> llm -> end")
        .with("cut", keep_last(2))
        .with("llm", json!({"conversation": {"id": "main"}}))
        .prompt("llm", "next");
    let (run, ended) = run(&system.client, &flow, conversation()).await;
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests[0]["messages"],
        json!([
            {"role": "user", "content": "bar baz"}, {"role": "assistant", "content": "A2"},
            {"role": "user", "content": "next"},
        ])
    );
    let shown = list(&system.client, &run).await;
    assert_eq!(visible(&shown), ["bar baz", "A2", "next", "well"]);
    assert_eq!(shown["token_usage"]["lifetime"]["total_tokens"], ended["total_tokens"]);
}

/// A node that sends the list `main` to the default profile.
async fn by_profile(system: &System, model: &tidemill_mock_llm::Running) -> Json {
    let provider = json!({"id": "acme", "base_url": model.base_url()});
    assert_eq!(system.client.post("/api/v1/providers", &provider).await.status, 201);
    let profile = json!({"id": "fast", "name": "fast", "provider": "acme", "model": "m", "default": true});
    assert_eq!(system.client.post("/api/v1/profiles", &profile).await.status, 201);
    json!({"profile_id": "fast", "prompt": "next", "model": null, "prompt_template": null})
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a12_a_profile_gets_the_visible_messages_and_its_own_prompt() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let asks = by_profile(&system, &model).await;
    let flow = Flow::new("start -> cut -> llm -> end").with("cut", keep_last(2)).with("llm", asks);
    let (run, _) = run(&system.client, &flow, conversation()).await;
    let sent = json!([
        {"role": "user", "content": "bar baz"}, {"role": "assistant", "content": "A2"},
        {"role": "user", "content": "next"},
    ]);
    assert_eq!(model.requests().iter().map(|it| &it["messages"]).collect::<Vec<_>>(), [&sent]);
    assert_eq!(visible(&list(&system.client, &run).await), ["bar baz", "A2", "next", "well"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a11_a_rollback_after_a_profile_shows_all_messages_and_keeps_the_lifetime_tokens() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let asks = by_profile(&system, &model).await;
    let flow = Flow::new("start -> cut -> llm -> back -> end")
        .with("cut", keep_last(1))
        .with("llm", asks)
        .with("back", processor(json!({"operation": "rollback", "rollback": {"target_batch": 0}})));
    let (run, ended) = run(&system.client, &flow, conversation()).await;
    let shown = list(&system.client, &run).await;
    assert_eq!(visible(&shown), ["S", "foo", "A1", "bar baz", "A2"]);
    let used = &shown["token_usage"];
    assert!(ended["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    assert_eq!(
        (&used["lifetime"]["total_tokens"], &used["current"]["total_tokens"]),
        (&ended["total_tokens"], &json!(0)),
        "{shown:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a11_a_rollback_shows_the_messages_visible_before_and_keeps_the_lifetime_tokens() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let flow = Flow::new("start -> cut -> llm -> back -> end")
        .with("cut", keep_last(1))
        .with("llm", json!({"conversation": {"id": "main"}}))
        .prompt("llm", "next")
        .with("back", processor(json!({"operation": "rollback", "rollback": {"target_batch": 0}})));
    let (run, ended) = run(&system.client, &flow, conversation()).await;
    let shown = list(&system.client, &run).await;
    assert_eq!(visible(&shown), ["S", "foo", "A1", "bar baz", "A2"]);
    assert_eq!((&shown["stored_count"], &shown["current_batch"]), (&json!(7), &json!(0)));
    let used = &shown["token_usage"];
    assert!(ended["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    assert_eq!(used["lifetime"]["total_tokens"], ended["total_tokens"]);
    assert_eq!(used["current"]["total_tokens"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a14_a_tool_result_whose_call_was_removed_is_kept_and_not_sent_to_a_model() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let call = json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let messages = json!({"main": [
        {"role": "assistant", "content": "", "tool_calls": call},
        {"role": "tool", "content": "r", "tool_call_id": "c1"},
        {"role": "user", "content": "so?"},
    ]});
    let flow = Flow::new("start -> cut -> llm -> end")
        .with("cut", keep_last(2))
        .with("llm", json!({"conversation": true}))
        .prompt("llm", "next");
    let (run, _) = run(&system.client, &flow, messages).await;
    let sent = &model.requests()[0]["messages"];
    assert_eq!(*sent, json!([{"role": "user", "content": "so?"}, {"role": "user", "content": "next"}]));
    assert_eq!(visible(&list(&system.client, &run).await), ["r", "so?", "next", "well"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a15_parallel_branches_add_their_messages_once_each() {
    let system = system(&[], &llm::rules(json!([])).await).await;
    let insert = |text: &str| {
        let messages = json!([{"role": "user", "content": text}]);
        // Both run on workers, so that they run at the same time.
        processor(json!({"operation": "insert", "insert": {"position": -1, "messages": messages},
            "tidemill": {"runs_on": "worker"}}))
    };
    let flow = Flow::new("start -> (x, y) -> end").with("x", insert("from x")).with("y", insert("from y"));
    let (run, _) = run(&system.client, &flow, conversation()).await;
    let shown = list(&system.client, &run).await;
    let mut added = visible(&shown).split_off(5);
    added.sort();
    assert_eq!(added, ["from x", "from y"]);
    assert_eq!((&shown["version"], &shown["current_batch"]), (&json!(2), &json!(0)));
    assert_eq!(shown["applied_ops"].as_object().map(serde_json::Map::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_a_chat_is_available_in_its_next_turn_and_is_removed_with_its_conversation() {
    let model = llm::rules(
        json!([{"match": {"contains": "two"}, "reply": "second"}, {"match": {}, "reply": "first"}]),
    )
    .await;
    let system = system(&[("scheduler.shards", "1")], &model).await;
    let flow = Flow::new("start -> llm -> answer")
        .with("llm", json!({"conversation": {}}))
        .prompt("llm", "{{#sys.query#}}")
        .answer("answer", "{{#llm.text#}}");
    let (_, app) = system.client.register(&flow).await;
    let say = |query: &str, conversation: &str| json!({"query": query, "inputs": {}, "user": "u1", "conversation_id": conversation, "response_mode": "blocking"});
    let first = app.post("/v1/chat-messages", &say("one", "")).await;
    assert_eq!((first.status, first.body["answer"].as_str()), (200, Some("first")), "{}", first.text);
    let conversation = first.body["conversation_id"].as_str().expect("it has an id").to_owned();
    let second = app.post("/v1/chat-messages", &say("two", &conversation)).await;
    assert_eq!(second.body["answer"].as_str(), Some("second"), "{}", second.text);
    assert_eq!(
        model.requests()[1]["messages"],
        json!([
            {"role": "user", "content": "one"}, {"role": "assistant", "content": "first"},
            {"role": "user", "content": "two"},
        ])
    );
    let run = second.body["message_id"].as_str().expect("it has an id");
    assert_eq!(visible(&list(&system.client, run).await), ["one", "first", "two", "second"]);

    // Another conversation begins with an empty list; this conversation is removed with its list.
    let other = app.post("/v1/chat-messages", &say("one", "")).await;
    let run = other.body["message_id"].as_str().expect("it has an id");
    assert_eq!(visible(&list(&system.client, run).await), ["one", "first"]);
    let key = format!("tm:{{0}}:conversation:{conversation}:messages");
    let redis = &system.cluster.redis;
    assert_eq!(redis.ask::<u64>(&["LLEN", &key]).await, 4);
    let path = format!("/v1/conversations/{conversation}");
    let request = app.request(reqwest::Method::DELETE, &path).header("content-type", "application/json");
    let gone = app.send(request.body(json!({"user": "u1"}).to_string())).await;
    assert!(gone.status < 300, "{}", gone.text);
    assert_eq!(redis.ask::<u64>(&["EXISTS", &key]).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_called_workflow_shortens_the_list_of_its_caller() {
    let system = system(&[], &llm::rules(json!([])).await).await;
    let client = &system.client;
    let mut cut = keep_last(1);
    cut["target"] = "parent".into();
    let nodes = [("cut", cut)];
    let text = called::file("Shorten", &["x"], &nodes, &[("left", ["cut", "message_count"])]);
    let answer = client.post("/api/v1/apps", &json!({"workflow": text})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let app = answer.body["id"].as_str().expect("it has an id").to_owned();
    let nodes = [("say", add("user", "more")), ("t", called::tool(&app, "x", "y"))];
    let caller = called::file("Caller", &["name"], &nodes, &[("left", ["t", "left"])]);
    let body =
        json!({"workflow": caller, "inputs": {}, "user": "tester", "options": {"messages": conversation()}});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (ended["status"].as_str(), &ended["outputs"]["left"]),
        (Some("succeeded"), &json!(1)),
        "{ended:#}"
    );
    assert_eq!(visible(&list(client, &run).await), ["more"]);

    // Here the workflow has no caller.
    let alone = client.submit(&json!({"workflow": text, "inputs": {}, "user": "tester"})).await;
    let ended = client.ended(&alone).await;
    assert_eq!(ended["status"], "failed");
    assert!(
        ended["error"].as_str().is_some_and(|error| error.contains("no parent conversation")),
        "{ended:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_a_run_are_part_of_its_snapshot() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let flow = Flow::new("start -> cut -> llm -> end")
        .with("cut", keep_last(2))
        .with("llm", json!({"conversation": true}))
        .prompt("llm", "next");
    let stop_behind = json!([{"after": "cut", "command": "pause", "reason": "look"}]);
    let body = json!({"workflow": flow.text(), "inputs": {}, "user": "t", "options": {"messages": conversation()},
        "commands": stop_behind});
    let first = client.submit(&body).await;
    tidemill_tests::wait::until("the run to pause", tidemill_tests::wait::LONG, async || {
        let shown = client.run(&first).await;
        if shown["status"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let snapshot = client.get(&format!("/api/v1/runs/{first}/snapshot")).await;
    assert_eq!(
        snapshot.body["objects"]["messages"]["main"].as_array().map(Vec::len),
        Some(5),
        "{}",
        snapshot.text
    );
    let imported = client.post("/api/v1/runs/import", &snapshot.body).await;
    assert!(imported.status < 300, "{}", imported.text);
    let second = imported.body["id"].as_str().expect("it has an id").to_owned();
    let resume = json!({"command": "resume"});
    let resumed = client.post(&format!("/api/v1/runs/{second}/commands"), &resume).await;
    assert!(resumed.status == 202, "{}", resumed.text);
    assert_eq!(client.ended(&second).await["status"], "succeeded");
    assert_eq!(visible(&list(client, &second).await), ["bar baz", "A2", "next", "well"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_before_a_node_begins_and_after_it_ends() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let hooks = json!([
        {"hookType": "BEFORE_EXECUTE", "eventName": "begins", "eventPayload": {"who": "{{#start.name#}}"}},
        {"hookType": "AFTER_EXECUTE", "eventName": "never", "condition": "output.text == 'ill'"},
        {"hookType": "AFTER_EXECUTE", "eventName": "later", "eventPayload": "{{ output.text }}", "weight": 1},
        {"hookType": "AFTER_EXECUTE", "eventName": "sooner", "weight": 2, "condition": "output.text == 'well' && status != 'failed'"},
    ]);
    let flow = Flow::new("start -> llm -> end").inputs(&["name"]).with("llm", json!({"hooks": hooks}));
    let run = client.start(&flow, &[("name", "Ann")]).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let names: Vec<(&str, Json)> = told
        .of_kind("node_custom_event")
        .map(|event| {
            (event.data["event_name"].as_str().unwrap_or_default(), event.data["event_data"].clone())
        })
        .collect();
    assert_eq!(names, [("begins", json!({"who": "Ann"})), ("sooner", Json::Null), ("later", json!("well"))]);

    let failing = json!([{"hook_type": "before_execute", "event_name": "x", "condition": "1 / 0 > 1"}]);
    let flow = Flow::new("start -> a -> end").with("a", json!({"hooks": failing}));
    let run = client.start(&flow, &[]).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "failed");
    assert!(
        ended["error"].as_str().is_some_and(|error| error.starts_with("hook before_execute [0] failed")),
        "{ended:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_18_hooks_run_after_a_node_that_ended_before_its_own_call() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let hooks =
        json!([{"hook_type": "after_execute", "event_name": "over", "event_payload": "{{ status }}"}]);
    let flow = Flow::new("start -> llm -> end").with("llm", json!({"hooks": hooks, "require_confirm": true}));
    let document = flow.document().to_string();
    let quiet = json!({"workflow": document, "inputs": {}, "options": {"interactive": false}});
    let run = client.submit(&quiet).await;
    assert_eq!(client.ended(&run).await["status"], "failed");
    let told = client.follow(&run, None).await.to_the_end().await;
    let over: Vec<_> = told.of_kind("node_custom_event").collect();
    assert_eq!((over.len(), &over[0].data["event_data"]), (1, &json!("failed")));
    assert!(model.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_18_cx_26_hooks_run_after_an_answer_that_came_while_no_worker_held_the_job() {
    let model = llm::rules(json!([{"match": {}, "reply": "well"}])).await;
    let system = system(&[("scheduler.secret_key", "open sesame, open wide")], &model).await;
    let client = &system.client;
    let hook = |payload: &str, condition: &str| json!({"hook_type": "after_execute", "event_name": "over", "event_payload": payload, "condition": condition});
    let form = json!({"type": "human-input", "tidemill": {}, "form_content": "Hi {{#start.name#}}", "inputs": [],
        "timeout": 1, "timeout_unit": "hour", "delivery_methods": [], "user_actions": [{"id": "ok", "title": "OK", "button_style": "primary"}],
        "hooks": [hook("{{ output.__action_id }} by {{#start.name#}}", "status == 'succeeded'"), hook("never", "output.__action_id == 'no'")]});
    let large = json!({"type": "user-interaction", "tidemill": {}, "interaction_type": "ask_for_input", "show_message": "?",
        "hooks": [hook("{{ output.input | length }} {{#env.key#}}", "error == ''")]});
    let flow = Flow::new("start -> q -> form -> end").inputs(&["name"]).with("form", form).with("q", large);
    let mut document = flow.document();
    document["workflow"]["environment_variables"] =
        json!([{"name": "key", "value_type": "secret", "value": "s3cret-of-the-env"}]);
    let run = client.submit(&json!({"workflow": document.to_string(), "inputs": {"name": "Ann"}})).await;
    let answers = [json!({"input": "x".repeat(100_000)}), json!({"action": "ok", "inputs": {}})];
    for (node, body) in ["q", "form"].into_iter().zip(answers) {
        client.node_is(&run, node, "waiting").await;
        let pauses = client.get(&format!("/api/v1/runs/{run}/pauses")).await.body;
        let is_open = |pause: &&Json| pause["status"] == "pending";
        let id = pauses["data"].as_array().into_iter().flatten().find(is_open).expect("it waits")["pause_id"]
            .clone();
        let path = format!("/api/v1/runs/{run}/pauses/{}/answer", id.as_str().unwrap_or_default());
        let answered = client.post(&path, &body).await;
        assert!(answered.status < 300, "{}", answered.text);
    }
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    let of_node = |node: &str| -> Vec<(String, Json)> {
        let of = told.events.iter().filter(|event| event.node() == Some(node));
        // The button "ok" has no edge.
        let of = of.filter(|event| event.kind != "run_warning");
        of.map(|event| (event.kind.clone(), event.data["event_data"].clone())).collect()
    };
    let (form, q) = (of_node("form"), of_node("q"));
    let last_two = |events: &[(String, Json)]| events[events.len() - 2..].to_vec();
    let over = |said: &Json| {
        [("node_custom_event".to_owned(), said.clone()), ("node_run_succeeded".to_owned(), Json::Null)]
    };
    assert_eq!(last_two(&form), over(&json!("ok by Ann")));
    let shown = q
        .iter()
        .find(|(kind, _)| kind == "node_custom_event")
        .map(|(_, said)| said.clone())
        .unwrap_or_default();
    assert!(
        shown.as_str().is_some_and(|said| said.starts_with("100000 ") && !said.contains("of-the-env")),
        "{shown}"
    );
    assert_eq!(last_two(&q), over(&shown));
    assert_eq!(told.of_kind("node_custom_event").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_18_hooks_get_the_error_of_a_node_that_took_too_long() {
    let model = llm::rules(json!([{"match": {}, "reply": "late", "delay_ms": 30_000}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let hooks = json!([{"hook_type": "after_execute", "event_name": "over", "event_payload": "{{ error }} {{#start.name#}}"}]);
    let data = json!({"hooks": hooks, "tidemill": {"execution_timeout_ms": 200}});
    let flow = Flow::new("start -> llm -> end").inputs(&["name"]).with("llm", data);
    let run = client.start(&flow, &[("name", "Ann")]).await;
    assert_eq!(client.ended(&run).await["status"], "failed");
    let told = client.follow(&run, None).await.to_the_end().await;
    let over: Vec<_> = told.of_kind("node_custom_event").map(|event| &event.data["event_data"]).collect();
    let expected = "node llm did not end within 200 ms (execution_timeout_ms of the node) Ann";
    assert_eq!(over, [&json!(expected)]);
}
