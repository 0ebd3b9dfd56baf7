//! Rate limits of models: buckets that all workers share, so that no worker sends a call that the provider
//! would refuse.
//!
//! A call is admitted in all its buckets at once or in none; then the answer says when to retry. A waiting call has a
//! place in the queue of its bucket, so calls come back one by one at the bucket's pace.

use std::sync::Arc;
use std::time::Duration;

/// The limits of a bucket. Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitBounds {
    /// Calls that may begin per minute; after a quiet minute so many may begin at once.
    pub requests_per_minute: u64,
    /// Tokens of prompts and replies per minute, likewise.
    pub tokens_per_minute: u64,
    /// Calls in flight at the same time.
    pub concurrency: u64,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitBucket {
    /// The provider's profile together with the key that pays.
    pub account: Arc<str>,
    /// The model; `None` for all models of the account together.
    pub model: Option<Arc<str>>,
    pub bounds: LimitBounds,
}

/// A call that asks for admission.
#[derive(Debug, Clone, Copy)]
pub struct TakeLimit<'a> {
    /// Its buckets: at least one, all of the same account, the model's first.
    pub buckets: &'a [LimitBucket],
    /// The id of the call. Asking again keeps an admission and restarts its lease.
    pub call: &'a str,
    /// Estimated tokens.
    pub tokens: u64,
    /// Without renewal its place is free again after this time.
    pub lease: Duration,
}

/// The limit that delays a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitBound {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Concurrent calls.
    Concurrency,
    /// The provider asked for a pause.
    Rest,
}

impl LimitBound {
    /// All limits.
    pub const ALL: [Self; 4] = [Self::Requests, Self::Tokens, Self::Concurrency, Self::Rest];

    /// The name in the store's replies and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
            Self::Rest => "rest",
        }
    }
}

/// The answer to a call that asks for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitTaken {
    /// Admitted, until its lease ends or it is given back.
    Taken,
    /// Not admitted; nothing was taken.
    Wait {
        /// When to ask again. Never zero, at most [`tidemill_base::limits::MODEL_REST_MAX_MS`].
        wait: Duration,
        /// The limit with the longest wait.
        bound: LimitBound,
        /// The index of its bucket, from 0.
        bucket: usize,
    },
}

/// The end of an admitted call.
#[derive(Debug, Clone, Copy)]
pub struct GiveLimit<'a> {
    /// As when it was taken.
    pub buckets: &'a [LimitBucket],
    pub call: &'a str,
    /// Tokens used beyond the estimate; negative when fewer.
    pub tokens: i64,
    /// Its duration, when that is a useful estimate for later calls.
    pub lasted: Option<Duration>,
    /// Pause of the first bucket from now on, at most [`tidemill_base::limits::MODEL_REST_MAX_MS`]; a longer one
    /// stays. Zero: no pause.
    pub rest: Duration,
    /// Whether the provider refused the call because of its limits.
    pub refused: bool,
    /// The provider's remaining limits of the first bucket. They lower its levels, never raise them.
    pub left: LimitLeft,
}

/// The remaining limits that a provider reports; `None` when it reports none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitLeft {
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
}

impl LimitLeft {
    /// The provider said nothing.
    pub const NOTHING_SAID: Self = Self { requests: None, tokens: None };
}
