//! Checks `docs/redis.md` against a Redis with runs: its commands work as written, and every key has a row.

use std::process::Command;

use reqwest::Method;
use serde_json::json;
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::{llm, workspace};

use super::system;

const ASK: &str = include_str!("workflows/ask_twice.yml");
const COUNT: &str = include_str!("workflows/count_up.yml");

fn page() -> String {
    let path = workspace().join("docs/redis.md");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The commands of all its `sh` blocks.
fn commands(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect::<Vec<_>>().join("\n")
}

/// The output of the page's commands for a run. None of them may print an error.
fn said(page: &str, run: &str, port: u16) -> String {
    let example = page.split("RUN=").nth(1).and_then(|rest| rest.lines().next()).expect("an example id");
    let script = commands(page).replace(example, run).replace("BLOCK 0", "BLOCK 10");
    let script = script.replace("redis-cli ", &format!("redis-cli -p {port} "));
    let done = Command::new("sh").args(["-c", &script]).output().expect("there is a shell");
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(complained.is_empty(), "{complained}");
    let errors: Vec<&str> =
        said.lines().filter(|l| ["ERR", "WRONGTYPE", "NOGROUP"].iter().any(|e| l.starts_with(e))).collect();
    assert!(errors.is_empty(), "the page's commands fail: {errors:?}\nin\n{script}");
    said.into_owned()
}

/// The keys in the first column of its tables.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("| `tm:")).filter_map(|line| line.split('`').nth(1)).collect()
}

fn fits(row: &str, key: &str) -> bool {
    let (row, key): (Vec<&str>, Vec<&str>) = (row.split(':').collect(), key.split(':').collect());
    row.len() == key.len()
        && row.iter().zip(key).all(|(row, key)| {
            *row == key
                || row.starts_with('<')
                || (*row == "{n}" && key.starts_with('{') && key.ends_with('}'))
        })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_redis_matches_a_real_redis() {
    let model = llm::slow(&["x".repeat(100_000).as_str()], 0).await;
    // One shard, because the page's commands ask shard 0.
    let system = system(&[("scheduler.shards", "1")], &model).await;
    let client = &system.client;
    let good = client.start(&Flow::new("start -> a -> llm -> answer"), &[]).await;
    assert_eq!(client.ended(&good).await["status"], "succeeded");
    let bad = client.start(&Flow::new("start -> a -> end").template("a", "{{ 1 / 0 }}", "q"), &[]).await;
    assert_eq!(client.ended(&bad).await["status"], "failed");
    client.register(&Flow::new("start -> end")).await;
    let key = client.get("/api/v1/keys").await.body["data"][0]["id"].as_str().expect("an id").to_string();
    let revoked = client.send(client.request(Method::DELETE, &format!("/api/v1/keys/{key}"))).await;
    assert_eq!(revoked.status, 204, "{}", revoked.text);
    let planned = json!({"workflow": include_str!("workflows/nightly.yml")});
    assert_eq!(client.post("/api/v1/apps", &planned).await.status, 201);
    let talk = json!({"workflow": COUNT, "sys": {"query": "x"}, "conversation_id": "support-4711"});
    assert_eq!(client.ended(&client.submit(&talk).await).await["status"], "succeeded");
    let waiting = client.submit(&json!({"workflow": ASK, "inputs": {"name": "Ada"}})).await;
    until("the run to pause", LONG, async || {
        let shown = client.run(&waiting).await;
        if shown["status"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let hold = json!({"command": "pause", "reason": "look first", "key": "k"});
    assert_eq!(client.post(&format!("/api/v1/runs/{waiting}/commands"), &hold).await.status, 202);
    let port = system.cluster.redis.port();
    until("the command to be applied", LONG, async || {
        let said = said(&page(), &waiting, port);
        if said.contains(r#""pausing":["look first"]"#) { Ok(()) } else { Err(said) }
    })
    .await;

    let page = page();
    let keys = system.cluster.redis.cli(&["--scan"]);
    let missing: Vec<&str> =
        keys.lines().filter(|key| !rows(&page).iter().any(|row| fits(row, key))).collect();
    assert!(missing.is_empty(), "keys without a row in docs/redis.md: {missing:?}");

    let of_good = said(&page, &good, port);
    for shown in
        ["succeeded", "n:/llm", "graph_run_succeeded", &format!("{bad} "), "division by zero", "v:total"]
    {
        assert!(of_good.contains(shown), "the page's commands show {shown:?}:\n{of_good}");
    }
    let of_waiting = said(&page, &waiting, port);
    for shown in [r#""status":"pending""#, "Left of Ada", &format!("{waiting} form ")] {
        assert!(of_waiting.contains(shown), "the page's commands show {shown:?}:\n{of_waiting}");
    }
}

#[test]
fn rows_fit_the_keys_they_describe() {
    assert!(fits("tm:{n}:run:<id>:state", "tm:{3}:run:0199c0de:state"));
    assert!(!fits("tm:{n}:run:<id>", "tm:{3}:run:0199c0de:state"));
}
