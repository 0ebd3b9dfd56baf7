//! Redis over TLS, and the messages when client and server do not match.

use tidemill_common::config::RedisConfig;
use tidemill_common::store::Runs as _;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_tests::certificates::Certificates;
use tidemill_tests::redis::{Redis, free_port};
use tidemill_tests::wait::{LONG, until};

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

/// A configuration with the certificate of a client.
fn with_certificate(url: String, of: &Certificates, client: &str) -> RedisConfig {
    RedisConfig {
        certificate_file: of.file(&format!("{client}.pem")),
        key_file: of.file(&format!("{client}.key")),
        ..config(url, of.file("ca.pem"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_contract_also_holds_with_a_certificate_of_the_client() {
    let certificates = Certificates::make();
    let port = free_port();
    let arguments = certificates.arguments(port);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _redis = Redis::start_always(&arguments).await;
    let url = format!("rediss://127.0.0.1:{port}");
    kept_by(|namespace| RedisConfig {
        namespace: namespace.into(),
        timeout_ms: 5000,
        ..with_certificate(url.clone(), &certificates, "client")
    })
    .await;
    // A certificate of another authority, and a key of another certificate.
    let strange = Certificates::make();
    let mut other = with_certificate(url.clone(), &strange, "client");
    other.ca_file = certificates.file("ca.pem");
    let store = RedisStore::new(&other, StoreLimits::default()).expect("an address");
    let said = store.check().await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("does not accept the certificate of redis.certificate_file"), "{said}");
    other.key_file = certificates.file("client.key");
    let said = RedisStore::new(&other, StoreLimits::default()).err().map(|error| error.to_string());
    let said = said.unwrap_or_default();
    assert!(said.contains("redis.key_file") && said.contains("cannot be used"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_shown_the_certificate_too() {
    let certificates = Certificates::make();
    let port = free_port();
    let mut arguments = certificates.arguments(port);
    let bus = free_port().to_string();
    arguments.extend(
        ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", &bus].map(String::from),
    );
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let redis = Redis::start_always(&arguments).await;
    redis.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("the cluster to be whole", LONG, async || {
        let info = redis.cli(&["CLUSTER", "INFO"]);
        if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
    })
    .await;
    let url = format!("rediss+cluster://127.0.0.1:{port}");
    let store =
        RedisStore::new(&with_certificate(url.clone(), &certificates, "client"), StoreLimits::default());
    store.expect("an address").check().await.expect("it works");
    let said = complaint(url, certificates.file("ca.pem")).await;
    assert!(said.contains("redis.certificate_file"), "{said}");
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
