//! Moderation by a server over Dify's API: OpenAI's moderation (the mock flags "violence") and an API extension, for
//! questions and answers. The server is asked by a worker, once for a run.

use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::messages::{again, message, names, of, streamed};
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::moderated::{app, chat, said};
use super::system;

const NO: &str = "I cannot talk about that.";
const SORRY: &str = "This answer was withheld.";
const KEY: &str = "hush-extension-key";

fn moderated(by: &str, config: Json) -> Json {
    let mut document = chat().document();
    let mut config = config;
    config["inputs_config"] = json!({"enabled": true, "preset_response": NO});
    config["outputs_config"] = json!({"enabled": true, "preset_response": SORRY});
    document["workflow"]["features"] =
        json!({"sensitive_word_avoidance": {"enabled": true, "type": by, "config": config}});
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_s_moderation_checks_questions_and_answers() {
    let rules = json!([
        {"match": {"contains": "peace"}, "reply": "All is calm."},
        {"match": {"contains": "film"}, "chunks": ["It shows ", "violence."]},
    ]);
    let model = llm::rules(rules).await;
    let settings = [("features.moderation_openai_model", "openai/omni-moderation-latest")];
    let system = system(&settings, &model).await;
    let app = app(&system.client, &moderated("openai_moderation", json!({}))).await;

    let flagged = streamed(&app, "/v1/chat-messages", &message("Tell me of violence", "", "streaming")).await;
    assert_eq!(names(&flagged), ["message", "message_end"], "{flagged:#?}");
    assert_eq!(flagged[0]["answer"], NO);
    let conversation = flagged[0]["conversation_id"].as_str().expect("an id");
    let fine = app.post("/v1/chat-messages", &message("peace", conversation, "blocking")).await;
    assert_eq!(fine.body["answer"], "All is calm.", "{}", fine.text);

    let withheld = streamed(&app, "/v1/chat-messages", &message("film", conversation, "streaming")).await;
    let replaced = of(&withheld, "message_replace");
    assert_eq!((&replaced["answer"], &replaced["reason"]), (&json!(SORRY), &json!("output_moderation")));
    let finished = of(&withheld, "workflow_finished");
    assert_eq!(finished["data"]["outputs"]["answer"], SORRY);
    let run = finished["task_id"].as_str().expect("an id");
    assert_eq!(again(&app, run).await, withheld, "a later client sees the same");
    let answers: Vec<String> =
        said(&app, &json!(conversation)).await.into_iter().map(|(_, answer)| answer).collect();
    assert_eq!(answers, [NO, "All is calm.", SORRY]);
    let blocking = app.post("/v1/chat-messages", &message("film", "", "blocking")).await;
    assert_eq!(blocking.body["answer"], SORRY, "{}", blocking.text);
    let asked = model.requests().iter().filter(|call| call["path"] == "/v1/moderations").count();
    assert_eq!(asked, 4 + 3, "once for each question, and once for each answer of the workflow");

    // It stays withheld when the key has spent its budget.
    let keys = system.client.get("/api/v1/keys").await.body;
    let id = keys["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{keys:#}"));
    let request = system.client.request(reqwest::Method::PUT, &format!("/api/v1/keys/{id}/budget"));
    let request = request.header("content-type", "application/json").body(json!({"tokens": 1}).to_string());
    assert_eq!(system.client.send(request).await.status, 200);
    until("the key to be refused", LONG, async || {
        let answer = app.post("/v1/chat-messages", &message("peace", "", "blocking")).await;
        if answer.status == 400 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(again(&app, run).await, withheld, "a client after that sees the same");
}

/// The requests that the extension got.
type Calls = Arc<Mutex<Vec<Json>>>;

/// An API extension: it blocks "bomb", masks "secret" in questions, and "token" in answers.
async fn extension() -> (String, Calls) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/check", listener.local_addr().expect("it is bound"));
    let calls = Calls::default();
    let ledger = calls.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let (mut head, mut line) = (String::new(), String::new());
            while stream.read_line(&mut line).await.is_ok_and(|count| count > 2) {
                head.push_str(&line.to_ascii_lowercase());
                line.clear();
            }
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            if stream.read_exact(&mut body).await.is_err() {
                continue;
            }
            let asked: Json = serde_json::from_slice(&body).unwrap_or_default();
            let answer = match head.contains(&format!("authorization: bearer {KEY}")) {
                true => verdict(&asked).to_string(),
                false => "no".to_owned(),
            };
            ledger.lock().expect("no panic").push(asked);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                answer.len()
            );
            // A failed write only means that the caller has ended.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, calls)
}

fn verdict(asked: &Json) -> Json {
    let params = &asked["params"];
    let query = params["query"].as_str().unwrap_or_default();
    let text = params["text"].as_str().unwrap_or_default();
    match asked["point"].as_str() {
        Some("app.moderation.input") if query.contains("bomb") => {
            json!({"flagged": true, "action": "direct_output", "preset_response": NO})
        }
        Some("app.moderation.input") if query.contains("secret") => json!({
            "flagged": true, "action": "overridden", "inputs": params["inputs"],
            "query": query.replace("secret", "***"),
        }),
        Some("app.moderation.output") if text.contains("token") => {
            json!({"flagged": true, "action": "overridden", "text": text.replace("token", "***")})
        }
        _ => json!({"flagged": false, "action": "direct_output"}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_extension_blocks_and_replaces_questions_and_answers() {
    let (url, calls) = extension().await;
    let model = llm::rules(json!([{"match": {}, "echo": "messages"}])).await;
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], Some(&model)).await;
    let settings =
        format!("[features.moderation_extensions.e1]\nendpoint = \"{url}\"\napi_key = \"{KEY}\"\n");
    std::fs::write(cluster.logs().join("tidemill.toml"), settings).expect("the folder exists");
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let document = moderated("api", json!({"api_based_extension_id": "e1"}));
    let app = app(&scheduler.client(), &document).await;

    let blocked = app.post("/v1/chat-messages", &message("a bomb", "", "blocking")).await;
    assert_eq!((blocked.status, &blocked.body["answer"]), (200, &json!(NO)), "{}", blocked.text);
    assert!(model.requests().is_empty(), "the workflow did not run");

    let events = streamed(&app, "/v1/chat-messages", &message("my secret token", "", "streaming")).await;
    let asked = model.requests()[0]["messages"].to_string();
    assert!(asked.contains("my *** token") && !asked.contains("secret"), "{asked}");
    let replaced = of(&events, "message_replace")["answer"].as_str().unwrap_or_default().to_owned();
    assert!(replaced.contains("my *** ***") && !replaced.contains("token"), "{replaced}");
    let said = said(&app, &events[0]["conversation_id"]).await;
    assert_eq!(said, [("my *** token".to_owned(), replaced)]);

    let calls = calls.lock().expect("no panic").clone();
    let points: Vec<&str> = calls.iter().filter_map(|call| call["point"].as_str()).collect();
    assert_eq!(points, ["app.moderation.input", "app.moderation.input", "app.moderation.output"]);
    assert!(calls.iter().all(|call| call["params"]["app_id"].is_string()), "{calls:?}");
    // The key is in no state, event or log.
    let keys = cluster.redis.cli(&["--scan"]);
    for key in keys.lines() {
        for read in [["HGETALL", key], ["GET", key]] {
            assert!(!cluster.redis.cli(&read).contains(KEY), "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_extension_is_not_in_the_settings_is_refused() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let document = moderated("api", json!({"api_based_extension_id": "e1"}));
    let refused = system.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("features.moderation_extensions"), "{}", refused.text);
}

/// A server that takes calls and never answers.
async fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/check", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn while_an_answer_is_checked_it_is_not_shown_and_no_other_request_waits() {
    let model = llm::rules(json!([{"match": {}, "reply": "words of the model"}])).await;
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], Some(&model)).await;
    let url = silent().await;
    let settings = format!("[features.moderation_extensions.e1]\nendpoint = \"{url}\"\n");
    std::fs::write(cluster.logs().join("tidemill.toml"), settings).expect("the folder exists");
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let mut document = moderated("api", json!({"api_based_extension_id": "e1"}));
    let rules = &mut document["workflow"]["features"]["sensitive_word_avoidance"]["config"];
    rules["inputs_config"] = json!({"enabled": false});
    let app = app(&scheduler.client(), &document).await;

    let ask = async |query: &str, conversation: &str| {
        let request = app.request(reqwest::Method::POST, "/v1/chat-messages");
        let request = request.header("content-type", "application/json");
        app.open(request.body(message(query, conversation, "streaming").to_string())).await
    };
    let mut stream = ask("hi", "").await;
    let first: Json = loop {
        let data = stream.next().await.expect("an event").data;
        let event = data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON"));
        if let Some(event) = event.filter(|event| event["conversation_id"].is_string()) {
            break event;
        }
    };
    let run = first["task_id"].as_str().expect("an id").to_owned();
    scheduler.client().ended(&run).await;

    // Far less than the limit of the check, with time for a slow machine.
    let quick = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        let listed = said(&app, &first["conversation_id"]).await;
        assert_eq!(listed, [("hi".to_owned(), String::new())]);
        let detail = app.get(&format!("/v1/workflows/run/{run}")).await;
        assert_eq!((&detail.body["status"], &detail.body["outputs"]), (&json!("running"), &json!({})));
        let id = first["conversation_id"].as_str().expect("an id");
        let mut next = ask("go on", id).await;
        assert!(next.next().await.is_some(), "the next message is answered");
        let request = app.request(reqwest::Method::DELETE, &format!("/v1/conversations/{id}"));
        let request = request.header("content-type", "application/json");
        let removed = app.send(request.body(json!({"user": "u1"}).to_string())).await;
        assert_eq!(removed.status, 204, "{}", removed.text);
    });
    drop(stream);
    assert!(quick.await.is_ok(), "a request waits for the moderation server");
}
