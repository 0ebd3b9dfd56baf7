//! API keys of apps on real processes: an app may have several, and a key that one scheduler revokes is refused by
//! all.

use std::process::Output;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::process::Process;
use tidemill_tests::wait::{LONG, until};

/// Runs a command of `tidemill` against a scheduler.
fn tidemill(cluster: &Cluster, scheduler: &Scheduler, words: &[&str]) -> Output {
    let mut command = cluster.command("tidemill");
    command.args(words).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    command.env("TIDEMILL_KEY", ADMIN_KEY).output().expect("it starts")
}

/// Runs a command and returns its output as JSON.
fn answered(cluster: &Cluster, scheduler: &Scheduler, words: &[&str]) -> Json {
    let output = tidemill(cluster, scheduler, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it answers JSON")
}

fn asked(mode: &str) -> Json {
    json!({"inputs": {}, "user": "u", "response_mode": mode})
}

/// Reads all events of a stream, and calls `at_first` after the first message.
async fn told(client: &Client, body: &Json, at_first: impl AsyncFnOnce()) -> Vec<Json> {
    let request = client.request(Method::POST, "/v1/workflows/run");
    let request = request.header("content-type", "application/json").body(body.to_string());
    let mut messages = client.open(request).await;
    // The first message shows that the key was accepted.
    assert!(messages.next().await.is_some(), "the stream begins");
    at_first().await;
    let mut events = Vec::new();
    while let Some(message) = messages.next().await {
        events.extend(message.data.map(|data| serde_json::from_str(&data).expect("an event is JSON")));
    }
    events
}

/// No worker runs at first, so that open streams stay open until the key is revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_at_one_scheduler_is_refused_by_all_and_its_runs_continue() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let flow = Flow::new("start -> a -> end");
    let (app, old) = here.client().register(&flow).await;
    let old_there = Client::new(&there.address, old.key());

    let made = answered(&cluster, &here, &["keys", "add", &app]);
    let new = there.client().with_key(made["key"].as_str());
    assert_eq!(new.get("/v1/info").await.status, 200, "{made}");
    let keys = answered(&cluster, &there, &["keys", "ls", &app]);
    let keys = keys["data"].as_array().expect("a list").clone();
    let id = |is_first: bool| {
        let found = keys.iter().find(|key| key["first"] == is_first).expect("both are listed");
        found["id"].as_str().expect("a text").to_string()
    };
    assert_eq!((keys.len(), id(false).as_str()), (2, made["id"].as_str().expect("a text")));
    let said = tidemill(&cluster, &there, &["keys", "ls"]);
    let said = String::from_utf8(said.stdout).expect("a text");
    let secrets = [made["key"].as_str(), old.key()];
    assert!(said.contains(&id(true)) && secrets.iter().flatten().all(|key| !said.contains(*key)), "{said}");

    let [blocking, streaming] = ["blocking", "streaming"].map(asked);
    let admin = here.client();
    let both_have_begun = async || {
        let runs = admin.get("/api/v1/runs").await;
        if runs.body["data"].as_array().is_some_and(|runs| runs.len() == 2) { Ok(()) } else { Err(runs.text) }
    };
    let (events, waited) = tokio::join!(
        told(&old_there, &streaming, async || {
            until("both runs to begin", LONG, both_have_begun).await;
            let revoked = tidemill(&cluster, &here, &["keys", "rm", &id(true)]);
            assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
        }),
        old_there.post("/v1/workflows/run", &blocking)
    );
    let last = events.last().expect("there is an event");
    assert_eq!((&last["event"], &last["status"]), (&json!("error"), &json!(401)), "{events:?}");
    assert_eq!(waited.status, 401, "{}", waited.text);
    for client in [&old, &old_there] {
        assert_eq!(client.get("/v1/info").await.status, 401);
        assert_eq!(client.post("/v1/workflows/run", &blocking).await.status, 401);
    }
    let version = json!({"id": app, "workflow": Flow::new("start -> b -> end").text()});
    assert_eq!(admin.post("/api/v1/apps", &version).await.status, 200);
    assert_eq!(old_there.get("/v1/info").await.status, 401, "a new version brings no key back");
    let unknown = tidemill(&cluster, &here, &["keys", "rm", "0000000000000000"]);
    let why = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && why.contains("0000000000000000"), "{why}");

    let _worker = cluster.worker().await;
    let runs = admin.get("/api/v1/runs").await.body["data"].clone();
    for run in runs.as_array().expect("a list") {
        let ended = admin.ended(run["id"].as_str().expect("a text")).await;
        assert_eq!((&ended["status"], &ended["key"]), (&json!("succeeded"), &json!(id(true))), "{ended}");
    }
    let answer = new.post("/v1/workflows/run", &blocking).await;
    assert_eq!(
        (answer.status, &answer.body["data"]["status"]),
        (200, &json!("succeeded")),
        "{}",
        answer.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_older_version_is_listed_and_revoked_like_others() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (app, old) = admin.register(&Flow::new("start -> end")).await;
    // The data that an older version has left.
    assert_eq!(cluster.redis.cli(&["DEL", "tm:keys:made"]).trim(), "1");
    assert_eq!(old.get("/v1/info").await.status, 200);
    let listed = admin.get(&format!("/api/v1/apps/{app}/keys")).await.body;
    let key = &listed["data"][0];
    let created_at = &admin.get(&format!("/api/v1/apps/{app}")).await.body["created_at"];
    assert_eq!((&key["first"], &key["created_at"]), (&json!(true), created_at), "{listed}");
    let path = format!("/api/v1/keys/{}", key["id"].as_str().expect("a text"));
    assert_eq!(admin.send(admin.request(Method::DELETE, &path)).await.status, 204);
    assert_eq!(old.get("/v1/info").await.status, 401);
    let listed = admin.get("/api/v1/keys").await.body;
    assert!(
        listed["data"][0]["revoked_at"].is_number() && listed["data"][0]["app"] == json!(app),
        "{listed}"
    );
}

/// A full Redis refuses commands that need memory, but a leaked key must still be revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_revoked_while_redis_is_full() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (app, key) = admin.register(&Flow::new("start -> end")).await;
    let listed = admin.get(&format!("/api/v1/apps/{app}/keys")).await.body;
    let path = format!("/api/v1/keys/{}", listed["data"][0]["id"].as_str().expect("a text"));
    cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let another = admin.post(&format!("/api/v1/apps/{app}/keys"), &json!({})).await;
    assert_eq!(another.status, 503, "Redis is full: {}", another.text);
    until("the key to be revoked", LONG, async || {
        let answer = admin.send(admin.request(Method::DELETE, &path)).await;
        if answer.status == 204 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(key.get("/v1/info").await.status, 401);
}

/// Starts `tidemill dev` on the cluster's Redis and waits for its greeting. Returns the rest of the line after each
/// of these words.
async fn dev<const N: usize>(cluster: &Cluster, words: [&str; N]) -> (Process, [String; N]) {
    let mut command = cluster.command("tidemill");
    let url = cluster.redis.url();
    command.args(["dev", "flow.json", "--listen", "127.0.0.1:0", "--data", "dev", "--redis", &url]);
    let mut process = cluster.spawn("dev", command);
    until("the greeting", LONG, async || {
        let said = process.log_text();
        assert_eq!(process.end(), None, "{said}");
        if said.contains("Ctrl-C stops it") { Ok(()) } else { Err(said) }
    })
    .await;
    let said = process.log_text();
    let behind = |word: &str| {
        said.lines().find_map(|line| line.trim().strip_prefix(word).map(|rest| rest.trim().to_owned()))
    };
    let found = words.map(|word| behind(word).unwrap_or_else(|| panic!("no {word}: {said}")));
    (process, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_prints_no_key_that_was_revoked() {
    let cluster = Cluster::start(&[], None).await;
    let flow = Flow::new("start -> a -> end").text();
    std::fs::write(cluster.logs().join("flow.json"), flow).expect("it can be written");
    let (mut first, [url, admin, app, key]) =
        dev(&cluster, ["Tidemill runs at http://", "admin key", "app", "key"]).await;
    let client = Client::new(&url, Some(&admin));
    let keys = client.get(&format!("/api/v1/apps/{app}/keys")).await.body;
    let path = format!("/api/v1/keys/{}", keys["data"][0]["id"].as_str().expect("an id"));
    assert_eq!(client.send(client.request(Method::DELETE, &path)).await.status, 204);
    first.terminate();
    first.ended(LONG).await;
    let (second, [again, shown]) = dev(&cluster, ["app", "key"]).await;
    assert_eq!((again, shown), (app.clone(), format!("revoked; `tidemill keys add {app}` makes another")));
    let kept = std::fs::read_to_string(cluster.logs().join("dev/apps.json")).expect("it was written");
    assert!(!second.log_text().contains(&key) && !kept.contains(&key), "{}", second.log_text());
}
