//! Chats whose processes die: each question and its answer is one turn of the conversation, at its place. Text that a
//! dead worker had streamed is withdrawn, so that no text comes twice.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::llm;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};

use super::crash_points::{Armed, start};
use super::{QUICK, chat};

fn message(query: &str, conversation: &str, mode: &str) -> Json {
    json!({"query": query, "inputs": {}, "user": "u1", "conversation_id": conversation, "response_mode": mode})
}

/// Asks until there is an answer. All tries have one key, so they make one message, whichever process dies.
async fn ask(app: &Client, query: &str, conversation: &str) -> Json {
    until(&format!("an answer to {query}"), LONG, async || {
        let request = app.request(Method::POST, "/v1/chat-messages").header("idempotency-key", query);
        let body = message(query, conversation, "blocking").to_string();
        let request = request.header("content-type", "application/json").body(body);
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let (status, text) = (answer.status(), answer.text().await.map_err(|error| error.to_string())?);
        if !status.is_success() {
            return Err(format!("{status}: {text}"));
        }
        serde_json::from_str::<Json>(&text).map_err(|error| error.to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_turn_is_stored_once_and_in_order_wherever_a_scheduler_dies() {
    for place in ["conversation_entered", "turn_made", "turn_kept"] {
        for nth in 1..=2 {
            turns_are_kept(&format!("scheduler.{place}:{nth}")).await;
        }
    }
}

async fn turns_are_kept(place: &str) {
    let model = llm::rules(json!([{"match": {}, "echo": "last_user"}])).await;
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let address = format!("127.0.0.1:{}", free_port());
    let _worker = cluster.worker().await;
    let process = start(&cluster, Program::Scheduler, &address, Some(place));
    let mut armed =
        Armed { cluster: &cluster, program: Program::Scheduler, address: address.clone(), process };
    armed.process.wait_for_log("scheduler started").await;
    let admin = Client::new(&address, Some(ADMIN_KEY));
    let flow = chat().prompt("llm", "{{#sys.query#}}").answer("answer", "{{#llm.text#}}");
    let (_, app) = admin.register(&flow).await;

    let talking = async {
        let first = ask(&app, "one", "").await;
        let conversation = first["conversation_id"].as_str().expect("every answer has its id").to_string();
        for query in ["two", "three"] {
            let answer = ask(&app, query, &conversation).await;
            assert_eq!(
                (&answer["answer"], &answer["conversation_id"]),
                (&json!(query), &json!(conversation)),
                "{place}"
            );
        }
        conversation
    };
    let (conversation, died) = tokio::join!(talking, armed.until_dead(place));
    died.expect("it dies there");
    let said = until("every turn", LONG, async || {
        let path = format!("/v1/messages?user=u1&conversation_id={conversation}");
        let request = app.request(Method::GET, &path).send().await.map_err(|error| error.to_string())?;
        let text = request.text().await.map_err(|error| error.to_string())?;
        let body: Json = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        let said: Vec<Json> = body["data"].as_array().cloned().unwrap_or_default();
        if said.len() >= 3 && said.iter().all(|it| it["answer"] != "") { Ok(said) } else { Err(text) }
    })
    .await;
    let said: Vec<_> = said.iter().map(|it| (it["query"].clone(), it["answer"].clone())).collect();
    assert_eq!(said, ["one", "two", "three"].map(|text| (json!(text), json!(text))), "{place}");
    let listed = app.get("/v1/conversations?user=u1").await;
    assert_eq!(listed.body["data"].as_array().map(Vec::len), Some(1), "{place}: {}", listed.text);
    // Turns that are settled are not settled again.
    tokio::time::timeout(Duration::from_secs(20), async {
        until("no unsettled turn to be left", LONG, async || {
            let left = cluster.redis.cli(&["SCARD", "tm:{0}:unsettled"]);
            if left == "0" { Ok(()) } else { Err(left) }
        })
        .await;
    })
    .await
    .expect("schedulers look every few seconds");
    let turns = cluster.redis.cli(&["LLEN", &format!("tm:{{0}}:conversation:{conversation}:turns")]);
    assert_eq!(turns, "3", "{place}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_dead_worker_is_replaced_for_the_client_of_a_chat() {
    let pieces = llm::many_pieces(20);
    let all: String = pieces.concat();
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, mut first) = (cluster.scheduler().await, cluster.worker().await);
    let (_, app) = scheduler.client().register(&chat().answer("answer", "So: {{#llm.text#}}")).await;
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(message("talk", "", "streaming").to_string())).await;
    let (mut shown, mut replaced, mut conversation, mut second) = (String::new(), 0, String::new(), None);
    while let Some(told) = stream.next().await {
        let event: Json = serde_json::from_str(&told.data.unwrap_or_default()).unwrap_or_default();
        match event["event"].as_str() {
            Some("message") => shown.push_str(event["answer"].as_str().unwrap_or_default()),
            Some("message_replace") => {
                replaced += 1;
                shown = event["answer"].as_str().unwrap_or_default().to_string();
            }
            _ => {}
        }
        if let Some(id) = event["conversation_id"].as_str() {
            conversation = id.to_string();
        }
        if second.is_none() && shown.contains("<3>") {
            first.process.kill();
            second = Some(cluster.worker().await);
        }
    }
    assert_eq!((shown, replaced), (format!("So: {all}"), 1), "withdrawn once, then streamed again");
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={conversation}")).await;
    assert_eq!(listed.body["data"][0]["answer"], format!("So: {all}"), "{}", listed.text);
}
