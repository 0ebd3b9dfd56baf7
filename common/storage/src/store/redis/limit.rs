//! Rate limits of models, shared by all workers.

use redis::Value;

use super::RedisStore;
use super::connection::{Arg, args};
use super::shards::word;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{GiveLimit, LimitBound, LimitBucket, LimitTaken, StoreError, TakeLimit};
use tidemill_base::limits::{MODEL_BUCKET_SECONDS, MODEL_QUEUE_GRACE_MS, MODEL_REST_MAX_MS};

impl RedisStore {
    pub(super) async fn take_turn(&self, take: TakeLimit<'_>) -> Result<LimitTaken, StoreError> {
        const DOING: &str = "admitting a model call";
        let keys = self.buckets(take.buckets);
        let head = args![
            take.call,
            take.tokens,
            take.lease.as_millis(),
            MODEL_REST_MAX_MS,
            MODEL_QUEUE_GRACE_MS,
            MODEL_BUCKET_SECONDS,
        ];
        let bounds = take.buckets.iter().flat_map(|bucket| {
            let bounds = bucket.bounds;
            args![bounds.requests_per_minute, bounds.tokens_per_minute, bounds.concurrency]
        });
        let list: Vec<Arg<'_>> = head.into_iter().chain(bounds).collect();
        let answer: Vec<Value> = self.connector.run(DOING, &self.scripts.take_limit, &keys, &list).await?;
        let words: Vec<String> = answer.into_iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["TAKEN"] => Ok(LimitTaken::Taken),
            ["WAIT", ms, bound, bucket] => {
                let bound = LimitBound::ALL.into_iter().find(|known| known.name() == bound);
                match (ms.parse(), bound, bucket.parse::<usize>()) {
                    (Ok(ms), Some(bound), Ok(bucket @ 1..)) => Ok(LimitTaken::Wait {
                        wait: std::time::Duration::from_millis(ms),
                        bound,
                        bucket: bucket - 1,
                    }),
                    _ => Err(unexpected(DOING, "a wait has no time or no limit")),
                }
            }
            _ => Err(unexpected(DOING, words.join(" "))),
        }
    }

    pub(super) async fn give_turn(&self, give: GiveLimit<'_>) -> Result<u32, StoreError> {
        let mut keys = self.buckets(give.buckets);
        let account = give.buckets.first().map_or("", |bucket| &*bucket.account);
        keys.push(self.keys.limit(account, "refused", give.call));
        let rest = u64::try_from(give.rest.as_millis()).unwrap_or(u64::MAX).min(MODEL_REST_MAX_MS);
        let bounds = give.buckets.first().map(|bucket| bucket.bounds).unwrap_or_default();
        let said = |left: Option<u64>| left.map_or_else(String::new, |left| left.to_string());
        let list = args![
            give.call,
            give.tokens,
            give.lasted.map_or_else(String::new, |lasted| lasted.as_millis().to_string()),
            rest,
            if give.refused { "1" } else { "" },
            MODEL_BUCKET_SECONDS,
            said(give.left.requests),
            said(give.left.tokens),
            bounds.requests_per_minute,
            bounds.tokens_per_minute,
        ];
        self.connector.run("ending a model call", &self.scripts.give_limit, &keys, &list).await
    }

    /// The keys of buckets, in the order of the scripts.
    fn buckets(&self, buckets: &[LimitBucket]) -> Vec<String> {
        let kinds = ["level", "calls", "queue"];
        let keys = |bucket: &LimitBucket| {
            kinds.map(|kind| self.keys.limit(&bucket.account, kind, bucket.model.as_deref().unwrap_or("*")))
        };
        buckets.iter().flat_map(keys).collect()
    }
}
