//! The removal of a user whose runs have called other apps as tools, which have called others.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

use super::app_life::{delete, everything, lines_with, until_removed};
use super::called::{file, tool};

/// Registers a workflow that passes its text to all of these nodes at once.
async fn register_fan(admin: &Client, name: &str, nodes: &[(String, Json)]) -> String {
    let named: Vec<(&str, Json)> = nodes.iter().map(|(id, node)| (id.as_str(), node.clone())).collect();
    let mut document: Json =
        serde_json::from_str(&file(name, &["name"], &named, &[("name", ["start", "name"])])).expect("JSON");
    let ways = nodes.iter().flat_map(|(id, _)| {
        [json!({"source": "start", "target": id}), json!({"source": id, "target": "end"})]
    });
    document["workflow"]["graph"]["edges"] = ways.collect();
    let answer = admin.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["id"].as_str().expect("a text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_removed_user_in_runs_that_were_called_at_any_depth() {
    const CALLS: usize = 12;
    const WORD: &str = "canary-word";
    let cluster = Cluster::start(&[], None).await;
    let (here, _there) = (cluster.scheduler().await, cluster.scheduler().await);
    let _worker = cluster.worker().await;
    let (admin, redis) = (here.client(), &cluster.redis);
    let note = json!({"type": "template-transform", "title": "N", "template": "{{ name }}",
        "variables": [{"variable": "name", "value_selector": ["start", "name"]}]});
    let passes_on = |app: &str| tool(app, "name", "{{#start.name#}}");
    let last = register_fan(&admin, "Last", &[("n".to_owned(), note)]).await;
    let middle = register_fan(&admin, "Middle", &[("t".to_owned(), passes_on(&last))]).await;
    let many: Vec<(String, Json)> = (0..CALLS).map(|n| (format!("t{n}"), passes_on(&middle))).collect();
    let first = register_fan(&admin, "First", &many).await;
    let asked = |user: &str, word: &str| json!({"app": first, "inputs": {"name": word}, "user": user});
    let others = admin.submit(&asked("bob", "bobs-word")).await;
    let run = admin.submit(&asked("ada", WORD)).await;
    let ended = admin.ended(&run).await;
    assert_eq!((&ended["status"], &ended["calls_count"]), (&json!("succeeded"), &json!(CALLS)), "{ended:#}");
    assert_eq!(admin.ended(&others).await["status"], "succeeded");
    assert!(lines_with(&everything(redis), &[WORD]).len() > 2 * CALLS);

    let begun = delete(&admin, &format!("/api/v1/apps/{first}/users/ada")).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    until_removed(&admin).await;
    until("nothing of the user to be left in Redis", LONG, async || {
        let left = lines_with(&everything(redis), &[WORD]);
        if left.is_empty() { Ok(()) } else { Err(format!("{} lines, such as {}", left.len(), left[0])) }
    })
    .await;
    let kept = lines_with(&everything(redis), &["bobs-word"]);
    assert!(kept.len() > 2 * CALLS, "the runs of the other user are as before");
}
