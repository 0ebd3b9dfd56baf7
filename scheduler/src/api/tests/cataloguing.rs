//! Tests of providers and profiles over the API.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::config::Config;
use tidemill_common::store::Runs;
use tidemill_common::store::memory::MemoryStore;

use super::fake::FakeStore;
use super::fixtures::{ADMIN, HttpResponse, Server, config, request};

const PROVIDERS: &str = "/api/v1/providers";
const PROFILES: &str = "/api/v1/profiles";
const KEY: &str = "sk-never-to-be-seen";

fn server(config: Config) -> (Server, MemoryStore) {
    let store = MemoryStore::new(Arc::new(SystemClock));
    (Server::over(config, Arc::new(store.clone()), Arc::new(FakeStore::default())), store)
}

impl Server {
    async fn put(&self, path: &str, body: &Json) -> HttpResponse {
        self.ask(request("PUT", ADMIN, path, &body.to_string())).await
    }
    async fn delete(&self, path: &str) -> HttpResponse {
        self.ask(request("DELETE", ADMIN, path, "")).await
    }
}

fn profile(id: &str, provider: &str) -> Json {
    json!({"id": id, "name": id, "provider": provider, "model": "m"})
}

#[tokio::test]
async fn a_provider_is_created_shown_changed_and_removed_and_its_key_is_never_shown() {
    let (server, store) = server(config());
    let body = json!({"id": "langgenius/acme/acme", "base_url": "http://one/v1", "api_key": KEY});
    let made = server.post(ADMIN, PROVIDERS, &body).await;
    assert_eq!((made.status.as_u16(), &made.json()["warnings"]), (201, &json!([])), "{}", made.text);
    let again = server.post(ADMIN, PROVIDERS, &body).await;
    assert_eq!((again.status.as_u16(), &again.json()["code"]), (409, &json!("already_exists")));

    let path = format!("{PROVIDERS}/langgenius%2Facme%2Facme");
    let mut shown = server.get(ADMIN, &path).await.json();
    assert_eq!((&shown["api_key"], &shown["base_url"]), (&json!("***"), &json!("http://one/v1")));
    let list = server.get(ADMIN, PROVIDERS).await;
    assert_eq!(list.json(), json!({"data": [shown]}));
    let sealed = store.catalog().await.unwrap().providers[0].fields["api_key"].clone();
    assert!(sealed.starts_with("sealed:v1:"));

    // A shown entry can be sent back with one field changed.
    shown["base_url"] = "http://two/v1".into();
    let changed = server.put(&path, &shown).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["base_url"]), (200, &json!("http://two/v1")));
    let late = server.put(&path, &shown).await;
    assert_eq!((late.status.as_u16(), &late.json()["code"]), (409, &json!("changed")), "{}", late.text);
    assert_eq!(store.catalog().await.unwrap().providers[0].fields["api_key"], sealed);
    for answer in [made, again, list, changed, late] {
        assert!(!answer.text.contains(KEY) && !answer.text.contains("sealed:"), "{}", answer.text);
    }

    assert_eq!(server.delete(&path).await.status, 204);
    assert_eq!(server.delete(&path).await.status, 404);
    assert_eq!(
        server.get(ADMIN, &path).await.json()["message"],
        "there is no provider langgenius/acme/acme in Redis"
    );
}

#[tokio::test]
async fn an_invalid_request_is_refused_with_its_problem() {
    let (server, _) = server(config());
    for (path, body, code, says) in [
        (PROVIDERS, json!({"id": "p", "kind": "olama"}), 400, "did you mean `ollama`?"),
        (PROVIDERS, json!({"base_url": "http://h"}), 400, "Provider id is required"),
        (PROFILES, json!({"id": "f", "name": "f", "provider": "ollama"}), 400, "Profile model is required"),
        (PROFILES, profile("f", "GEMINI_NATIVE"), 400, "there are OPENAI_CHAT"),
        (PROFILES, profile("f", "OPENAI_CHAT"), 400, "Profile apiKey is required"),
    ] {
        let answer = server.post(ADMIN, path, &body).await;
        assert_eq!(answer.status, code, "{}", answer.text);
        assert!(answer.json()["message"].as_str().unwrap().contains(says), "{}", answer.text);
    }
    let other = server.put(&format!("{PROVIDERS}/p"), &json!({"id": "q", "kind": "ollama"})).await;
    assert_eq!(other.status, 400, "{}", other.text);
    assert_eq!(server.get("app-1", PROVIDERS).await.status, 401);
}

#[tokio::test]
async fn without_a_sealing_key_no_api_key_is_accepted() {
    let mut config = config();
    config.scheduler.secret_key = String::new().into();
    let (server, _) = server(config);
    let refused = server.post(ADMIN, PROVIDERS, &json!({"id": "p", "api_key": KEY})).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (422, &json!("secrets_unusable")));
    assert!(refused.text.contains("TIDEMILL_SECRET_KEY") && !refused.text.contains(KEY), "{}", refused.text);
    let reference = server.post(ADMIN, PROVIDERS, &json!({"id": "p", "api_key_env": "E"})).await;
    assert_eq!(reference.json()["api_key_env"], "E", "{}", reference.text);
}

#[tokio::test]
async fn one_profile_is_the_default_and_a_provider_in_use_cannot_be_removed() {
    let (server, _) = server(config());
    server.post(ADMIN, PROVIDERS, &json!({"id": "acme", "api_key_env": "E"})).await;
    let default = async || {
        let list = server.get(ADMIN, PROFILES).await.json();
        let of = |p: &Json| p["default"].as_bool().unwrap().then(|| p["id"].as_str().unwrap().to_owned());
        list["data"].as_array().unwrap().iter().filter_map(of).collect::<Vec<_>>().join(" ")
    };
    for id in ["z", "a", "m"] {
        assert_eq!(server.post(ADMIN, PROFILES, &profile(id, "acme")).await.status, 201);
    }
    assert_eq!(default().await, "z", "the first one");
    let mut made = profile("b", "elsewhere");
    made["default"] = true.into();
    let made = server.post(ADMIN, PROFILES, &made).await.json();
    assert!(made["warnings"][0].as_str().unwrap().contains("elsewhere"), "{made}");
    assert_eq!(default().await, "b");
    server.put(&format!("{PROFILES}/a"), &profile("a", "acme")).await;
    assert_eq!(default().await, "b", "a changed profile does not become the default");

    let used = server.delete(&format!("{PROVIDERS}/acme")).await;
    assert_eq!(
        (used.status.as_u16(), &used.json()["profiles"]),
        (409, &json!(["a", "m", "z"])),
        "{}",
        used.text
    );
    assert_eq!(server.delete(&format!("{PROVIDERS}/acme?force=true")).await.status, 204);
    assert_eq!(server.delete(&format!("{PROFILES}/b")).await.status, 204);
    assert!(!default().await.is_empty(), "another profile becomes the default");
    let gone = server.delete(&format!("{PROFILES}/b")).await;
    assert_eq!((gone.status.as_u16(), &gone.json()["message"]), (404, &json!("Profile not found: b")));
}
