//! Chats over Dify's API: messages, the memory of a conversation, and the user who may continue it.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::messages::{message, names, streamed};

use super::system;

fn chat() -> Flow {
    Flow::new("start -> llm -> answer").prompt("llm", "{{#sys.query#}}").answer("answer", "{{#llm.text#}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_remembers_earlier_messages() {
    let rules = json!([
        {"match": {"contains": "first"}, "chunks": ["one ", "answer"]},
        {"match": {}, "reply": "another"},
    ]);
    let model = llm::rules(rules).await;
    let system = system(&[], &model).await;
    let (_, app) = system.client.register(&chat()).await;

    let events = streamed(&app, "/v1/chat-messages", &message("the first", "", "streaming")).await;
    assert_eq!(
        names(&events),
        [
            "workflow_started",
            "node_started",
            "node_finished",
            "node_started",
            "message",
            "node_finished",
            "node_started",
            "node_finished",
            "message_end",
            "workflow_finished",
        ],
        "{events:#?}"
    );
    let text: String = events.iter().filter_map(|event| event["answer"].as_str()).collect();
    assert_eq!(text, "one answer");
    let end = events.iter().find(|event| event["event"] == "message_end").expect("the list above has it");
    assert!(end["metadata"]["usage"]["total_tokens"].as_u64().is_some_and(|n| n > 0), "{end:#}");
    let conversation = end["conversation_id"].as_str().expect("every event has the id").to_owned();
    assert!(events.iter().all(|event| event["conversation_id"] == conversation.as_str()), "{events:#?}");
    let began = &events[0]["data"]["inputs"];
    assert_eq!((&began["sys.query"], &began["sys.dialogue_count"]), (&json!("the first"), &json!(1)));

    let answer = app.post("/v1/chat-messages", &message("more", &conversation, "blocking")).await;
    assert_eq!((answer.status, &answer.body["answer"]), (200, &json!("another")), "{}", answer.text);
    assert_eq!(
        (&answer.body["event"], &answer.body["mode"], &answer.body["conversation_id"]),
        (&json!("message"), &json!("advanced-chat"), &json!(conversation))
    );
    let second = answer.body["message_id"].as_str().expect("it has an id");
    let second = app.get(&format!("/v1/workflows/run/{second}")).await;
    let inputs = second.body["inputs"].as_str().unwrap_or_default();
    assert!(inputs.contains(r#""sys.dialogue_count":2"#), "{}", second.text);

    let path = format!("/v1/messages?user=u1&conversation_id={conversation}");
    let listed = app.get(&path).await;
    let said: Vec<_> =
        listed.body["data"].as_array().into_iter().flatten().map(|m| (&m["query"], &m["answer"])).collect();
    assert_eq!(
        said,
        [(&json!("the first"), &json!("one answer")), (&json!("more"), &json!("another"))],
        "{}",
        listed.text
    );
    let page = app.get(&format!("{path}&limit=1")).await;
    assert_eq!((&page.body["has_more"], &page.body["data"][0]["query"]), (&json!(true), &json!("more")));
    let first = page.body["data"][0]["id"].as_str().expect("it has an id");
    let older = app.get(&format!("{path}&limit=1&first_id={first}")).await;
    assert_eq!(
        (&older.body["has_more"], &older.body["data"][0]["query"]),
        (&json!(false), &json!("the first"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_cannot_continue_the_conversation_of_another_user() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let (_, app) = system.client.register(&chat()).await;
    let first = app.post("/v1/chat-messages", &message("hi", "", "blocking")).await;
    let mine = first.body["conversation_id"].as_str().expect("it begins one").to_owned();

    let mut body = message("hi", &mine, "blocking");
    body["user"] = json!("u2");
    let other = app.post("/v1/chat-messages", &body).await;
    assert_eq!(other.status, 200, "{}", other.text);
    assert_ne!(other.body["conversation_id"], mine.as_str(), "a new conversation begins without an error");
    let unknown = message("hi", "8d5d1ac9-0a34-4d18-8f3f-111111111111", "blocking");
    let fresh = app.post("/v1/chat-messages", &unknown).await;
    assert_ne!(fresh.body["conversation_id"], unknown["conversation_id"], "{}", fresh.text);
    let listed = app.get(&format!("/v1/messages?user=u2&conversation_id={mine}")).await;
    assert_eq!((listed.status, &listed.body["message"]), (404, &json!("Conversation Not Exists.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_messages_are_refused_with_difys_errors() {
    let model = llm::rules(json!([{"match": {}, "status": 400, "error": "no such model"}])).await;
    let system = system(&[], &model).await;
    let (_, app) = system.client.register(&chat()).await;
    for (change, says) in [
        (json!({"query": null}), "query is required"),
        (json!({"query": ""}), "query is required"),
        (json!({"query": 3}), "query must be a string"),
        (json!({"conversation_id": "x"}), "conversation_id must be a valid UUID"),
        (json!({"user": ""}), "Arg user must be provided."),
        (json!({"inputs": null}), "inputs is required"),
    ] {
        let mut body = message("hi", "", "blocking");
        change.as_object().into_iter().flatten().for_each(|(key, value)| body[key] = value.clone());
        let answer = app.post("/v1/chat-messages", &body).await;
        assert_eq!((answer.status, &answer.body["message"]), (400, &json!(says)), "{change}");
    }
    let answer = app.post("/v1/chat-messages", &message("hi", "", "blocking")).await;
    let message_of = answer.body["message"].as_str().unwrap_or_default();
    assert_eq!((answer.status, &answer.body["code"]), (400, &json!("invalid_param")), "{}", answer.text);
    assert!(message_of.starts_with("Run failed: ") && message_of.contains("no such model"), "{message_of}");
    let wrong = app.post("/v1/workflows/run", &message("hi", "", "blocking")).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("not_workflow_app")), "{}", wrong.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_keeps_the_text_so_far() {
    let model = llm::slow(&llm::many_pieces(400).iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let system = system(&[], &model).await;
    let (_, app) = system.client.register(&chat()).await;
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(message("talk", "", "streaming").to_string())).await;
    let (mut events, mut is_told) = (Vec::<Json>::new(), false);
    while let Some(message) = stream.next().await {
        let Some(data) = message.data else { continue };
        let event: Json = serde_json::from_str(&data).expect("events are JSON");
        if !is_told && event["answer"].as_str().is_some_and(|text| text.contains("<3>")) {
            is_told = true;
            let task = event["task_id"].as_str().expect("every event has the id");
            let stop = |user: &str| json!({"user": user});
            let path = format!("/v1/chat-messages/{task}/stop");
            let stranger = app.post(&path, &stop("u2")).await;
            assert_eq!(stranger.body, json!({"result": "success"}));
            app.post(&path, &stop("u1")).await;
        }
        events.push(event);
    }
    let seen: String = events.iter().filter_map(|event| event["answer"].as_str()).collect();
    let finished = events.iter().find(|event| event["event"] == "workflow_finished").expect("it ended");
    assert_eq!(finished["data"]["status"], "stopped", "{finished:#}");
    let conversation = finished["conversation_id"].as_str().expect("it has an id");
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={conversation}")).await;
    assert_eq!(listed.body["data"][0]["answer"], seen.as_str(), "{}", listed.text);
    assert!(seen.contains("<3>") && !seen.contains("<400>"), "{seen}");
}
