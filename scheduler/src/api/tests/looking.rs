//! Lists of runs and logs, and versions of apps, over the in-memory store: runs that Tidemill makes for itself push no run of
//! an app out of a list, and a version that is used stays.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::config::Config;
use tidemill_common::store::Runs;
use tidemill_common::store::memory::MemoryStore;

use super::fixtures::{ADMIN, GREETER, Server, config, request};
use super::whole::drive;
use crate::submit::inner::Inner;

/// A built-in file. Its runs do not go on in these tests.
const FILE: &str = GREETER;

fn server(config: Config) -> (Server, MemoryStore) {
    let store = MemoryStore::new(Arc::new(SystemClock));
    (Server::over(config, Arc::new(store.clone()), Arc::default()), store)
}

async fn inner_runs(server: &Server, count: usize) {
    for _ in 0..count {
        let inner = Inner {
            purpose: "a test",
            file: FILE.into(),
            inputs: json!({"name": "x"}).as_object().cloned().unwrap_or_default(),
            user: "u".into(),
            key: None,
            run: None,
            has_files: false,
            wait_max: std::time::Duration::from_secs(60),
            setting: "none",
        };
        server.state.submitter.begin_inner(inner).await.unwrap();
    }
}

#[tokio::test]
async fn inner_runs_push_no_run_of_an_app_out_of_its_logs_and_lists() {
    let mut config = config();
    config.scheduler.logs_scanned_max = 10;
    let (server, _) = server(config);
    let (app, key) = server.app().await;
    let run = server.run(&app).await.to_string();
    inner_runs(&server, 30).await;

    let logs = server.get(&key, "/v1/workflows/logs").await.json();
    assert_eq!(logs["data"][0]["workflow_run"]["id"], run.as_str(), "{logs}");
    let listed = server.get(ADMIN, "/api/v1/runs?limit=2").await.json();
    let ids: Vec<&Json> = listed["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!((ids, &listed["next"]), (vec![&json!(run)], &Json::Null), "{listed}");

    inner_runs(&server, 30).await;
    assert_eq!(
        server.get(&key, "/v1/workflows/logs").await.json()["total"],
        1,
        "they are in no list of the app"
    );
    // A request looks at five times `logs_scanned_max` runs of no app at most; the next one goes on.
    let first = server.get(ADMIN, "/api/v1/runs?limit=1").await.json();
    assert_eq!((&first["data"], &first["scanned"]), (&json!([]), &json!(50)), "{first}");
    let next = first["next"].as_str().unwrap();
    let listed = server.get(ADMIN, &format!("/api/v1/runs?limit=1&before={next}")).await.json();
    assert_eq!(listed["data"][0]["id"], run.as_str());
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_page_by_page() {
    let (server, _) = server(config());
    let (app, _) = server.app().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(json!(server.run(&app).await.to_string()));
    }
    let page = async |path: &str| server.get(ADMIN, path).await.json();
    let first = page("/api/v1/runs?limit=2").await;
    let listed = |page: &Json| {
        page["data"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&first), [ids[2].clone(), ids[1].clone()]);
    let next = first["next"].as_str().unwrap();
    let second = page(&format!("/api/v1/runs?limit=2&before={next}")).await;
    assert_eq!((listed(&second), &second["next"]), (vec![ids[0].clone()], &Json::Null));
}

/// Publishes a version of an app; returns its hash and its warnings.
async fn publish(server: &Server, app: &str, title: &str) -> (String, String) {
    let workflow = GREETER.replace("Greeter", title);
    let answer = server.post(ADMIN, "/api/v1/apps", &json!({"id": app, "workflow": workflow})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    (answer["version"].as_str().unwrap().to_owned(), answer["warnings"].to_string())
}

async fn versions(server: &Server, app: &str) -> Vec<String> {
    let listed = server.get(ADMIN, &format!("/api/v1/apps/{app}/versions")).await.json();
    let of = |it: &Json| it["version"].as_str().unwrap().to_owned();
    let mut found: Vec<String> = listed["data"].as_array().unwrap().iter().map(of).collect();
    found.sort();
    found
}

fn sorted<const N: usize>(mut versions: [&String; N]) -> Vec<String> {
    versions.sort();
    versions.into_iter().cloned().collect()
}

#[tokio::test]
async fn a_version_is_removed_unless_it_is_current_or_used_by_an_open_run() {
    let (server, store) = server(config());
    let (app, key) = server.app().await;
    let first = versions(&server, &app).await.remove(0);
    let run = server.run(&app).await;
    let (second, _) = publish(&server, &app, "Second").await;
    let (third, _) = publish(&server, &app, "Third").await;
    let remove = async |version: &str| {
        let path = format!("/api/v1/apps/{app}/versions/{version}");
        let answer = server.ask(request("DELETE", ADMIN, &path, "")).await;
        let body: Json = serde_json::from_str(&answer.text).unwrap_or_default();
        (answer.status.as_u16(), body["code"].as_str().unwrap_or_default().to_owned(), body)
    };
    let (status, code, _) = remove(&third).await;
    assert_eq!((status, code.as_str()), (409, "version_is_current"));
    let (status, code, body) = remove(&first).await;
    assert_eq!((status, code.as_str(), &body["run"]), (409, "version_in_use", &json!(run.to_string())));
    assert_eq!(remove(&second).await.0, 204);
    assert_eq!(remove(&second).await.0, 404);
    drive(&server, &store, run).await;
    assert_eq!(remove(&first).await.0, 204, "its run has ended");
    assert_eq!(versions(&server, &app).await, [third]);
    let pinned = format!("/v1/workflows/{second}/run");
    let answer = server.post(&key, &pinned, &json!({"inputs": {"name": "x"}, "user": "u"})).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    let unknown = request("DELETE", ADMIN, &format!("/api/v1/apps/none/versions/{second}"), "");
    assert_eq!(server.ask(unknown).await.status, 404);
}

#[tokio::test]
async fn publishing_removes_the_oldest_unused_versions_above_the_setting() {
    let mut config = config();
    config.scheduler.app_versions_max = 3;
    let (server, store) = server(config);
    let (app, _) = server.app().await;
    let first = versions(&server, &app).await.remove(0);
    server.run(&app).await;
    let mut made = Vec::new();
    for title in ["Second", "Third", "Fourth"] {
        // The times of versions are whole milliseconds.
        let at = store.time().await.unwrap().millis();
        while store.time().await.unwrap().millis() == at {
            tokio::task::yield_now().await;
        }
        made.push(publish(&server, &app, title).await);
    }
    let [(second, none), (third, also_none), (fourth, warning)] = &made[..] else { panic!("three versions") };
    assert_eq!((none.as_str(), also_none.as_str()), ("[]", "[]"));
    assert!(warning.contains("scheduler.app_versions_max") && warning.contains(second.as_str()), "{warning}");
    assert_eq!(versions(&server, &app).await, sorted([&first, third, fourth]), "a run uses the first one");
}
