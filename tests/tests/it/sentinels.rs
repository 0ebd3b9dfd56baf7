//! A master that Sentinels name: the contract of every store, what `doctor` says, durability, and errors that name what is
//! wrong and say what to do.

use tidemill_common::config::RedisConfig;
use tidemill_common::store::Runs as _;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::sentinels::{NAME, OWN_PASSWORD, PASSWORD, RIGHTS, SENTINEL_PASSWORD, Sentinels, USER};
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::workspace;

use super::doctor::doctor;
use super::durable::{body, has, id, is_unknown, submit};
use crate::store_contract::{kept_by, kept_by_some};

fn config(redis: &Sentinels, url: String) -> RedisConfig {
    let of = redis.settings();
    let value = |key: &str| of.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone());
    let text = |key: &str| value(key).unwrap_or_default();
    RedisConfig {
        url: url.into(),
        sentinel_user: text("redis.sentinel_user"),
        sentinel_password: text("redis.sentinel_password").into(),
        ca_file: text("redis.ca_file"),
        certificate_file: text("redis.certificate_file"),
        key_file: text("redis.key_file"),
        timeout_ms: 3000,
        ..RedisConfig::default()
    }
}

/// The error of a process with these settings; empty if there is none.
async fn complaint(config: &RedisConfig) -> String {
    let store = match RedisStore::new(config, StoreLimits::default()) {
        Ok(store) => store,
        Err(error) => return error.to_string(),
    };
    store.check().await.err().map(|error| error.to_string()).unwrap_or_default()
}

async fn cluster(redis: &Sentinels, more: &[(&str, &str)]) -> Cluster {
    let own = redis.settings();
    let mut settings = more.to_vec();
    settings.extend(own.iter().map(|(key, value)| (*key, value.as_str())));
    Cluster::start(&settings, None).await.at(&redis.url())
}

#[test]
fn the_rights_at_sentinels_are_the_documented_ones() {
    let page = std::fs::read_to_string(workspace().join("docs/operations.md")).expect("the page");
    assert!(page.contains(RIGHTS), "docs/operations.md does not give the user {RIGHTS}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_contract_also_holds_through_sentinels() {
    let mut redis = Sentinels::start().await;
    // The first one that is named.
    redis.kill_sentinel(0);
    kept_by(|namespace| RedisConfig { namespace: namespace.into(), ..config(&redis, redis.url()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_contract_also_holds_through_sentinels_with_tls_and_certificates_of_clients() {
    let redis = Sentinels::start_encrypted().await;
    kept_by_some(3, |namespace| RedisConfig { namespace: namespace.into(), ..config(&redis, redis.url()) })
        .await;
    let without = RedisConfig {
        certificate_file: String::new(),
        key_file: String::new(),
        ..config(&redis, redis.url())
    };
    let said = complaint(&without).await;
    assert!(said.contains("redis.certificate_file"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_an_address_of_sentinels_is_named_with_what_to_do() {
    let redis = Sentinels::start().await;
    let good = config(&redis, redis.url());
    assert_eq!(complaint(&good).await, "");
    let user = format!("{USER}:{PASSWORD}");
    let at = |url: String| RedisConfig { url: url.into(), ..good.clone() };
    let of_server = format!("redis+sentinel://{user}@127.0.0.1:{}/{NAME}", redis.servers[0].port());
    let cases = [
        (at(redis.url_of(&user, "other")), vec!["a master of the name \"other\"", "SENTINEL MASTERS"]),
        (at(redis.url_of(&format!("{USER}:hush"), NAME)), vec!["refuses this user", "in redis.url"]),
        (
            RedisConfig { sentinel_password: "hush".into(), ..good.clone() },
            vec!["the Sentinel at 127.0.0.1:", "redis.sentinel_password"],
        ),
        (
            RedisConfig { sentinel_user: String::new(), sentinel_password: "".into(), ..good.clone() },
            vec!["the Sentinel at 127.0.0.1:", "redis.sentinel_user"],
        ),
        (
            // Its default user needs no password.
            RedisConfig { sentinel_user: String::new(), sentinel_password: "".into(), ..at(of_server) },
            vec!["is not a Sentinel", "redis://127.0.0.1:"],
        ),
        (
            at(format!("redis+sentinel://{user}@127.0.0.1:1,127.0.0.1:2/{NAME}")),
            vec!["no Sentinel answers", "127.0.0.1:1", "127.0.0.1:2", "redis.url"],
        ),
        (at(redis.url_of(&user, "")), vec!["the name of the master"]),
    ];
    for (config, parts) in cases {
        let said = complaint(&config).await;
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing: {said}");
        }
        for secret in ["hush", PASSWORD, SENTINEL_PASSWORD] {
            assert!(!said.contains(secret), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_works_through_sentinels_and_names_the_form_for_them() {
    let mut redis = Sentinels::start().await;
    let cluster = cluster(&redis, &[("scheduler.shards", "2")]).await;
    let (_scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let (_, found) = doctor(&cluster, &[]).await;
    assert_eq!(found["errors"], serde_json::json!([]), "{found}");
    assert!(found["warnings"].to_string().contains("min-replicas-to-write"), "{found}");

    let url = format!("redis://:{OWN_PASSWORD}@127.0.0.1:{}", redis.port_of(1));
    let (is_well, found) = doctor(&cluster, &["--redis-url", &url]).await;
    let said = found["errors"].to_string();
    assert!(!is_well && said.contains("is a Sentinel") && said.contains("redis+sentinel://"), "{found}");
    redis.kill_sentinel(2);
    until("doctor to name the Sentinel", LONG, async || {
        let (_, found) = doctor(&cluster, &[]).await;
        let place = format!("127.0.0.1:{}", redis.port_of(2));
        let warnings = found["warnings"].to_string();
        if warnings.contains("1 of 3 Sentinels") && warnings.contains(&place) {
            Ok(())
        } else {
            Err(warnings)
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replicated_run_waits_for_each_replica_that_sentinels_may_promote() {
    let redis = Sentinels::start().await;
    let patient = ("scheduler.durability_wait_ms", "20000");
    let cluster_of = cluster(&redis, &[patient]).await;
    let scheduler = cluster_of.scheduler().await;
    for n in 0..10 {
        let answer = submit(&scheduler.client(), &body("replicated"), &format!("key-{n}")).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        assert!(redis.servers.iter().all(|server| has(server, &id(&answer))));
    }
    // One that the Sentinels see and that the master has not: it could be promoted.
    redis.servers[2].cli(&["CONFIG", "SET", "masterauth", "wrong"]);
    redis.servers[redis.master()].cli(&["CLIENT", "KILL", "TYPE", "replica"]);
    let hasty = cluster(&redis, &[("scheduler.durability_wait_ms", "500")]).await;
    let scheduler = hasty.scheduler().await;
    let client = scheduler.client();
    let run = until("the replica to be missed", LONG, async || {
        let answer = submit(&client, &body("replicated"), "missed").await;
        if answer.status == 503 && answer.text.contains("1 of 2 replicas") {
            Ok(is_unknown(&answer, "1 of 2 replicas"))
        } else {
            Err(answer.text)
        }
    })
    .await;
    // One that is never promoted does not count.
    redis.servers[2].cli(&["CONFIG", "SET", "replica-priority", "0"]);
    let repeated = until("the replica not to count any more", LONG, async || {
        let answer = submit(&client, &body("replicated"), "missed").await;
        if answer.status == 200 { Ok(id(&answer)) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(repeated, run);
}
