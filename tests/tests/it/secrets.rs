//! A secret of a workflow's environment lies in Redis sealed or not at all.

use serde_json::json;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::system;

const SECRET: &str = "sk-do-not-write-this-down-0123456789";

/// A workflow whose environment has the secret.
fn with_secret(flow: &Flow) -> String {
    let mut document = flow.document();
    document["workflow"]["environment_variables"] =
        json!([{"id": "e1", "name": "KEY", "value_type": "secret", "value": SECRET, "description": ""}]);
    document.to_string()
}

fn reads_key(node: &str, flow: Flow) -> Flow {
    let variables = json!([{"variable": "k", "value_selector": ["env", "KEY"]}]);
    flow.with(node, json!({"template": "{{ k | length }}", "variables": variables}))
}

fn compares_key(node: &str, flow: Flow) -> Flow {
    let condition = json!({"id": "c", "variable_selector": ["env", "KEY"], "varType": "secret",
        "comparison_operator": "contains", "value": "{{#env.KEY#}}"});
    let case = json!({"case_id": "true", "id": "true", "logical_operator": "and", "conditions": [condition]});
    flow.with(node, json!({"cases": [case]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_nodes_read_is_nowhere_in_redis() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[("scheduler.secret_key", "open sesame")], &model).await;
    let client = &system.client;
    // Read in the scheduler and on a worker, compared, failed with, and handed on as a value of its own.
    let flow = Flow::new("start -> t -> w -> if; if[true] -> llm -> broken; broken[fail-branch] -> end");
    let flow = flow.with("t", json!({"tidemill": {}}));
    let flow = compares_key("if", reads_key("w", reads_key("t", flow)));
    let variables = json!([{"variable": "k", "value_selector": ["env", "KEY"]}]);
    let fails = json!({"template": "{{ k.nothing.at.all }}{{ 1 / 0 }}", "variables": variables,
        "error_strategy": "fail-branch"});
    let flow = flow.with("broken", fails);
    let outputs = json!([{"variable": "length", "value_selector": ["w", "output"]},
        {"variable": "key", "value_selector": ["env", "KEY"]}]);
    let flow = flow.with("end", json!({"outputs": outputs}));
    let body = json!({"workflow": with_secret(&flow), "inputs": {}, "user": "tester"});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["length"]),
        (&json!("partial-succeeded"), &json!("36")),
        "{ended}"
    );
    let text = client.follow(&run, None).await.to_the_end().await;
    assert!(!format!("{ended} {text:?}").contains(SECRET), "a secret is shown: {ended}");

    let redis = &system.cluster.redis;
    for key in redis.cli(&["--scan"]).lines() {
        let held = match redis.cli(&["TYPE", key]).as_str() {
            "string" => redis.cli(&["GET", key]),
            "hash" => redis.cli(&["HGETALL", key]),
            "stream" => redis.cli(&["XRANGE", key, "-", "+"]),
            "list" => redis.cli(&["LRANGE", key, "0", "-1"]),
            "zset" => redis.cli(&["ZRANGE", key, "0", "-1"]),
            _ => redis.cli(&["SMEMBERS", key]),
        };
        assert!(!held.contains(SECRET), "{key} holds the secret: {held}");
    }
}
