//! Judges the present state of the server, besides its settings: its role, its replicas, and its memory.

use std::collections::HashMap;

use crate::store::ServerReport;

/// Percentage of maxmemory from which a warning is due.
const NEARLY_FULL_PERCENT: u64 = 90;
/// Percentage of the machine's memory from which a warning is due when there is no maxmemory.
const MACHINE_PERCENT: u64 = 80;

/// The fields of INFO and the settings that could be read.
pub(super) struct Seen<'a> {
    pub(super) info: &'a str,
    pub(super) settings: &'a HashMap<String, String>,
}

impl<'a> Seen<'a> {
    /// Returns a setting or a field of INFO; empty when neither is known.
    pub(super) fn field(&self, name: &str) -> &'a str {
        let of_info =
            || self.info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        self.settings.get(name).map(String::as_str).or_else(of_info).unwrap_or("")
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name).parse().ok()
    }
}

/// Explains that the server is part of a cluster, and how to name it.
pub(super) fn is_cluster(address: &str) -> String {
    format!(
        "Redis at {address} is a server of a Redis Cluster; redis.url has to name some of the cluster's servers, such as \
         redis+cluster://10.0.0.1:6379,10.0.0.2:6379 (rediss+cluster:// with TLS)"
    )
}

/// Returns why Tidemill cannot use a server in this role.
pub(super) fn wrong_role(seen: &Seen<'_>, address: &str, wants_cluster: bool) -> Option<String> {
    match seen.field("redis_mode") {
        "cluster" if !wants_cluster => return Some(is_cluster(address)),
        "sentinel" => {
            return Some(format!(
                "Redis at {address} is a Sentinel and holds no data; redis.url has to name Sentinels and the master that they \
                 watch, such as redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster (rediss+sentinel:// with TLS)"
            ));
        }
        _ => {}
    }
    (seen.field("role") == "slave").then(|| {
        let (host, port) = (seen.field("master_host"), seen.field("master_port"));
        format!(
            "Redis at {address} is a replica of {host}:{port} and takes no writes; redis.url has to lead to the master"
        )
    })
}

/// Adds warnings and hints about replicas and memory.
pub(super) fn judge(seen: &Seen<'_>, report: &mut ServerReport) {
    replicas(seen, report);
    coverage(seen, report);
    memory(seen, report);
}

/// A server outside of a cluster has this setting, too, but does not use it.
fn coverage(seen: &Seen<'_>, report: &mut ServerReport) {
    if seen.field("redis_mode") == "cluster" && seen.field("cluster-require-full-coverage") == "yes" {
        report.warnings.push(
            "cluster-require-full-coverage is yes: all masters refuse requests while one of them has no server; set it to no \
             on all servers"
                .into(),
        );
    }
}

fn replicas(seen: &Seen<'_>, report: &mut ServerReport) {
    let Some(replicas) = seen.number("connected_slaves") else { return };
    // INFO shows the number of good replicas only where min-replicas-to-write is set.
    let good = seen.number("min_slaves_good_slaves");
    let wanted = seen.number("min-replicas-to-write").or_else(|| good.map(|_| 1)).unwrap_or(0);
    if let Some(good) = good.filter(|good| *good < wanted) {
        report.warnings.push(format!(
            "Redis refuses writes: min-replicas-to-write is {wanted}, and {good} replicas are connected and keep up; \
             start replicas, or lower min-replicas-to-write"
        ));
    }
    if replicas > 1 && wanted == 0 {
        report.warnings.push(format!(
            "Redis has {replicas} replicas and min-replicas-to-write is 0: a fail-over loses the steps that the old master \
             still acknowledges; set `min-replicas-to-write 1` on all of them"
        ));
    }
    // With one replica that setting would stop all writes after a fail-over.
    if replicas == 1 && wanted == 0 {
        report.hints.push(
            "Redis has one replica: a fail-over loses the steps that the old master still acknowledges; add a second \
             replica, and set `min-replicas-to-write 1` on all of them"
                .into(),
        );
    }
    if replicas == 0 && seen.field("redis_mode") == "cluster" {
        report.warnings.push(
            "the master has no replica that is connected: when it dies, its shards stand still until it is back; start its \
             replica, or add one"
                .into(),
        );
    }
    if replicas == 1 && wanted == 1 {
        report.hints.push(
            "Redis has one replica and min-replicas-to-write is 1: after a fail-over the new master has no replica and \
             refuses writes until the old one is back; add a second replica"
                .into(),
        );
    }
}

fn memory(seen: &Seen<'_>, report: &mut ServerReport) {
    let Some(used) = seen.number("used_memory") else { return };
    let max = seen.number("maxmemory").filter(|max| *max > 0);
    report.memory = Some(crate::store::Memory { used, max });
    if let Some(max) = max {
        let free = max.saturating_sub(used);
        if used >= max {
            report.warnings.push(format!(
                "Redis is full: {} of maxmemory {} are used, and new runs are refused; free memory or raise maxmemory",
                bytes(used),
                bytes(max)
            ));
        } else if used > max / 100 * NEARLY_FULL_PERCENT {
            report.warnings.push(format!(
                "Redis is nearly full: {} of maxmemory {} are used, {} are free; free memory or raise maxmemory",
                bytes(used),
                bytes(max),
                bytes(free)
            ));
        }
    } else if let Some(total) = seen.number("total_system_memory").filter(|total| *total > 0) {
        let resident = seen.number("used_memory_rss").unwrap_or(used);
        if resident > total / 100 * MACHINE_PERCENT {
            report.warnings.push(format!(
                "Redis uses {} of the {} of its machine and has no maxmemory: the machine may kill it; set maxmemory",
                bytes(resident),
                bytes(total)
            ));
        }
    }
}

/// Formats a size for people.
fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut at = 0;
    while value >= 1024.0 && at + 1 < UNITS.len() {
        value /= 1024.0;
        at += 1;
    }
    if at == 0 { format!("{number} B") } else { format!("{value:.1} {}", UNITS[at]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(fields: &[(&str, &str)], settings: &[(&str, &str)]) -> ServerReport {
        let info: String = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut report = ServerReport::default();
        judge(&Seen { info: &info, settings: &settings }, &mut report);
        report
    }

    #[test]
    fn a_server_in_a_role_that_cannot_hold_runs_is_named_by_it() {
        for (info, part) in [
            ("redis_mode:cluster\r\nrole:master\r\n", Some("redis+cluster://")),
            ("redis_mode:sentinel\r\n", Some("redis+sentinel://")),
            (
                "redis_mode:standalone\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n",
                Some("a replica of 10.0.0.1:6379"),
            ),
            ("redis_mode:standalone\r\nrole:master\r\n", None),
            ("", None),
        ] {
            let found = wrong_role(&Seen { info, settings: &HashMap::new() }, "redis://r", false);
            assert_eq!(found.is_some(), part.is_some(), "{info}: {found:?}");
            assert!(found.is_none_or(|text| text.contains(part.unwrap_or(""))), "{info}");
        }
    }

    #[test]
    fn replicas_get_the_advice_that_a_fail_over_needs() {
        for (replicas, wanted, good, warning, hint) in [
            ("0", Some("0"), None, None, None),
            ("0", None, None, None, None),
            ("1", Some("0"), None, None, Some("set `min-replicas-to-write 1`")),
            ("2", None, None, Some("2 replicas and min-replicas-to-write is 0"), None),
            ("1", Some("1"), Some("1"), None, Some("add a second replica")),
            ("1", None, Some("1"), None, Some("add a second replica")),
            ("2", Some("1"), Some("2"), None, None),
            ("0", Some("1"), Some("0"), Some("refuses writes"), None),
            ("0", None, Some("0"), Some("refuses writes"), None),
        ] {
            let mut fields = vec![("connected_slaves", replicas)];
            fields.extend(good.map(|good| ("min_slaves_good_slaves", good)));
            let settings: Vec<_> =
                wanted.map(|wanted| ("min-replicas-to-write", wanted)).into_iter().collect();
            let report = report_of(&fields, &settings);
            let case = format!("{replicas} {wanted:?} {good:?}: {report:?}");
            assert_eq!(report.warnings.len(), usize::from(warning.is_some()), "{case}");
            assert_eq!(report.hints.len(), usize::from(hint.is_some()), "{case}");
            assert!(report.warnings.iter().all(|text| text.contains(warning.unwrap_or(""))), "{case}");
            assert!(report.hints.iter().all(|text| text.contains(hint.unwrap_or(""))), "{case}");
        }
    }

    #[test]
    fn a_master_of_a_cluster_without_a_replica_is_reported() {
        for (mode, replicas, is_risk) in
            [("cluster", "0", true), ("cluster", "1", false), ("standalone", "0", false)]
        {
            let report = report_of(&[("redis_mode", mode), ("connected_slaves", replicas)], &[]);
            assert_eq!(report.warnings.len(), usize::from(is_risk), "{mode} {replicas}: {report:?}");
        }
    }

    #[test]
    fn a_cluster_that_stops_as_a_whole_is_reported() {
        for (mode, coverage, is_risk) in
            [("cluster", "yes", true), ("cluster", "no", false), ("standalone", "yes", false)]
        {
            let report = report_of(&[("redis_mode", mode)], &[("cluster-require-full-coverage", coverage)]);
            assert_eq!(report.warnings.len(), usize::from(is_risk), "{mode} {coverage}: {report:?}");
        }
    }

    #[test]
    fn memory_is_compared_with_its_limit_or_with_the_machine() {
        for (used, max, rss, total, warning) in [
            ("50", "100", "50", "1000", None),
            ("90", "100", "90", "1000", None),
            ("9500000", "10000000", "0", "1000000000", Some("nearly full: 9.1 MiB of maxmemory 9.5 MiB")),
            ("10000000", "10000000", "0", "1000000000", Some("Redis is full")),
            ("20000000", "10000000", "0", "1000000000", Some("Redis is full")),
            ("10", "0", "900", "1000", Some("has no maxmemory")),
            ("10", "0", "500", "1000", None),
        ] {
            let report = report_of(
                &[
                    ("used_memory", used),
                    ("maxmemory", max),
                    ("used_memory_rss", rss),
                    ("total_system_memory", total),
                ],
                &[],
            );
            let case = format!("{used} {max} {rss}: {report:?}");
            assert_eq!(report.warnings.len(), usize::from(warning.is_some()), "{case}");
            assert!(report.warnings.iter().all(|text| text.contains(warning.unwrap_or(""))), "{case}");
        }
    }
}
