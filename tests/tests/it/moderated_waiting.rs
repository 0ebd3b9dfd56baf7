//! Answers whose verdict by a moderation server is awaited: of stopped runs and of completions, and after a restart of the
//! scheduler. How streams wait is tested beside the API (`scheduler/src/api/tests/verdicts.rs`).

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::messages::{again, message, names, of, streamed};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::moderated::{app, chat, said};
use super::system;

const NO: &str = "I cannot talk about that.";
const SORRY: &str = "This answer was withheld.";

/// The settings of OpenAI's moderation; the mock flags "violence".
const BY_OPENAI: [(&str, &str); 1] = [("features.moderation_openai_model", "openai/omni-moderation-latest")];

fn rules(by: &str, inputs: bool, more: Json) -> Json {
    let mut config = json!({
        "inputs_config": {"enabled": inputs, "preset_response": NO},
        "outputs_config": {"enabled": true, "preset_response": SORRY},
    });
    config.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    json!({"enabled": true, "type": by, "config": config})
}

fn moderated_chat(rules: Json) -> Json {
    let mut document = chat().document();
    document["workflow"]["features"] = json!({ "sensitive_word_avoidance": rules });
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_stopped_run_is_checked_and_replaced() {
    let model = llm::slow(&["All about violence", " and", " more", " of", " it"], 2_000).await;
    let system = system(&BY_OPENAI, &model).await;
    let app = app(&system.client, &moderated_chat(rules("openai_moderation", false, json!({})))).await;
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(message("Tell", "", "streaming").to_string())).await;
    let mut events: Vec<Json> = Vec::new();
    while let Some(next) = stream.next().await {
        events.extend(next.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON")));
        if events.last().is_some_and(|event| event["event"] == "message")
            && !names(&events).contains(&"stopped")
        {
            let task = events[0]["task_id"].as_str().expect("an id");
            let stopped = app.post(&format!("/v1/chat-messages/{task}/stop"), &json!({"user": "u1"})).await;
            assert_eq!(stopped.status, 200, "{}", stopped.text);
        }
    }
    let finished = of(&events, "workflow_finished");
    assert_eq!(finished["data"]["status"], "stopped", "{events:#?}");
    assert_eq!(of(&events, "message_replace")["answer"], SORRY);
    let run = finished["task_id"].as_str().expect("an id");
    let later = again(&app, run).await;
    assert_eq!(of(&later, "message_replace")["answer"], SORRY);
    let listed = said(&app, &finished["conversation_id"]).await;
    assert_eq!(listed, [("Tell".to_owned(), SORRY.to_owned())]);
}

fn completion() -> String {
    let config = json!({
        "model": {"provider": "langgenius/openai/openai", "name": "gpt-4o", "mode": "chat", "completion_params": {}},
        "prompt_type": "simple", "pre_prompt": "Write about {{topic}}.",
        "user_input_form": [{"text-input": {"variable": "topic", "label": "Topic", "required": true, "max_length": 48, "default": ""}}],
        "sensitive_word_avoidance": rules("openai_moderation", true, json!({})),
    });
    json!({
        "kind": "app", "version": "0.1.5", "model_config": config,
        "app": {"mode": "completion", "name": "Writer", "icon": "robot", "icon_background": "#FFEAD5"},
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_and_the_answer_of_a_completion_are_checked() {
    let replies = json!([
        {"match": {"contains": "films"}, "chunks": ["They show ", "violence."]},
        {"match": {}, "reply": "High water."},
    ]);
    let model = llm::rules(replies).await;
    let system = system(&BY_OPENAI, &model).await;
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": completion()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let app = system.client.with_key(answer.body["key"].as_str());
    let body =
        |topic: &str, mode: &str| json!({"inputs": {"topic": topic}, "user": "u1", "response_mode": mode});
    for (topic, shown) in [("tides", "High water."), ("films", SORRY), ("violence", NO)] {
        let blocking = app.post("/v1/completion-messages", &body(topic, "blocking")).await;
        assert_eq!(
            (blocking.status, &blocking.body["answer"]),
            (200, &json!(shown)),
            "{topic}: {}",
            blocking.text
        );
        let events = streamed(&app, "/v1/completion-messages", &body(topic, "streaming")).await;
        assert_eq!(last_text(&events), shown, "{topic}: {events:#?}");
        let expected: &[&str] = match shown {
            SORRY => &["message", "message_replace", "message_end"],
            _ => &["message", "message_end"],
        };
        assert_eq!(names(&events), expected, "{topic}");
        let run = events[0]["task_id"].as_str().expect("an id");
        assert_eq!(again(&app, run).await, events, "{topic}: a later reader sees the same");
    }
    let asked: Vec<String> = model.requests().iter().map(ToString::to_string).collect();
    assert!(!asked.iter().any(|call| call.contains("Write about violence")), "a flagged form runs nothing");
}

/// The text that a client shows after these events.
fn last_text(events: &[Json]) -> String {
    events.iter().fold(String::new(), |text, event| match event["event"].as_str() {
        Some("message") => text + event["answer"].as_str().unwrap_or_default(),
        Some("message_replace") => event["answer"].as_str().unwrap_or_default().to_owned(),
        _ => text,
    })
}

/// An API extension that answers only once it is opened, and flags everything.
async fn closed() -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/check", listener.local_addr().expect("it is bound"));
    let (open, is_open) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(flag(stream, is_open.clone()));
        }
    });
    (url, open)
}

async fn flag(stream: TcpStream, mut is_open: watch::Receiver<bool>) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while stream.read_line(&mut line).await.is_ok_and(|count| count > 2) {
        head.push_str(&line.to_ascii_lowercase());
        line.clear();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let is_read = stream.read_exact(&mut body).await.is_ok();
    if !is_read || is_open.wait_for(|is_open| *is_open).await.is_err() {
        return;
    }
    let answer = json!({"flagged": true, "action": "direct_output", "preset_response": SORRY}).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
    // A failed write only means that the caller has ended.
    let _ = stream.write_all(format!("{head}{answer}").as_bytes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_is_awaited_when_the_scheduler_stops_is_shown_by_the_next_one() {
    let model = llm::rules(json!([{"match": {}, "reply": "words of the model"}])).await;
    let settings =
        [("http.allow", "127.0.0.1"), ("scheduler.grace_seconds", "1"), ("scheduler.unready_ms", "0")];
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (url, open) = closed().await;
    let extension = format!("[features.moderation_extensions.e1]\nendpoint = \"{url}\"\n");
    std::fs::write(cluster.logs().join("tidemill.toml"), extension).expect("the folder exists");
    let (mut first, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let by = rules("api", false, json!({"api_based_extension_id": "e1"}));
    let app = app(&first.client(), &moderated_chat(by)).await;

    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(message("hi", "", "streaming").to_string())).await;
    let (mut comment, mut run) = (None, String::new());
    while let Some(next) = stream.next().await {
        let event = next.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON"));
        if let Some(event) = event {
            assert_ne!(event["event"], "workflow_finished", "it is not shown before its verdict");
            if run.is_empty() {
                run = event["task_id"].as_str().unwrap_or_default().to_owned();
                first.client().ended(&run).await;
                first.process.terminate();
            }
        }
        comment = next.comment.or(comment);
    }
    assert!(
        comment.as_deref().is_some_and(|comment| comment.contains("this scheduler stops")),
        "{comment:?}"
    );
    first.process.ended(std::time::Duration::from_secs(30)).await;

    let second = cluster.scheduler().await;
    let app = second.client().with_key(app.key());
    let detail = app.get(&format!("/v1/workflows/run/{run}")).await;
    assert_eq!((&detail.body["status"], &detail.body["outputs"]), (&json!("running"), &json!({})));
    open.send(true).expect("the extension runs");
    let events = again(&app, &run).await;
    is_replaced(&app, &events).await;
}

async fn is_replaced(app: &Client, events: &[Json]) {
    assert_eq!(of(events, "message_replace")["answer"], SORRY, "{events:#?}");
    let finished = of(events, "workflow_finished");
    assert_eq!(finished["data"]["outputs"]["answer"], SORRY);
    let listed = said(app, &finished["conversation_id"]).await;
    assert_eq!(listed, [("hi".to_owned(), SORRY.to_owned())]);
}
