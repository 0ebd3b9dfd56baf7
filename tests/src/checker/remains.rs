//! Checks of what is left in Redis.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::Evidence;
use super::contents::Contents;

/// Keys that have no TTL, as docs/redis.md says: a key, or the beginning of one. `{n}` stands for any shard. Keys of
/// runs that have not ended are missing here, because at the end every run has ended.
const LIVES_ON: [&str; 39] = [
    "tm:meta",
    "tm:queues",
    "tm:knowing:5",
    "tm:schedulers",
    "tm:workers",
    "tm:apps",
    "tm:app:*",
    "tm:key:*",
    "tm:audit",
    "tm:webhooks",
    "tm:plugins",
    "tm:plugin:*",
    "tm:plugin-credentials",
    "tm:plugin-credential:*",
    "tm:plugin-package:*",
    "tm:plugin-storages",
    "tm:plugin-values:*",
    "tm:annotations:*",
    "tm:knowledge:*",
    "tm:{n}:fence",
    "tm:{n}:trying",
    "tm:{n}:inbox",
    "tm:{n}:jobs:*",
    "tm:{n}:timers",
    "tm:{n}:dead",
    "tm:{n}:runs",
    "tm:{n}:runs:*",
    "tm:{n}:runs_of_app:*",
    "tm:{n}:runs_of_apps",
    "tm:{n}:ended",
    "tm:{n}:expired",
    "tm:{n}:files_early",
    "tm:{n}:graph:*",
    "tm:{n}:graphs",
    "tm:{n}:conversation:*",
    "tm:{n}:feedbacks:*",
    // Their run removes them. Another check makes sure that each of them has a run.
    "tm:{n}:blob:*",
    "tm:probe",
    "tm:uploads:*",
];
/// Indexes of runs that have not ended.
const OPEN: [&str; 3] = ["scheduled", "running", "paused"];

/// The content of Redis after all runs have ended.
#[derive(Debug, Default, Clone)]
pub struct Remains {
    /// Every key without a TTL.
    pub without_ttl: Vec<String>,
    /// Blobs without a TTL that belong to no run.
    pub lone_blobs: Vec<String>,
    /// For each stream of jobs: the number of entries, and how many of them workers hold.
    pub jobs: BTreeMap<String, (u64, u64)>,
    /// For each shard: the id of the last fact in its inbox, and the cursor.
    pub inboxes: BTreeMap<String, (String, String)>,
    /// For each shard: its owner, and the holder in its fence.
    pub leases: BTreeMap<String, (String, String)>,
    pub schedulers: BTreeSet<String>,
    /// Timers by shard.
    pub timers: BTreeMap<String, Vec<String>>,
    /// Runs on an index of open runs.
    pub open_runs: Vec<String>,
    pub ended_runs: BTreeSet<String>,
    /// Dead letters.
    pub dead: Vec<String>,
}

impl Remains {
    /// Reads everything.
    ///
    /// # Panics
    /// When Redis does not answer.
    pub async fn of(redis: Contents<'_>) -> Self {
        let mut remains = Self::default();
        let shards: u16 = redis.ask(&["HGET", "tm:meta", "shards"]).await;
        let keys = redis.all_keys().await;
        let mut blobs = BTreeSet::new();
        let mut known = BTreeSet::new();
        for key in &keys {
            let ttl: i64 = redis.ask(&["PTTL", key]).await;
            if ttl == -1 {
                remains.without_ttl.push(key.clone());
                if let Some((_, name)) = key.split_once(":blob:") {
                    blobs.insert(name.to_string());
                }
            }
            if key.ends_with(":blobs") {
                known.extend(redis.ask::<Vec<String>>(&["HKEYS", key]).await);
            }
            if key.contains(":conversation:") {
                // Fields of a conversation name its large values.
                let fields: Vec<String> = redis.ask(&["HVALS", key]).await;
                known.extend(blobs.iter().filter(|name| fields.iter().any(|f| f.contains(*name))).cloned());
            }
            if key.contains(":jobs:") {
                let entries: u64 = redis.ask(&["XLEN", key]).await;
                remains.jobs.insert(key.clone(), (entries, pending(&redis, key).await));
            }
        }
        remains.lone_blobs = blobs.difference(&known).cloned().collect();
        remains.schedulers = redis.ask::<BTreeSet<String>>(&["ZRANGE", "tm:schedulers", "0", "-1"]).await;
        for shard in (0..shards).map(|n| format!("tm:{{{n}}}")) {
            remains.of_shard(&redis, &shard).await;
        }
        remains
    }

    async fn of_shard(&mut self, redis: &Contents<'_>, shard: &str) {
        let key = |rest: &str| format!("{shard}:{rest}");
        let inbox: Vec<(String, Vec<String>)> =
            redis.ask(&["XREVRANGE", &key("inbox"), "+", "-", "COUNT", "1"]).await;
        let cursor: Option<String> = redis.ask(&["HGET", &key("fence"), "cursor"]).await;
        let last = inbox.into_iter().next().map(|(id, _)| id).unwrap_or_default();
        self.inboxes.insert(shard.into(), (last, cursor.unwrap_or_default()));
        let owner: Option<String> = redis.ask(&["GET", &key("owner")]).await;
        let holder: Option<String> = redis.ask(&["HGET", &key("fence"), "holder"]).await;
        self.leases.insert(shard.into(), (owner.unwrap_or_default(), holder.unwrap_or_default()));
        self.timers.insert(shard.into(), redis.ask(&["ZRANGE", &key("timers"), "0", "-1"]).await);
        for status in OPEN {
            let runs: Vec<String> = redis.ask(&["ZRANGE", &key(&format!("runs:{status}")), "0", "-1"]).await;
            self.open_runs.extend(runs.into_iter().map(|run| format!("{run} is {status}")));
        }
        self.ended_runs.extend(redis.ask::<Vec<String>>(&["ZRANGE", &key("ended"), "0", "-1"]).await);
        let dead: Vec<(String, Vec<String>)> =
            redis.ask(&["XRANGE", &key("dead"), "-", "+", "COUNT", "20"]).await;
        self.dead.extend(dead.into_iter().map(|(id, fields)| format!("{id} {fields:?}")));
    }
}

async fn pending(redis: &Contents<'_>, stream: &str) -> u64 {
    let groups: Vec<BTreeMap<String, Value>> = redis.ask(&["XINFO", "GROUPS", stream]).await;
    let counts = groups.iter().filter_map(|group| match group.get("pending") {
        Some(Value::Int(count)) => u64::try_from(*count).ok(),
        _ => None,
    });
    counts.sum()
}

pub(super) fn nothing_is_pending(evidence: &Evidence) -> Vec<String> {
    let left = evidence.remains.jobs.iter().filter(|(_, counts)| **counts != (0, 0));
    left.map(|(stream, (entries, held))| format!("{stream} has {entries} entries, {held} are held")).collect()
}

pub(super) fn inbox_is_applied(evidence: &Evidence) -> Vec<String> {
    let number = |id: &str| {
        let (major, minor) = id.split_once('-').unwrap_or((id, "0"));
        (major.parse::<u64>().unwrap_or(0), minor.parse::<u64>().unwrap_or(0))
    };
    let behind = evidence.remains.inboxes.iter().filter(|(_, (last, cursor))| number(last) > number(cursor));
    behind
        .map(|(shard, (last, cursor))| format!("{shard}: the last fact is {last}, the cursor {cursor}"))
        .collect()
}

pub(super) fn timers_are_cleared(evidence: &Evidence) -> Vec<String> {
    let left =
        evidence.remains.timers.iter().flat_map(|(shard, timers)| timers.iter().map(move |t| (shard, t)));
    left.map(|(shard, timer)| format!("{shard}: {timer}")).collect()
}

pub(super) fn leases_are_the_owners(evidence: &Evidence) -> Vec<String> {
    let Remains { leases, schedulers, .. } = &evidence.remains;
    let wrong = leases.iter().filter(|(_, (owner, holder))| owner != holder || !schedulers.contains(owner));
    wrong
        .map(|(shard, (owner, holder))| format!("{shard}: leased to {owner:?}, the fence names {holder:?}"))
        .collect()
}

pub(super) fn indexes_are_right(evidence: &Evidence) -> Vec<String> {
    let Remains { open_runs, ended_runs, .. } = &evidence.remains;
    let ended = evidence.stories.iter().filter(|story| !story.is_gone && story.trouble.is_none());
    let missing = ended.filter(|story| !ended_runs.contains(&story.run));
    let missing = missing.map(|story| format!("{} has ended and is on no index of ended runs", story.run));
    open_runs.iter().cloned().chain(missing).collect()
}

pub(super) fn keys_are_documented(evidence: &Evidence) -> Vec<String> {
    let keys = evidence.remains.without_ttl.iter().filter(|key| !lives_on(key));
    let keys = keys.map(|key| format!("{key} has no TTL"));
    let blobs = evidence
        .remains
        .lone_blobs
        .iter()
        .map(|blob| format!("blob {blob} has no TTL and belongs to no run"));
    keys.chain(blobs).collect()
}

pub(super) fn nothing_is_dead(evidence: &Evidence) -> Vec<String> {
    evidence.remains.dead.clone()
}

fn lives_on(key: &str) -> bool {
    let plain: String = match (key.find('{'), key.find('}')) {
        (Some(from), Some(to)) if from < to => format!("{}{{n}}{}", &key[..from], &key[to + 1..]),
        _ => key.to_string(),
    };
    LIVES_ON.iter().any(|row| match row.strip_suffix('*') {
        Some(prefix) => plain.strip_prefix(prefix).is_some_and(|rest| !rest.contains(':')),
        None => plain == *row,
    })
}

#[cfg(test)]
mod tests {
    use super::lives_on;

    #[test]
    fn only_keys_on_the_list_may_have_no_ttl() {
        for key in ["tm:meta", "tm:{0}:fence", "tm:{12}:runs:failed", "tm:{0}:jobs:default"] {
            assert!(lives_on(key), "{key}");
        }
        for key in ["tm:{0}:run:1:state", "tm:{0}:owner", "tm:{0}:idem:1", "other", "tm:{0}:run:1"] {
            assert!(!lives_on(key), "{key}");
        }
    }
}
