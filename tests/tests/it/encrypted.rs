//! Redis over TLS, and the messages when client and server do not match.

use tidemill_common::config::RedisConfig;
use tidemill_common::store::Runs as _;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_tests::redis::Redis;

use crate::store_contract::kept_by;

fn config(url: String, ca_file: String) -> RedisConfig {
    RedisConfig { url: url.into(), ca_file, timeout_ms: 700, ..RedisConfig::default() }
}

/// The error of a process that uses this address.
async fn complaint(url: String, ca_file: String) -> String {
    let store = RedisStore::new(&config(url, ca_file), StoreLimits::default()).expect("an address");
    store.check().await.err().map(|error| error.to_string()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_contract_also_holds_over_tls() {
    let redis = Redis::start_encrypted().await;
    let (url, ca_file) = redis.encrypted();
    // All kinds of connections use TLS: the shared connection, the lines for single requests and values, and
    // subscriptions.
    kept_by(|namespace| RedisConfig {
        url: url.clone().into(),
        ca_file: ca_file.clone(),
        namespace: namespace.into(),
        ..RedisConfig::default()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mismatch_between_client_and_server_names_the_setting_to_check() {
    let redis = Redis::start_encrypted().await;
    let (url, ca_file) = redis.encrypted();
    let plain = url.replace("rediss://", "redis://");
    let stranger = complaint(url.clone(), String::new()).await;
    assert!(stranger.contains("redis.ca_file"), "{stranger}");
    let unencrypted = complaint(redis.url().replace("redis://", "rediss://"), ca_file.clone()).await;
    assert!(unencrypted.contains("does the server speak TLS"), "{unencrypted}");
    let encrypted = complaint(plain, String::new()).await;
    assert!(encrypted.contains("needs rediss://"), "{encrypted}");
    assert_eq!(complaint(url, ca_file).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_client_certificate_is_named_as_the_cause() {
    let redis = Redis::start_encrypted_for("yes").await;
    let (url, ca_file) = redis.encrypted();
    let said = complaint(url, ca_file).await;
    assert!(
        said.contains("asks its clients for a certificate") && said.contains("tls-auth-clients"),
        "{said}"
    );
    assert!(!said.contains("redis.ca_file"), "that is not the cause: {said}");
}

#[test]
fn an_address_that_trusts_any_certificate_is_refused_with_the_remedy() {
    let store = RedisStore::new(
        &config("rediss://127.0.0.1:1/#insecure".into(), String::new()),
        StoreLimits::default(),
    );
    let said = store.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("remove #insecure") && said.contains("redis.ca_file"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_named_as_the_problem() {
    let redis = Redis::start().await;
    for address in ["redis://:wrong@", "redis://somebody:wrong@"] {
        let said = complaint(redis.url().replace("redis://", address), String::new()).await;
        assert!(said.contains("refuses this user") && said.contains("redis.url"), "{said}");
        assert!(!said.contains("wrong"), "{said}");
    }
    redis.cli(&["CONFIG", "SET", "requirepass", "right"]);
    let said = complaint(redis.url(), String::new()).await;
    assert!(said.contains("refuses this user"), "{said}");
}
