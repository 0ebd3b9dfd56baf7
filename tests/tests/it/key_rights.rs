//! API keys that are limited, on real processes: each operation of `/v1` refuses a key that lacks its scope, a key ends at
//! every scheduler, and one key replaces another.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

use crate::service_api_table::{concrete, is_of_datasets, rows};

const SCOPES: [&str; 4] = ["run", "read", "files", "forms"];
/// Operations that each key of the app may use.
const OPEN: [&str; 4] = ["/info", "/meta", "/parameters", "/site"];

/// Makes a key of an app, and returns the answer.
async fn made(admin: &Client, app: &str, body: Json) -> Json {
    let made = admin.post(&format!("/api/v1/apps/{app}/keys"), &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body
}

fn text<'a>(made: &'a Json, name: &str) -> &'a str {
    made[name].as_str().unwrap_or_else(|| panic!("no {name} in {made}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_refuses_a_key_without_its_scope_and_accepts_exactly_one_scope() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (app, _) = admin.register(&Flow::new("start -> end")).await;
    let mut clients = Vec::new();
    for scope in SCOPES {
        let key = made(&admin, &app, json!({"scopes": [scope]})).await;
        clients.push((scope, admin.with_key(Some(text(&key, "key")))));
    }
    // Those of datasets have keys of their own.
    let operations: Vec<(Method, String)> = rows()
        .into_iter()
        .filter(|(_, path, verdict)| verdict != "absent" && !is_of_datasets(path))
        .map(|(method, path, _)| (method, path))
        .collect();
    assert!(operations.len() > 30, "{operations:?}");
    for (method, path) in operations {
        let mut accepted = Vec::new();
        for (scope, client) in &clients {
            let answer = client.send(client.request(method.clone(), &concrete(&path))).await;
            let lacks = answer.status == 403 && answer.text.contains("needs the scope");
            assert!(answer.status < 500 || answer.status == 501, "{method} {path}: {}", answer.text);
            if !lacks {
                accepted.push(*scope);
            }
        }
        let expected = if OPEN.contains(&path.as_str()) { 4 } else { 1 };
        assert_eq!(accepted.len(), expected, "{method} {path} is open to {accepted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_do_what_its_scopes_say_at_every_scheduler_and_shows_its_last_use() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let (admin, flow) = (here.client(), Flow::new("start -> end"));
    let (app, whole) = admin.register(&flow).await;
    let body = json!({"label": "web shop", "scopes": ["run"], "expires_in_seconds": 3600});
    let key = made(&admin, &app, body).await;
    let limited = there.client().with_key(Some(text(&key, "key")));
    let asked = json!({"inputs": {}, "user": "u", "response_mode": "blocking"});
    let ran = limited.post("/v1/workflows/run", &asked).await;
    assert_eq!((ran.status, &ran.body["data"]["status"]), (200, &json!("succeeded")), "{}", ran.text);
    let run = text(&ran.body, "workflow_run_id");
    let refused = limited.get(&format!("/v1/workflows/run/{run}")).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("forbidden")), "{}", refused.text);
    assert!(refused.text.contains("`read`"), "{}", refused.text);
    assert_eq!(whole.get(&format!("/v1/workflows/run/{run}")).await.status, 200);

    let listed = async || {
        let all = admin.get(&format!("/api/v1/apps/{app}/keys")).await.body["data"].clone();
        let found = all.as_array().into_iter().flatten().find(|one| one["id"] == key["id"]).cloned();
        found.expect("it is listed")
    };
    let shown = until("its use to be noted", LONG, async || match listed().await {
        shown if shown["last_used_at"].is_number() => Ok(shown),
        shown => Err(shown.to_string()),
    })
    .await;
    assert_eq!((&shown["label"], &shown["scopes"]), (&json!("web shop"), &json!(["run"])), "{shown}");
    let life = shown["expires_at"].as_f64().zip(shown["created_at"].as_f64()).map(|(end, begin)| end - begin);
    assert_eq!(life, Some(3600.0), "{shown}");

    for wrong in [
        json!({"scopes": []}),
        json!({"scopes": ["dance"]}),
        json!({"scopes": "run"}),
        json!({"expires_in_seconds": 0}),
        json!({"label": "x".repeat(101)}),
        json!({"lable": "x"}),
    ] {
        let answer = admin.post(&format!("/api/v1/apps/{app}/keys"), &wrong).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (400, &json!("invalid_param")),
            "{wrong}: {}",
            answer.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_expires_is_refused_everywhere_and_its_open_stream_ends() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let admin = here.client();
    // No worker runs, so the stream stays open until the key ends.
    let (app, _) = admin.register(&Flow::new("start -> a -> end")).await;
    let key = made(&admin, &app, json!({"expires_in_seconds": 10})).await;
    let client = there.client().with_key(Some(text(&key, "key")));
    let asked = json!({"inputs": {}, "user": "u", "response_mode": "streaming"});
    let request = client.request(Method::POST, "/v1/workflows/run").json(&asked);
    let mut messages = client.open(request).await;
    let mut last = Json::Null;
    while let Some(message) = messages.next().await {
        if let Some(data) = message.data {
            last = serde_json::from_str(&data).expect("an event is JSON");
        }
    }
    assert_eq!((&last["event"], &last["status"]), (&json!("error"), &json!(401)), "{last}");
    assert!(last["message"].as_str().is_some_and(|said| said.contains("expired")), "{last}");
    for address in [&here.address, &there.address] {
        let answer = Client::new(address, client.key()).get("/v1/info").await;
        assert_eq!(answer.status, 401, "{}", answer.text);
        assert!(answer.text.contains("expired"), "{}", answer.text);
    }
    let renewed = admin.post(&format!("/api/v1/keys/{}/rotate", text(&key, "id")), &json!({})).await;
    assert_eq!(renewed.status, 409, "{}", renewed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_has_the_rights_of_the_old_one_which_ends_after_the_overlap() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (app, first) = admin.register(&Flow::new("start -> end")).await;
    let key = made(&admin, &app, json!({"label": "web shop", "scopes": ["read"]})).await;
    let rotate = async |id: &str, overlap: u64| {
        admin.post(&format!("/api/v1/keys/{id}/rotate"), &json!({"overlap_seconds": overlap})).await
    };
    let opens = async |made: &Json| admin.with_key(made["key"].as_str()).get("/v1/info").await.status;

    let budget = json!({"tokens": 100});
    let request = admin.request(Method::PUT, &format!("/api/v1/keys/{}/budget", text(&key, "id")));
    assert_eq!(admin.send(request.json(&budget)).await.status, 200);
    let new = rotate(text(&key, "id"), 2).await;
    assert_eq!(new.status, 201, "{}", new.text);
    assert_eq!(new.body["expires_at"], Json::Null, "the old one was made without an end: {}", new.text);
    let all = admin.get("/api/v1/keys").await.body["data"].clone();
    let shown = all.as_array().into_iter().flatten().find(|one| one["id"] == new.body["id"]);
    assert_eq!(shown.map(|one| &one["budget"]["tokens"]), Some(&json!(100)), "{all}");
    let again = rotate(text(&key, "id"), 60).await;
    assert_eq!(again.body["expires_at"], Json::Null, "{}", again.text);
    assert_eq!((&new.body["label"], &new.body["scopes"]), (&key["label"], &key["scopes"]), "{}", new.text);
    assert_eq!(opens(&new.body).await, 200);
    until("the old key to end", LONG, async || match opens(&key).await {
        401 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
    assert_eq!(opens(&new.body).await, 200);

    // The key that came with the app, and at once.
    let keys = admin.get(&format!("/api/v1/apps/{app}/keys")).await.body["data"].clone();
    let came = keys.as_array().into_iter().flatten().find(|one| one["first"] == true).expect("it is listed");
    let next = rotate(text(came, "id"), 0).await;
    assert_eq!(next.status, 201, "{}", next.text);
    assert_eq!((first.get("/v1/info").await.status, opens(&next.body).await), (401, 200));
    assert_eq!(rotate("0000000000000000", 0).await.status, 404);
    assert_eq!(rotate(text(came, "id"), 0).await.status, 409);
}
