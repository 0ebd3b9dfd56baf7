//! Rate limits of models, with the behaviour of `take_limit.lua` and `give_limit.lua`.

use std::collections::BTreeMap;

use crate::store::{GiveLimit, LimitBound, LimitBucket, LimitLeft, LimitTaken, TakeLimit};
use tidemill_base::limits::{MODEL_QUEUE_GRACE_MS, MODEL_REST_MAX_MS};

const MINUTE_MS: f64 = 60_000.0;

/// All buckets, and the refusals of calls.
#[derive(Default)]
pub(super) struct Limits {
    buckets: BTreeMap<(String, Option<String>), Bucket>,
    refused: BTreeMap<String, u32>,
}

/// A bucket; times in ms.
#[derive(Default)]
struct Bucket {
    requests: Option<f64>,
    tokens: Option<f64>,
    at: f64,
    rest_until: f64,
    lasted: Option<f64>,
    /// Calls in flight by the end of their lease.
    calls: BTreeMap<String, f64>,
    /// Waiting calls by the time at which they ask again.
    queue: BTreeMap<String, f64>,
}

/// The reason for a call to wait.
struct WaitReason {
    wait: f64,
    /// The distance between two waiting calls, ms.
    each: f64,
    bound: LimitBound,
    bucket: usize,
}

fn level(kept: Option<f64>, max: f64, gone: f64) -> f64 {
    (kept.unwrap_or(max) + gone * max / MINUTE_MS).min(max)
}

impl Bucket {
    fn tidy(&mut self, now: f64) {
        self.calls.retain(|_, until| *until > now);
        self.queue.retain(|_, due| *due > now - MODEL_QUEUE_GRACE_MS as f64);
    }

    /// The present levels: requests, tokens.
    fn levels(&self, of: &LimitBucket, now: f64) -> (f64, f64) {
        let gone = (now - self.at).max(0.0);
        (
            level(self.requests, of.bounds.requests_per_minute as f64, gone),
            level(self.tokens, of.bounds.tokens_per_minute as f64, gone),
        )
    }

    /// Only lowers a level, never raises it.
    fn lower(&mut self, of: &LimitBucket, left: LimitLeft, now: f64) {
        let (requests, tokens) = self.levels(of, now);
        let lowered = |bound: u64, level: f64, left: Option<u64>| {
            (bound > 0).then(|| left.map_or(level, |left| level.min(left as f64)))
        };
        self.requests = lowered(of.bounds.requests_per_minute, requests, left.requests);
        self.tokens = lowered(of.bounds.tokens_per_minute, tokens, left.tokens);
        self.at = now;
    }

    /// All limits that delay the call in this bucket.
    fn held(&self, of: &LimitBucket, take: &TakeLimit<'_>, now: f64) -> Vec<(f64, f64, LimitBound)> {
        let bounds = of.bounds;
        let (requests_max, tokens_max) = (bounds.requests_per_minute as f64, bounds.tokens_per_minute as f64);
        let (requests, tokens) = self.levels(of, now);
        let due = self.queue.values().filter(|due| **due <= now).count() as f64;
        let ahead = if self.queue.contains_key(take.call) { 0.0 } else { due };
        let mut held = Vec::new();
        let each = if requests_max > 0.0 { MINUTE_MS / requests_max } else { 0.0 };
        held.push((self.rest_until - now, each, LimitBound::Rest));
        if requests_max > 0.0 {
            held.push(((1.0 + ahead - requests) * each, each, LimitBound::Requests));
        }
        if tokens_max > 0.0 {
            let need = (take.tokens as f64).min(tokens_max);
            let room = (need * (1.0 + ahead)).min(tokens_max);
            let per = MINUTE_MS / tokens_max;
            held.push(((room - tokens) * per, need * per, LimitBound::Tokens));
        }
        let calls_max = bounds.concurrency as f64;
        if calls_max > 0.0 && self.calls.len() as f64 + ahead >= calls_max {
            let each = self.lasted.unwrap_or(1000.0) / calls_max;
            held.push((each.max(50.0), each, LimitBound::Concurrency));
        }
        held
    }
}

impl Limits {
    fn bucket(&mut self, of: &LimitBucket) -> &mut Bucket {
        let model = of.model.as_deref().map(str::to_owned);
        self.buckets.entry((of.account.to_string(), model)).or_default()
    }

    pub(super) fn take(&mut self, take: TakeLimit<'_>, now_ms: i64) -> LimitTaken {
        let now = now_ms as f64;
        let until = now + take.lease.as_millis() as f64;
        let mut held: Option<WaitReason> = None;
        for (number, of) in take.buckets.iter().enumerate() {
            let bucket = self.bucket(of);
            bucket.tidy(now);
            if number == 0 && bucket.calls.contains_key(take.call) {
                take.buckets.iter().for_each(|of| {
                    self.bucket(of).calls.insert(take.call.to_owned(), until);
                });
                return LimitTaken::Taken;
            }
            for (wait, each, bound) in bucket.held(of, &take, now) {
                if wait > held.as_ref().map_or(0.0, |held| held.wait) {
                    held = Some(WaitReason { wait, each, bound, bucket: number });
                }
            }
        }
        if let Some(held) = held {
            return self.queue_up(&take, &held, now);
        }
        for of in take.buckets {
            let bucket = self.bucket(of);
            let (requests, tokens) = bucket.levels(of, now);
            bucket.requests = (of.bounds.requests_per_minute > 0).then_some(requests - 1.0);
            bucket.tokens = (of.bounds.tokens_per_minute > 0).then_some(tokens - take.tokens as f64);
            bucket.at = now;
            bucket.calls.insert(take.call.to_owned(), until);
            bucket.queue.remove(take.call);
        }
        LimitTaken::Taken
    }

    fn queue_up(&mut self, take: &TakeLimit<'_>, held: &WaitReason, now: f64) -> LimitTaken {
        let longest = MODEL_REST_MAX_MS as f64;
        let queue = &mut self.bucket(&take.buckets[held.bucket]).queue;
        let mut due = now + held.wait.ceil().max(1.0).min(longest);
        let last = queue.values().copied().fold(f64::NEG_INFINITY, f64::max);
        if !queue.contains_key(take.call) {
            due = due.max((last + held.each).ceil()).min(now + longest);
        }
        queue.insert(take.call.to_owned(), due);
        let wait = std::time::Duration::from_secs_f64((due - now) / 1000.0);
        LimitTaken::Wait { wait, bound: held.bound, bucket: held.bucket }
    }

    pub(super) fn give(&mut self, give: GiveLimit<'_>, now_ms: i64) -> u32 {
        let now = now_ms as f64;
        for of in give.buckets {
            let bucket = self.bucket(of);
            if bucket.calls.remove(give.call).is_none() {
                continue;
            }
            bucket.tokens = bucket.tokens.map(|tokens| tokens - give.tokens as f64);
            if let Some(lasted) = give.lasted.map(|lasted| lasted.as_millis() as f64) {
                bucket.lasted = Some(0.8 * bucket.lasted.unwrap_or(lasted) + 0.2 * lasted);
            }
        }
        if let Some(first) = give.buckets.first().filter(|_| give.left != LimitLeft::NOTHING_SAID) {
            self.bucket(first).lower(first, give.left, now);
        }
        let rest = (give.rest.as_millis() as f64).min(MODEL_REST_MAX_MS as f64);
        if let Some(first) = give.buckets.first().filter(|_| rest > 0.0) {
            let bucket = self.bucket(first);
            bucket.rest_until = bucket.rest_until.max(now + rest);
        }
        let refused = self.refused.entry(give.call.to_owned()).or_default();
        *refused += u32::from(give.refused);
        *refused
    }
}
