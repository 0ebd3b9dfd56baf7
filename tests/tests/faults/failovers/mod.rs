//! Fail-overs under load, planned ones and crashes, and then a comparison of what clients were told with what is there:
//! nothing that was acknowledged as `replicated` may be lost, and no result may be applied twice. `FAILOVERS=n` sets the
//! number, and `FAILOVERS_FORM` one of the forms `replicas`, `sentinel` and `cluster`; `make failovers` runs many.

mod forms;
mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

use self::forms::Form;
use self::load::{Load, Told};
use super::QUICK;

/// Runs that must be accepted between two fail-overs.
const RUNS_BETWEEN: usize = 6;
/// A line of progress comes after so many fail-overs.
const PROGRESS_EVERY: usize = 10;
/// The longest time for the runs to end.
const ALL_END_WITHIN: Duration = Duration::from_secs(240);

/// The number of fail-overs.
fn count() -> usize {
    std::env::var("FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// Whether a form is wanted: `FAILOVERS_FORM` names one, and without it all are.
fn is_wanted(form: &str) -> bool {
    std::env::var("FAILOVERS_FORM").map_or(true, |wanted| wanted.is_empty() || wanted == form)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_replicated_is_lost_in_a_fail_over() {
    fails_over("replicas").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_replicated_is_lost_in_a_fail_over_of_sentinels() {
    fails_over("sentinel").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_replicated_is_lost_in_a_fail_over_of_a_cluster() {
    fails_over("cluster").await;
}

#[allow(clippy::print_stderr, reason = "the numbers are what a run of many is for")]
async fn fails_over(form: &str) {
    if !is_wanted(form) {
        return;
    }
    let mut servers = Form::start(form).await;
    let own = servers.settings();
    let mut settings = QUICK.to_vec();
    settings.extend(own.iter().map(|(key, value)| (*key, value.as_str())));
    let cluster = Cluster::start(&settings, None).await.at(&servers.url());
    let scheduler = cluster.scheduler().await;
    let workers = [cluster.worker().await, cluster.worker().await];

    let load = Load::start(&scheduler.address);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for number in 0..count() {
        let before = load.accepted();
        until("runs to be accepted", ALL_END_WITHIN, async || {
            let accepted = load.accepted();
            if accepted >= before + RUNS_BETWEEN { Ok(()) } else { Err(format!("{accepted} after {before}")) }
        })
        .await;
        *counts.entry(servers.fail_over(number).await).or_default() += 1;
        if (number + 1) % PROGRESS_EVERY == 0 {
            eprintln!("{form}: {} fail-overs, {} runs accepted as replicated", number + 1, load.accepted());
        }
    }
    let told = load.end().await;
    let client = scheduler.client();
    let lost = lost(&client, &told.memory).await;
    eprintln!(
        "{form}: {} fail-overs {counts:?}: {} runs accepted as replicated, {} answers, {} requests told unknown, {} \
         failed; {} of {} runs accepted as memory are lost",
        count(),
        told.replicated.len(),
        told.answered.len(),
        told.unknown,
        told.failed,
        lost.len(),
        told.memory.len()
    );
    check(&client, &told).await;
    drop(workers);
}

/// The runs that do not exist.
async fn lost(client: &Client, runs: &[String]) -> Vec<String> {
    let mut lost = Vec::new();
    for run in runs {
        let answer = client.get(&format!("/api/v1/runs/{run}")).await;
        assert!([200, 404].contains(&answer.status), "{}", answer.text);
        if answer.status == 404 {
            lost.push(run.clone());
        }
    }
    lost
}

async fn check(client: &Client, told: &Told) {
    assert_eq!(lost(client, &told.replicated).await, Vec::<String>::new(), "accepted runs are lost");
    for run in &told.answered {
        let ended = client.ended_within(run, ALL_END_WITHIN).await;
        assert_eq!(ended["outputs"]["out"], format!("first/{run}"), "{ended:#}");
        let record = client.follow(run, None).await.to_the_end().await;
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for event in record.events.iter().filter(|event| event.kind == "node_run_succeeded") {
            *ends.entry(event.data["id"].to_string()).or_default() += 1;
        }
        assert!(ends.values().all(|ends| *ends == 1), "a result is applied twice: {record:#?}");
        let numbers: Vec<u64> = record.events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{record:#?}");
    }
    // The others wait for their answer, or have none because they were accepted at the end.
    for run in told.replicated.iter().filter(|run| !told.answered.contains(run)) {
        until("the run to wait for its answer", LONG, async || {
            let shown = client.run(run).await;
            if shown["status"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
    }
}
