//! `tidemill doctor`: finds what could lose runs or keeps them from moving: settings and state of Redis, processes,
//! shards, queues. It writes one key that expires, to see whether Redis takes writes, and changes nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, Sources, masked_url};
use tidemill_common::store::diagnosis::{Finding, Fleet, QueueState, Severity};
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{LimitOf, Outage, Runs, ServerReport, StoreError};

use crate::console::Console;
use crate::error::{Error, Exit};
use crate::local::LocalError;
use crate::output::{json, text};

/// The time between two looks at a fleet in which something waits.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// A worker counts as alive for so many of its leases after its last announcement, as other workers see it.
pub(super) const WORKER_LEASES: u32 = 3;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Settings file of schedulers and workers [default: tidemill.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of Redis, instead of the one in the settings
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// Show the findings as JSON
    #[arg(long)]
    json: bool,
}

/// All that was found.
#[derive(Debug, Default)]
struct Diagnosis {
    server: ServerReport,
    fleet: Option<Fleet>,
    findings: Vec<Finding>,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let flags = arguments.redis_url.iter().map(|url| ("redis.url".to_string(), url.clone())).collect();
    let config = Config::load(&Sources::of_process(arguments.config.clone(), flags));
    let config = config.map_err(|error| Error::Usage(error.to_string()))?;
    let store = RedisStore::new(&config.redis, config.store_limits()).map_err(LocalError::Store)?;
    let diagnosis = match store.check().await {
        Ok(server) => examine(&store, &config, server).await,
        // The server answers, and nothing else can be said about it.
        Err(StoreError::Unusable(why)) => Diagnosis { findings: vec![error(why)], ..Diagnosis::default() },
        Err(error) => return Err(LocalError::Store(error).into()),
    };
    if arguments.json {
        json::whole(&as_json(&diagnosis), console)?;
    } else {
        console.text(render(&diagnosis, &masked_url(&config.redis.url)))?;
    }
    let is_well = diagnosis.findings.iter().all(|found| found.severity == Severity::Hint);
    Ok(if is_well { Exit::Succeeded } else { Exit::Failed })
}

async fn examine(store: &RedisStore, config: &Config, server: ServerReport) -> Diagnosis {
    let mut findings = Vec::new();
    let refused = store.refusals().await.unwrap_or_else(|error| vec![(true, error)]);
    let mut refused: Vec<StoreError> = refused.into_iter().map(|(_, error)| error).collect();
    // Shards of one server say the same.
    refused.dedup_by_key(|error| error.to_string());
    for refused in refused {
        let words = Outage::of(&refused).map_or("the store takes no writes", Outage::words);
        findings.push(error(format!("a write was refused: {words} ({refused})")));
    }
    let of = |severity, texts: &[String]| -> Vec<Finding> {
        texts.iter().map(|text| Finding { severity, text: text.clone() }).collect()
    };
    findings.extend(of(Severity::Warning, &server.warnings));
    let fleet = match look(store, config).await {
        Ok((fleet, found)) => {
            findings.extend(found);
            Some(fleet)
        }
        Err(unread) => {
            findings.push(error(format!("the fleet cannot be examined: {unread}")));
            None
        }
    };
    findings.extend(of(Severity::Hint, &server.hints));
    findings.sort_by_key(|found| match found.severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Hint => 2,
    });
    Diagnosis { server, fleet, findings }
}

/// Looks at the fleet; twice if something waits, because most jobs and facts wait for a moment only.
async fn look(store: &RedisStore, config: &Config) -> Result<(Fleet, Vec<Finding>), StoreError> {
    let schedulers = Duration::from_millis(config.scheduler.shard_lease_ms);
    let workers = Duration::from_millis(config.worker.job_lease_ms).saturating_mul(WORKER_LEASES);
    let mut fleet = store.diagnose().await?;
    fleet.forget_silent(schedulers, workers);
    let mut before = None;
    if fleet.is_worth_a_second_look() {
        tokio::time::sleep(SECOND_LOOK).await;
        before = Some(std::mem::replace(&mut fleet, store.diagnose().await?));
        fleet.forget_silent(schedulers, workers);
    }
    let mut found = fleet.findings(before.as_ref());
    found.extend(full_apps(store, config).await?);
    Ok((fleet, found))
}

/// Apps that have as many runs as they may have, so that they refuse others.
async fn full_apps(store: &RedisStore, config: &Config) -> Result<Vec<Finding>, StoreError> {
    let limits = store.app_limits();
    let mut max_of: BTreeMap<String, u64> = BTreeMap::new();
    if config.scheduler.app_runs_max > 0 {
        let apps = store.apps().await?.into_iter();
        max_of.extend(apps.map(|app| (app, config.scheduler.app_runs_max)));
    }
    for (of, text) in limits.limits_set().await? {
        if let (LimitOf::App(app), Ok(own)) = (of, serde_json::from_str::<Json>(&text))
            && let Some(max) = own["runs_max"].as_u64()
        {
            max_of.insert(app, max);
        }
    }
    let mut found = Vec::new();
    for (app, max) in max_of.into_iter().filter(|(_, max)| *max > 0) {
        let taken = limits.places_taken(&app, None).await?;
        if taken >= max {
            let text = format!(
                "the app {app} has {taken} of at most {max} runs and refuses others; `tidemill apps limits {app}` sets \
                 another limit"
            );
            found.push(Finding { severity: Severity::Hint, text });
        }
    }
    Ok(found)
}

fn error(text: String) -> Finding {
    Finding { severity: Severity::Error, text }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "hint",
    }
}

fn render(diagnosis: &Diagnosis, address: &str) -> String {
    let Diagnosis { server, fleet, findings } = diagnosis;
    let mut shown = format!("Redis {} at {address}\n", server.version).replace("Redis  at", "Redis at");
    // The address of Sentinels or of a cluster does not name the master.
    let is_told_apart = address.split_once("://").is_some_and(|(scheme, _)| scheme.contains('+'));
    for (master, replicas) in server.masters.iter().filter(|_| is_told_apart) {
        let replicas = match replicas {
            0 => "no replica".into(),
            1 => "1 replica".into(),
            replicas => format!("{replicas} replicas"),
        };
        shown.push_str(&format!("master: {master}, {replicas}\n"));
    }
    if let Some(memory) = server.memory {
        let max = memory.max.map_or("no maxmemory".into(), |max| format!("maxmemory {}", text::size(max)));
        shown.push_str(&format!("memory: {} used, {max}\n", text::size(memory.used)));
    }
    if let Some(fleet) = fleet {
        let (schedulers, workers) = (fleet.schedulers.len(), fleet.workers.len());
        shown.push_str(&format!("alive: schedulers {schedulers}, workers {workers}\n"));
        for (queue, waiting, held) in by_queue(&fleet.queues) {
            shown.push_str(&format!("queue {queue}: {waiting} waiting, {held} with workers\n"));
        }
    }
    findings.iter().for_each(|found| shown.push_str(&format!("{}: {}\n", word(found.severity), found.text)));
    if findings.iter().all(|found| found.severity == Severity::Hint) {
        shown.push_str("no errors, no warnings\n");
    }
    shown
}

/// Sums waiting and held jobs over the shards. The queues are sorted by name.
fn by_queue(states: &[QueueState]) -> Vec<(&str, u64, u64)> {
    let mut sums: Vec<(&str, u64, u64)> = Vec::new();
    for state in states {
        match sums.last_mut() {
            Some((queue, waiting, held)) if *queue == state.queue => {
                *waiting += state.waiting;
                *held += state.held;
            }
            Some(_) | None => sums.push((&state.queue, state.waiting, state.held)),
        }
    }
    sums
}

fn as_json(diagnosis: &Diagnosis) -> Json {
    let Diagnosis { server, fleet, findings } = diagnosis;
    let of = |severity| -> Vec<&str> {
        findings.iter().filter(|found| found.severity == severity).map(|found| found.text.as_str()).collect()
    };
    let master = |(address, replicas): &(String, u64)| json!({"address": address, "replicas": replicas});
    let masters: Vec<Json> = server.masters.iter().map(master).collect();
    let memory = server.memory.map(|memory| json!({"used": memory.used, "max": memory.max}));
    let mut found = json!({
        "redis": server.version,
        "masters": masters,
        "memory": memory,
        "errors": of(Severity::Error),
        "warnings": of(Severity::Warning),
        "hints": of(Severity::Hint),
    });
    if let Some(fleet) = fleet {
        let ids = |list: &[tidemill_common::store::diagnosis::LiveProcess]| -> Vec<String> {
            list.iter().map(|one| one.id.clone()).collect()
        };
        let queue = |(queue, waiting, held)| json!({"queue": queue, "waiting": waiting, "held": held});
        let shard = |shard: &tidemill_common::store::diagnosis::ShardState| {
            json!({
                "shard": shard.shard.0,
                "owner": shard.owner,
                "inbox": shard.inbox,
                "fact_waits_ms": shard.fact_waits.map(|waits| u64::try_from(waits.as_millis()).unwrap_or(u64::MAX)),
            })
        };
        found["schedulers"] = ids(&fleet.schedulers).into();
        found["workers"] = ids(&fleet.workers).into();
        found["queues"] = by_queue(&fleet.queues).into_iter().map(queue).collect();
        found["shards"] = fleet.shards.iter().map(shard).collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;
    use tidemill_common::store::Memory;

    fn queue(name: &str, shard: u16, waiting: u64, held: u64) -> QueueState {
        QueueState {
            shard: ShardId(shard),
            queue: name.into(),
            waiting,
            held,
            oldest: None,
            readers: Vec::new(),
        }
    }

    #[test]
    fn each_finding_is_a_line_and_no_warning_is_reported_too() {
        let found = |severity, text: &str| Finding { severity, text: text.into() };
        let server = ServerReport {
            version: "7.0.15".into(),
            memory: Some(Memory { used: 2048, max: Some(1 << 30) }),
            masters: vec![("10.0.0.2:6379".into(), 2), ("10.0.0.3:6379".into(), 0)],
            ..ServerReport::default()
        };
        let queues = vec![queue("default", 0, 1, 2), queue("default", 1, 3, 0), queue("gpu", 0, 0, 1)];
        let fleet = Some(Fleet { queues, ..Fleet::default() });
        let findings = vec![found(Severity::Error, "mend x"), found(Severity::Hint, "look")];
        let head = "Redis 7.0.15 at redis://r\nmemory: 2.0 KiB used, maxmemory 1.0 GiB\nalive: schedulers 0, workers 0\n\
             queue default: 4 waiting, 2 with workers\nqueue gpu: 0 waiting, 1 with workers\n";
        let mut diagnosis = Diagnosis { server, fleet, findings };
        assert_eq!(render(&diagnosis, "redis://r"), format!("{head}error: mend x\nhint: look\n"));
        diagnosis.server.masters = vec![("10.0.0.2:6379".into(), 2), ("10.0.0.3:6379".into(), 0)];
        let watched = render(&diagnosis, "redis+sentinel://s/m");
        let masters = "\nmaster: 10.0.0.2:6379, 2 replicas\nmaster: 10.0.0.3:6379, no replica\n";
        assert!(watched.contains(masters), "{watched}");
        let shown = as_json(&diagnosis);
        assert_eq!(shown["masters"][0], json!({"address": "10.0.0.2:6379", "replicas": 2}));
        diagnosis.server.masters.clear();
        assert_eq!((&shown["errors"], &shown["hints"]), (&json!(["mend x"]), &json!(["look"])));
        assert_eq!(shown["queues"][0], json!({"queue": "default", "waiting": 4, "held": 2}));
        diagnosis.findings.remove(0);
        assert_eq!(render(&diagnosis, "redis://r"), format!("{head}hint: look\nno errors, no warnings\n"));
        let nothing = Diagnosis { findings: vec![error("it is a cluster".into())], ..Diagnosis::default() };
        assert_eq!(render(&nothing, "redis://r"), "Redis at redis://r\nerror: it is a cluster\n");
    }
}
