//! Files that are stored before their run exists: uploads that a request names, and documents for a knowledge base. A
//! scheduler that dies before it creates the run leaves no file for ever.

use serde_json::{Value as Json, json};
use tidemill_common::crash::{CRASH_POINTS, CrashPoint, Program};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;
use super::crash_points::{Armed, start};

const EARLY: &str = "tm:{0}:files_early";

/// A part of a form: its name, the name of a file, its content.
type Part<'a> = (&'a str, Option<&'a str>, &'a str);

fn form(parts: &[Part<'_>]) -> String {
    let part = |(name, file, content): &Part<'_>| {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let kind = if file.is_empty() { "" } else { "Content-Type: text/plain\r\n" };
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n{kind}\r\n{content}\r\n")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("{parts}--cut--\r\n")
}

fn posted(client: &Client, path: &str, parts: &[Part<'_>]) -> reqwest::RequestBuilder {
    let request = client.request(reqwest::Method::POST, path);
    request.header("content-type", "multipart/form-data; boundary=cut").body(form(parts))
}

/// A workflow with a file in its form.
fn reader() -> String {
    let file = json!({"variable": "f", "label": "f", "type": "file", "required": true, "allowed_file_types": ["document"],
        "allowed_file_upload_methods": ["local_file"]});
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Reader"},
        "workflow": {"features": {}, "graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "S", "variables": [file]}},
                {"id": "end", "data": {"type": "end", "title": "E",
                    "outputs": [{"variable": "f", "value_selector": ["start", "f"]}]}},
            ],
            "edges": [{"source": "start", "target": "end"}],
        }},
    })
    .to_string()
}

/// An app, an upload for it, and a dataset, with the keys of both.
struct Made {
    app: String,
    upload: Json,
    datasets: String,
    dataset: String,
}

async fn make(admin: &Client) -> Made {
    let text = |value: &Json| value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned();
    let made = admin.post("/api/v1/apps", &json!({"workflow": reader()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let app = text(&made.body["key"]);
    let client = admin.with_key(Some(&app));
    let parts = [("file", Some("tide.txt"), "High water at seven."), ("user", None, "u")];
    let sent = client.send(posted(&client, "/v1/files/upload", &parts)).await;
    assert_eq!(sent.status, 201, "{}", sent.text);
    let made = admin.post("/api/v1/keys", &json!({"scope": "datasets"})).await;
    let datasets = text(&made.body["key"]);
    let client = admin.with_key(Some(&datasets));
    let made = client.post("/v1/datasets", &json!({"name": "d", "indexing_technique": "economy"})).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let dataset = text(&made.body["id"]);
    Made { app, upload: sent.body["id"].clone(), datasets, dataset }
}

/// The request that names the upload, or the one that adds a document.
fn asked(made: &Made, client: &Client, is_document: bool) -> reqwest::RequestBuilder {
    if is_document {
        let client = client.with_key(Some(&made.datasets));
        let path = format!("/v1/datasets/{}/document/create-by-file", made.dataset);
        let data =
            json!({"indexing_technique": "economy", "process_rule": {"mode": "automatic"}}).to_string();
        return posted(&client, &path, &[("data", None, &data), ("file", Some("n.txt"), "A note.")]);
    }
    let client = client.with_key(Some(&made.app));
    let file = json!({"type": "document", "transfer_method": "local_file", "upload_file_id": made.upload});
    let body = json!({"inputs": {"f": file}, "user": "u", "response_mode": "blocking"});
    client.request(reqwest::Method::POST, "/v1/workflows/run").json(&body)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_request_whose_scheduler_dies_before_the_run_exists_are_removed() {
    for (place, files) in [(CrashPoint::EarlyFilesNoted, 0), (CrashPoint::EarlyFilesKept, 1)] {
        for is_document in [false, true] {
            dies(place, files, is_document).await;
        }
    }
}

async fn dies(place: CrashPoint, files: usize, is_document: bool) {
    let what = format!("{place:?} document: {is_document}");
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("files.url", "place")]);
    let cluster = Cluster::start(&settings, None).await;
    let folder = cluster.logs().join("place/runs");
    let stored = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let made = {
        let scheduler = cluster.scheduler().await;
        make(&scheduler.client()).await
    };
    let address = format!("127.0.0.1:{}", free_port());
    let (_, name, ..) = CRASH_POINTS.iter().find(|(it, ..)| *it == place).expect("a crash point");
    let process = start(&cluster, Program::Scheduler, &address, Some(name));
    let mut armed =
        Armed { cluster: &cluster, program: Program::Scheduler, address: address.clone(), process };
    armed.process.wait_for_log("scheduler started").await;
    let client = Client::new(&address, None);
    let answer = asked(&made, &client, is_document).send().await;
    assert!(answer.is_err(), "{what}: the scheduler has answered");
    armed.until_dead(name).await.unwrap_or_else(|error| panic!("{what}: {error}"));

    assert_eq!(stored(), files, "{what}");
    let run = cluster.redis.cli(&["ZRANGE", EARLY, "0", "-1"]);
    assert!(!run.is_empty(), "{what}: the file was not noted");
    assert_eq!(cluster.redis.cli(&["EXISTS", &format!("tm:{{0}}:run:{run}")]), "0", "{what}");
    // As if an hour had passed.
    cluster.redis.cli(&["ZADD", EARLY, "XX", "1", &run]);
    until("the file to be removed", LONG, async || {
        let notes = cluster.redis.cli(&["EXISTS", EARLY, "tm:{0}:files_left"]);
        let left = stored();
        if notes == "0" && left == 0 { Ok(()) } else { Err(format!("{what}: {notes} notes, {left} folders")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_request_stay_with_their_run_when_the_note_is_settled() {
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("files.url", "place")]);
    let cluster = Cluster::start(&settings, None).await;
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let made = make(&scheduler.client()).await;
    let client = scheduler.client();
    let answer = client.send(asked(&made, &client, false)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let run = cluster.redis.cli(&["ZRANGE", EARLY, "0", "-1"]);
    assert_eq!(answer.body["workflow_run_id"], run.as_str(), "{}", answer.text);
    cluster.redis.cli(&["ZADD", EARLY, "XX", "1", &run]);
    until("the note to be settled", LONG, async || {
        let notes = cluster.redis.cli(&["EXISTS", EARLY]);
        if notes == "0" { Ok(()) } else { Err(notes) }
    })
    .await;
    let files = std::fs::read_dir(cluster.logs().join("place/runs").join(&run)).map_or(0, Iterator::count);
    assert_eq!(files, 1, "the file of a run that exists");
    drop(worker);
}
