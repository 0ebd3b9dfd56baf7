//! Providers and profiles in Redis, from the command that registers them to the call of the model.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

const KEY: &str = "sk-never-to-be-seen-0123456789";

/// A fleet without providers in its settings. Its workers see each change in Redis at once.
struct Fleet {
    cluster: Cluster,
    scheduler: Scheduler,
    _worker: Worker,
}

impl Fleet {
    async fn start() -> Self {
        let settings =
            [("scheduler.secret_key", "open sesame, open wide"), ("worker.providers_refresh_ms", "0")];
        let cluster = Cluster::start(&settings, None).await;
        let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
        Self { cluster, scheduler, _worker: worker }
    }

    /// Runs `tidemill` with these arguments and this standard input.
    async fn tidemill(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.cluster.command("tidemill");
        let url = format!("http://{}", self.scheduler.address);
        command
            .args(arguments)
            .env("TIDEMILL_URL", url)
            .env("TIDEMILL_KEY", tidemill_tests::cluster::ADMIN_KEY);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let done = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("it starts");
            // A command that needs no input may have ended before it is written.
            let _ = child.stdin.take().expect("it was asked for").write_all(input.as_bytes());
            child.wait_with_output().expect("it ends")
        });
        done.await.expect("it does not panic")
    }

    /// Runs a command that must succeed; returns its standard output.
    async fn well(&self, arguments: &[&str], input: &str) -> String {
        let output = self.tidemill(arguments, input).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        assert!(!said.contains(KEY), "{said}");
        String::from_utf8(output.stdout).expect("a text")
    }

    /// Runs a command that must fail; returns its standard error.
    async fn badly(&self, arguments: &[&str], input: &str) -> String {
        let output = self.tidemill(arguments, input).await;
        assert!(!output.status.success(), "{arguments:?} went well");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    async fn answer_of(&self, provider: &str, model: &str) -> Json {
        let client = self.scheduler.client();
        let model = json!({"provider": provider, "name": model, "mode": "chat", "completion_params": {}});
        let flow = Flow::new("start -> llm -> end").with("llm", json!({"model": model}));
        let run = client.start(&flow, &[]).await;
        client.ended(&run).await
    }
}

fn said(run: &Json) -> &str {
    run["outputs"]["llm"].as_str().unwrap_or_else(|| panic!("no text: {run:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_added_with_the_command_serves_workflows_and_a_change_applies_to_the_next_run() {
    let (one, two) = (llm::slow(&["from ", "one"], 0).await, llm::slow(&["from two"], 0).await);
    let fleet = Fleet::start().await;
    let missing = fleet.answer_of("langgenius/acme/acme", "m").await;
    assert_eq!(missing["status"], "failed");
    assert!(missing["error"].as_str().unwrap().contains("tidemill providers add acme"), "{missing}");

    let url = one.base_url();
    fleet
        .well(&["providers", "add", "acme", "--base-url", &url, "--api-key-stdin"], &format!("{KEY}\n"))
        .await;
    let run = fleet.answer_of("langgenius/acme/acme", "m").await;
    assert_eq!(said(&run), "from one");
    let id = run["id"].as_str().expect("a run has an id");
    let told = fleet.scheduler.client().follow(id, None).await.to_the_end().await;
    let ended =
        told.of_kind("node_run_succeeded").find(|event| event.node() == Some("llm")).expect("it ended");
    let told = &ended.data["node_run_result"];
    for part in ["inputs", "process_data"] {
        assert_eq!(
            told[part]["model_provider"], "langgenius/acme/acme",
            "as written in the workflow: {told:#}"
        );
    }

    let again = fleet.badly(&["providers", "add", "acme", "--base-url", &two.base_url()], "").await;
    assert!(again.contains("--update"), "{again}");
    let url = two.base_url();
    fleet.well(&["providers", "add", "acme", "--base-url", &url, "--update"], "").await;
    let kept = fleet.cluster.redis.cli(&["HGET", "tm:provider:acme", "api_key"]);
    assert!(kept.starts_with("sealed:v2:"), "the key is kept: {kept}");
    assert_eq!(said(&fleet.answer_of("acme", "m").await), "from two");
    fleet.well(&["providers", "rm", "acme"], "").await;
    assert_eq!(fleet.answer_of("acme", "m").await["status"], "failed");

    fleet.well(&["providers", "add", "acme", "--base-url", &url, "--api-key-stdin"], KEY).await;
    let shown =
        fleet.well(&["providers", "show", "acme"], "").await + &fleet.well(&["providers", "ls"], "").await;
    assert!(shown.contains("***") && !shown.contains(KEY) && !shown.contains("sealed:"), "{shown}");
    let redis = &fleet.cluster.redis;
    assert!(redis.cli(&["HGET", "tm:provider:acme", "api_key"]).starts_with("sealed:v2:"));
    assert_eq!(redis.cli(&["HGET", "tm:provider:acme", "base_url"]), url);
    for key in redis.cli(&["--scan"]).lines() {
        let held = match redis.cli(&["TYPE", key]).as_str() {
            "string" => redis.cli(&["GET", key]),
            "hash" => redis.cli(&["HGETALL", key]),
            "stream" => redis.cli(&["XRANGE", key, "-", "+"]),
            "list" => redis.cli(&["LRANGE", key, "0", "-1"]),
            "zset" => redis.cli(&["ZRANGE", key, "0", "-1"]),
            _ => redis.cli(&["SMEMBERS", key]),
        };
        assert!(!held.contains(KEY), "{key} holds the key: {held}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_providers_and_profiles_are_tested_by_a_call() {
    let model = llm::rules(json!([
        {"match": {"model": "broken"}, "status": 400, "error": "no such thing"},
        {"match": {}, "reply": "OK"},
    ]))
    .await;
    let fleet = Fleet::start().await;
    let url = model.base_url();
    let path = fleet.cluster.logs().join("acme.toml");
    std::fs::write(&path, format!(
        "[providers.acme]\nbase_url = \"{url}\"\nmax_retries = 0\n[providers.acme.models.chatty]\n[providers.acme.models.vectors]\nmode = \"embedding\"\n"
    )).expect("it can be written");
    let file = path.to_str().expect("a text");
    fleet.well(&["providers", "add", "acme", "--file", file], "").await;
    let tested: Json =
        serde_json::from_str(&fleet.well(&["providers", "test", "acme", "--json"], "").await).expect("JSON");
    assert_eq!(tested["data"][0]["answer"], "OK", "{tested:#}");
    assert!(tested["data"][0]["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{tested:#}");
    let vector = tested["data"][1]["answer"].as_str().expect("a text");
    assert!(vector.starts_with("a vector of "), "{tested:#}");

    let failed = fleet.badly(&["providers", "test", "acme", "--model", "broken"], "").await;
    assert!(failed.contains("broken: ") && failed.contains("no such thing"), "{failed}");
    let nowhere = fleet.badly(&["providers", "test", "ghost"], "").await;
    assert!(nowhere.contains("there is no provider ghost in Redis"), "{nowhere}");

    let add = [
        "profiles",
        "add",
        "fast",
        "--provider",
        "acme",
        "--model",
        "chatty",
        "--parameter",
        "temperature=0.3",
    ];
    fleet.well(&add, "").await;
    let tested = fleet.well(&["profiles", "test", "fast"], "").await;
    assert!(tested.contains("chatty  ok") && tested.contains("OK"), "{tested}");
    let last = model.requests().last().cloned().expect("it was called");
    assert_eq!(last["model"], "chatty", "{last:#}");

    let list = fleet.well(&["profiles", "ls"], "").await;
    assert!(list.contains("fast") && list.contains("default"), "{list}");
    let used = fleet.badly(&["providers", "rm", "acme"], "").await;
    assert!(used.contains("used by profiles (fast)"), "{used}");
    fleet.well(&["providers", "rm", "acme", "--force"], "").await;
    let lost = fleet.badly(&["profiles", "test", "fast"], "").await;
    assert!(lost.contains("The profile fast in Redis cannot be used: there is no provider acme"), "{lost}");
    fleet.well(&["profiles", "rm", "fast"], "").await;
    assert!(fleet.badly(&["profiles", "test", "fast"], "").await.contains("Profile not found: fast"));
}
