//! Apps that had no workflow in Dify (`chat`, `agent-chat`, `completion`): published as they are, and served under `/v1` in the
//! shapes of their own modes.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::llm;
use tidemill_tests::messages::{names, streamed};

use super::{System, system};

/// A file as Dify exports it.
fn app(mode: &str, more: Json) -> String {
    let mut config = json!({
        "model": {"provider": "langgenius/openai/openai", "name": "gpt-4o", "mode": "chat", "completion_params": {}},
        "prompt_type": "simple", "pre_prompt": "Write about {{topic}}.", "opening_statement": "Welcome",
        "user_input_form": [{"text-input": {"variable": "topic", "label": "Topic", "required": true, "max_length": 48, "default": ""}}],
    });
    config.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    json!({
        "kind": "app", "version": "0.1.5", "model_config": config,
        "app": {"mode": mode, "name": "Simple", "description": "d", "icon": "robot", "icon_background": "#FFEAD5"},
    })
    .to_string()
}

/// Publishes the file, and returns a client with its key.
async fn published(system: &System, file: &str) -> Client {
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": file})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    system.client.with_key(answer.body["key"].as_str())
}

fn keys(value: &Json) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn refusal(answer: &HttpResponse) -> (u16, &str) {
    (answer.status, answer.body["code"].as_str().unwrap_or_default())
}

fn body(mode: &str, more: Json) -> Json {
    let mut body = json!({"inputs": {"topic": "tides"}, "user": "u1", "response_mode": mode});
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_answers_its_form_in_difys_shapes_and_its_answer_can_be_rated() {
    let model = llm::rules(json!([{"match": {}, "chunks": ["High ", "water"]}])).await;
    let system = system(&[], &model).await;
    let app = published(&system, &app("completion", json!({}))).await;

    let answer = app.post("/v1/completion-messages", &body("blocking", json!({}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        keys(&answer.body),
        ["event", "task_id", "id", "message_id", "mode", "answer", "metadata", "created_at"]
    );
    assert_eq!((&answer.body["mode"], &answer.body["answer"]), (&json!("completion"), &json!("High water")));
    assert!(
        answer.body["metadata"]["usage"]["total_tokens"].as_u64().is_some_and(|n| n > 0),
        "{}",
        answer.text
    );

    let events = streamed(&app, "/v1/completion-messages", &body("streaming", json!({}))).await;
    assert_eq!(names(&events), ["message", "message_end"], "{events:#?}");
    let fields = ["event", "message_id", "created_at", "task_id", "id", "answer", "from_variable_selector"];
    assert_eq!(keys(&events[0]), fields);
    let text: String = events.iter().filter_map(|event| event["answer"].as_str()).collect();
    assert_eq!(text, "High water");
    let end = events.last().expect("the list above has it");
    assert_eq!(keys(end), ["event", "message_id", "created_at", "task_id", "id", "metadata", "files"]);
    assert_eq!(end["files"], Json::Null);

    let id = end["message_id"].as_str().expect("an id");
    let rated =
        app.post(&format!("/v1/messages/{id}/feedbacks"), &json!({"user": "u1", "rating": "like"})).await;
    assert_eq!(rated.status, 200, "{}", rated.text);
    let stopped = app.post(&format!("/v1/completion-messages/{id}/stop"), &json!({"user": "u1"})).await;
    assert_eq!((stopped.status, &stopped.body), (200, &json!({"result": "success"})));

    let refused = app.get(&format!("/v1/workflows/run/{id}")).await;
    assert_eq!(refusal(&refused), (400, "not_workflow_app"), "{}", refused.text);
    let refused = app.post("/v1/completion-messages", &body("blocking", json!({"query": "more"}))).await;
    assert_eq!(refusal(&refused), (400, "not_supported"), "{}", refused.text);
    for (path, code) in [("/v1/chat-messages", "not_chat_app"), ("/v1/workflows/run", "not_workflow_app")] {
        let refused = app.post(path, &body("blocking", json!({"query": "q"}))).await;
        assert_eq!(refusal(&refused), (400, code), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_answers_without_events_of_a_workflow_and_remembers_its_conversation() {
    let rules = json!([
        {"match": {"contains": "first"}, "chunks": ["one ", "answer"]},
        {"match": {}, "reply": "another"},
    ]);
    let model = llm::rules(rules).await;
    let system = system(&[], &model).await;
    let app = published(&system, &app("chat", json!({}))).await;

    let events = streamed(&app, "/v1/chat-messages", &body("streaming", json!({"query": "the first"}))).await;
    assert_eq!(names(&events), ["message", "message_end"], "{events:#?}");
    let fields = [
        "event",
        "conversation_id",
        "message_id",
        "created_at",
        "task_id",
        "id",
        "answer",
        "from_variable_selector",
    ];
    assert_eq!((keys(&events[0]), &events[0]["from_variable_selector"]), (fields.to_vec(), &Json::Null));
    let conversation = events[0]["conversation_id"].clone();

    let more = json!({"query": "more", "conversation_id": conversation});
    let answer = app.post("/v1/chat-messages", &body("blocking", more)).await;
    assert_eq!(
        (answer.status, &answer.body["mode"], &answer.body["answer"], &answer.body["conversation_id"]),
        (200, &json!("chat"), &json!("another"), &conversation),
        "{}",
        answer.text
    );
    let requests = model.take_requests();
    let asked = requests.last().expect("the model was asked")["messages"].to_string();
    assert!(asked.contains("one answer") && asked.contains("the first"), "its memory: {asked}");

    let id = conversation.as_str().expect("an id");
    let told = app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await;
    let queries: Vec<_> =
        told.body["data"].as_array().expect("messages").iter().map(|one| &one["query"]).collect();
    assert_eq!(queries, ["the first", "more"], "{}", told.text);
    let listed = app.get("/v1/conversations?user=u1").await;
    assert_eq!(listed.body["data"][0]["introduction"], "Welcome", "{}", listed.text);
    assert_eq!(app.get("/v1/info").await.body["mode"], "chat");
    let refused = app.post("/v1/completion-messages", &body("blocking", json!({}))).await;
    assert_eq!(refusal(&refused), (400, "app_unavailable"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_model_is_difys_error_of_such_apps_and_the_only_event() {
    let model = llm::rules(json!([{"match": {}, "status": 400, "error": "the model is tired"}])).await;
    let system = system(&[], &model).await;
    let app = published(&system, &app("chat", json!({}))).await;
    let answer = app.post("/v1/chat-messages", &body("blocking", json!({"query": "q"}))).await;
    assert_eq!(refusal(&answer), (400, "completion_request_error"), "{}", answer.text);
    let events = streamed(&app, "/v1/chat-messages", &body("streaming", json!({"query": "q"}))).await;
    assert_eq!(names(&events), ["error"], "{events:#?}");
    assert_eq!((&events[0]["code"], &events[0]["status"]), (&json!("completion_request_error"), &json!(400)));
}

/// An agent with a calculator.
fn agent(more: Json) -> String {
    let tool = json!({
        "enabled": true, "provider_id": "maths", "provider_name": "maths", "provider_type": "builtin",
        "tool_name": "eval_expression", "tool_label": "Evaluate", "tool_parameters": {"expression": ""},
    });
    let mut config = more;
    config["agent_mode"] =
        json!({"enabled": true, "max_iteration": 4, "strategy": "function_call", "tools": [tool]});
    app("agent-chat", config)
}

/// What an agent's client sees: each text as a whole; position, text and tool of each thought, and whether its tool has
/// answered; and the names of other events.
fn rounds(events: &[Json]) -> Vec<Json> {
    let mut seen: Vec<Json> = Vec::new();
    let mut is_text = false;
    for event in events.iter().filter(|event| event.is_object()) {
        let was_text = is_text;
        is_text = event["event"] == "agent_message";
        match event["event"].as_str() {
            Some("agent_message") => {
                let before = if was_text { seen.pop().unwrap_or_default() } else { Json::Null };
                let (before, piece) = (before.as_str().unwrap_or_default(), event["answer"].as_str());
                seen.push(format!("{before}{}", piece.unwrap_or_default()).into());
            }
            Some("agent_thought") => {
                let has_answered = event["observation"] != "";
                seen.push(json!([event["position"], event["thought"], event["tool"], has_answered]));
            }
            _ => seen.push(event["event"].clone()),
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn moderation_replaces_an_agent_s_thoughts_with_its_answer() {
    let call = json!([{"name": "eval_expression", "arguments": {"expression": "6*7"}}]);
    let rules = json!([
        {"match": {"messages": 4}, "chunks": ["hidden ", "words"]},
        {"match": {}, "chunks": ["Take a ", "BOMB"], "tool_calls": call},
    ]);
    let model = llm::rules(rules).await;
    let system = system(&[], &model).await;
    let config =
        json!({"keywords": "bomb", "outputs_config": {"enabled": true, "preset_response": "Sorry."}});
    let moderation = json!({"enabled": true, "type": "keywords", "config": config});
    let app = published(&system, &agent(json!({"sensitive_word_avoidance": moderation}))).await;

    let events = streamed(&app, "/v1/chat-messages", &body("streaming", json!({"query": "6*7?"}))).await;
    let replaced = events.iter().find(|event| event["event"] == "message_replace");
    let replaced = replaced.unwrap_or_else(|| panic!("{events:#?}"));
    assert_eq!((&replaced["answer"], &replaced["reason"]), (&json!("Sorry."), &json!("")));
    let conversation = replaced["conversation_id"].as_str().expect("an id");
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={conversation}")).await;
    let message = &listed.body["data"][0];
    assert_eq!(
        (&message["answer"], &message["agent_thoughts"][0]["thought"]),
        (&json!("Sorry."), &json!("Sorry."))
    );
    for shown in [json!(events).to_string(), message.to_string()] {
        assert!(!shown.contains("BOMB") && !shown.contains("hidden"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_shows_its_thoughts_and_refuses_to_answer_at_once() {
    let call = json!([{"name": "eval_expression", "arguments": {"expression": "6*7"}}]);
    let rules = json!([
        {"match": {"messages": 4}, "chunks": ["It is ", "42"]},
        {"match": {}, "chunks": ["Let me ", "calculate"], "tool_calls": call},
    ]);
    let model = llm::rules(rules).await;
    let system = system(&[], &model).await;
    let app = published(&system, &agent(json!({}))).await;

    let refused = app.post("/v1/chat-messages", &body("blocking", json!({"query": "q"}))).await;
    assert_eq!(
        (refusal(&refused), refused.body["message"].as_str()),
        ((400, "invalid_param"), Some("Agent Chat App does not support blocking mode"))
    );
    let events = streamed(&app, "/v1/chat-messages", &body("streaming", json!({"query": "6*7?"}))).await;
    let tool = "eval_expression";
    let expected = [
        json!([1, "", "", false]),
        json!("Let me calculate"),
        json!([1, "Let me calculate", tool, false]),
        json!([1, "Let me calculate", tool, true]),
        json!([2, "", "", false]),
        json!("It is 42"),
        json!([2, "It is 42", "", false]),
        json!("message_end"),
    ];
    assert_eq!(rounds(&events), expected, "each text is between the thoughts of its round");
    let answered = |event: &&Json| event["event"] == "agent_thought" && event["observation"] != "";
    let thought = events.iter().find(answered).unwrap_or_else(|| panic!("{events:#?}"));
    let fields = [
        "event",
        "conversation_id",
        "message_id",
        "created_at",
        "task_id",
        "id",
        "position",
        "thought",
        "observation",
        "tool",
        "tool_labels",
        "tool_input",
        "message_files",
    ];
    assert_eq!(keys(thought), fields);
    assert_eq!(
        (&thought["tool"], &thought["tool_input"], &thought["position"]),
        (&json!("eval_expression"), &json!(r#"{"eval_expression": {"expression": "6*7"}}"#), &json!(1))
    );
    assert!(thought["observation"].as_str().is_some_and(|text| text.contains("42")), "{thought:#}");

    let conversation = thought["conversation_id"].as_str().expect("an id");
    let told = app.get(&format!("/v1/messages?user=u1&conversation_id={conversation}")).await;
    let thoughts = &told.body["data"][0]["agent_thoughts"];
    assert_eq!(told.body["data"][0]["answer"], "Let me calculate\nIt is 42", "the rounds are apart");
    assert_eq!(
        (&thoughts[0]["id"], &thoughts[0]["tool"]),
        (&thought["id"], &thought["tool"]),
        "{}",
        told.text
    );
    assert_eq!(app.get("/v1/meta").await.body["tool_icons"]["eval_expression"]["background"], "#252525");
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_that_cannot_be_run_are_refused_with_the_ones_that_can() {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let system = system(&[], &model).await;
    for mode in ["rag-pipeline", "channel"] {
        let answer = system.client.post("/api/v1/apps", &json!({"workflow": app(mode, json!({}))})).await;
        assert_eq!(refusal(&answer), (422, "invalid_workflow"), "{mode}");
        let said = answer.body["diagnostics"].to_string();
        assert!(said.contains(mode) && said.contains("chat, agent-chat and completion"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_refused_by_an_error_and_not_by_an_event() {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let system = system(&[], &model).await;
    let chat = published(&system, &app("chat", json!({}))).await;
    let completion = published(&system, &app("completion", json!({}))).await;
    for (client, path, query) in
        [(&chat, "/v1/chat-messages", "q"), (&completion, "/v1/completion-messages", "")]
    {
        for mode in ["streaming", "blocking"] {
            let wrong = json!({"inputs": {}, "user": "u1", "query": query, "response_mode": mode});
            let refused = client.post(path, &wrong).await;
            assert_eq!(refusal(&refused), (400, "invalid_param"), "{path} {mode} {}", refused.text);
            let wrong = body(mode, json!({"query": query, "files": ["https://h/x.png"]}));
            assert_eq!(refusal(&client.post(path, &wrong).await), (400, "invalid_param"), "{path} {mode}");
        }
    }

    let theirs = chat.post("/v1/chat-messages", &body("blocking", json!({"query": "q", "user": "u2"}))).await;
    for conversation in [&theirs.body["conversation_id"], &json!("8c1d4f0e-0000-4000-8000-000000000000")] {
        // It is checked before the inputs.
        let more = json!({"query": "q", "inputs": {}, "conversation_id": conversation});
        for mode in ["streaming", "blocking"] {
            let refused = chat.post("/v1/chat-messages", &body(mode, more.clone())).await;
            assert_eq!(refusal(&refused), (404, "not_found"), "{mode} {}", refused.text);
            assert_eq!(refused.body["message"], "Conversation Not Exists.");
        }
    }
    let pinned = body("blocking", json!({"query": "q", "workflow_id": "draft"}));
    assert_eq!(chat.post("/v1/chat-messages", &pinned).await.status, 200, "it has no versions");
    assert_eq!(chat.get("/v1/workflows/logs").await.body["total"], 0, "these are logs of workflows");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_taken_up_again_only_with_event_ids_and_its_end_has_the_usage() {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let system = system(&[], &model).await;
    let app = published(&system, &app("chat", json!({}))).await;
    let said = app.post("/v1/chat-messages", &body("blocking", json!({"query": "q"}))).await;
    let usage = &said.body["metadata"]["usage"];
    assert!(usage["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{}", said.text);
    let path = format!("/v1/workflow/{}/events?user=u1", said.body["task_id"].as_str().expect("an id"));
    assert_eq!(refusal(&app.get(&path).await), (400, "not_workflow_app"));
    for (path, header) in [(format!("{path}&event_ids=true"), None), (path, Some("0"))] {
        let mut request = app.request(Method::GET, &path);
        if let Some(id) = header {
            request = request.header("last-event-id", id);
        }
        let mut stream = app.open(request).await;
        let mut last = Json::Null;
        while let Some(message) = stream.next().await {
            last = message.data.map_or(last, |data| serde_json::from_str(&data).expect("events are JSON"));
        }
        assert_eq!((&last["event"], &last["metadata"]["usage"]), (&json!("message_end"), usage), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_shows_the_features_of_its_file() {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let system = system(&[("features.speech_to_text", "openai/whisper-1")], &model).await;
    let more = json!({
        "suggested_questions": ["Why?"], "speech_to_text": {"enabled": true}, "retriever_resource": {"enabled": false},
    });
    let app = published(&system, &app("completion", more)).await;
    let shown = app.get("/v1/parameters").await.body;
    for (name, value) in [
        ("opening_statement", json!("Welcome")),
        ("suggested_questions", json!(["Why?"])),
        ("speech_to_text", json!({"enabled": true})),
        ("retriever_resource", json!({"enabled": false})),
        ("sensitive_word_avoidance", json!({"enabled": false, "type": "", "configs": []})),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    let silent = app.request(Method::POST, "/v1/audio-to-text");
    assert_eq!(refusal(&app.send(silent).await), (400, "no_audio_uploaded"), "the feature is on");
}
