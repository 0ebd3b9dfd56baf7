//! Taking jobs over from consumers without a sign of life, and the records of suspects: jobs that were lost with their
//! worker.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::RedisStore;
use super::connection::{Arg, args};
use super::jobs::delivered;
use super::keys::GROUP;
use super::shards::word;
use crate::store::redis::connection::replies::{array, pairs, unexpected};
use crate::store::{Delivered, Note, Stale, StaleJob, StoreError, TakeOver};
use tidemill_base::ids::{EntryId, ShardId};
use tidemill_base::limits;
use tidemill_wire::suspect::Suspect;

/// Most origins of suspects that are remembered as cleared.
const CLEARED_MAX: usize = 1000;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// A pending entry of a stream.
struct Pending {
    entry: EntryId,
    holder: String,
    idle: Duration,
    number: u32,
}

/// A stream of jobs, and its pending entries.
type InStream<'a> = (&'a (ShardId, Arc<str>), Vec<Pending>);

impl RedisStore {
    /// See [`Jobs::stale`](crate::store::Jobs::stale).
    pub(super) async fn find_stale(
        &self,
        streams: &[(ShardId, Arc<str>)],
        idle: Duration,
    ) -> Result<Stale, StoreError> {
        const DOING: &str = "looking for abandoned jobs";
        let mut pipe = redis::Pipeline::with_capacity(streams.len());
        for (shard, queue) in streams {
            let command = pipe.cmd("XPENDING").arg(self.keys.jobs(*shard, queue)).arg(GROUP);
            command.arg("IDLE").arg(idle_ms(idle)).arg("-").arg("+").arg(limits::STALE_READ_MAX);
        }
        let answers = self.connector.ask_some(DOING, &pipe).await?;
        let mut found: Vec<InStream<'_>> = Vec::new();
        for (stream, answer) in streams.iter().zip(answers) {
            let pending = match answer {
                Some(value) => array(value).ok_or_else(|| unexpected(DOING, "not a list"))?,
                // A stream that was never read has no group, and a silent server of a cluster shows nothing.
                None => continue,
            };
            let pending: Vec<Pending> = pending.into_iter().filter_map(pending_entry).collect();
            if !pending.is_empty() {
                found.push((stream, pending));
            }
        }
        if found.is_empty() {
            return Ok(Stale::default());
        }
        self.with_records(found).await
    }

    /// Reads what is known of these jobs.
    async fn with_records(&self, found: Vec<InStream<'_>>) -> Result<Stale, StoreError> {
        const DOING: &str = "reading the records of suspects";
        let mut pipe = redis::Pipeline::with_capacity(found.len() + 1);
        pipe.cmd("LRANGE").arg(self.keys.cleared()).arg(0).arg(-1);
        for ((shard, queue), pending) in &found {
            let command = pipe.cmd("HMGET").arg(self.keys.suspects(*shard, queue));
            for it in pending {
                command.arg(it.entry.to_string());
            }
        }
        let mut answers = self.connector.ask_some(DOING, &pipe).await?.into_iter();
        let cleared =
            answers.next().flatten().and_then(array).unwrap_or_default().into_iter().map(word).collect();
        let mut jobs = Vec::new();
        for (((shard, queue), pending), records) in found.into_iter().zip(answers) {
            // A server of a cluster that has become silent: its jobs wait for the next look.
            let Some(records) = records else { continue };
            let records = array(records).ok_or_else(|| unexpected(DOING, "not a list"))?;
            for (it, record) in pending.into_iter().zip(records) {
                // A record that cannot be read is as good as none: the job is suspected again.
                let suspect = Suspect::read(&word(record)).ok();
                let Pending { entry, holder, idle, number } = it;
                jobs.push(StaleJob {
                    shard: *shard,
                    queue: queue.clone(),
                    entry,
                    holder,
                    idle,
                    number,
                    suspect,
                });
            }
        }
        Ok(Stale { jobs, cleared })
    }

    /// See [`Jobs::take_over`](crate::store::Jobs::take_over).
    pub(super) async fn claim_stale(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
        jobs: &[TakeOver],
    ) -> Result<Vec<Delivered>, StoreError> {
        const DOING: &str = "taking jobs over";
        let keys = [self.keys.nothing(shard), self.keys.jobs(shard, queue), self.keys.suspects(shard, queue)];
        let mut list = Vec::from(args![GROUP, consumer, idle_ms(idle), DAY_MS]);
        for job in jobs {
            list.extend(args![job.entry.to_string(), &*job.holder, job.number, job.new_number.unwrap_or(0)]);
            list.push(match &job.note {
                Note::Leave => Arg::from("="),
                Note::Remove => Arg::from(""),
                Note::Write(suspect) => Arg::from(suspect.text()),
            });
        }
        let answer: Vec<Value> = match self.connector.run(DOING, &self.scripts.take_over, &keys, &list).await
        {
            Ok(answer) => answer,
            // The stream was removed meanwhile, so no job of it is abandoned.
            Err(StoreError::Unexpected { reason, .. }) if reason.contains("NOGROUP") => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let queue: Arc<str> = queue.into();
        let job = |value: Value| -> Option<Delivered> {
            let mut parts = array(value)?.into_iter();
            let id = word(parts.next()?).parse().ok()?;
            let number = word(parts.next()?).parse().ok()?;
            Some(delivered(shard, &queue, id, number, pairs(parts.next()?)?))
        };
        Ok(answer.into_iter().filter_map(job).collect())
    }

    /// See [`Jobs::clear_suspects`](crate::store::Jobs::clear_suspects).
    pub(super) async fn clear_origin(&self, origin: &str) -> Result<(), StoreError> {
        let key = self.keys.cleared();
        let mut pipe = redis::pipe();
        pipe.cmd("LPUSH").arg(&key).arg(origin).ignore();
        pipe.cmd("LTRIM").arg(&key).arg(0).arg(CLEARED_MAX - 1).ignore();
        pipe.cmd("PEXPIRE").arg(&key).arg(DAY_MS).ignore();
        self.connector.ask_all::<()>("clearing suspects", &pipe).await
    }

    /// See [`Jobs::forget_suspects`](crate::store::Jobs::forget_suspects).
    pub(super) async fn forget_records(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<(), StoreError> {
        let mut command = redis::cmd("HDEL");
        command.arg(self.keys.suspects(shard, queue));
        for entry in entries {
            command.arg(entry.to_string());
        }
        let _: u64 = self.connector.ask("forgetting suspects", &command).await?;
        Ok(())
    }
}

fn idle_ms(idle: Duration) -> u64 {
    u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)
}

fn pending_entry(value: Value) -> Option<Pending> {
    let mut parts = array(value)?.into_iter();
    let entry = word(parts.next()?).parse().ok()?;
    let holder = word(parts.next()?);
    let idle = Duration::from_millis(word(parts.next()?).parse().ok()?);
    Some(Pending { entry, holder, idle, number: word(parts.next()?).parse().ok()? })
}
