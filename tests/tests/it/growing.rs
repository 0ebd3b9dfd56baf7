//! More shards for a namespace that is at work: everybody notices, and what exists stays where it is.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

/// Short leases, and two shards.
const SETTINGS: [(&str, &str); 3] =
    [("scheduler.shards", "2"), ("scheduler.shard_lease_ms", "2000"), ("scheduler.shard_renew_ms", "500")];

/// Begins runs until one is on a shard that was added, and returns it.
async fn on_a_new_shard(client: &Client, flow: &Flow) -> String {
    until("a run on a new shard", LONG, async || {
        let run = client.start(flow, &[]).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
        if ended["shard"].as_u64() >= Some(2) { Ok(run) } else { Err(ended["shard"].to_string()) }
    })
    .await
}

fn owners(shards: &Json) -> BTreeSet<String> {
    let all = shards["data"].as_array().expect("a list");
    all.iter().map(|shard| shard["owner"].as_str().unwrap_or("none").to_string()).collect()
}

async fn owned_by(client: &Client, wanted: BTreeSet<String>) {
    until("the shards to be shared", LONG, async || {
        let shards = client.get("/api/v1/shards").await.body;
        if owners(&shards) == wanted { Ok(()) } else { Err(shards.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_shards_get_owners_and_runs_and_jobs_without_a_restart() {
    let cluster = Cluster::start(&SETTINGS, None).await;
    let (one, other) = (cluster.scheduler().await, cluster.scheduler().await);
    let _worker = cluster.worker().await;
    let client = one.client();
    let code = json!({"type": "code", "code_language": "javascript", "variables": [],
        "code": "function main() { return {x: 'y'} }", "outputs": {"x": {"type": "string", "children": null}}});
    let flow = Flow::new("start -> work -> end").with("work", code);
    let early = client.start(&flow, &[]).await;
    assert_eq!(client.ended(&early).await["status"], "succeeded");
    let both: BTreeSet<String> = [&one, &other].map(|it| it.id.clone()).into();
    owned_by(&client, both.clone()).await;

    let raised = client.post("/api/v1/shards", &json!({"shards": 6})).await;
    assert_eq!(
        (raised.status, &raised.body),
        (200, &json!({"shards": 6, "raised_from": 2})),
        "{}",
        raised.text
    );
    for scheduler in [&one, &other] {
        on_a_new_shard(&scheduler.client(), &flow).await;
    }
    owned_by(&client, both).await;
    let shards = other.client().get("/api/v1/shards").await.body;
    assert_eq!((&shards["shards"], &shards["shards_first"]), (&json!(6), &json!(2)));
    assert_eq!(shards["data"].as_array().map(Vec::len), Some(6));
    assert_eq!(client.run(&early).await["status"], "succeeded", "it stays where it is");

    let mut command = cluster.command("tidemill");
    let url = format!("http://{}", other.address);
    command.args(["shards", "raise", "7"]).env("TIDEMILL_URL", url).env("TIDEMILL_KEY", ADMIN_KEY);
    let output = command.output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6 → 7 shards\n", "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_on_a_new_shard_goes_on_through_the_other_scheduler() {
    let cluster = Cluster::start(&SETTINGS, None).await;
    let (one, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let flow = Flow::new("start -> answer").answer("answer", "turn {{#sys.dialogue_count#}}");
    let (_, app) = one.client().register(&flow).await;
    let other = cluster.scheduler().await;
    let there = Client::new(&other.address, app.key());
    let talk = async |client: &Client, conversation: &str| {
        let said = json!({"inputs": {}, "query": "hello", "user": "ada", "response_mode": "blocking",
            "conversation_id": conversation});
        let answer = client.post("/v1/chat-messages", &said).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body
    };
    talk(&there, "").await;
    let raised = one.client().post("/api/v1/shards", &json!({"shards": 16})).await;
    assert_eq!(raised.status, 200, "{}", raised.text);
    for _ in 0..4 {
        let first = talk(&app, "").await;
        let id = first["conversation_id"].as_str().expect("an id").to_string();
        let second = talk(&there, &id).await;
        assert_eq!(second["conversation_id"], json!(id));
        let messages = app.get(&format!("/v1/messages?user=ada&conversation_id={id}")).await;
        assert_eq!(messages.body["data"].as_array().map(Vec::len), Some(2), "{}", messages.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_never_taken_away_and_wait_for_older_processes() {
    let cluster = Cluster::start(&SETTINGS, None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    for (shards, said) in [
        (json!(1), "there are 2 shards already"),
        (json!(0), "shards must be 1 to 16384"),
        (json!(20_000), "shards must be 1 to 16384"),
        (json!("4"), "shards must be 1 to 16384"),
    ] {
        let refused = client.post("/api/v1/shards", &json!({"shards": shards})).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains(said), "{}", refused.text);
    }
    let same = client.post("/api/v1/shards", &json!({"shards": 2})).await;
    assert_eq!((same.status, &same.body["raised_from"]), (200, &json!(2)), "{}", same.text);
    // As long as a process of the version before may live.
    let time = cluster.redis.cli(&["TIME"]);
    let seconds: u64 = time.lines().next().and_then(|text| text.parse().ok()).expect("a time");
    cluster.redis.cli(&["ZADD", "tm:workers", &((seconds + 3600) * 1000).to_string(), "w-older"]);
    cluster.redis.cli(&["HSET", "tm:meta", "v", "3"]);
    let refused = client.post("/api/v1/shards", &json!({"shards": 4})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("older_processes")), "{}", refused.text);
    assert_eq!(cluster.redis.cli(&["HGET", "tm:meta", "shards"]), "2");
}
