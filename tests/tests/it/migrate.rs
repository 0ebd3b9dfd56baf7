//! `tidemill migrate` against a real scheduler: what it publishes, and that a repetition makes no second app and no
//! second key.

use std::path::Path;

use serde_json::Value as Json;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};

const FLOW: &str = "kind: app\nversion: 0.6.0\napp: {mode: workflow, name: NAME}\nworkflow:\n  graph:\n    nodes:\n    \
                    - {id: start, data: {type: start, title: Start, variables: []}}\n    \
                    - {id: say, data: {type: template-transform, title: Say, template: TEXT, variables: []}}\n    \
                    - {id: end, data: {type: end, title: End, outputs: [{variable: said, value_selector: [say, output]}]}}\n    \
                    edges:\n    - {id: a, source: start, target: say, sourceHandle: source}\n    \
                    - {id: b, source: say, target: end, sourceHandle: source}\n";

fn put(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("it can be written");
}

fn flow(name: &str, text: &str) -> String {
    FLOW.replace("NAME", name).replace("TEXT", text)
}

/// Publishes the folder and returns the report.
fn applied(cluster: &Cluster, scheduler: &Scheduler, folder: &Path, more: &[&str]) -> Json {
    let mut command = cluster.command("tidemill");
    command.args(["migrate", "--apply", "--json"]).args(more).arg(folder);
    command.env("TIDEMILL_URL", format!("http://{}", scheduler.address)).env("TIDEMILL_KEY", ADMIN_KEY);
    let output = command.output().expect("it starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The outcome of a file, and whether a key was shown.
fn outcome(report: &Json, file: &str) -> (String, bool) {
    let all = report["applied"].as_array().expect("files were published");
    let one = all.iter().find(|one| one["path"] == file).unwrap_or_else(|| panic!("{file} in {report}"));
    (one["outcome"].as_str().expect("a word").to_owned(), one["key"].is_string())
}

fn id(report: &Json, file: &str) -> String {
    let all = report["applied"].as_array().expect("files were published");
    let one = all.iter().find(|one| one["path"] == file).unwrap_or_else(|| panic!("{file} in {report}"));
    one["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn applying_twice_makes_one_app_and_one_key_for_each_file() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    put(here, "one.yml", &flow("One", "one"));
    // The same content at another path is another app.
    put(here, "copy.yml", &flow("One", "one"));
    put(here, "broken.yml", "kind: [");
    put(
        here,
        "chat.yml",
        "kind: app\nversion: 0.1.5\napp: {mode: chat, name: Chat}\nmodel_config:\n  \
         model: {provider: openai, name: m, mode: chat, completion_params: {}}\n  pre_prompt: Be kind.\n",
    );

    let first = applied(&cluster, &scheduler, here, &[]);
    for file in ["one.yml", "copy.yml", "chat.yml"] {
        assert_eq!(outcome(&first, file), ("created".into(), true), "{file}");
    }
    assert_eq!(first["applied"].as_array().map(Vec::len), Some(3), "a broken file is not published");
    assert_eq!(first["summary"]["cannot_run"], 1);
    assert_ne!(id(&first, "one.yml"), id(&first, "copy.yml"));

    let second = applied(&cluster, &scheduler, here, &[]);
    for file in ["one.yml", "copy.yml", "chat.yml"] {
        assert_eq!(outcome(&second, file), ("unchanged".into(), false), "{file}");
        assert_eq!(id(&second, file), id(&first, file));
    }

    put(here, "one.yml", &flow("One", "another"));
    let third = applied(&cluster, &scheduler, here, &[]);
    assert_eq!(outcome(&third, "one.yml"), ("updated".into(), false));
    assert_eq!(outcome(&third, "copy.yml"), ("unchanged".into(), false));

    let client = scheduler.client();
    let apps = client.get("/api/v1/apps").await.body;
    assert_eq!(apps["data"].as_array().map(Vec::len), Some(3), "{apps}");
    let keys = client.get("/api/v1/keys").await.body;
    assert_eq!(keys["data"].as_array().map(Vec::len), Some(3), "{keys}");

    // The files at another place are the same apps only under a name.
    let named = ["--collection", "ours"];
    let moved = applied(&cluster, &scheduler, here, &named);
    assert_eq!(outcome(&moved, "one.yml"), ("created".into(), true));
    assert_eq!(outcome(&applied(&cluster, &scheduler, here, &named), "one.yml").0, "unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_app_may_have_the_id_that_its_callers_name() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "one.yml", &flow("One", "one"));
    let file = folder.path().join("one.yml").display().to_string();
    let add = |id: &str| {
        let mut command = cluster.command("tidemill");
        command.args(["apps", "add", &file, "--new-id", id, "--json"]);
        command.env("TIDEMILL_URL", format!("http://{}", scheduler.address)).env("TIDEMILL_KEY", ADMIN_KEY);
        command.output().expect("it starts")
    };
    let wanted = "2ebe9c1d-46ef-4735-93f1-e901de242584";
    let keys = [add(wanted), add(wanted)].map(|output| {
        let answer: Json = serde_json::from_slice(&output.stdout).expect("it answers JSON");
        assert_eq!(answer["id"], wanted);
        answer["key"].is_string()
    });
    assert_eq!(keys, [true, false], "the second one is a new version");
    let refused = add("../other");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("UUID"));
}
