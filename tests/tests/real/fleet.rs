//! From the command that installs a plugin to the runs that use it, on two workers, of which one dies.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_tests::wait::until;

use crate::lab::{Lab, Tool, constant, many, many_as};

const ID: &str = "tidemill/many:0.1.0";
/// Answers with the size of a file, because the files of `say` are no text.
const SIZE: &str = "\
from dify_plugin import Tool


class Read(Tool):
    def _invoke(self, tool_parameters):
        file = tool_parameters[\"file\"]
        yield self.create_text_message(f\"{len(file.blob)} bytes\")
";

#[tokio::test(flavor = "multi_thread")]
async fn an_installed_plugin_runs_as_it_is_and_its_files_go_both_ways() {
    let Some(lab) = Lab::start(&[("files.url", "place"), ("worker.providers_refresh_ms", "0")]).await else {
        return;
    };
    let unknown = lab.run(&[Tool::new("say", "say", json!({"text": constant("a")}))]).await;
    assert!(unknown["error"].as_str().unwrap().contains("tidemill plugins add"), "{unknown}");
    lab.install(&many(), ID).await;

    let tool = Tool::new("say", "say", json!({"text": constant("ab"), "often": constant("2")}));
    let said = lab.run(&[tool]).await;
    assert_eq!(said["status"], "succeeded", "{said}");
    let outputs = &said["outputs"];
    assert_eq!(outputs["say_text"], "ababLink: https://example.com/\n");
    assert_eq!(
        outputs["say_json"][0]["given"],
        json!({"text": "ab", "often": 2, "loud": false, "mood": "calm"})
    );
    assert_eq!(outputs["say_files"][0]["size"], 25_600, "{outputs}");

    // Another version beside it; a workflow gets the one that it names, and another one the newest.
    let folder = many_as("0.2.0", &[("tools/read.py", SIZE)]);
    lab.install(folder.path(), "tidemill/many:0.2.0").await;
    for (named, expected) in [("0.1.0", ID), ("0.2.0", "tidemill/many:0.2.0"), ("9.9", "tidemill/many:0.2.0")]
    {
        let tool = Tool { version: named, ..Tool::new("say", "say", json!({"text": constant("a")})) };
        let run = lab.begin(&[tool]).await;
        let ended = lab.client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
        let events = lab.client.get(&format!("/api/v1/runs/{run}/events?follow=false")).await.text;
        assert!(events.contains(&format!("\"plugin\":\"{expected}\"")), "{named}: {events}");
    }
    let file = json!({"file": {"type": "variable", "value": ["say", "files"]}});
    let read = Tool { version: "0.2.0", ..Tool::new("read", "read", file) };
    let both = lab.run(&[Tool::new("say", "say", json!({"text": constant("a")})), read]).await;
    assert_eq!(both["outputs"]["read_text"], "25600 bytes", "{both}");

    // A test from the command line, then the removal.
    let said = lab.well(&["plugins", "test", "tidemill/many/many", "say", "--param", "text=hello"], "").await;
    assert!(said.contains("hello"), "{said}");
    for id in [ID, "tidemill/many:0.2.0"] {
        lab.well(&["plugins", "rm", id], "").await;
    }
    let packages = lab.cluster.redis.cli(&["KEYS", "tm:plugin*"]);
    assert_eq!(packages.trim(), "", "nothing of the plugins is left");
    let files =
        std::fs::read_dir(lab.cluster.logs().join("place/plugins")).expect("packages were stored there");
    assert_eq!(files.count(), 0, "nor their packages");
    let gone = lab.run(&[Tool::new("say", "say", json!({"text": constant("a")}))]).await;
    assert_eq!(gone["status"], "failed", "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_of_a_killed_worker_runs_again_on_the_other_one_and_its_process_ends() {
    let Some(mut lab) = Lab::start(&[]).await else { return };
    lab.install(&many(), ID).await;
    let run = lab.begin(&[Tool::new("wait", "wait", json!({"seconds": constant("6")}))]).await;
    lab.client.node_is(&run, "wait", "running").await;
    let at = until("a worker to hold the job", Duration::from_secs(30), async || {
        let workers = lab.client.get("/api/v1/workers").await.body;
        let rows = workers["data"].as_array().cloned().unwrap_or_default();
        let holder = rows.iter().find(|worker| worker["jobs_held"] == 1).map(|worker| worker["name"].clone());
        let at = lab.workers.iter().position(|worker| holder == Some(Json::from(worker.consumer.as_str())));
        at.ok_or_else(|| workers.to_string())
    })
    .await;
    let pid = lab.workers[at].process.id();
    let plugins = until("its plugin to run", Duration::from_secs(60), async || {
        let found = descendants(pid);
        if found.is_empty() { Err(format!("{pid} has no processes")) } else { Ok(found) }
    })
    .await;
    lab.workers[at].process.kill();
    until("the plugin's process to end with its worker", Duration::from_secs(10), async || {
        let alive: Vec<_> = plugins.iter().filter(|pid| is_alive(**pid)).collect();
        if alive.is_empty() { Ok(()) } else { Err(format!("{alive:?} are alive")) }
    })
    .await;
    let ended = lab.client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["wait_text"]),
        (&json!("succeeded"), &json!("begundone"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_fails_the_node_by_its_policy_and_a_stop_reaches_an_invocation() {
    let Some(lab) = Lab::start(&[]).await else { return };
    lab.install(&many(), ID).await;
    let retries = json!({"retry_config": {"retry_enabled": true, "max_retries": 1, "retry_interval": 100}});
    let dies = Tool { more: retries, ..Tool::new("fail", "fail", json!({"how": constant("die")})) };
    let died = lab.run(&[dies]).await;
    assert!(died["error"].as_str().unwrap().contains("the plugin's process ended"), "{died}");
    let raised = lab.run(&[Tool::new("fail", "fail", json!({"how": constant("raise")}))]).await;
    assert!(raised["error"].as_str().unwrap().contains("ValueError: failed with the key"), "{raised}");
    let run = lab.begin(&[Tool::new("wait", "wait", json!({"seconds": constant("600")}))]).await;
    lab.client.node_is(&run, "wait", "running").await;
    let stop = lab.client.post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "stop"})).await;
    assert_eq!(stop.status, 202, "{}", stop.text);
    assert_eq!(lab.client.ended(&run).await["status"], "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_plugins_leaves_jobs_to_those_that_have_them_and_fails_what_nobody_can_run() {
    let Some(mut lab) = Lab::start(&[]).await else { return };
    lab.install(&many(), ID).await;
    let mut command = lab.cluster.command("tidemill-worker");
    command.env("TIDEMILL_PLUGINS_ENABLED", "false");
    let without = lab.cluster.worker_of(command).await;
    until("the third worker to say that it runs no plugins", Duration::from_secs(30), async || {
        let shown = lab.client.get("/api/v1/plugins").await.body;
        let states = shown["data"][0]["workers"].as_array().cloned().unwrap_or_default();
        let of =
            |worker: &Json| worker["worker"] == without.consumer.as_str() && worker["state"] == "disabled";
        if states.iter().any(of) { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let tool = || [Tool::new("say", "say", json!({"text": constant("ab")}))];
    let mut runs = Vec::new();
    for _ in 0..6 {
        runs.push(lab.begin(&tool()).await);
    }
    for run in &runs {
        let ended = lab.client.ended(run).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
    }
    for worker in &mut lab.workers {
        worker.process.kill();
    }
    let nobody = lab.run(&tool()).await;
    assert!(nobody["error"].as_str().unwrap().contains("no living worker can run it"), "{nobody}");
}

/// The processes that a process has started, and theirs.
fn descendants(of: u32) -> Vec<u32> {
    let text = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = text(of).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    children.iter().flat_map(|pid| [vec![*pid], descendants(*pid)].concat()).collect()
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z")
}
