//! Limits of models: buckets that all workers share, so that none of them asks what a provider would refuse.
//!
//! A call takes its turn in every bucket that bounds it, all at once, or in none of them and learns when to come again. What
//! waits has a place in the queue of the bucket that it waits for: calls come back one by one, at the pace of the bucket,
//! and not all of them when the first could go.

use std::sync::Arc;
use std::time::Duration;

/// What a bucket allows. Zero stands for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitBounds {
    /// Calls that may begin in a minute; so many may begin at once after a quiet minute.
    pub requests_per_minute: u64,
    /// Tokens of prompts and replies in a minute, likewise.
    pub tokens_per_minute: u64,
    /// Calls under way at the same time.
    pub concurrency: u64,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitBucket {
    /// Whose it is: the provider's profile, with the key that pays.
    pub account: Arc<str>,
    /// The model; absent: all models of the account together.
    pub model: Option<Arc<str>>,
    /// What it allows.
    pub bounds: LimitBounds,
}

/// A call that wants its turn.
#[derive(Debug, Clone, Copy)]
pub struct TakeLimit<'a> {
    /// What bounds it: at least one bucket, all of the same account, the model's first.
    pub buckets: &'a [LimitBucket],
    /// The call, the same however often it is asked for: a call that has its turn keeps it, and its lease begins anew.
    pub call: &'a str,
    /// Tokens that it is taken to need.
    pub tokens: u64,
    /// After so long without another word its place among the calls under way is free again.
    pub lease: Duration,
}

/// What holds a call back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitBound {
    /// Requests a minute.
    Requests,
    /// Tokens a minute.
    Tokens,
    /// Calls at the same time.
    Concurrency,
    /// The provider has asked to be left alone.
    Rest,
}

impl LimitBound {
    /// Every bound.
    pub const ALL: [Self; 4] = [Self::Requests, Self::Tokens, Self::Concurrency, Self::Rest];

    /// Its name in answers of the store and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
            Self::Rest => "rest",
        }
    }
}

/// Whether it is a call's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitTaken {
    /// It is, until its lease ends or it is given back.
    Taken,
    /// It is not; nothing was taken.
    Wait {
        /// When to come again; never zero. At most [`crate::limits::MODEL_REST_MAX_MS`].
        wait: Duration,
        /// What holds it back longest.
        bound: LimitBound,
        /// Of which bucket, counted from 0.
        bucket: usize,
    },
}

/// What came of a call.
#[derive(Debug, Clone, Copy)]
pub struct GiveLimit<'a> {
    /// As it was taken.
    pub buckets: &'a [LimitBucket],
    /// The call.
    pub call: &'a str,
    /// Tokens that it took beyond those that it was taken to need; negative: so many fewer.
    pub tokens: i64,
    /// How long it took, when that says something of the calls to come.
    pub lasted: Option<Duration>,
    /// The first bucket rests for so long from now on (at most [`crate::limits::MODEL_REST_MAX_MS`]), or longer if it
    /// does so anyway. Zero: it does not.
    pub rest: Duration,
    /// The provider refused it because of its limits.
    pub refused: bool,
    /// What the provider says is left of the first bucket: lowers its levels, and never raises them.
    pub left: LimitLeft,
}

/// What a provider says is left, as of now; absent: it says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitLeft {
    /// Requests.
    pub requests: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
}

impl LimitLeft {
    /// It said nothing.
    pub const NOTHING_SAID: Self = Self { requests: None, tokens: None };
}
