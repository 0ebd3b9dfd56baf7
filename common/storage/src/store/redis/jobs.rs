//! [`Jobs`] over Redis.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Pipeline, Value};

use super::RedisStore;
use super::connection::{Arg, args};
use super::job_reader::StreamReader;
use super::keys::GROUP;
use super::shard_readers::ShardReaders;
use super::shards::word;
use crate::store::redis::connection::pubsub::HintMessages;
use crate::store::redis::connection::replies::{array, entry, take, unexpected};
use crate::store::redis::connection::wire_connection::{Replies, Request, error_of};
use crate::store::{
    Accepted, App, AppRecords, Called, Catalog, Completion, Dead, Delivered, EntryBegin, EntryPut,
    EntryStored, Fleet, GiveLimit, Hints, JobReader, Jobs, JournalKey, KnowledgeBases, LimitTaken, Meta,
    Paused, PluginValue, PluginValuePut, PutEntry, RunOwner, Runs, Stale, StoreError, TakeLimit, TakeOver,
};
use tidemill_base::clock::{Clock, SystemClock};
use tidemill_base::ids::{BlobId, Delivery, EntryId, RunId, ShardId};
use tidemill_base::limits;

/// The most held entries that one call returns.
const HELD_MAX: usize = 10_000;

#[async_trait]
impl Jobs for RedisStore {
    fn knowledge(&self) -> &dyn KnowledgeBases {
        self
    }

    fn fleet(&self) -> &dyn Fleet {
        self
    }

    async fn namespace(&self) -> Result<Meta, StoreError> {
        Runs::meta(self).await
    }

    async fn accepts_writes(&self) -> Result<(), StoreError> {
        self.writable().await
    }

    async fn announce_worker(&self, consumer: &str, ttl: Duration) -> Result<usize, StoreError> {
        self.announce(&self.keys.workers(), consumer, ttl, "count").await
    }

    async fn retire_worker(&self, consumer: &str) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("ZREM").arg(self.keys.workers()).arg(consumer).ignore();
        pipe.cmd("UNLINK").arg(self.keys.worker(consumer)).ignore();
        self.connector.ask_all("leaving the list of workers", &pipe).await
    }

    async fn job_reader(&self, consumer: &str) -> Result<Box<dyn JobReader>, StoreError> {
        if self.connector.is_cluster() {
            return Ok(Box::new(ShardReaders::new(&self.connector, consumer, &self.sleepers)));
        }
        let reader = StreamReader::open(&self.connector, consumer, &self.keys.meta()).await?;
        Ok(Box::new(reader))
    }

    async fn held(&self, shard: ShardId, queue: &str, consumer: &str) -> Result<Vec<Delivered>, StoreError> {
        const DOING: &str = "reading the held jobs";
        let stream = self.keys.jobs(shard, queue);
        // XREADGROUP from 0 would count as another delivery.
        let mut command = redis::cmd("XPENDING");
        command.arg(&stream).arg(GROUP).arg("-").arg("+").arg(HELD_MAX).arg(consumer);
        let pending: Value = match self.connector.ask(DOING, &command).await {
            Ok(pending) => pending,
            // Without a group no consumer holds anything.
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
        let mut request = Request::default();
        for (run, kind, body) in facts {
            request.command("XADD", 8).word(&inbox).word("*").word("kind").word(*kind);
            request.word("run").word(run).word("fact").word(body);
        }
        let read = |mut replies: Replies<'_>| replies.pass(facts.len()).map_or(Ok(()), |e| Err(error_of(e)));
        self.connector.ask_line("reporting", &request, read).await
    }

    async fn complete(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        results: &[Completion],
    ) -> Result<Vec<Accepted>, StoreError> {
        const DOING: &str = "reporting results";
        let (Some(low), Some(high)) =
            (results.iter().map(|r| r.entry).min(), results.iter().map(|r| r.entry).max())
        else {
            return Ok(Vec::new());
        };
        let dead: Vec<_> =
            results.iter().map(|r| r.dead.as_ref().map(Dead::fields).unwrap_or_default()).collect();
        // Each with its list of blobs.
        let keys = 3 + results.iter().map(|r| r.blobs.len()).filter(|n| *n > 0).map(|n| n + 1).sum::<usize>();
        let beside = |r: &Completion, fields: usize| 6 + (r.blobs.len() + fields) * 2;
        let list: usize = results.iter().zip(&dead).map(|(r, dead)| beside(r, dead.len())).sum();
        let script = &self.scripts.complete_jobs;
        let mut request = Request::default();
        request.command("EVALSHA", 2 + keys + 6 + list).word(script.get_hash()).word(keys);
        request.word(self.keys.jobs(shard, queue)).word(self.keys.inbox(shard)).word(self.keys.dead(shard));
        for result in results.iter().filter(|result| !result.blobs.is_empty()) {
            request.word(self.keys.blobs(result.run));
            for (id, _) in &result.blobs {
                request.word(self.keys.blob(shard, id));
            }
        }
        request.word(GROUP).word(consumer).word(low).word(high).word(HELD_MAX).word(limits::DEAD_MAX);
        for (result, dead) in results.iter().zip(&dead) {
            request
                .word(result.entry)
                .word(result.number)
                .word(result.run)
                .word(result.kind)
                .word(&result.body);
            match (result.blobs.len(), dead.len()) {
                (0, 0) => request.word(""),
                (blobs, fields) => request.word(format!("{blobs} {fields}")),
            };
            for (id, size) in &result.blobs {
                request.word(id.as_str()).word(*size);
            }
            for (field, value) in dead {
                request.word(*field).word(value);
            }
        }
        let read = |mut replies: Replies<'_>| {
            let words = replies.list().unwrap_or(0);
            Ok((0..words).map_while(|_| replies.text().map(Cow::into_owned)).collect::<Vec<_>>())
        };
        let words = self.connector.ask_script(DOING, script, &request, read).await?;
        let accepted = |word: &String| match word.as_str() {
            "STORED" => Ok(Accepted::Stored),
            "STALE" => Ok(Accepted::NotYours),
            "NOBLOB" => Ok(Accepted::BlobMissing),
            other => Err(unexpected(DOING, other)),
        };
        words.iter().map(accepted).collect()
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
        for (shard, queue) in streams {
            pipe.cmd("XPENDING").arg(self.keys.jobs(*shard, queue)).arg(GROUP);
        }
        let count = |answer: Option<Value>| match answer {
            Some(Value::Array(parts)) => Ok(!matches!(parts.first(), Some(Value::Int(0)))),
            Some(_) => Err(unexpected(DOING, "not a count")),
            // A stream that was never read has no group, and a silent server of a cluster shows nothing.
            None => Ok(false),
        };
        self.connector.ask_some(DOING, &pipe).await?.into_iter().map(count).collect()
    }

    async fn stale(&self, streams: &[(ShardId, Arc<str>)], idle: Duration) -> Result<Stale, StoreError> {
        self.find_stale(streams, idle).await
    }

    async fn take_over(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
        jobs: &[TakeOver],
    ) -> Result<Vec<Delivered>, StoreError> {
        self.claim_stale(shard, queue, consumer, idle, jobs).await
    }

    async fn clear_suspects(&self, origin: &str) -> Result<(), StoreError> {
        self.clear_origin(origin).await
    }

    async fn forget_suspects(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<(), StoreError> {
        self.forget_records(shard, queue, entries).await
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
        let _: u64 = self.connector.run("returning jobs", &self.scripts.hand_back, &keys, &list).await?;
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
            self.connector.run("deleting consumers", &self.scripts.drop_consumers, &keys, &list).await;
        match done {
            Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOGROUP") => Ok(()),
            other => other.map(drop),
        }
    }

    async fn hints(&self) -> Result<Box<dyn Hints>, StoreError> {
        Ok(Box::new(HintMessages::open(&self.connector, &self.keys.cancels()).await?))
    }

    async fn begin_step(&self, of: &JournalKey, step: &str, another: bool) -> Result<EntryBegin, StoreError> {
        let word = if another { "next" } else { "" };
        self.begin(of, step, word, SystemClock.now().micros()).await
    }

    async fn park_step(&self, of: &JournalKey, step: &str) -> Result<(), StoreError> {
        self.begin(of, step, "park", SystemClock.now().micros()).await.map(drop)
    }

    async fn record_step(
        &self,
        of: &JournalKey,
        step: &str,
        result: &str,
        fact: (&'static str, &str),
        blobs: &[(BlobId, u64)],
    ) -> Result<EntryStored, StoreError> {
        self.record(of, step, result, fact, blobs).await
    }

    async fn paused(&self, run: RunId, pause: &str) -> Result<Paused, StoreError> {
        self.what_was_answered(run, pause).await
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

    async fn catalog_version(&self) -> Result<u64, StoreError> {
        self.version_of_catalog().await
    }

    async fn load_catalog(&self) -> Result<Catalog, StoreError> {
        self.read_catalog().await
    }

    async fn package(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_package(hash).await
    }

    async fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.value_of_plugin(plugin, key).await
    }

    async fn put_plugin_value(&self, put: PluginValue<'_>) -> Result<PluginValuePut, StoreError> {
        self.put_value_of_plugin(put).await
    }

    async fn put_call(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        self.put(put).await
    }

    async fn app_called(&self, wanted: &str) -> Result<Option<App>, StoreError> {
        if let Some(app) = self.app(wanted).await? {
            return Ok(Some(app));
        }
        let mut named = Vec::new();
        for id in self.apps().await? {
            let mut command = redis::cmd("HGET");
            command.arg(self.keys.app(&id)).arg("name");
            let name: Option<String> = self.connector.ask("looking up an app by name", &command).await?;
            named.extend(name.filter(|name| name == wanted).map(|_| id));
        }
        match named.as_slice() {
            [id] => self.app(id).await,
            _ => Ok(None),
        }
    }

    async fn note_files(&self, run: RunId) -> Result<bool, StoreError> {
        self.note_files_of(run).await
    }

    async fn owner_of_run(&self, run: RunId) -> Result<Option<RunOwner>, StoreError> {
        let found = self.fields_of_runs(&[run], &RunOwner::FIELDS).await?;
        found.first().map_or(Ok(None), RunOwner::of)
    }

    async fn wake(&self, reader: u64) -> Result<(), StoreError> {
        if self.connector.is_cluster() {
            self.sleepers.wake(&self.keys, reader);
            return Ok(());
        }
        let mut pipe = redis::pipe();
        pipe.atomic();
        wake(&mut pipe, &self.keys.probe(), reader);
        self.connector.ask_all::<()>("waking the reader of jobs", &pipe).await
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

/// Adds the commands that end the wait of a connection. Redis (7.0.15 and others) crashes when it unblocks one that waits for
/// the end of a pause, as in a planned fail-over. A transaction with a write waits for this end, too, so a write of a key that
/// nobody reads has to be in one transaction with it.
pub(super) fn wake(pipe: &mut Pipeline, unread: &str, connection: u64) {
    pipe.cmd("DEL").arg(unread).ignore();
    pipe.cmd("CLIENT").arg("UNBLOCK").arg(connection).arg("TIMEOUT").ignore();
}

pub(super) fn delivered(
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

/// Parses the reply of XPENDING with a range: the delivery count of each entry.
fn delivery_numbers(pending: Value) -> Vec<(EntryId, u32)> {
    let number = |value: Value| -> Option<(EntryId, u32)> {
        let mut parts = array(value)?.into_iter();
        let id = word(parts.next()?).parse().ok()?;
        Some((id, word(parts.nth(2)?).parse().ok()?))
    };
    array(pending).into_iter().flatten().filter_map(number).collect()
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
