//! Webhooks of apps on real processes: a receiver that fails first gets each notice signed, under the same id, also when the
//! scheduler that sent it is killed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};
use tokio::net::TcpListener;
use tokio::sync::Notify;

const ASK: &str = include_str!("workflows/ask_twice.yml");

/// Webhooks are kept sealed.
const KEY: (&str, &str) = ("scheduler.secret_key", "the-secret-key-of-the-tests");

/// What a receiver got.
#[derive(Debug, Clone)]
struct Got {
    id: String,
    /// The headers `webhook-timestamp` and `webhook-signature`.
    timestamp: String,
    signature: String,
    /// The body as it came.
    text: String,
    body: Json,
    /// It was taken.
    is_taken: bool,
}

/// A receiver that refuses the first requests, and then takes all.
struct Hook {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

#[derive(Clone)]
struct Receiving {
    got: Arc<Mutex<Vec<Got>>>,
    refused: usize,
    /// The first requests are not answered until it is notified.
    hold: Option<Arc<Notify>>,
}

async fn receive(State(hook): State<Receiving>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name: &str| headers[name].to_str().expect("a text").to_string();
    assert!(text("webhook-signature").starts_with("v1,"), "{headers:?}");
    let bytes = String::from_utf8(body.to_vec()).expect("a notice is UTF-8");
    let body: Json = serde_json::from_str(&bytes).expect("a notice is JSON");
    let is_taken = {
        let mut got = hook.got.lock().expect("not poisoned");
        let is_taken = got.len() >= hook.refused;
        let (timestamp, signature) = (text("webhook-timestamp"), text("webhook-signature"));
        got.push(Got { id: text("webhook-id"), timestamp, signature, text: bytes, body, is_taken });
        is_taken
    };
    if let (Some(hold), false) = (&hook.hold, is_taken) {
        hold.notified().await;
    }
    if is_taken { StatusCode::NO_CONTENT } else { StatusCode::INTERNAL_SERVER_ERROR }
}

impl Hook {
    async fn start(refused: usize, hold: Option<Arc<Notify>>) -> Self {
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let receiving = Receiving { got: got.clone(), refused, hold };
        let router = Router::new().route("/hook", post(receive)).with_state(receiving);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, got }
    }

    fn all(&self) -> Vec<Got> {
        self.got.lock().expect("not poisoned").clone()
    }

    /// Waits until so many notices were taken, and returns them.
    async fn taken(&self, count: usize) -> Vec<Got> {
        until("the notices to be taken", LONG, async || {
            let taken: Vec<Got> = self.all().into_iter().filter(|got| got.is_taken).collect();
            if taken.len() >= count { Ok(taken) } else { Err(format!("{:?}", self.all())) }
        })
        .await
    }
}

/// HMAC-SHA256 in base64, for a secret of at most a block.
fn signed(secret: &[u8], message: &str) -> String {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(secret).for_each(|(byte, of_secret)| *byte ^= of_secret);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    STANDARD.encode(Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize())
}

async fn set(client: &Client, app: &str, body: Json) -> Json {
    let request = client.request(Method::PUT, &format!("/api/v1/apps/{app}/webhook"));
    let answer = client.send(request.json(&body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

fn text<'a>(value: &'a Json, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

async fn cluster() -> Cluster {
    Cluster::start(&[KEY, ("http.allow", "127.0.0.1")], None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_first_gets_each_notice_under_the_same_id() {
    let (cluster, hook) = (cluster().await, Hook::start(1, None).await);
    let scheduler = cluster.scheduler().await;
    let (_worker, client) = (cluster.worker().await, scheduler.client());
    let (app, _) = client.register(&Flow::new("start -> end")).await;
    let webhook = set(&client, &app, json!({"url": hook.url, "include": ["outputs"]})).await;
    let secret = text(&webhook, "secret").strip_prefix("whsec_").expect("a secret").to_string();
    assert_eq!(STANDARD.decode(&secret).map(|bytes| bytes.len()), Ok(32));
    let run = client.submit(&json!({"app": app, "user": "ann", "inputs": {}})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded");

    let waiting = until("the first try to fail", LONG, async || {
        let shown = client.get(&format!("/api/v1/apps/{app}/webhook/deliveries")).await.body;
        if shown["data"][0]["tries"] == 1 { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    let first = &waiting["data"][0];
    assert_eq!((&waiting["waiting"], &first["run"], &first["status"]), (&json!(1), &json!(run), &json!(500)));
    let taken = hook.taken(1).await.remove(0);
    let ids: BTreeSet<String> = hook.all().into_iter().map(|got| got.id).collect();
    assert_eq!(ids, BTreeSet::from([taken.id.clone()]), "the same id in each try");
    let (kind, data) = (&taken.body["type"], &taken.body["data"]);
    assert_eq!((kind, &taken.body["id"]), (&json!("run.ended"), &json!(taken.id)));
    assert_eq!((&data["id"], &data["app"], &data["status"]), (&json!(run), &json!(app), &json!("succeeded")));
    let expected = signed(
        &STANDARD.decode(&secret).expect("base64"),
        &format!("{}.{}.{}", taken.id, taken.timestamp, taken.text),
    );
    assert_eq!(taken.signature, format!("v1,{expected}"));
    let [told, finished] = [&taken.body["timestamp"], &ended["finished_at"]].map(Json::as_f64);
    assert!(told.zip(finished).is_some_and(|(told, at)| (told - at).abs() < 0.002), "{told:?} {finished:?}");
    assert!(data["outputs"].is_object() && data["inputs"].is_null() && data["user"] == "ann", "{data}");
    until("no notice to wait", LONG, async || {
        let shown = client.get(&format!("/api/v1/apps/{app}/webhook/deliveries")).await.body;
        if shown["waiting"] == 0 { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;

    // Neither the secret nor the address is stored or shown.
    let shown = client.get(&format!("/api/v1/apps/{app}/webhook")).await;
    let stored = cluster.redis.cli(&["HGETALL", "tm:webhooks"]);
    assert!(
        !shown.text.contains(&secret) && !stored.contains(&secret) && !stored.contains(&hook.url),
        "{stored}"
    );
    assert_eq!(text(&shown.body, "url"), hook.url);
    let tested = client.post(&format!("/api/v1/apps/{app}/webhook/test"), &json!({})).await;
    assert_eq!(tested.body, json!({"delivered": true, "status": 204, "error": null}), "{}", tested.text);
    assert_eq!(hook.taken(2).await[1].body["type"], "webhook.test");

    // A second app has no webhook, so its runs order nothing.
    let (other, _) = client.register(&Flow::new("start -> a -> end").template("a", "{{ 1 / 0 }}", "q")).await;
    let run = client.submit(&json!({"app": other, "inputs": {}})).await;
    assert_eq!(client.ended(&run).await["status"], "failed");
    assert_eq!(client.get(&format!("/api/v1/apps/{other}/webhook")).await.status, 404);
    for (wrong, name) in [
        (json!({"url": "ftp://a.example"}), "url"),
        (json!({"url": "https://user:pw@a.example"}), "url"),
        (json!({"url": hook.url, "events": []}), "events"),
        (json!({"url": hook.url, "events": ["started"]}), "events"),
        (json!({"url": hook.url, "include": ["inputs"]}), "include"),
        (json!({"url": hook.url, "secret": "short"}), "secret"),
    ] {
        let request = client.request(Method::PUT, &format!("/api/v1/apps/{app}/webhook"));
        let answer = client.send(request.json(&wrong)).await;
        assert!(answer.status == 400 && answer.text.contains(name), "{wrong}: {}", answer.text);
    }
    let removed = client.send(client.request(Method::DELETE, &format!("/api/v1/apps/{app}/webhook"))).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_failure_are_told_and_events_that_are_not_wanted_are_not() {
    let (cluster, hook) = (cluster().await, Hook::start(0, None).await);
    let scheduler = cluster.scheduler().await;
    let (_worker, client) = (cluster.worker().await, scheduler.client());
    let published = client.post("/api/v1/apps", &json!({"workflow": ASK})).await.body;
    let asking = text(&published, "id").to_string();
    set(&client, &asking, json!({"url": hook.url, "events": ["paused"]})).await;
    let broken = Flow::new("start -> a -> end").template("a", "{{ 1 / 0 }}", "q");
    let (failing, _) = client.register(&broken).await;
    set(&client, &failing, json!({"url": hook.url, "events": ["failed"]})).await;

    let asked = client.submit(&json!({"app": asking, "inputs": {"name": "Ada"}})).await;
    let paused = hook.taken(1).await.remove(0).body;
    let pauses = client.get(&format!("/api/v1/runs/{asked}/pauses")).await.body["data"].clone();
    assert_eq!((&paused["type"], &paused["data"]["id"]), (&json!("run.paused"), &json!(asked)));
    assert_eq!(paused["data"]["pauses"][0]["pause_id"], pauses[0]["pause_id"], "{paused}");
    let stop = json!({"command": "stop"});
    assert_eq!(client.post(&format!("/api/v1/runs/{asked}/commands"), &stop).await.status, 202);
    assert_eq!(client.ended(&asked).await["status"], "stopped");
    let failed = client.submit(&json!({"app": failing, "inputs": {}})).await;
    let told = hook.taken(2).await;
    assert_eq!((&told[1].body["type"], &told[1].body["data"]["id"]), (&json!("run.failed"), &json!(failed)));
    assert!(text(&told[1].body["data"], "error").contains("division by zero"), "{:?}", told[1]);
    assert_eq!(hook.all().len(), 2, "the stop was not wanted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notices_of_a_scheduler_that_is_killed_are_sent_by_another_one() {
    let hold = Arc::new(Notify::new());
    let (cluster, hook) = (cluster().await, Hook::start(1, Some(hold.clone())).await);
    let mut first = cluster.scheduler().await;
    let (_worker, client) = (cluster.worker().await, first.client());
    let (app, _) = client.register(&Flow::new("start -> end")).await;
    set(&client, &app, json!({"url": hook.url})).await;
    let run = client.submit(&json!({"app": app, "inputs": {}})).await;
    until("the first try to begin", LONG, async || match hook.all().len() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    let second = cluster.scheduler().await;
    first.process.kill();
    let taken = hook.taken(1).await.remove(0);
    assert_eq!((&taken.body["data"]["id"], hook.all()[0].id.as_str()), (&json!(run), taken.id.as_str()));
    hold.notify_waiters();
    let client = Client::new(&second.address, Some(ADMIN_KEY));
    until("no notice to wait", LONG, async || {
        let shown = client.get(&format!("/api/v1/apps/{app}/webhook/deliveries")).await.body;
        if shown["waiting"] == 0 && shown["given_up"] == json!([]) { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_given_up_after_the_last_try_and_addresses_inside_are_refused() {
    let settings = [KEY, ("webhooks.tries_max", "1")];
    let cluster = Cluster::start(&settings, None).await;
    let (hook, scheduler) = (Hook::start(0, None).await, cluster.scheduler().await);
    let (_worker, client) = (cluster.worker().await, scheduler.client());
    let (app, _) = client.register(&Flow::new("start -> end")).await;
    set(&client, &app, json!({"url": hook.url})).await;
    client.submit(&json!({"app": app, "inputs": {}})).await;
    let given_up = until("the notice to be given up", LONG, async || {
        let shown = client.get(&format!("/api/v1/apps/{app}/webhook/deliveries")).await.body;
        if shown["given_up"][0].is_object() { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    assert!(text(&given_up["given_up"][0], "error").contains("loopback"), "{given_up}");
    assert_eq!((&given_up["waiting"], hook.all().len()), (&json!(0), 0));
}

/// Waits until the deliveries of an app fit.
async fn deliveries(client: &Client, app: &str, what: &str, fits: impl Fn(&Json) -> bool) -> Json {
    until(what, LONG, async || {
        let shown = client.get(&format!("/api/v1/apps/{app}/webhook/deliveries")).await.body;
        if fits(&shown) { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_limit_what_was_tried_is_given_up_and_a_removed_webhook_leaves_nothing_for_the_next_one() {
    let settings =
        [KEY, ("http.allow", "127.0.0.1"), ("scheduler.shards", "1"), ("webhooks.waiting_max", "1")];
    let cluster = Cluster::start(&settings, None).await;
    let (hook, scheduler) = (Hook::start(usize::MAX, None).await, cluster.scheduler().await);
    let (_worker, client) = (cluster.worker().await, scheduler.client());
    let (app, _) = client.register(&Flow::new("start -> end")).await;
    set(&client, &app, json!({"url": hook.url})).await;
    let body = json!({"app": app, "inputs": {}});
    let old = client.submit(&body).await;
    deliveries(&client, &app, "the old notice to be tried", |shown| shown["data"][0]["tries"] == 1).await;
    let new = client.submit(&body).await;
    let shown = deliveries(&client, &app, "the new notice to be tried", |shown| {
        shown["data"][0]["run"] == new.as_str() && shown["data"][0]["tries"] == 1
    })
    .await;
    let given_up = &shown["given_up"][0];
    assert_eq!((&shown["waiting"], &given_up["run"]), (&json!(1), &json!(old)), "{shown}");
    assert!(text(given_up, "error").contains("webhooks.waiting_max"), "{given_up}");

    let removed = client.send(client.request(Method::DELETE, &format!("/api/v1/apps/{app}/webhook"))).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    let other = Hook::start(0, None).await;
    set(&client, &app, json!({"url": other.url})).await;
    let empty = json!({"waiting": 0, "data": [], "given_up": []});
    deliveries(&client, &app, "nothing to be left", |shown| *shown == empty).await;
    let last = client.submit(&body).await;
    let taken = other.taken(1).await;
    assert_eq!((other.all().len(), &taken[0].body["data"]["id"]), (1, &json!(last)));
}
