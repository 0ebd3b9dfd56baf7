//! Workflow files that switch moderation on that is not served, for the schedulers and for the commands.

use std::process::Output;

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;

const SETTING: &str = "compat.moderation_left_out";

fn moderated(enabled: bool) -> String {
    let mut file = Flow::new("start -> a -> end").document();
    let config = json!({"inputs_config": {"enabled": true, "preset_response": "No."}});
    file["workflow"]["features"] = json!({"sensitive_word_avoidance": {"enabled": enabled, "type": "openai_moderation", "config": config}});
    file.to_string()
}

/// Runs a command of `tidemill` with the file and the settings of a cluster.
fn said(cluster: &Cluster, scheduler: Option<&Scheduler>, words: &[&str], file: &str) -> Output {
    let path = cluster.logs().join("moderated.json");
    std::fs::write(&path, file).expect("the folder exists");
    let mut command = cluster.command("tidemill");
    command.args(words).arg(&path);
    if let Some(scheduler) = scheduler {
        command.env("TIDEMILL_URL", format!("http://{}", scheduler.address)).env("TIDEMILL_KEY", ADMIN_KEY);
    }
    command.output().expect("it starts")
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    format!("{out}{err}")
}

fn names_it(output: &Output) {
    let text = text(output);
    assert!(text.contains("sensitive_word_avoidance") && text.contains(SETTING), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_moderation_passes_the_check_with_a_warning_and_is_refused_when_run() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let checked = said(&cluster, None, &["check"], &moderated(true));
    assert!(checked.status.success() && text(&checked).contains("1 warning"), "{}", text(&checked));
    names_it(&checked);
    let off = said(&cluster, None, &["check"], &moderated(false));
    assert!(off.status.success() && !text(&off).contains("warning"), "{}", text(&off));

    for words in [&["apps", "add"][..], &["run"]] {
        let refused = said(&cluster, Some(&scheduler), words, &moderated(true));
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {}", text(&refused));
        names_it(&refused);
    }
    // Without a scheduler, `run` and `dev` start their own, which refuse the file as well.
    for words in [&["run"][..], &["dev", "--listen", "127.0.0.1:0"]] {
        let refused = said(&cluster, None, words, &moderated(true));
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {}", text(&refused));
        names_it(&refused);
    }
    let client = scheduler.client();
    assert_eq!(client.get("/api/v1/apps").await.body["data"], json!([]), "nothing was published");
    assert_eq!(client.get("/api/v1/runs").await.body["data"], json!([]), "nothing was run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_moderation_runs_only_while_the_setting_leaves_moderation_out() {
    let cluster = Cluster::start(&[(SETTING, "true")], None).await;
    let (lenient, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let added = said(&cluster, Some(&lenient), &["apps", "add", "--json"], &moderated(true));
    assert!(added.status.success(), "{}", text(&added));
    names_it(&added);
    let app: Json = serde_json::from_slice(&added.stdout).expect("it answers JSON");
    let body = json!({"inputs": {}, "user": "u", "response_mode": "blocking"});
    let client = lenient.client().with_key(app["key"].as_str());
    let ran = client.post("/v1/workflows/run", &body).await;
    assert_eq!((ran.status, &ran.body["data"]["status"]), (200, &json!("succeeded")), "{}", ran.text);
    let run = lenient.client().run(ran.body["workflow_run_id"].as_str().expect("a run")).await;
    assert_eq!(run["warnings"][0]["code"], "features.moderation", "{run:#}");

    // The app was published by a scheduler that leaves moderation out; this scheduler does not.
    let mut command = cluster.command("tidemill-scheduler");
    command.args(["--listen", "127.0.0.1:0"]).env("TIDEMILL_COMPAT_MODERATION_LEFT_OUT", "false");
    let mut strict = cluster.spawn("strict", command);
    let started = strict.wait_for_log("scheduler started").await;
    let address = started["address"].as_str().expect("it logs its address");
    let refused = Client::new(address, app["key"].as_str()).post("/v1/workflows/run", &body).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("invalid_workflow")),
        "{}",
        refused.text
    );
    let message = refused.body["message"].as_str().unwrap_or_default();
    // Its end users read the reason, and no name of a setting.
    assert!(message.contains("sensitive_word_avoidance") && !message.contains(SETTING), "{message}");
    // The operator finds the setting in the log, with the request.
    let logged = strict.wait_for_log("an error was shown without names of settings").await;
    assert_eq!(logged["code"], "invalid_workflow");
    assert!(logged["settings"].as_str().is_some_and(|names| names.contains(SETTING)), "{logged:#}");
    assert!(logged.to_string().contains("request_id"), "{logged:#}");
}
