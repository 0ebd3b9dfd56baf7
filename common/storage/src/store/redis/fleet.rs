//! [`Fleet`] over Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;

use super::RedisStore;
use super::connection::{Arg, args};
use super::keys::GROUP;
use super::shards::word;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{Fleet, JobHeld, JobPlace, LiveWorker, QueueState, Raised, ShardUse, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ShardId};
use tidemill_base::limits;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::SHARDS_NOTICED;
use tidemill_wire::worker::{self, AboutWorker};

/// The fields of a record.
const HELD: &str = "held";
const ABOUT: &str = "about";

#[async_trait]
impl Fleet for RedisStore {
    async fn note_worker(
        &self,
        name: &str,
        ttl: Duration,
        held: usize,
        about: Option<&AboutWorker>,
    ) -> Result<bool, StoreError> {
        let key = self.keys.worker(name);
        let mut pipe = redis::pipe();
        pipe.cmd("HSET").arg(&key).arg(HELD).arg(held);
        if let Some(about) = about {
            pipe.cmd("HSET").arg(&key).arg(ABOUT).arg(worker::to_json(about)).ignore();
        }
        pipe.cmd("PEXPIRE").arg(&key).arg(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)).ignore();
        let (added,): (u64,) = self.connector.ask_all("writing the record of a worker", &pipe).await?;
        Ok(added > 0)
    }

    async fn workers(&self) -> Result<Vec<LiveWorker>, StoreError> {
        const DOING: &str = "reading the list of workers";
        let mut list = redis::cmd("ZREVRANGE");
        list.arg(self.keys.workers()).arg(0).arg(limits::WORKERS_SHOWN_MAX - 1).arg("WITHSCORES");
        let listed: Vec<(String, f64)> = self.connector.ask(DOING, &list).await?;
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for (name, _) in &listed {
            pipe.cmd("HMGET").arg(self.keys.worker(name)).arg(HELD).arg(ABOUT);
        }
        let records: Vec<(Option<u64>, Option<String>)> = self.connector.ask_all(DOING, &pipe).await?;
        let one = |((name, seen), (held, about)): ((String, f64), (_, Option<String>))| LiveWorker {
            name,
            seen_at: Timestamp::from_millis(seen as i64),
            held,
            about: about.and_then(|text| worker::from_json(&text).ok()).map(Arc::new),
        };
        let mut workers: Vec<LiveWorker> = listed.into_iter().zip(records).map(one).collect();
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(workers)
    }

    async fn fingerprint_salt(&self, fresh: &str) -> Result<String, StoreError> {
        self.settle_once("reading the salt of fingerprints", "fingerprint_salt", fresh).await
    }

    async fn queue_names(&self) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("SRANDMEMBER");
        command.arg(self.keys.queues()).arg(limits::QUEUES_SHOWN_MAX);
        let mut names: Vec<String> = self.connector.ask("reading the names of queues", &command).await?;
        names.sort();
        Ok(names)
    }

    async fn queue_state(
        &self,
        shard: ShardId,
        queue: &str,
        asked: &[EntryId],
    ) -> Result<QueueState, StoreError> {
        const DOING: &str = "counting the jobs of a queue";
        // The script counts on from one job to the next.
        let mut sorted = asked.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut list = Vec::from(args![GROUP, limits::JOBS_COUNTED_MAX]);
        list.extend(sorted.iter().map(|entry| Arg::from(entry.to_string())));
        let keys = [self.keys.jobs(shard, queue)];
        let answer: Vec<Value> = self.connector.run(DOING, &self.scripts.queue_state, &keys, &list).await?;
        let mut answer = answer.into_iter();
        let mut count = || match answer.next() {
            Some(Value::Int(count)) => Ok(u64::try_from(count).unwrap_or(0)),
            Some(_) | None => Err(unexpected(DOING, "not a count")),
        };
        let (waiting, held) = (count()?, count()?);
        let time = |value: Option<Value>| {
            value.map(word).and_then(|micros| micros.parse().ok()).map(Timestamp::from_micros)
        };
        let oldest = time(answer.next());
        let mut places = Vec::with_capacity(sorted.len());
        while let Some(Value::Int(before)) = answer.next() {
            let held = match answer.next().map(word).unwrap_or_default().as_str() {
                "waits" => JobHeld::Waits,
                other => other.strip_prefix("held ").map_or(JobHeld::Gone, |name| JobHeld::By(name.into())),
            };
            let queued_at = time(answer.next());
            places.push(JobPlace { before: u64::try_from(before).unwrap_or(0), held, queued_at });
        }
        let of = |entry: &EntryId| {
            let at = sorted.binary_search(entry).ok();
            at.and_then(|at| places.get(at).cloned()).unwrap_or_default()
        };
        Ok(QueueState { waiting, held, oldest, places: asked.iter().map(of).collect() })
    }

    async fn shard_uses(&self, count: u16) -> Result<Vec<ShardUse>, StoreError> {
        const STATUSES: [RunStatus; 3] = [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused];
        let shards: Vec<ShardId> = (0..count).map(ShardId).collect();
        let mut pipe = redis::Pipeline::with_capacity(shards.len() * 6);
        for shard in &shards {
            pipe.cmd("GET").arg(self.keys.owner(*shard));
            for status in STATUSES {
                pipe.cmd("ZCARD").arg(self.keys.runs_of(*shard, status));
            }
            pipe.cmd("ZCARD").arg(self.keys.ended(*shard));
            pipe.cmd("XLEN").arg(self.keys.inbox(*shard));
        }
        let replies: Vec<Value> = self.connector.ask_all("looking at the shards", &pipe).await?;
        let number = |reply: Option<&Value>| match reply {
            Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let one = |(shard, replies): (&ShardId, &[Value])| ShardUse {
            shard: *shard,
            owner: replies.first().and_then(|owner| redis::from_redis_value_ref(owner).ok().flatten()),
            scheduled: number(replies.get(1)),
            running: number(replies.get(2)),
            paused: number(replies.get(3)),
            ended: number(replies.get(4)),
            inbox: number(replies.get(5)),
        };
        Ok(shards.iter().zip(replies.chunks(6)).map(one).collect())
    }

    async fn raise_shards(&self, to: u16) -> Result<Raised, StoreError> {
        const DOING: &str = "raising the number of shards";
        let list = args![to, SHARDS_NOTICED];
        let (word, number): (String, u32) =
            self.connector.run(DOING, &self.scripts.raise_shards, &[self.keys.meta()], &list).await?;
        let shards = u16::try_from(number).map_err(|_| unexpected(DOING, number.to_string()));
        match word.as_str() {
            "RAISED" => Ok(Raised::From(shards?)),
            "SAME" => Ok(Raised::Same),
            "LESS" => Ok(Raised::Less(shards?)),
            "OLDER" => Ok(Raised::OlderProcesses(number)),
            other => Err(unexpected(DOING, other)),
        }
    }
}

impl RedisStore {
    /// Notes names of queues that this process has not noted yet.
    pub(super) async fn note_queues(&self, names: &[Arc<str>]) -> Result<(), StoreError> {
        let new: Vec<&Arc<str>> = {
            let known = self.noted_queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            names.iter().filter(|name| !known.contains(*name)).collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("SADD");
        command.arg(self.keys.queues());
        for name in &new {
            command.arg(&***name);
        }
        let () = self.connector.ask("noting the names of queues", &command).await?;
        let mut known = self.noted_queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if known.len() < limits::QUEUES_SHOWN_MAX {
            known.extend(new.into_iter().cloned());
        }
        Ok(())
    }
}
