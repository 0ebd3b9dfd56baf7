//! The store's door for whoever works.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use redis::aio::MultiplexedConnection;

use super::RedisStore;
use super::connection::{Arg, Connector, args};
use super::keys::{GROUP, Keys};
use super::pubsub::HintMessages;
use super::replies::{array, entry, pairs, streams, take, unexpected};
use super::shards::word;
use crate::clock::{Clock, SystemClock};
use crate::ids::{BlobId, Delivery, EntryId, RunId, ShardId};
use crate::limits;
use crate::store::{
    Accepted, Called, Completion, Dead, Delivered, GiveLimit, Hints, JobReader, Jobs, JournalOf, LimitTaken,
    Meta, Runs, StepBegin, StepKept, StoreError, TakeLimit,
};

/// Before the first pending entry.
const START: &str = "0-0";
/// Entries that one look at what a consumer holds tells at most.
const HELD_MAX: usize = 10_000;

#[async_trait]
impl Jobs for RedisStore {
    async fn namespace(&self) -> Result<Meta, StoreError> {
        Runs::meta(self).await
    }

    async fn announce_worker(&self, consumer: &str, ttl: Duration) -> Result<usize, StoreError> {
        Ok(self.announce(&self.keys.workers(), consumer, ttl).await?.len())
    }

    async fn retire_worker(&self, consumer: &str) -> Result<(), StoreError> {
        let mut command = redis::cmd("ZREM");
        command.arg(self.keys.workers()).arg(consumer);
        self.connector.ask("leaving the list of workers", &command).await
    }

    async fn job_reader(&self, consumer: &str) -> Result<Box<dyn JobReader>, StoreError> {
        let mut connection = self.connector.open(Duration::from_secs(10)).await?;
        let asked = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await;
        Ok(Box::new(StreamReader {
            id: asked.map_err(|e| self.connector.error("connecting", &e))?,
            connection,
            connector: self.connector.clone(),
            keys: self.keys.clone(),
            consumer: consumer.to_string(),
        }))
    }

    async fn held(&self, shard: ShardId, queue: &str, consumer: &str) -> Result<Vec<Delivered>, StoreError> {
        const DOING: &str = "reading what this worker holds";
        let stream = self.keys.jobs(shard, queue);
        // Not XREADGROUP from 0: that would count as another delivery.
        let mut command = redis::cmd("XPENDING");
        command.arg(&stream).arg(GROUP).arg("-").arg("+").arg(HELD_MAX).arg(consumer);
        let pending: Value = match self.connector.ask(DOING, &command).await {
            Ok(pending) => pending,
            // Without a group nobody holds anything.
            Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOGROUP") => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let numbers = delivery_numbers(pending);
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for (id, _) in &numbers {
            pipe.cmd("XRANGE").arg(&stream).arg(id.to_string()).arg(id.to_string());
        }
        let found: Vec<Value> = self.connector.ask_all(DOING, &pipe).await?;
        let queue: Arc<str> = queue.into();
        let job = |(value, (id, number)): (Value, (EntryId, u32))| {
            let (_, fields) = entry(array(value)?.pop()?)?;
            Some(delivered(shard, &queue, id, number, fields))
        };
        Ok(found.into_iter().zip(numbers).filter_map(job).collect())
    }

    async fn report(
        &self,
        shard: ShardId,
        facts: &[(RunId, &'static str, String)],
    ) -> Result<(), StoreError> {
        if facts.is_empty() {
            return Ok(());
        }
        let inbox = self.keys.inbox(shard);
        let mut pipe = redis::Pipeline::with_capacity(facts.len());
        for (run, kind, body) in facts {
            pipe.cmd("XADD").arg(&inbox).arg("*").arg("kind").arg(*kind);
            pipe.arg("run").arg(run.to_string()).arg("fact").arg(body).ignore();
        }
        self.connector.ask_all("reporting", &pipe).await
    }

    async fn complete(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        results: &[Completion],
    ) -> Result<Vec<Accepted>, StoreError> {
        const DOING: &str = "handing results in";
        let (Some(low), Some(high)) =
            (results.iter().map(|r| r.entry).min(), results.iter().map(|r| r.entry).max())
        else {
            return Ok(Vec::new());
        };
        let mut keys = vec![self.keys.jobs(shard, queue), self.keys.inbox(shard), self.keys.dead(shard)];
        let mut list =
            Vec::from(args![GROUP, consumer, low.to_string(), high.to_string(), HELD_MAX, limits::DEAD_MAX]);
        for result in results {
            if !result.blobs.is_empty() {
                keys.push(self.keys.blobs(result.run));
                keys.extend(result.blobs.iter().map(|(id, _)| self.keys.blob(shard, id)));
            }
            let dead = result.dead.as_ref().map(Dead::fields).unwrap_or_default();
            let beside = match (result.blobs.len(), dead.len()) {
                (0, 0) => String::new(),
                (blobs, fields) => format!("{blobs} {fields}"),
            };
            list.extend(args![
                result.entry.spell(),
                result.number,
                result.run.to_string(),
                result.kind,
                &result.body,
                beside,
            ]);
            for (id, size) in &result.blobs {
                list.extend([Arg::from(id.as_str()), Arg::from(*size)]);
            }
            list.extend(dead.into_iter().flat_map(|(field, value)| [Arg::from(field), Arg::from(value)]));
        }
        let words: Vec<String> = self.connector.run(DOING, &self.scripts.complete_jobs, &keys, &list).await?;
        words
            .iter()
            .map(|word| match word.as_str() {
                "STORED" => Ok(Accepted::Stored),
                "STALE" => Ok(Accepted::NotYours),
                "NOBLOB" => Ok(Accepted::BlobMissing),
                other => Err(unexpected(DOING, other)),
            })
            .collect()
    }

    async fn heartbeat(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError> {
        let keys = [self.keys.nothing(shard), self.keys.jobs(shard, queue)];
        let mut list = Vec::from(args![GROUP, consumer]);
        list.extend(entries.iter().map(|e| Arg::from(e.to_string())));
        let lost: Vec<String> =
            self.connector.run("renewing jobs", &self.scripts.heartbeat, &keys, &list).await?;
        Ok(lost.iter().filter_map(|e| e.parse().ok()).collect())
    }

    async fn are_held(&self, streams: &[(ShardId, Arc<str>)]) -> Result<Vec<bool>, StoreError> {
        const DOING: &str = "looking for held jobs";
        let mut pipe = redis::Pipeline::with_capacity(streams.len());
        // A stream that nobody has read yet has no group.
        pipe.ignore_errors();
        for (shard, queue) in streams {
            pipe.cmd("XPENDING").arg(self.keys.jobs(*shard, queue)).arg(GROUP);
        }
        let answers: Vec<redis::RedisResult<Value>> = self.connector.ask_all(DOING, &pipe).await?;
        let count = |answer: redis::RedisResult<Value>| match answer {
            Ok(Value::Array(parts)) => Ok(!matches!(parts.first(), Some(Value::Int(0)))),
            Ok(_) => Err(unexpected(DOING, "no count")),
            Err(error) if error.code() == Some("NOGROUP") => Ok(false),
            Err(error) => Err(self.connector.error(DOING, &error)),
        };
        answers.into_iter().map(count).collect()
    }

    async fn take_over(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
        count: usize,
    ) -> Result<Vec<Delivered>, StoreError> {
        let stream = self.keys.jobs(shard, queue);
        let queue: Arc<str> = queue.into();
        let from = self.scan_from().get(&stream).cloned().unwrap_or_else(|| START.into());
        let began_inside = from != START;
        let (mut next, mut jobs) = self.claim_idle(shard, &queue, consumer, idle, count, from).await?;
        if next == START && began_inside && jobs.len() < count {
            // The end was reached with room left: the rest of the round is the beginning.
            let left = count - jobs.len();
            let more;
            (next, more) = self.claim_idle(shard, &queue, consumer, idle, left, START.into()).await?;
            jobs.extend(more);
        }
        self.scan_from().insert(stream, next);
        Ok(jobs)
    }

    async fn hand_back(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[(EntryId, u32)],
    ) -> Result<(), StoreError> {
        let keys = [self.keys.nothing(shard), self.keys.jobs(shard, queue), self.keys.cancel(shard)];
        let mut list = Vec::from(args![GROUP, consumer, Delivery::HAND_BACK]);
        for (entry, number) in entries {
            list.extend([Arg::from(entry.to_string()), Arg::from(*number)]);
        }
        let _: u64 = self.connector.run("giving jobs back", &self.scripts.hand_back, &keys, &list).await?;
        Ok(())
    }

    async fn drop_consumers(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
    ) -> Result<(), StoreError> {
        let keys = [self.keys.nothing(shard), self.keys.jobs(shard, queue)];
        let list = args![GROUP, consumer, idle.as_millis()];
        let done: Result<u64, StoreError> =
            self.connector.run("forgetting consumers", &self.scripts.drop_consumers, &keys, &list).await;
        match done {
            Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOGROUP") => Ok(()),
            other => other.map(drop),
        }
    }

    async fn hints(&self) -> Result<Box<dyn Hints>, StoreError> {
        Ok(Box::new(HintMessages::open(&self.connector, &self.keys.cancels()).await?))
    }

    async fn begin_step(&self, of: &JournalOf, step: &str, another: bool) -> Result<StepBegin, StoreError> {
        self.begin(of, step, another, SystemClock.now().micros()).await
    }

    async fn record_step(
        &self,
        of: &JournalOf,
        step: &str,
        result: &str,
        fact: (&'static str, &str),
    ) -> Result<StepKept, StoreError> {
        self.record(of, step, result, fact).await
    }

    async fn called(&self, caller: RunId, run: RunId) -> Result<Called, StoreError> {
        self.what_was_called(caller, run).await
    }

    async fn take_limit(&self, take: TakeLimit<'_>) -> Result<LimitTaken, StoreError> {
        self.take_turn(take).await
    }

    async fn give_limit(&self, give: GiveLimit<'_>) -> Result<u32, StoreError> {
        self.give_turn(give).await
    }

    async fn note_files(&self, run: RunId) -> Result<bool, StoreError> {
        let keys = [self.keys.run(run), self.keys.files(run.shard())];
        let args = args![run.to_string()];
        let word: String =
            self.connector.run("noting that a run has files", &self.scripts.note_files, &keys, &args).await?;
        Ok(word == "NOTED")
    }

    async fn wake(&self, reader: u64) -> Result<(), StoreError> {
        let mut command = redis::cmd("CLIENT");
        command.arg("UNBLOCK").arg(reader).arg("TIMEOUT");
        self.connector.ask("waking the reader of jobs", &command).await
    }

    async fn graph_document(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        self.get_graph(shard, hash).await
    }

    async fn load_blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        self.get_blob(shard, id).await
    }

    async fn store_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        self.set_blob(shard, id, text).await
    }
}

impl RedisStore {
    /// Claims what was silent, from a place in the list of pending entries on; answers where to go on.
    async fn claim_idle(
        &self,
        shard: ShardId,
        queue: &Arc<str>,
        consumer: &str,
        idle: Duration,
        count: usize,
        from: String,
    ) -> Result<(String, Vec<Delivered>), StoreError> {
        const DOING: &str = "looking for abandoned jobs";
        let keys = [self.keys.nothing(shard), self.keys.jobs(shard, queue)];
        let list = args![GROUP, consumer, idle.as_millis(), from, count];
        let answer = self.connector.run(DOING, &self.scripts.take_over, &keys, &list).await;
        let answer: Vec<Value> = match answer {
            Ok(answer) => answer,
            // No group yet: nobody has read this stream, so nothing was abandoned.
            Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOGROUP") => {
                return Ok((START.into(), Vec::new()));
            }
            Err(error) => return Err(error),
        };
        let mut answer = answer.into_iter();
        let next = answer.next().map(word).filter(|next| !next.is_empty()).unwrap_or_else(|| START.into());
        let job = |value: Value| -> Option<Delivered> {
            let mut parts = array(value)?.into_iter();
            let id = word(parts.next()?).parse().ok()?;
            let number = word(parts.next()?).parse().ok()?;
            Some(delivered(shard, queue, id, number, pairs(parts.next()?)?))
        };
        Ok((next, answer.filter_map(job).collect()))
    }

    fn scan_from(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.scan_from.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delivered(
    shard: ShardId,
    queue: &Arc<str>,
    entry: EntryId,
    number: u32,
    mut fields: Vec<(String, String)>,
) -> Delivered {
    Delivered {
        shard,
        queue: queue.clone(),
        entry,
        number,
        run: take(&mut fields, "run"),
        body: take(&mut fields, "job"),
    }
}

/// The reply of XPENDING with a range: which handing-out each entry is.
fn delivery_numbers(pending: Value) -> Vec<(EntryId, u32)> {
    let number = |value: Value| -> Option<(EntryId, u32)> {
        let mut parts = array(value)?.into_iter();
        let id = word(parts.next()?).parse().ok()?;
        Some((id, word(parts.nth(2)?).parse().ok()?))
    };
    array(pending).into_iter().flatten().filter_map(number).collect()
}

/// Reads jobs for one consumer.
struct StreamReader {
    /// Of the connection at the server.
    id: u64,
    connection: MultiplexedConnection,
    connector: Connector,
    keys: Keys,
    consumer: String,
}

impl StreamReader {
    async fn ask(
        &mut self,
        wanted: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<Value, redis::RedisError> {
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(count);
        if !block.is_zero() {
            command.arg("BLOCK").arg(block.as_millis().max(1) as u64);
        }
        command.arg("STREAMS");
        wanted.iter().for_each(|(shard, queue)| {
            command.arg(self.keys.jobs(*shard, queue));
        });
        wanted.iter().for_each(|_| {
            command.arg(">");
        });
        command.query_async(&mut self.connection).await
    }

    /// Makes the groups that are not there, from the stream's beginning: nothing that lies there may be passed over.
    async fn make_groups(&mut self, wanted: &[(ShardId, Arc<str>)]) -> Result<(), StoreError> {
        for (shard, queue) in wanted {
            let mut command = redis::cmd("XGROUP");
            command.arg("CREATE").arg(self.keys.jobs(*shard, queue)).arg(GROUP).arg("0").arg("MKSTREAM");
            let made: Result<(), _> = command.query_async(&mut self.connection).await;
            match made {
                Ok(()) => {}
                Err(error) if error.code() == Some("BUSYGROUP") => {}
                Err(error) => return Err(self.connector.error("making a consumer group", &error)),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl JobReader for StreamReader {
    fn id(&self) -> u64 {
        self.id
    }

    async fn read(
        &mut self,
        wanted: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError> {
        const DOING: &str = "reading jobs";
        let mut answer = self.ask(wanted, count, block).await;
        if answer.as_ref().is_err_and(|e| e.code() == Some("NOGROUP")) {
            self.make_groups(wanted).await?;
            answer = self.ask(wanted, count, block).await;
        }
        let value = answer.map_err(|e| self.connector.error(DOING, &e))?;
        let streams = streams(value).ok_or_else(|| unexpected(DOING, "no streams"))?;
        let mut jobs = Vec::new();
        for (name, entries) in streams {
            let Some((shard, queue)) = wanted.iter().find(|(s, q)| self.keys.jobs(*s, q) == name) else {
                continue;
            };
            jobs.extend(entries.into_iter().map(|(id, fields)| delivered(*shard, queue, id, 1, fields)));
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_entries_tell_their_delivery_numbers() {
        let text = |t: &str| Value::BulkString(t.as_bytes().to_vec());
        let pending =
            Value::Array(vec![Value::Array(vec![text("5-1"), text("w"), Value::Int(9), Value::Int(3)])]);
        assert_eq!(delivery_numbers(pending), [(EntryId::new(5, 1), 3)]);
        assert!(entry(Value::Array(vec![text("5-1"), Value::Nil])).is_none());
    }
}
