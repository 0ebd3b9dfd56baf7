//! [`Shards`] over Redis.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{FromRedisValue, Value};

use super::RedisStore;
use super::commit::RedisOwner;
use super::connection::{Arg, Connector, args};
use crate::store::labels::{LABELS_FIELD, label_ids};
use crate::store::redis::connection::replies::{Entry, entry, take, text, unexpected};
use crate::store::redis::connection::wire_connection::{Line, Replies, Request, entries};
use crate::store::{Claim, Due, FactReader, Indexed, Memory, Owner, RawFact, Shards, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::crash::{self, CrashPoint};
use tidemill_base::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::state::AtRest;
use tidemill_wire::state::messages::{OBJECTS_FIELD, parts};

/// The most blobs that one call of the sweep removes.
const SWEEP_BLOBS: usize = 100;
/// The idle time that only returned jobs reach: their last sign of life is set to the epoch.
const RETURNED: Duration = Duration::from_secs(365 * 24 * 3600);
/// The most facts remembered as being tried.
const TRYING_MAX: isize = 64;

#[async_trait]
impl Shards for RedisStore {
    async fn announce_scheduler(&self, id: &str, ttl: Duration) -> Result<Vec<String>, StoreError> {
        let mut live: Vec<String> = self.announce(&self.keys.schedulers(), id, ttl, "ids").await?;
        live.sort();
        Ok(live)
    }

    async fn raise_version(&self) -> Result<u32, StoreError> {
        const DOING: &str = "raising the version of the namespace";
        let keys = &self.keys;
        let keys = [keys.meta(), keys.schedulers(), keys.workers(), keys.knowing()];
        self.connector.run(DOING, &self.scripts.raise_version, &keys, &args![tidemill_wire::VERSION]).await
    }

    async fn retire_scheduler(&self, id: &str) -> Result<(), StoreError> {
        let mut command = redis::cmd("ZREM");
        command.arg(self.keys.schedulers()).arg(id);
        self.connector.ask("leaving the list of schedulers", &command).await
    }

    async fn holder(&self, shard: ShardId) -> Result<Option<String>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.owner(shard));
        self.connector.ask("reading the owner of a shard", &command).await
    }

    async fn claim(
        &self,
        shard: ShardId,
        id: &str,
        lease: Duration,
    ) -> Result<Option<Box<dyn Owner>>, StoreError> {
        const DOING: &str = "claiming a shard";
        let k = &self.keys;
        let keys = [k.nothing(shard), k.owner(shard), k.fence(shard), k.inbox(shard), k.trying(shard)];
        let args = args![id, lease.as_millis()];
        let answer: Vec<String> = self.connector.run(DOING, &self.scripts.claim_shard, &keys, &args).await?;
        if answer.first().map(String::as_str) != Some("TAKEN") {
            return Ok(None);
        }
        let part = |at: usize| answer.get(at).map(String::as_str).unwrap_or("");
        let number = |at: usize| part(at).parse::<u64>().map_err(|_| unexpected(DOING, "not a number"));
        let claim = Claim {
            shard,
            epoch: number(1)?,
            commit: number(2)?,
            cursor: part(3).parse().map_err(|_| unexpected(DOING, "the cursor is not an entry id"))?,
            takeovers: u32::try_from(number(4)?).unwrap_or(u32::MAX),
            trying: answer.iter().skip(5).filter_map(|e| e.parse().ok()).collect(),
        };
        let owner = RedisOwner::open(self, claim, id).await?;
        Ok(owner.map(|owner| Box::new(owner) as Box<dyn Owner>))
    }

    async fn renew(&self, shards: &[ShardId], id: &str, lease: Duration) -> Result<Vec<ShardId>, StoreError> {
        // All at once, and each by itself: in a cluster one server that does not answer must not cost the leases of the
        // shards on others.
        let mut renewed: FuturesUnordered<_> =
            shards.iter().map(|&shard| self.renew_one(shard, id, lease)).collect();
        let until = tokio::time::Instant::now() + lease / 4;
        let (mut lost, mut failed, mut is_any) = (Vec::new(), None, false);
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, renewed.next()).await {
            match answer {
                Ok((shard, is_kept)) => {
                    is_any = true;
                    lost.extend((!is_kept).then_some(shard));
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if !is_any => Err(error),
            None if !is_any && !shards.is_empty() => Err(StoreError::Unreachable {
                address: self.connector.address.to_string(),
                doing: RENEWING,
                reason: format!("no answer within {:?}", lease / 4),
            }),
            Some(_) | None => Ok(lost),
        }
    }

    async fn release(&self, shard: ShardId, id: &str) -> Result<(), StoreError> {
        let keys = [self.keys.owner(shard), self.keys.fence(shard)];
        let _: String = self
            .connector
            .run("releasing a shard", &self.scripts.release_shard, &keys, &[Arg::from(id)])
            .await?;
        Ok(())
    }

    async fn reader(&self, shard: ShardId) -> Result<Box<dyn FactReader>, StoreError> {
        Ok(Box::new(InboxReader {
            line: self.connector.open_line(&self.keys.inbox(shard)).await?,
            request: Request::default(),
            connector: self.connector.clone(),
            key: self.keys.inbox(shard),
        }))
    }

    async fn load_run(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        self.at_rest(run).await
    }

    async fn load_graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        self.get_graph(shard, hash).await
    }

    async fn due(
        &self,
        shard: ShardId,
        facts: Option<(EntryId, usize)>,
        now: Timestamp,
        timers: usize,
    ) -> Result<Due, StoreError> {
        type Scored = Vec<(String, f64)>;
        const DOING: &str = "reading due timers";
        let (key, until) = (self.keys.timers(shard), now.millis());
        let mut pipe = redis::pipe();
        if let Some((after, count)) = facts {
            let from = EntryId::new(after.major, after.minor.saturating_add(1)).to_string();
            pipe.cmd("XRANGE").arg(self.keys.inbox(shard)).arg(from).arg("+").arg("COUNT").arg(count);
        }
        pipe.cmd("ZRANGEBYSCORE").arg(&key).arg("-inf").arg(until).arg("WITHSCORES");
        pipe.arg("LIMIT").arg(0).arg(timers);
        pipe.cmd("ZRANGEBYSCORE").arg(&key).arg(format!("({until}")).arg("+inf").arg("WITHSCORES");
        pipe.arg("LIMIT").arg(0).arg(1);
        let (entries, due, later): (Vec<Value>, Scored, Scored) = match facts {
            Some(_) => self.connector.ask_all(DOING, &pipe).await?,
            None => {
                let (due, later) = self.connector.ask_all(DOING, &pipe).await?;
                (Vec::new(), due, later)
            }
        };
        let is_cut = due.len() >= timers;
        let due: Vec<_> = due.into_iter().map(|(member, at)| (from_score(at), member)).collect();
        let next = if is_cut { due.last().map(|(at, _)| *at) } else { None };
        Ok(Due {
            facts: entries.into_iter().filter_map(entry).map(fact).collect(),
            timers: due,
            next: next.or_else(|| later.first().map(|(_, at)| from_score(*at))),
        })
    }

    async fn next_timer(&self, shard: ShardId) -> Result<Option<Timestamp>, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.keys.timers(shard)).arg(0).arg(0).arg("WITHSCORES");
        let first: Vec<(String, f64)> = self.connector.ask("reading the next timer", &command).await?;
        Ok(first.first().map(|(_, at)| from_score(*at)))
    }

    async fn note_trying(&self, shard: ShardId, facts: &[EntryId]) -> Result<(), StoreError> {
        let key = self.keys.trying(shard);
        let mut pipe = redis::pipe();
        for fact in facts {
            pipe.cmd("RPUSH").arg(&key).arg(fact.to_string()).ignore();
        }
        pipe.cmd("LTRIM").arg(&key).arg(-TRYING_MAX).arg(-1).ignore();
        self.connector.ask_all("noting a fact", &pipe).await
    }

    async fn trim_inbox(&self, shard: ShardId, epoch: u64) -> Result<(), StoreError> {
        let k = &self.keys;
        let keys = [k.nothing(shard), k.fence(shard), k.inbox(shard)];
        let _: String =
            self.connector.run("trimming an inbox", &self.scripts.trim_inbox, &keys, &args![epoch]).await?;
        Ok(())
    }

    async fn open_runs(
        &self,
        shard: ShardId,
        from: usize,
        count: usize,
    ) -> Result<(Vec<RunId>, Option<usize>), StoreError> {
        const DOING: &str = "listing open runs";
        let open = [RunStatus::Running, RunStatus::Scheduled];
        let keys = open.map(|status| self.keys.runs_of(shard, status));
        let mut pipe = redis::pipe();
        keys.iter().for_each(|key| {
            pipe.cmd("ZCARD").arg(key);
        });
        let lengths: Vec<usize> = self.connector.ask_all(DOING, &pipe).await?;
        // Page over the indexes as if they were one list.
        let (mut ids, mut skip): (Vec<String>, usize) = (Vec::new(), from);
        for (key, length) in keys.iter().zip(lengths) {
            if skip >= length || ids.len() >= count {
                skip = skip.saturating_sub(length);
                continue;
            }
            let mut command = redis::cmd("ZRANGE");
            command.arg(key).arg(skip).arg(skip + count - ids.len() - 1);
            ids.extend(self.connector.ask::<Vec<String>>(DOING, &command).await?);
            skip = 0;
        }
        let next = (ids.len() == count).then_some(from + count);
        Ok((ids.iter().filter_map(|id| id.parse().ok()).collect(), next))
    }

    async fn idle_of(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<Option<Duration>>, StoreError> {
        const DOING: &str = "looking for signs of life of workers";
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.keys.jobs(shard, queue);
        let mut pipe = redis::Pipeline::with_capacity(entries.len());
        // A stream that was never read has no group.
        pipe.ignore_errors();
        for entry in entries {
            let entry = entry.to_string();
            pipe.cmd("XPENDING").arg(&key).arg(super::keys::GROUP).arg(&entry).arg(&entry).arg(1);
        }
        /// Entry, consumer, milliseconds without a sign of life, deliveries.
        type Held = (String, String, u64, u64);
        let answers: Vec<redis::RedisResult<Vec<Held>>> = self.connector.ask_all(DOING, &pipe).await?;
        let idle = |answer: redis::RedisResult<Vec<Held>>| match answer {
            Ok(held) => {
                let idle = held.first().map(|(_, _, ms, _)| Duration::from_millis(*ms));
                // The last sign of life of a returned job is set to the epoch.
                Ok(idle.filter(|idle| *idle < RETURNED))
            }
            Err(error) if error.code() == Some("NOGROUP") => Ok(None),
            Err(error) => Err(self.connector.error(DOING, &error)),
        };
        answers.into_iter().map(idle).collect()
    }

    async fn lost_jobs(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let keys = [self.keys.jobs(shard, queue)];
        let mut list = Vec::from(args![super::keys::GROUP]);
        list.extend(entries.iter().map(|entry| Arg::from(entry.to_string())));
        let lost: Vec<String> =
            self.connector.run("looking for lost jobs", &self.scripts.lost_jobs, &keys, &list).await?;
        Ok(lost.iter().filter_map(|entry| entry.parse().ok()).collect())
    }

    async fn sweep(
        &self,
        shard: ShardId,
        epoch: u64,
        ended_before: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(self.keys.ended(shard)).arg("-inf").arg(format!("({}", ended_before.micros()));
        command.arg("LIMIT").arg(0).arg(count);
        let due: Vec<String> = self.connector.ask("looking for runs to remove", &command).await?;
        let mut swept = 0;
        for id in &due {
            match id.parse() {
                Ok(run) => {
                    crash::pass(CrashPoint::SweepBegun);
                    if !self.sweep_run(run, epoch).await? {
                        break;
                    }
                    crash::pass(CrashPoint::SweepDone);
                    swept += 1;
                }
                Err(_) => tracing::warn!(%shard, id, "the index of ended runs holds an invalid run id"),
            }
        }
        Ok(swept)
    }

    async fn index_runs(
        &self,
        shard: ShardId,
        epoch: u64,
        now: Timestamp,
        count: usize,
    ) -> Result<Indexed, StoreError> {
        self.index_some_runs(shard, epoch, now, count).await
    }

    async fn tidy_labels(&self, shard: ShardId, count: usize) -> Result<(), StoreError> {
        self.tidy_some_labels(shard, count).await
    }

    async fn settle_early_files(
        &self,
        shard: ShardId,
        noted_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        self.settle_early(shard, noted_by, count).await
    }

    async fn files_left(&self, shard: ShardId, count: usize) -> Result<Vec<RunId>, StoreError> {
        let mut command = redis::cmd("SRANDMEMBER");
        command.arg(self.keys.files_left(shard)).arg(count);
        let ids: Vec<String> = self.connector.ask("looking for files to remove", &command).await?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }

    async fn files_gone(&self, run: RunId) -> Result<(), StoreError> {
        let mut command = redis::cmd("SREM");
        command.arg(self.keys.files_left(run.shard())).arg(run.to_string());
        self.connector.ask("noting that files are removed", &command).await
    }

    async fn expire_blobs(
        &self,
        shard: ShardId,
        ended_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        const DOING: &str = "setting the time to live of large values";
        let (from, ended) = (self.keys.expired(shard), self.keys.ended(shard));
        let mut read = redis::cmd("GET");
        read.arg(&from);
        let after: Option<String> = self.connector.ask(DOING, &read).await?;
        let after = after.map_or("-inf".to_string(), |after| format!("({after}"));
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(&ended).arg(after).arg(ended_by.micros()).arg("WITHSCORES");
        command.arg("LIMIT").arg(0).arg(count);
        let due: Vec<(String, f64)> = self.connector.ask(DOING, &command).await?;
        let Some((_, last)) = due.last().cloned() else { return Ok(0) };
        // Runs of one commit end at the same time. Take all of them, or the next call would skip some.
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(&ended).arg(last).arg(last);
        let together: Vec<String> = self.connector.ask(DOING, &command).await?;
        let mut runs: Vec<String> = due.into_iter().filter(|(_, at)| *at < last).map(|(id, _)| id).collect();
        runs.extend(together);
        for run in runs.iter().filter_map(|id| id.parse::<RunId>().ok()) {
            self.expire_blobs_of(run).await?;
        }
        let mut write = redis::cmd("SET");
        // Microseconds, below the 53 bits that a score keeps exactly.
        write.arg(&from).arg(last as i64);
        self.connector.ask::<()>(DOING, &write).await?;
        Ok(runs.len())
    }

    async fn trim_jobs(&self, shard: ShardId, queue: &str) -> Result<(), StoreError> {
        let keys = [self.keys.nothing(shard), self.keys.jobs(shard, queue)];
        let args = args![super::keys::GROUP];
        let cut: u64 = self.connector.run("trimming a queue", &self.scripts.trim_jobs, &keys, &args).await?;
        if cut > 0 {
            tracing::warn!(%shard, queue, cut, "removed jobs that were acknowledged but not deleted");
        }
        Ok(())
    }

    async fn memory(&self, shard: ShardId) -> Result<Memory, StoreError> {
        const DOING: &str = "reading the memory use";
        const FRESH: Duration = Duration::from_millis(500);
        let server = self.connector.server_of(&self.keys.fence(shard)).await?;
        let known = self.memory.lock().unwrap_or_else(PoisonError::into_inner).get(server.address()).copied();
        if let Some((_, memory)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(memory);
        }
        let mut command = redis::cmd("INFO");
        command.arg("memory");
        let info: String = self.connector.ask_server(&server, DOING, &command).await?;
        let number = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let memory =
            Memory { used: number("used_memory"), max: Some(number("maxmemory")).filter(|max| *max > 0) };
        let mut known = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(server.address().clone(), (std::time::Instant::now(), memory));
        Ok(memory)
    }

    async fn time_at(&self, shard: ShardId) -> Result<Timestamp, StoreError> {
        let server = self.connector.server_of(&self.keys.fence(shard)).await?;
        let time = self.connector.ask_server(&server, "reading the time", &redis::cmd("TIME")).await?;
        let (seconds, micros): (i64, i64) = time;
        Ok(Timestamp::from_micros(seconds * 1_000_000 + micros))
    }

    async fn inbox_len(&self, shard: ShardId) -> Result<u64, StoreError> {
        let mut command = redis::cmd("XLEN");
        command.arg(self.keys.inbox(shard));
        self.connector.ask("measuring an inbox", &command).await
    }
}

fn fact((entry, mut fields): Entry) -> RawFact {
    let [kind, run, body] = ["kind", "run", "fact"].map(|name| take(&mut fields, name));
    RawFact::read(entry, &kind, &run, body)
}

fn from_score(score: f64) -> Timestamp {
    // Milliseconds, far below the 53 bits that a score keeps exactly.
    Timestamp::from_millis(score as i64)
}

const RENEWING: &str = "renewing a lease";

impl RedisStore {
    /// Renews the lease of a shard; whether it is kept.
    async fn renew_one(
        &self,
        shard: ShardId,
        id: &str,
        lease: Duration,
    ) -> Result<(ShardId, bool), StoreError> {
        let keys = [self.keys.nothing(shard), self.keys.owner(shard)];
        let args = args![id, lease.as_millis()];
        let word: String = self.connector.run(RENEWING, &self.scripts.renew_shard, &keys, &args).await?;
        Ok((shard, word == "KEPT"))
    }

    /// Adds an id to a list of live processes, by the server's time; returns the ids on it, or their number.
    pub(super) async fn announce<T: FromRedisValue>(
        &self,
        key: &str,
        id: &str,
        ttl: Duration,
        wanted: &str,
    ) -> Result<T, StoreError> {
        let (keys, args) = ([key.to_string(), self.keys.knowing()], args![id, ttl.as_millis(), wanted]);
        self.connector.run("announcing a process", &self.scripts.announce, &keys, &args).await
    }

    async fn expire_blobs_of(&self, run: RunId) -> Result<(), StoreError> {
        const DOING: &str = "setting the time to live of large values";
        let mut cursor = "0".to_string();
        loop {
            let mut names = redis::pipe();
            names.cmd("HSCAN").arg(self.keys.blobs(run)).arg(&cursor).arg("COUNT").arg(SWEEP_BLOBS);
            if cursor == "0" {
                // They live as long as their run may be paused, and not much longer than the run.
                for key in [self.keys.journal(run), self.keys.calls(run)] {
                    names.cmd("EXPIRE").arg(key).arg(self.ttl_seconds()).ignore();
                }
            }
            let pairs: Vec<String>;
            ((cursor, pairs),) = self.connector.ask_all(DOING, &names).await?;
            if !pairs.is_empty() {
                let mut pipe = redis::pipe();
                for name in pairs.iter().step_by(2) {
                    let key = self.keys.blob(run.shard(), &BlobId::from(name.as_str()));
                    pipe.cmd("EXPIRE").arg(key).arg(self.ttl_seconds()).ignore();
                }
                self.connector.ask_all::<()>(DOING, &pipe).await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Removes one run, its blobs in bounded parts; `false` when the shard is no longer ours.
    async fn sweep_run(&self, run: RunId, epoch: u64) -> Result<bool, StoreError> {
        let (k, shard) = (&self.keys, run.shard());
        let mut head = redis::cmd("HMGET");
        head.arg(k.run(run)).arg("version").arg("status").arg(OBJECTS_FIELD).arg("app").arg(LABELS_FIELD);
        let known: [Option<String>; 5] = self.connector.ask("reading a run to remove", &head).await?;
        let [version, status, messages, app, labels] = known;
        let labels = label_ids(labels.as_deref());
        let hash = version.unwrap_or_default();
        let mut cursor = "0".to_string();
        let messages = messages.unwrap_or_default();
        let messages: Vec<String> = parts(&messages).map(|part| k.object(run, part)).collect();
        let status = status.and_then(|s| RunStatus::from_name(&s)).unwrap_or(RunStatus::Succeeded);
        loop {
            let mut names = redis::cmd("HSCAN");
            names.arg(k.blobs(run)).arg(&cursor).arg("COUNT").arg(SWEEP_BLOBS);
            let pairs: Vec<String>;
            (cursor, pairs) = self.connector.ask("listing blobs to remove", &names).await?;
            let names: Vec<BlobId> = pairs.iter().step_by(2).map(|n| BlobId::from(n.as_str())).collect();
            // A part may hold few blobs or none and still not be the last: only the cursor tells.
            let last = cursor == "0";
            let mut keys = vec![
                k.nothing(shard),
                k.fence(shard),
                k.ended(shard),
                k.runs(shard),
                k.runs_of(shard, status),
                k.graphs(shard),
                k.graph(shard, &hash),
            ];
            keys.extend(k.all_of(run));
            keys.extend([k.journal(run), k.ledger(run), k.calls(run)]);
            keys.extend([k.files(shard), k.files_left(shard)]);
            keys.push(k.runs_of_app(shard, app.as_deref()).unwrap_or_else(|| k.runs(shard)));
            if !labels.is_empty() {
                keys.push(k.labels(shard));
                keys.extend(labels.iter().map(|label| k.runs_of_label(shard, label)));
            }
            keys.extend(if last { &messages[..] } else { &[] }.iter().cloned());
            keys.extend(names.iter().map(|name| k.blob(shard, name)));
            let part = if last { "last" } else { "more" };
            let mut list = Vec::from(args![epoch, run.to_string(), &hash, part, labels.join(" ")]);
            list.extend(names.iter().map(|name| Arg::from(name.as_str())));
            let word: String =
                self.connector.run("removing a run", &self.scripts.sweep_run, &keys, &list).await?;
            match word.as_str() {
                "SWEPT" => {
                    self.known_graphs().remove(&(shard, hash));
                    return Ok(true);
                }
                "STALE" => return Ok(false),
                _ => {}
            }
        }
    }
}

/// Reads an inbox by cursor; needs no consumer group, since the owner is its only reader.
struct InboxReader {
    line: Line,
    /// Reused for its buffer.
    request: Request,
    connector: Connector,
    key: String,
}

#[async_trait]
impl FactReader for InboxReader {
    async fn read(
        &mut self,
        after: EntryId,
        count: usize,
        block: Duration,
    ) -> Result<Vec<RawFact>, StoreError> {
        const DOING: &str = "reading facts";
        let request = &mut self.request;
        request.clear();
        request.command("XREAD", if block.is_zero() { 5 } else { 7 }).word("COUNT").word(count);
        if !block.is_zero() {
            request.word("BLOCK").word(block.as_millis().max(1));
        }
        request.word("STREAMS").word(&self.key).word(after);
        let answer = self.line.ask(request, block).await;
        let mut replies = answer.and_then(Replies::checked).map_err(|e| self.connector.error(DOING, &e))?;
        let mut facts = Vec::new();
        let whole = entries(&mut replies, ["kind", "run", "fact"], |_, entry, [kind, run, body]| {
            facts.push(RawFact::read(entry, &kind, &run, body.into_owned()));
        });
        whole.ok_or_else(|| unexpected(DOING, "not a list of streams"))?;
        Ok(facts)
    }
}

/// A reply as a string, for scripts that answer lists of mixed values.
pub(super) fn word(value: Value) -> String {
    text(value).unwrap_or_default()
}
