//! The seals of secrets while a fleet is upgraded: every process must be able to open them.

use reqwest::Method;
use serde_json::json;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

const SECRET: &str = "sk-nobody-is-to-read-this";
const KEY: [(&str, &str); 1] = [("scheduler.secret_key", "open sesame, open wide")];

/// A workflow that outputs the length of its secret.
fn measures_its_secret(name: &str) -> String {
    let variables = json!([{"variable": "k", "value_selector": ["env", "KEY"]}]);
    let flow = Flow::new("start -> t -> answer")
        .answer("answer", "{{#t.output#}}")
        .with("t", json!({"template": "{{ k | length }}", "variables": variables}));
    let mut document = flow.document();
    document["app"]["name"] = name.into();
    document["workflow"]["environment_variables"] =
        json!([{"id": "e1", "name": "KEY", "value_type": "secret", "value": SECRET, "description": ""}]);
    document.to_string()
}

/// Publishes a workflow. Returns the id of its app and the beginning of the stored seal.
async fn publish(client: &Client, redis: &Redis, name: &str) -> (String, String) {
    let request = client.request(Method::POST, "/api/v1/apps").body(measures_its_secret(name));
    let app = client.send(request).await;
    assert_eq!(app.status, 201, "{}", app.text);
    let id = app.body["id"].as_str().expect("an id").to_owned();
    let document = redis.cli(&["HGET", &format!("tm:app:{id}"), "document"]);
    let at = document.find("sealed:").unwrap_or_else(|| panic!("a seal: {document}"));
    (id, document[at..at + "sealed:v1:".len()].to_owned())
}

async fn runs(client: &Client, app: &str) {
    let run = client.post("/api/v1/runs", &json!({"app": app, "query": "q", "user": "u"})).await;
    assert_eq!(run.status, 201, "{}", run.text);
    let id = run.body["id"].as_str().expect("an id");
    let ended = client.ended(id).await;
    assert_eq!(ended["outputs"]["answer"], SECRET.len().to_string(), "{ended}");
}

fn version(redis: &Redis) -> String {
    redis.cli(&["HGET", "tm:meta", "v"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_of_seals_is_used_only_when_no_older_process_runs() {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let cluster = Cluster::start(&KEY, Some(&model)).await;
    let redis = &cluster.redis;
    // A worker of an older version, which is only in its own list. It stays there until its entry expires.
    let far = "99999999999999";
    redis.cli(&["ZADD", "tm:workers", far, "older"]);
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let (first, seal) = publish(&client, redis, "first").await;
    assert_eq!((seal.as_str(), version(redis).as_str()), ("sealed:v1:", "1"));
    runs(&client, &first).await;

    redis.cli(&["ZREM", "tm:workers", "older"]);
    until("the version to be raised", LONG, async || match version(redis) {
        v if v == "5" => Ok(()),
        v => Err(v),
    })
    .await;
    let (second, seal) = until("seals of the second version", LONG, async || {
        let (app, seal) = publish(&client, redis, "second").await;
        if seal == "sealed:v2:" { Ok((app, seal)) } else { Err(seal) }
    })
    .await;
    assert_eq!(seal, "sealed:v2:");
    runs(&client, &second).await;
    runs(&client, &first).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_namespace_seals_with_a_salted_key_from_the_beginning() {
    let cluster = Cluster::start(&KEY, None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let (app, seal) = publish(&scheduler.client(), &cluster.redis, "first").await;
    assert_eq!((seal.as_str(), version(&cluster.redis).as_str()), ("sealed:v2:", "5"));
    runs(&scheduler.client(), &app).await;
}
