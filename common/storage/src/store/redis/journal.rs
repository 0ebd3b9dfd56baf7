//! The journal of a run: results of its jobs' entries, each written once by the holder of the job.

use redis::Value;

use super::RedisStore;
use super::connection::args;
use super::keys::GROUP;
use super::shards::word;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{EntryBegin, EntryStored, JournalKey, StoreError};
use tidemill_base::ids::BlobId;

impl RedisStore {
    pub(super) async fn begin(
        &self,
        of: &JournalKey,
        step: &str,
        how: &str,
        now_micros: i64,
    ) -> Result<EntryBegin, StoreError> {
        const DOING: &str = "beginning a journal entry";
        let keys = [self.keys.jobs(of.shard, &of.queue), self.keys.journal(of.run)];
        let list = args![
            GROUP,
            &*of.consumer,
            of.entry.to_string(),
            of.number,
            of.field(step),
            of.mark(step),
            of.attempt,
            how,
            now_micros,
        ];
        let answer: Vec<Value> = self.connector.run(DOING, &self.scripts.begin_step, &keys, &list).await?;
        let mut parts = answer.into_iter().map(word);
        let first = parts.next().unwrap_or_default();
        match first.as_str() {
            "STALE" => Ok(EntryBegin::NotYours),
            "KNOWN" => {
                let result = parts.next().unwrap_or_default();
                Ok(EntryBegin::Known { result, possible_duplicate: parts.next().as_deref() == Some("1") })
            }
            "BEGIN" => {
                let mut number = || parts.next().and_then(|text| text.parse::<u32>().ok());
                match (number(), number()) {
                    (Some(attempt), Some(again)) => Ok(EntryBegin::Begin {
                        attempt,
                        possible_duplicate: again == 1,
                        was_begun: again > 0,
                    }),
                    _ => Err(unexpected(DOING, "a try has no number")),
                }
            }
            other => Err(unexpected(DOING, other)),
        }
    }

    pub(super) async fn record(
        &self,
        of: &JournalKey,
        step: &str,
        result: &str,
        fact: (&'static str, &str),
        blobs: &[(BlobId, u64)],
    ) -> Result<EntryStored, StoreError> {
        const DOING: &str = "storing a journal entry";
        let mut keys =
            vec![self.keys.jobs(of.shard, &of.queue), self.keys.journal(of.run), self.keys.inbox(of.shard)];
        let mut list = Vec::from(args![
            GROUP,
            &*of.consumer,
            of.entry.to_string(),
            of.number,
            of.field(step),
            result,
            of.run.to_string(),
            fact.0,
            fact.1,
        ]);
        if !blobs.is_empty() {
            keys.push(self.keys.blobs(of.run));
            keys.extend(blobs.iter().map(|(id, _)| self.keys.blob(of.shard, id)));
            for (id, size) in blobs {
                list.extend(args![id.to_string(), *size]);
            }
        }
        let answer: String = self.connector.run(DOING, &self.scripts.record_step, &keys, &list).await?;
        match answer.as_str() {
            "STORED" | "KNOWN" => Ok(EntryStored::Stored),
            "NOBLOB" => Ok(EntryStored::BlobGone),
            "STALE" => Ok(EntryStored::NotYours),
            other => Err(unexpected(DOING, other)),
        }
    }
}
