//! Tests of how a node's call is found, and of when the catalog in Redis is read.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::dsl::SealingKey;
use tidemill_common::language::Language;
use tidemill_common::store::CatalogKind;

use crate::outside::calls::*;
use crate::tests::fake::FakeJobs;

const REFRESH: Duration = Duration::from_secs(5);

pub(super) fn key() -> SealingKey {
    SealingKey::from_passphrase("a passphrase")
}

/// A store, and a worker's view of it.
pub(super) fn worker() -> (Arc<FakeJobs>, Calls) {
    let jobs = FakeJobs::new();
    let environment = |name: &str| (name == "SET").then(|| "of the environment".to_owned());
    let calls = Calls::new(jobs.clone(), Some(key()), environment, REFRESH);
    (jobs, calls)
}

fn n1() -> Json {
    json!({"callId": "API", "name": {"zh": "天气", "en": "Weather"}, "knownParams": {"method": "get"}, "service_id": "svc"})
}

#[tokio::test(start_paused = true)]
async fn se_a28_a_library_node_is_found_until_it_is_removed_and_then_named() {
    let (jobs, calls) = worker();
    jobs.keep(CatalogKind::Library, "n1", n1(), &key());
    let node = calls.library("n1").await.unwrap().expect("it is there");
    assert_eq!((node.call_id.as_str(), node.version, node.name.text(Language::En)), ("API", 1, "Weather"));
    assert_eq!(node.service_id.as_deref(), Some("svc"));
    jobs.state().catalog.library.clear();
    jobs.state().catalog.version += 1;
    tokio::time::advance(REFRESH).await;
    let error = resolve("n1", &calls).await.err().expect("it is gone");
    assert_eq!(error.error_type, "ValueError");
    assert!(error.message.starts_with("Call n1 not found: there is no library node"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn se_a15_nothing_of_this_name_is_a_value_error() {
    let (jobs, calls) = worker();
    let error = resolve("nope", &calls).await.err().expect("nothing is called so");
    assert_eq!((error.error_type.as_str(), error.retryable), ("ValueError", false));
    assert!(error.message.starts_with("Call nope not found"), "{error}");
    jobs.keep(CatalogKind::Library, "n", json!({"callId": "gone"}), &key());
    let error = resolve("n", &calls).await.err().expect("its call is not there");
    assert_eq!(error.message, "Call gone not found: the library node n names it");
}

#[tokio::test(start_paused = true)]
async fn xc_06_a_change_serves_whoever_asks_after_it_and_the_version_tells() {
    let (jobs, calls) = worker();
    jobs.keep(CatalogKind::Service, "svc", json!({"server": "http://one"}), &key());
    let first = calls.service("svc").await.unwrap();
    jobs.keep(CatalogKind::Service, "svc", json!({"server": "http://two"}), &key());
    assert_eq!(calls.service("svc").await.unwrap(), first, "what is known holds for the interval");
    tokio::time::advance(REFRESH).await;
    let second = calls.service("svc").await.unwrap();
    assert_eq!((first.of.server.as_str(), second.of.server.as_str()), ("http://one", "http://two"));
    assert!(second.version > first.version);
    assert_eq!(jobs.state().catalog_asked, (1, 2));
    jobs.keep(CatalogKind::Service, "new", json!({"server": "http://new"}), &key());
    assert_eq!(calls.service("new").await.unwrap().of.server, "http://new", "added a moment ago");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_serves_while_redis_is_silent() {
    let (jobs, calls) = worker();
    jobs.keep(CatalogKind::Service, "svc", json!({"server": "http://one"}), &key());
    calls.service("svc").await.unwrap();
    jobs.state().catalog_silent = true;
    tokio::time::advance(REFRESH).await;
    assert_eq!(calls.service("svc").await.unwrap().of.server, "http://one");
    let (jobs, calls) = worker();
    jobs.state().catalog_silent = true;
    let error = calls.service("svc").await.unwrap_err();
    assert_eq!((error.error_type.as_str(), error.retryable), ("ConnectionError", true));
}

#[tokio::test(start_paused = true)]
async fn xc_07_a_secret_opens_here_and_is_not_shown() {
    let (jobs, calls) = worker();
    let datasource = json!({"host": "h", "username": "u", "database": "d", "password": "secret-marker"});
    jobs.keep(CatalogKind::Datasource, "db", datasource, &key());
    let found = calls.datasource("db").await.unwrap();
    assert_eq!(found.of.password.as_ref().unwrap().0, "secret-marker");
    assert!(!format!("{found:?}{calls:?}").contains("secret-marker"));
    let locked = Calls::new(jobs, None, |_| None, REFRESH);
    let error = locked.datasource("db").await.unwrap_err();
    assert!(error.message.contains("TIDEMILL_SECRET_KEY") && !error.message.contains("marker"), "{error}");
}
