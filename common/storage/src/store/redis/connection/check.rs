//! Checks whether the server can hold runs safely. INFO has most of the answers and needs no right to CONFIG;
//! where CONFIG may be read, it adds the rest.

use std::collections::HashMap;
use std::sync::Arc;

use crate::store::redis::RedisStore;
use crate::store::redis::connection::server_state::{self, Seen, wrong_role};
use crate::store::redis::connection::servers::Node;
use crate::store::{Memory, ServerReport, StoreError};
use tidemill_wire::VERSION;

/// The oldest version with all commands that the scripts use.
const VERSION_MIN: (u64, u64) = (6, 2);

const DOING: &str = "checking the server";

/// With fewer Sentinels the loss of one ends fail-overs.
const SENTINELS_MIN: usize = 3;

pub(in crate::store::redis) async fn check(store: &RedisStore) -> Result<ServerReport, StoreError> {
    let report = check_servers(store).await?;
    let mut read = redis::cmd("HGET");
    read.arg(store.keys.meta()).arg("v");
    let version: Option<u64> = store.connector.ask(DOING, &read).await?;
    match version.filter(|version| *version > u64::from(VERSION)) {
        Some(version) => Err(store.refused_version(version).await),
        None => Ok(report),
    }
}

/// Checks all servers, whatever the namespace has.
pub(in crate::store::redis) async fn check_servers(store: &RedisStore) -> Result<ServerReport, StoreError> {
    let servers = store.connector.masters().await?;
    let (silent, sentinels) = store.connector.sentinels().map(|all| all.silent()).unwrap_or_default();
    let mut reports = Vec::with_capacity(servers.len());
    for server in &servers {
        reports.push((server.address().clone(), check_server(store, server).await?));
    }
    let mut report = together(reports);
    if !store.connector.may_move() {
        report.masters.clear();
    }
    if store.connector.sentinels().is_some() {
        judge_sentinels(&silent, sentinels, &mut report);
    }
    Ok(report)
}

/// Adds warnings and hints about Sentinels.
fn judge_sentinels(silent: &[Arc<str>], all: usize, report: &mut ServerReport) {
    if !silent.is_empty() {
        report.warnings.push(format!(
            "{} of {all} Sentinels do not answer ({}): without most of them there is no fail-over; start them",
            silent.len(),
            silent.join(", ")
        ));
    }
    if all < SENTINELS_MIN {
        report.hints.push(format!(
            "there are {all} Sentinels: with fewer than {SENTINELS_MIN}, one that is lost ends fail-overs; start more"
        ));
    }
}

/// Checks one server: all of a cluster are checked.
async fn check_server(store: &RedisStore, server: &Node) -> Result<ServerReport, StoreError> {
    let mut sections = Vec::new();
    for section in ["server", "memory", "persistence", "replication"] {
        let mut command = redis::cmd("INFO");
        command.arg(section);
        sections.push(store.connector.ask_server::<String>(server, DOING, &command).await?);
    }
    let info = sections.concat();
    // Before other requests: a server in another role refuses them with words that do not name the cause.
    let seen = Seen { info: &info, settings: &HashMap::new() };
    if let Some(why) = wrong_role(&seen, server.address(), store.connector.is_cluster()) {
        return Err(StoreError::Unusable(why));
    }
    let mut settings = HashMap::new();
    for name in SETTINGS {
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg(name);
        // A hosted server may not show its settings.
        let pairs = store.connector.ask_server::<HashMap<String, String>>(server, DOING, &ask).await;
        let Ok(pairs) = pairs else { break };
        settings.extend(pairs);
    }
    judge(&info, &settings, server.address())
}

/// The reports of all servers in one: of several servers each sentence names its own, and the memory is that of the
/// fullest.
fn together(mut reports: Vec<(Arc<str>, ServerReport)>) -> ServerReport {
    if reports.len() == 1
        && let Some((_, only)) = reports.pop()
    {
        return only;
    }
    let mut whole = ServerReport::default();
    for (address, report) in reports {
        let named =
            |says: Vec<String>| says.into_iter().map(|says| format!("{address}: {says}")).collect::<Vec<_>>();
        whole.warnings.extend(named(report.warnings));
        whole.hints.extend(named(report.hints));
        whole.masters.extend(report.masters);
        if whole.version.is_empty() || older(&report.version, &whole.version) {
            whole.version = report.version;
        }
        let fullness = |memory: &Memory| memory.used as f64 / memory.max.map_or(f64::MAX, |max| max as f64);
        whole.memory = match (whole.memory, report.memory) {
            (Some(one), Some(other)) if fullness(&one) >= fullness(&other) => Some(one),
            (one, other) => other.or(one),
        };
    }
    whole
}

fn older(one: &str, other: &str) -> bool {
    let numbers = |version: &str| version.split('.').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u64>>();
    numbers(one) < numbers(other)
}

/// Settings that INFO does not show.
const SETTINGS: [&str; 7] = [
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "aof-use-rdb-preamble",
    "lazyfree-lazy-expire",
    "timeout",
    "min-replicas-to-write",
    "cluster-require-full-coverage",
];

/// A risky setting: where it is read, when it is risky, and the advice.
struct Risk {
    /// A field of INFO or a setting.
    field: &'static str,
    holds: fn(&str) -> bool,
    says: &'static str,
    /// Only applies while the append-only file is on.
    with_log: bool,
    /// It risks speed or memory, not acknowledged data.
    is_hint: bool,
}

const RISKS: [Risk; 9] = [
    Risk {
        field: "aof_enabled",
        holds: |on| on == "0",
        says: "the append-only file of Redis is off: when Redis stops, every run since the last snapshot is lost; \
               set `appendonly yes`",
        with_log: false,
        is_hint: false,
    },
    Risk {
        field: "aof_last_write_status",
        holds: |status| status != "ok",
        says: "Redis cannot write its append-only file, and refuses writes until it can; check whether its disk is full",
        with_log: true,
        is_hint: false,
    },
    Risk {
        field: "aof_last_bgrewrite_status",
        holds: |status| status != "ok",
        says: "Redis could not rewrite its append-only file, which grows until it can; check its log, its memory and \
               its disk",
        with_log: true,
        is_hint: false,
    },
    Risk {
        field: "maxmemory",
        holds: |bytes| bytes == "0",
        says: "Redis has no maxmemory: when memory is short the machine kills it, where it could refuse new runs; set \
               `maxmemory` to about 60 % of the machine's memory",
        with_log: false,
        is_hint: true,
    },
    Risk {
        field: "appendfsync",
        holds: |how| how == "no",
        says: "appendfsync is no: a loss of power costs up to half a minute of acknowledged steps; set `appendfsync \
               everysec`, or `always`",
        with_log: true,
        is_hint: false,
    },
    Risk {
        field: "no-appendfsync-on-rewrite",
        holds: |on| on == "yes",
        says: "no-appendfsync-on-rewrite is yes: a loss of power while the append-only file is rewritten costs more \
               than appendfsync promises; set it to no",
        with_log: true,
        is_hint: false,
    },
    Risk {
        field: "aof-use-rdb-preamble",
        holds: |on| on == "no",
        says: "aof-use-rdb-preamble is no: after a restart Redis answers no client until it has replayed every command; set \
               it to yes",
        with_log: true,
        is_hint: false,
    },
    Risk {
        field: "lazyfree-lazy-expire",
        holds: |on| on == "no",
        says: "lazyfree-lazy-expire is no: Redis blocks while it removes large values; set it to yes",
        with_log: false,
        is_hint: true,
    },
    Risk {
        field: "timeout",
        holds: |seconds| seconds != "0",
        says: "timeout is not 0: Redis closes connections that wait, which are then reopened again and again; set it \
               to 0",
        with_log: false,
        is_hint: false,
    },
];

/// The append-only file that Redis started from may have been truncated; Redis does not report that.
const LOG_BEGUN_FROM: &str = "Redis has begun from its append-only file and has not rewritten it since. If it lost \
     power (its log then says `short read while loading the AOF file`), run `redis-cli BGREWRITEAOF` now: the file may \
     end in half a transaction, which the next start would apply";

/// Judges INFO and the settings. Missing values count as no risk.
fn judge(info: &str, settings: &HashMap<String, String>, address: &str) -> Result<ServerReport, StoreError> {
    let seen = Seen { info, settings };
    let field = |name: &str| seen.field(name);
    let version = field("redis_version").to_string();
    let mut numbers = version.split('.').map(|n| n.parse::<u64>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < VERSION_MIN {
        let (major, minor) = VERSION_MIN;
        return Err(StoreError::Unusable(format!(
            "Redis at {address} is version {version}; Tidemill needs {major}.{minor} or newer"
        )));
    }
    let policy = field("maxmemory_policy");
    if !policy.is_empty() && policy != "noeviction" {
        return Err(StoreError::Unusable(format!(
            "Redis at {address} has maxmemory-policy {policy}, which throws runs away when memory is short; \
             set `maxmemory-policy noeviction` in its redis.conf (or CONFIG SET maxmemory-policy noeviction)"
        )));
    }
    let has_log = field("aof_enabled") == "1";
    let holds = |risk: &&Risk| {
        let value = field(risk.field);
        !value.is_empty() && (has_log || !risk.with_log) && (risk.holds)(value)
    };
    let (hints, warnings): (Vec<_>, Vec<_>) = RISKS.iter().filter(holds).partition(|risk| risk.is_hint);
    let says = |risks: Vec<&Risk>| risks.into_iter().map(|risk| risk.says.to_string()).collect::<Vec<_>>();
    let is_old_log =
        has_log && seen.number("aof_rewrites") == Some(0) && seen.number("aof_base_size") > Some(0);
    let masters = vec![(address.to_owned(), seen.number("connected_slaves").unwrap_or(0))];
    let mut report =
        ServerReport { version, warnings: says(warnings), hints: says(hints), memory: None, masters };
    report.hints.extend(is_old_log.then(|| LOG_BEGUN_FROM.to_string()));
    server_state::judge(&seen, &mut report);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(fields: &[(&str, &str)]) -> Result<ServerReport, StoreError> {
        let mut all = HashMap::from([
            ("redis_version", "7.0.15"),
            ("maxmemory_policy", "noeviction"),
            ("maxmemory", "1000000"),
            ("aof_enabled", "1"),
        ]);
        all.extend(fields.iter().copied());
        let info: String = all.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        judge(&info, &HashMap::new(), "a")
    }

    #[test]
    fn a_server_that_would_lose_runs_is_refused_with_what_to_set() {
        let old = report_of(&[("redis_version", "6.0.16")]).unwrap_err().to_string();
        assert!(old.contains("6.2 or newer"), "{old}");
        let refused = report_of(&[("maxmemory_policy", "allkeys-lru")]).unwrap_err().to_string();
        assert!(refused.contains("maxmemory-policy noeviction"), "{refused}");
    }

    #[test]
    fn the_reports_of_several_servers_name_each_and_show_the_fullest() {
        let of = |used, version: &str, says: &str| ServerReport {
            version: version.into(),
            warnings: vec![says.into()],
            hints: vec![],
            memory: Some(Memory { used, max: Some(100) }),
            masters: vec![("a".into(), used)],
        };
        let whole = together(vec![
            ("a:1".into(), of(1, "7.10.0", "one")),
            ("b:2".into(), of(9, "7.2.0", "two")),
            ("c:3".into(), of(5, "8.0.0", "three")),
        ]);
        assert_eq!(whole.masters.len(), 3);
        assert_eq!(whole.warnings, ["a:1: one", "b:2: two", "c:3: three"]);
        assert_eq!((whole.version.as_str(), whole.memory.unwrap().used), ("7.2.0", 9));
        assert_eq!(together(vec![("a:1".into(), of(1, "7.0.0", "one"))]).warnings, ["one"]);
    }

    #[test]
    fn sentinels_that_do_not_answer_and_too_few_of_them_are_reported() {
        for (silent, all, warning, hint) in
            [(&[][..], 3, 0, 0), (&["a:1"][..], 3, 1, 0), (&["a:1"][..], 2, 1, 1), (&[][..], 1, 0, 1)]
        {
            let silent: Vec<Arc<str>> = silent.iter().map(|it| (*it).into()).collect();
            let mut report = ServerReport::default();
            judge_sentinels(&silent, all, &mut report);
            assert_eq!((report.warnings.len(), report.hints.len()), (warning, hint), "{report:?}");
            assert!(report.warnings.iter().all(|text| text.contains("a:1")), "{report:?}");
        }
    }

    #[test]
    fn a_safe_server_gets_no_advice() {
        let report =
            report_of(&[("appendfsync", "always"), ("timeout", "0"), ("aof_rewrites", "0")]).unwrap();
        assert_eq!((report.warnings.len(), report.hints.len()), (0, 0), "{report:?}");
    }

    #[test]
    fn every_risk_is_reported_with_what_to_do() {
        for (field, value, says) in [
            ("aof_enabled", "0", "appendonly yes"),
            ("aof_last_write_status", "err", "disk is full"),
            ("aof_last_bgrewrite_status", "err", "could not rewrite"),
            ("maxmemory", "0", "60 %"),
            ("appendfsync", "no", "appendfsync everysec"),
            ("no-appendfsync-on-rewrite", "yes", "set it to no"),
            ("aof-use-rdb-preamble", "no", "set it to yes"),
            ("lazyfree-lazy-expire", "no", "set it to yes"),
            ("timeout", "300", "set it to 0"),
        ] {
            let report = report_of(&[(field, value)]).unwrap();
            let said = [report.warnings, report.hints].concat();
            assert!(matches!(&said[..], [only] if only.contains(says)), "{field}: {said:?}");
        }
        let warnings = report_of(&[("aof_enabled", "0"), ("appendfsync", "no")]).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "how a file is written that is not written does not matter");
    }

    #[test]
    fn a_log_that_may_be_truncated_is_reported_until_it_was_rewritten() {
        let report = report_of(&[("aof_rewrites", "0"), ("aof_base_size", "5000")]).unwrap();
        assert!(report.warnings.is_empty() && report.hints[0].contains("BGREWRITEAOF"), "{report:?}");
        assert!(report_of(&[("aof_rewrites", "1"), ("aof_base_size", "5000")]).unwrap().hints.is_empty());
        assert!(report_of(&[("aof_base_size", "5000")]).unwrap().hints.is_empty(), "Redis 6 does not say");
    }
}
