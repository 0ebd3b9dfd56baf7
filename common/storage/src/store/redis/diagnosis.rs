//! Reads the fleet for `tidemill doctor`: processes, shards, queues, and channels. Nothing is written.

use std::collections::HashSet;
use std::time::Duration;

use redis::{RedisResult, Value};

use super::keys::GROUP;
use super::{RedisStore, StoreError};
use crate::store::diagnosis::{Fleet, Lack, LiveProcess, OldestJob, QueueState, ShardState};
use crate::store::redis::connection::replies::{array, entry, pairs, take, text};
use crate::store::{self, AppState, Removals as _, Runs as _};
use tidemill_base::ids::{EntryId, RunId, ShardId};
use tidemill_wire::VERSION;
use tidemill_wire::worker::Missing;

/// Keys that one SCAN looks at.
const SCAN_COUNT: usize = 1_000;
/// Queues of one shard that are reported at most. A queue per node of an app would be fewer.
const QUEUES_MAX: usize = 10_000;

impl RedisStore {
    /// The fleet at this moment.
    ///
    /// # Errors
    /// Redis does not answer, or refuses a command.
    pub async fn diagnose(&self) -> Result<Fleet, StoreError> {
        const DOING: &str = "looking at the fleet";
        let now = self.time().await?.millis();
        let mut settings = redis::cmd("HMGET");
        settings.arg(self.keys.meta()).arg("v").arg("shards");
        let (version, shards): (Option<u32>, Option<u16>) = self.connector.ask(DOING, &settings).await?;
        let mut knowing = redis::cmd("ZRANGE");
        knowing.arg(self.keys.knowing()).arg(0).arg(-1);
        let knowing: HashSet<String> = self.connector.ask(DOING, &knowing).await?;
        let shards = (0..shards.unwrap_or(0)).map(ShardId);
        let mut states = Vec::new();
        for shard in shards {
            states.push(self.shard_seen(shard, now).await?);
        }
        let mut queues = self.queues_seen(now).await?;
        // A worker that has taken no job of a queue yet is no consumer of it, but its record lists the queue.
        let living = store::Fleet::workers(self).await?;
        for state in &mut queues {
            let serving = living.iter().filter(|worker| worker.serves(&state.queue) == Some(true));
            state.readers.extend(serving.map(|worker| worker.name.clone()));
        }
        Ok(Fleet {
            is_new: version.is_none(),
            schedulers: self.live(self.keys.schedulers(), &knowing, now).await?,
            workers: self.live(self.keys.workers(), &knowing, now).await?,
            shards: states,
            queues,
            versions: (version.unwrap_or(VERSION), VERSION),
            patterns_refused: self.patterns_refused().await?,
            lacks: living.iter().flat_map(lacks).collect(),
            apps_off: self.apps_off().await?,
            removals: self.removals_under_way().await?.len(),
        })
    }

    /// The ids of apps that are off.
    async fn apps_off(&self) -> Result<Vec<String>, StoreError> {
        let mut off = store::Runs::apps(self).await?;
        let mut pipe = redis::Pipeline::with_capacity(off.len());
        for id in &off {
            pipe.cmd("HGET").arg(self.keys.app(id)).arg("state");
        }
        if pipe.is_empty() {
            return Ok(off);
        }
        let states: Vec<Option<String>> = self.connector.ask_all("reading the states of apps", &pipe).await?;
        let mut states = states.into_iter();
        off.retain(|_| states.next().flatten().as_deref() == Some(AppState::Off.name()));
        Ok(off)
    }

    /// The patterns of channels that this user may not subscribe to.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn patterns_refused(&self) -> Result<Vec<String>, StoreError> {
        let mut refused = Vec::new();
        let servers = self.connector.masters().await?;
        for pattern in [self.keys.ticks(), self.keys.cancels()] {
            let mut is_refused = false;
            for server in &servers {
                let mut pubsub = server.open_pubsub().await?;
                let subscribed = pubsub.psubscribe(&pattern).await;
                match subscribed.map_err(|error| self.connector.error("subscribing", &error)) {
                    Ok(()) => {}
                    Err(StoreError::Denied { .. }) => is_refused = true,
                    Err(error) => return Err(error),
                }
            }
            if is_refused {
                refused.push(pattern);
            }
        }
        Ok(refused)
    }

    async fn live(
        &self,
        key: String,
        knowing: &HashSet<String>,
        now: i64,
    ) -> Result<Vec<LiveProcess>, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let listed: Vec<(String, i64)> = self.connector.ask("listing live processes", &command).await?;
        let process = |(id, at): (String, i64)| LiveProcess {
            silent: age(now, at),
            is_current: knowing.contains(&id),
            id,
        };
        Ok(listed.into_iter().map(process).collect())
    }

    async fn shard_seen(&self, shard: ShardId, now: i64) -> Result<ShardState, StoreError> {
        const DOING: &str = "looking at a shard";
        let inbox = self.keys.inbox(shard);
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(self.keys.owner(shard));
        pipe.cmd("HGET").arg(self.keys.fence(shard)).arg("cursor");
        pipe.cmd("XLEN").arg(&inbox);
        let (owner, cursor, length): (Option<String>, Option<String>, u64) =
            self.connector.ask_all(DOING, &pipe).await?;
        let cursor = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(EntryId::ZERO);
        // Redis numbers the facts, so their ids begin with its time.
        let oldest = self.first_after(&inbox, cursor).await?;
        let fact_waits = oldest.map(|(id, _)| age(now, i64::try_from(id.major).unwrap_or(i64::MAX)));
        Ok(ShardState { shard, owner, cursor, fact_waits, inbox: length })
    }

    /// The first entry of a stream after this one: its id and the value of its field `run`.
    async fn first_after(
        &self,
        stream: &str,
        after: EntryId,
    ) -> Result<Option<(EntryId, String)>, StoreError> {
        const DOING: &str = "looking at the oldest entry of a stream";
        let mut command = redis::cmd("XRANGE");
        command.arg(stream).arg(format!("({after}")).arg("+").arg("COUNT").arg(1);
        let found: Value = self.connector.ask(DOING, &command).await?;
        let first = array(found).and_then(|entries| entry(entries.into_iter().next()?));
        Ok(first.map(|(id, mut fields)| (id, take(&mut fields, "run"))))
    }

    async fn queues_seen(&self, now: i64) -> Result<Vec<QueueState>, StoreError> {
        const DOING: &str = "looking for queues";
        let mut names = HashSet::new();
        for server in self.connector.masters().await? {
            let mut cursor = "0".to_string();
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(self.keys.all_jobs()).arg("COUNT").arg(SCAN_COUNT);
                scan.arg("TYPE").arg("stream");
                let found: Vec<String>;
                (cursor, found) = self.connector.ask_server(&server, DOING, &scan).await?;
                names.extend(found);
                if cursor == "0" || names.len() >= QUEUES_MAX {
                    break;
                }
            }
        }
        let mut states = Vec::new();
        for name in names {
            let Some((shard, queue)) = self.keys.shard_and_queue(&name) else { continue };
            states.push(self.queue_seen(shard, queue, now).await?);
        }
        states.sort_by(|a, b| (&a.queue, a.shard.0).cmp(&(&b.queue, b.shard.0)));
        Ok(states)
    }

    /// The state of the jobs of a queue on one shard.
    pub(super) async fn queue_seen(
        &self,
        shard: ShardId,
        queue: &str,
        now: i64,
    ) -> Result<QueueState, StoreError> {
        const DOING: &str = "looking at a queue";
        let stream = self.keys.jobs(shard, queue);
        let mut pipe = redis::Pipeline::with_capacity(3);
        // A queue that no worker has read yet has no group.
        pipe.ignore_errors();
        pipe.cmd("XLEN").arg(&stream);
        pipe.cmd("XINFO").arg("GROUPS").arg(&stream);
        pipe.cmd("XINFO").arg("CONSUMERS").arg(&stream).arg(GROUP);
        let answers: Vec<RedisResult<Value>> = self.connector.ask_all(DOING, &pipe).await?;
        let mut values = Vec::with_capacity(answers.len());
        for answer in answers {
            values.push(match answer {
                Ok(value) => value,
                Err(error) => match self.connector.error(DOING, &error) {
                    denied @ StoreError::Denied { .. } => return Err(denied),
                    _ => Value::Nil,
                },
            });
        }
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or(Value::Nil);
        let length = text(next()).and_then(|length| length.parse().ok()).unwrap_or(0u64);
        let groups = named(next());
        let readers = named(next());
        let group = groups.iter().find(|group| of(group, "name") == GROUP);
        // Entries are deleted with the result of their job, so an entry waits or is held.
        let held = group.and_then(|group| of(group, "pending").parse().ok()).unwrap_or(0u64);
        let taken = group.and_then(|group| of(group, "last-delivered-id").parse().ok());
        let oldest = self.first_after(&stream, taken.unwrap_or(EntryId::ZERO)).await?;
        // The ids of jobs are numbers of commits, so the time of the run is the best that is known.
        let begun = |(id, run): (EntryId, String)| OldestJob {
            entry: id,
            run_age: begun_at(&run).map(|at| age(now, at)),
            run,
        };
        Ok(QueueState {
            shard,
            queue: queue.to_string(),
            waiting: length.saturating_sub(held),
            held,
            oldest: oldest.map(begun),
            readers: readers.iter().map(|reader| of(reader, "name").to_string()).collect(),
        })
    }
}

fn lacks(worker: &store::LiveWorker) -> Vec<Lack> {
    let missing = worker.about.iter().flat_map(|about| &about.missing);
    let lack = |one: &Missing| Lack {
        worker: worker.name.clone(),
        need: one.need.to_string(),
        reason: one.reason.clone(),
    };
    missing.map(lack).collect()
}

/// Reads a list of field lists, as XINFO sends it.
fn named(value: Value) -> Vec<Vec<(String, String)>> {
    array(value).into_iter().flatten().filter_map(readable_pairs).collect()
}

/// As [`pairs`], without the fields whose values are no texts (`lag` may be null).
fn readable_pairs(value: Value) -> Option<Vec<(String, String)>> {
    let fields = array(value)?;
    let kept =
        fields.chunks_exact(2).filter(|pair| !matches!(pair.last(), Some(Value::Nil))).flatten().cloned();
    pairs(Value::Array(kept.collect()))
}

/// Returns the value of a field; empty when it is missing.
fn of<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Returns the time (ms) that a run's id begins with.
fn begun_at(run: &str) -> Option<i64> {
    let (seconds, nanos) = run.parse::<RunId>().ok()?.uuid().get_timestamp()?.to_unix();
    i64::try_from(seconds * 1_000 + u64::from(nanos) / 1_000_000).ok()
}

fn age(now: i64, at: i64) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or(0))
}
