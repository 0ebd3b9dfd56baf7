//! Tests of the keys of apps: several for each app, and each can be revoked, also while it is in use.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::store::memory::MemoryStore;

use super::fixtures::{ADMIN, GREETER, Server, config, frames, request};

/// The longest wait; a revoked key is noticed within a second.
const LONG: Duration = Duration::from_secs(30);

fn start() -> Server {
    let store = MemoryStore::new(Arc::new(SystemClock));
    Server::over(config(), Arc::new(store), Arc::default())
}

/// The keys of an app as (id, first, revoked).
async fn listed(server: &Server, app: &str) -> Vec<(String, bool, bool)> {
    let answer = server.get(ADMIN, &format!("/api/v1/apps/{app}/keys")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(!answer.text.contains("app-"), "no key is shown: {}", answer.text);
    let mut keys: Vec<_> = answer.json()["data"].as_array().unwrap().iter().map(shown).collect();
    keys.sort_by_key(|(_, is_first, _)| !is_first);
    keys
}

fn shown(key: &Json) -> (String, bool, bool) {
    assert!(key["created_at"].as_f64().is_some_and(|at| at > 1e9), "{key}");
    let id = key["id"].as_str().unwrap().to_string();
    (id, key["first"] == true, !key["revoked_at"].is_null())
}

/// Creates another key of an app. Returns its id and the key.
async fn another(server: &Server, app: &str) -> (String, String) {
    let made = server.ask(request("POST", ADMIN, &format!("/api/v1/apps/{app}/keys"), "")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let text = |name: &str| made.json()[name].as_str().unwrap().to_string();
    (text("id"), text("key"))
}

async fn revoke(server: &Server, id: &str) {
    let answer = server.ask(request("DELETE", ADMIN, &format!("/api/v1/keys/{id}"), "")).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
}

#[tokio::test]
async fn keys_can_be_rotated_with_an_overlap_and_a_new_version_brings_no_old_key_back() {
    let server = start();
    let (app, old) = server.app().await;
    let (_, of_another_app) = server.app().await;
    let (new_id, new) = another(&server, &app).await;
    let keys = listed(&server, &app).await;
    let [(old_id, true, false), (id, false, false)] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!(id, &new_id);
    for key in [&old, &new] {
        assert_eq!(server.get(key, "/v1/info").await.status, 200);
    }

    revoke(&server, old_id).await;
    revoke(&server, old_id).await;
    let refused = server.get(&old, "/v1/info").await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (401, &json!("unauthorized")));
    for key in [&new, &of_another_app] {
        assert_eq!(server.get(key, "/v1/info").await.status, 200);
    }
    let version = json!({"id": app, "workflow": GREETER.replace("Greeter", "Welcomer")});
    let answer = server.post(ADMIN, "/api/v1/apps", &version).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["key"]), (200, &Json::Null));
    assert_eq!(server.get(&old, "/v1/info").await.status, 401);
    let keys = listed(&server, &app).await;
    assert_eq!(keys, [(old_id.clone(), true, true), (new_id.clone(), false, false)]);
    let budget = format!("/api/v1/keys/{old_id}/budget");
    assert_eq!(server.ask(request("PUT", ADMIN, &budget, r#"{"tokens": 5}"#)).await.status, 200);

    // The last key can be revoked too: then only the admin reaches the app.
    revoke(&server, &new_id).await;
    assert_eq!(server.get(&new, "/v1/info").await.status, 401);
    assert_eq!(server.get(ADMIN, &format!("/api/v1/apps/{app}")).await.status, 200);
    let (_, newest) = another(&server, &app).await;
    assert_eq!(server.get(&newest, "/v1/info").await.status, 200);
}

#[tokio::test]
async fn an_unknown_id_is_refused_and_a_given_key_is_not_repeated() {
    let server = start();
    let (app, key) = server.app().await;
    let unknown = server.ask(request("DELETE", ADMIN, "/api/v1/keys/0123456789abcdef", "")).await;
    assert_eq!((unknown.status.as_u16(), &unknown.json()["code"]), (404, &json!("not_found")));
    assert!(unknown.text.contains("0123456789abcdef"), "{}", unknown.text);
    let given = server.ask(request("DELETE", ADMIN, &format!("/api/v1/keys/{key}"), "")).await;
    let (id, _, _) = listed(&server, &app).await.remove(0);
    assert!(given.status == 404 && given.text.contains(&id) && !given.text.contains(&key), "{}", given.text);
    assert_eq!(server.get(&key, "/v1/info").await.status, 200, "it was not revoked");
    for (method, path) in [("POST", "/api/v1/apps/none/keys"), ("GET", "/api/v1/apps/none/keys")] {
        assert_eq!(server.ask(request(method, ADMIN, path, "")).await.status, 404);
    }
    let own = server.ask(request("DELETE", &key, &format!("/api/v1/keys/{id}"), "")).await;
    assert_eq!(own.status, 401, "only the admin revokes keys");
}

#[tokio::test]
async fn a_stream_ends_with_an_error_and_a_request_with_401_when_their_key_is_revoked() {
    let server = start();
    let (app, key) = server.app().await;
    let (_, bystander) = another(&server, &app).await;
    let run = |mode: &str| {
        let body = json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": mode});
        body.to_string()
    };
    // No scheduler executes the runs, so both would be open for long.
    let stream = server.send(request("POST", &key, "/v1/workflows/run", &run("streaming"))).await;
    let other = server.send(request("POST", &bystander, "/v1/workflows/run", &run("streaming"))).await;
    assert_eq!((stream.status().as_u16(), other.status().as_u16()), (200, 200));
    let (id, _, _) = listed(&server, &app).await.remove(0);
    let waiting = server.ask(request("POST", &key, "/v1/workflows/run", &run("blocking")));
    let mut other = other.into_body();
    let (told, waited, ()) = tokio::time::timeout(LONG, async {
        tokio::join!(stream.into_body().collect(), waiting, revoke(&server, &id))
    })
    .await
    .unwrap();
    let told = String::from_utf8(told.unwrap().to_bytes().to_vec()).unwrap();
    let frames = frames(&told);
    let (_, _, last) = frames.last().unwrap();
    let expected = json!({"event": "error", "code": "unauthorized", "message": "this API key was revoked or has expired", "status": 401});
    assert_eq!(last, &expected, "{told}");
    // This message shows that the request was accepted first.
    let (code, message) = (&expected["code"], &expected["message"]);
    let said = waited.json();
    assert_eq!((waited.status.as_u16(), &said["code"], &said["message"]), (401, code, message));
    // The first frame of the stream with the other key; the next one comes in ten seconds.
    let ping = other.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&ping[..], b"event: ping\n\n");
    assert!(tokio::time::timeout(Duration::from_millis(600), other.frame()).await.is_err(), "it stays open");
}
