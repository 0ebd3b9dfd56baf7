//! The user of Redis that the documentation gives: Tidemill works with these rights, and Redis refuses it nothing else.

use std::sync::OnceLock;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::config::RedisConfig;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::Redis;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::{llm, workspace};

use super::doctor::doctor;
use crate::store_contract::kept_by;

const ASK: &str = include_str!("workflows/ask_twice.yml");
const NAME: &str = "tidemill";

/// The words of the documented command that makes the user on one server.
fn documented() -> Vec<&'static str> {
    documented_for(false)
}

/// The same on one server, or on each server of a cluster.
fn documented_for(cluster: bool) -> Vec<&'static str> {
    static PAGE: OnceLock<String> = OnceLock::new();
    let path = workspace().join("docs/operations.md");
    let page = PAGE.get_or_init(|| std::fs::read_to_string(path).expect("the page"));
    let is_it = |line: &&str| {
        line.starts_with(&format!("ACL SETUSER {NAME} ")) && line.contains("~{tm}:*") == cluster
    };
    page.lines().find(is_it).expect("the page has the command").split(' ').collect()
}

fn password() -> &'static str {
    documented().iter().find_map(|word| word.strip_prefix('>')).expect("the user has a password")
}

/// What Redis has refused, except for `CONFIG GET`, which the page names.
fn refused(redis: &Redis) -> Vec<String> {
    let log = redis.cli(&["ACL", "LOG"]);
    let lines: Vec<&str> = log.lines().collect();
    let objects = lines.windows(2).filter(|pair| pair[0].ends_with("object")).map(|pair| pair[1].to_string());
    objects.filter(|object| !object.contains("config")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_the_store_is_within_the_documented_rights() {
    let mut redis = Redis::start().await;
    let mut user = documented();
    // The contract uses a namespace for each of its cases.
    user.extend(["allkeys", "allchannels"]);
    user.retain(|word| !word.starts_with(['~', '&']));
    redis.cli(&user);
    redis.log_in(NAME, password());
    let url = redis.url();
    let config = |namespace: &str| RedisConfig {
        url: url.clone().into(),
        namespace: namespace.into(),
        ..RedisConfig::default()
    };
    kept_by(config).await;
    assert_eq!(refused(&redis), Vec::<String>::new());
}

async fn chat(app: &Client, query: &str, conversation: &str) -> Json {
    let body = json!({"query": query, "inputs": {}, "user": "u1", "conversation_id": conversation, "response_mode": "streaming"});
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let mut last = Json::Null;
    while let Some(message) = stream.next().await {
        let event: Json =
            message.data.map(|data| serde_json::from_str(&data).expect("JSON")).unwrap_or_default();
        if event["event"] == "message_end" {
            last = event;
        }
    }
    assert!(last["conversation_id"].is_string(), "the chat ends with a message: {last}");
    last
}

fn hook() -> Json {
    let nodes = json!([
        {"id": "hook", "data": {"type": "trigger-webhook", "method": "POST", "content_type": "application/json",
            "body": [{"name": "n", "type": "number", "required": true}]}},
        {"id": "code", "data": {"type": "code", "code_language": "javascript",
            "code": "function main({n}) { return {m: n + 1} }", "outputs": {"m": {"type": "number"}},
            "variables": [{"variable": "n", "value_selector": ["hook", "n"]}]}},
        {"id": "end", "data": {"type": "end", "outputs": [{"variable": "m", "value_selector": ["code", "m"]}]}},
    ]);
    let edges = json!([{"source": "hook", "target": "code"}, {"source": "code", "target": "end"}]);
    json!({"kind": "app", "app": {"mode": "workflow", "name": "Hook"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}}})
}

/// Calls a webhook, whose run has a code node, and waits for the run.
async fn trigger(client: &Client) {
    let answer = client.post("/api/v1/apps", &json!({"workflow": hook().to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let path = answer.body["triggers"][0]["path"].as_str().expect("a path").to_string();
    let request =
        client.with_key(None).request(Method::POST, &path).header("content-type", "application/json");
    let called = client.send(request.body(r#"{"n": 6}"#)).await;
    assert!(called.status < 300, "{}", called.text);
    let app = answer.body["id"].clone();
    let run = until("the webhook's run", LONG, async || {
        let listed = client.get("/api/v1/runs?limit=100").await.body;
        let run = listed["data"].as_array().and_then(|runs| runs.iter().find(|run| run["app"] == app));
        run.and_then(|run| run["id"].as_str()).map(str::to_string).ok_or_else(|| listed.to_string())
    })
    .await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], &ended["outputs"]["m"]), (&json!("succeeded"), &json!(7)), "{ended:#}");
}

/// Has a run wait for a person, answers one form, and stops the run.
async fn ask(client: &Client) {
    let run = client.submit(&json!({"workflow": ASK, "inputs": {"name": "Ada"}})).await;
    let shown = until("the run to pause", LONG, async || {
        let shown = client.run(&run).await;
        if shown["status"] == "paused" { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    let pause =
        shown["pauses"].as_array().and_then(|pauses| pauses.iter().find(|one| one["node_id"] == "left"));
    let pause = pause.and_then(|one| one["pause_id"].as_str()).expect("it waits");
    let said = json!({"action": "ok", "inputs": {"word": "deep"}});
    let answer = client.post(&format!("/api/v1/runs/{run}/pauses/{pause}/answer"), &said).await;
    assert!(answer.status < 300, "{}", answer.text);
    let stop = client.post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "stop"})).await;
    assert!(stop.status < 300, "{}", stop.text);
    assert_eq!(client.ended(&run).await["status"], "stopped");
}

async fn know(client: &Client) {
    let made = client.post("/api/v1/knowledge", &json!({"id": "handbook", "name": "Handbook"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let document = json!({"name": "leave.md", "text": "Leave: thirty days."});
    let added = client.post("/api/v1/knowledge/handbook/documents", &document).await;
    assert_eq!(added.status, 202, "{}", added.text);
    let ended = client.ended(added.body["run"].as_str().expect("a run")).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_with_the_documented_user_does_everything_and_is_refused_nothing() {
    let mut redis = Redis::start().await;
    redis.cli(&documented());
    redis.log_in(NAME, password());
    let model = llm::rules(json!([{"match": {}, "chunks": ["an ", "answer"]}])).await;
    let cluster = Cluster::around(redis, &[], Some(&model));
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    everything(&client).await;
    let (is_well, found) = doctor(&cluster, &[]).await;
    assert!(is_well, "{found}");
    for process in [&scheduler.process, &worker.process] {
        assert!(!process.log_text().contains("NOPERM"), "{}", process.tail());
    }
    assert_eq!(refused(&cluster.redis), Vec::<String>::new());
}

/// Everything that a fleet does in these tests.
async fn everything(client: &Client) {
    let flow = Flow::new("start -> llm -> answer")
        .prompt("llm", "{{#sys.query#}}")
        .answer("answer", "{{#llm.text#}}");
    let (_, app) = client.register(&flow).await;
    let first = chat(&app, "one", "").await;
    chat(&app, "two", first["conversation_id"].as_str().expect("an id")).await;
    assert_eq!(app.get("/v1/conversations?user=u1").await.status, 200);
    trigger(client).await;
    ask(client).await;
    know(client).await;
    assert_eq!(client.get("/api/v1/dead").await.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_on_a_cluster_with_the_documented_user_is_refused_nothing() {
    let servers = RedisCluster::start().await;
    for server in &servers.servers {
        server.cli(&documented_for(true));
    }
    let url = servers.url().replace("://", &format!("://{NAME}:{}@", password()));
    let model = llm::rules(json!([{"match": {}, "chunks": ["an ", "answer"]}])).await;
    let cluster = Cluster::start(&[("scheduler.shards", "6")], Some(&model)).await.at(&url);
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    everything(&client).await;
    // With a slot half moved, clients are sent after its keys, which needs a right of its own.
    let slot = servers.slot_of("{tm}:meta").await;
    let from = servers.owner_of(slot, 0).await;
    let to = (from + 1) % 3;
    servers.begin_move(slot, from, to).await;
    servers.move_some(slot, from, to).await;
    // Some of the requests may have to wait until the move is over; none is refused for its rights.
    for path in ["/api/v1/apps", "/api/v1/triggers", "/api/v1/shards", "/readyz"] {
        client.get(path).await;
    }
    while servers.move_some(slot, from, to).await {}
    servers.end_move(slot, from, to).await;
    everything(&client).await;
    let (is_well, found) = doctor(&cluster, &[]).await;
    assert!(is_well, "{found}");
    for process in [&scheduler.process, &worker.process] {
        assert!(!process.log_text().contains("NOPERM"), "{}", process.tail());
    }
    for server in &servers.servers {
        assert_eq!(refused(server), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_the_acl_refuses_is_one_warning_of_each_process_and_a_finding() {
    let mut redis = Redis::start().await;
    let patterns = ["&tm:{*}:tick", "&tm:{*}:cancel"];
    let user: Vec<&str> = documented().into_iter().filter(|word| !patterns.contains(word)).collect();
    redis.cli(&user);
    redis.log_in(NAME, password());
    let model = llm::rules(json!([{"match": {}, "reply": "hello"}])).await;
    let cluster = Cluster::around(redis, &[], Some(&model));
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.start(&Flow::new("start -> llm -> end"), &[]).await;
    client.follow(&run, None).await.to_the_end().await;
    // A second follower subscribes again, and is refused again.
    let run = client.start(&Flow::new("start -> llm -> end"), &[]).await;
    client.follow(&run, None).await.to_the_end().await;
    let warned =
        |log: String| log.lines().filter(|line| line.contains("NOPERM") && line.contains("WARN")).count();
    until("both to warn", LONG, async || {
        let counts = (warned(scheduler.process.log_text()), warned(worker.process.log_text()));
        if counts == (1, 1) { Ok(()) } else { Err(format!("{counts:?}\n{}", scheduler.process.tail())) }
    })
    .await;
    let (is_well, found) = doctor(&cluster, &[]).await;
    let warnings = found["warnings"].to_string();
    assert!(!is_well && patterns.iter().all(|pattern| warnings.contains(pattern)), "{found}");
}
