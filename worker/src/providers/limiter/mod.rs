//! Turns at models that have limits, which all workers share: who has none waits, and what a provider says of its limits
//! holds for everybody.
//!
//! A model without limits asks the store about nothing but its failures: how often a call has failed is counted there, since
//! its job may be put down in between and taken up elsewhere.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::store::{
    GiveLimit, Jobs, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, StoreError, TakeLimit,
};

use super::profile::LimitsConfig;
use super::{Detail, ErrorClass, ModelError, RateFacts, RateWindow, retry};
use crate::backoff::Backoff;
use crate::metrics;

mod resting;

pub use resting::Resting;

/// After so long without a sign of life a call is forgotten; it is renewed three times as often.
const LEASE: Duration = Duration::from_secs(60);
/// How long a model rests that refuses and does not say for how long.
const REST_UNSAID: Duration = Duration::from_secs(5);
/// How often the store is asked that answers with nonsense; then the call is made without a turn.
const NONSENSE_MAX: u32 = 3;

/// What waits for a call's turn.
#[async_trait::async_trait]
pub trait Pace: Send + Sync {
    /// The attempt that asks; the same when its job is handed out again.
    fn attempt(&self) -> String;
    /// Waits, and says why where people look for it. Need not return: somebody may ask anew later on.
    async fn wait(&self, wait: Duration, reason: &str);
}

/// Where turns are taken.
#[derive(Clone)]
pub struct Turns(pub Arc<dyn Jobs>);

impl Turns {
    /// How often a call to somebody else than a model has failed, now included; counted where all workers see it.
    pub async fn failed(&self, account: &str, call: &str) -> u32 {
        let buckets = [LimitBucket { account: account.into(), model: None, bounds: LimitBounds::default() }];
        let (lasted, left) = (None, LimitLeft::NOTHING_SAID);
        let failed = GiveLimit {
            buckets: &buckets,
            call,
            tokens: 0,
            lasted,
            rest: Duration::ZERO,
            refused: true,
            left,
        };
        self.0.give_limit(failed).await.unwrap_or_else(not_given)
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}

/// The limits of a model.
#[derive(Debug, Clone)]
pub struct Limited {
    turns: Turns,
    /// The model's, then the one that all models of the profile share, if there is one.
    buckets: Arc<[LimitBucket]>,
    /// How often a call may be refused because of limits.
    refusals_max: u32,
    /// Tries of a call after the first, where it failed otherwise.
    retries_max: u32,
    /// Whether it has a table; without one turns are taken only while it rests.
    bounded: bool,
    resting: Arc<Resting>,
}

/// A call of a job on its way to a model, over all its turns in one worker.
pub struct Trying<'a> {
    limited: &'a Limited,
    pace: &'a dyn Pace,
    call: String,
    tokens: u64,
    /// How often nothing came in time; that is worth one more try, not several.
    silences: u32,
}

/// A call's turn. Dropped, it is given back.
#[derive(Debug)]
pub struct Turn<'a> {
    limited: &'a Limited,
    call: String,
    /// Tokens that it is taken to need.
    tokens: u64,
    began: Instant,
    /// Nothing is to be given back.
    over: bool,
}

/// What comes of a turn.
#[derive(Debug)]
pub enum Ended<T> {
    /// The call is over.
    Over(Result<T, ModelError>),
    /// It has failed, and is to be made again after this time, when it has another turn.
    Again(Duration, ModelError),
}

/// What an answer says that limits are set right by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// What was counted; zero for a server that does not count.
    pub tokens: Tokens,
    /// What is left, as of now.
    pub rate: RateFacts,
}

impl Limited {
    /// The limits of a model of an account. Without a table nothing is bounded but how often a call is tried:
    /// `retries_max` times after the first.
    pub fn new(
        turns: &Turns,
        account: &str,
        model: &str,
        (of_model, of_all): (Option<&LimitsConfig>, Option<&LimitsConfig>),
        (retries_max, resting): (u32, &Arc<Resting>),
    ) -> Self {
        let account: Arc<str> = account.into();
        let bucket = |model: Option<&str>, limits: Option<&LimitsConfig>| LimitBucket {
            account: account.clone(),
            model: model.map(Into::into),
            bounds: limits.map_or_else(LimitBounds::default, LimitsConfig::bounds),
        };
        let first = of_model.or(of_all);
        // The model's own is there in any case: it is what rests.
        let mut buckets = vec![bucket(Some(model), of_model)];
        if of_all.is_some_and(|limits| limits.bounds() != LimitBounds::default()) {
            buckets.push(bucket(None, of_all));
        }
        let refusals_max = first.map_or(retries_max, LimitsConfig::refusals_max);
        let (turns, resting) = (turns.clone(), resting.clone());
        Self { turns, buckets: buckets.into(), refusals_max, retries_max, bounded: first.is_some(), resting }
    }

    /// A call of a job that is taken to need so many tokens. It waits as the job does.
    pub fn trying<'a>(&'a self, pace: &'a dyn Pace, call: &str, tokens: u64) -> Trying<'a> {
        Trying { limited: self, pace, call: format!("{}/{call}", pace.attempt()), tokens, silences: 0 }
    }

    fn model(&self) -> &str {
        self.buckets.first().and_then(|bucket| bucket.model.as_deref()).unwrap_or_default()
    }

    fn whose(&self, bucket: usize) -> String {
        let bucket = &self.buckets[bucket.min(self.buckets.len() - 1)];
        let profile = bucket.account.split('/').next().unwrap_or_default();
        match &bucket.model {
            Some(model) => format!("the model {model} of {profile}"),
            None => format!("{profile}, all its models together"),
        }
    }

    fn reason(&self, bound: LimitBound, bucket: usize) -> String {
        let whose = self.whose(bucket);
        let bucket = &self.buckets[bucket.min(self.buckets.len() - 1)];
        match bound {
            LimitBound::Requests => {
                format!("{whose}: no more than {} requests a minute", bucket.bounds.requests_per_minute)
            }
            LimitBound::Tokens => {
                format!("{whose}: no more than {} tokens a minute", bucket.bounds.tokens_per_minute)
            }
            LimitBound::Concurrency => {
                format!("{whose}: no more than {} calls at the same time", bucket.bounds.concurrency)
            }
            LimitBound::Rest => format!("{whose}: its provider asks to wait"),
        }
    }

    /// Until the store answers. One that cannot be made sense of does not hold the call up.
    async fn take(&self, call: &str, tokens: u64) -> LimitTaken {
        let (mut backoff, mut nonsense) = (Backoff::default(), 0);
        let take = TakeLimit { buckets: &self.buckets, call, tokens, lease: LEASE };
        loop {
            match self.turns.0.take_limit(take).await {
                Ok(taken) => return taken,
                Err(error) => {
                    nonsense += u32::from(!error.is_passing());
                    tracing::warn!(model = self.model(), %error, "no turn can be taken at the model");
                    if nonsense >= NONSENSE_MAX {
                        return LimitTaken::Taken;
                    }
                    backoff.wait().await;
                }
            }
        }
    }
}

impl Trying<'_> {
    /// Waits for the call's turn.
    pub async fn turn(&self) -> Turn<'_> {
        let Self { limited, call, tokens, .. } = self;
        let turn = |over| Turn { limited, call: call.clone(), tokens: *tokens, began: Instant::now(), over };
        if !limited.bounded && !limited.resting.has(limited.model()) {
            return turn(true);
        }
        loop {
            let LimitTaken::Wait { wait, bound, bucket } = limited.take(call, *tokens).await else {
                return turn(false);
            };
            metrics::MODEL_WAITS.count_of(limited.model());
            self.pace.wait(wait, &limited.reason(bound, bucket)).await;
        }
    }

    /// What the call ends with, unless it is to be made again; then this has waited for as long as it must.
    pub async fn over<T>(&mut self, ended: Ended<T>) -> Option<Result<T, ModelError>> {
        let (wait, error) = match ended {
            Ended::Over(answer) => return Some(answer),
            Ended::Again(wait, error) => (wait, error),
        };
        self.silences += u32::from(error.detail == Detail::Late);
        if self.silences > 1 {
            return Some(Err(error));
        }
        tracing::warn!(%error, wait_ms = wait.as_millis(), "model call failed, trying again");
        if !wait.is_zero() {
            let reason = format!("{}: a call has failed and is made again", self.limited.whose(0));
            self.pace.wait(wait, &reason).await;
        }
        None
    }
}

impl Turn<'_> {
    /// Waits for the answer and keeps the turn meanwhile.
    pub async fn during<T>(&self, answer: impl Future<Output = T>) -> T {
        if self.over {
            return answer.await;
        }
        tokio::select! {
            answer = answer => answer,
            never = self.renewed() => match never {},
        }
    }

    async fn renewed(&self) -> Infallible {
        loop {
            tokio::time::sleep(LEASE / 3).await;
            self.limited.take(&self.call, self.tokens).await;
        }
    }

    /// Tells the limits what came of the call. `partly`: a piece of the answer was handed on, so it cannot be made again.
    pub async fn end<T>(
        mut self,
        answer: Result<T, ModelError>,
        spent: impl FnOnce(&T) -> Spent,
        partly: bool,
    ) -> Ended<T> {
        let held = !std::mem::replace(&mut self.over, true);
        let error = match answer {
            Ok(answer) if held => {
                let Spent { tokens, rate } = spent(&answer);
                let counted = tokens.prompt.saturating_add(tokens.completion);
                let beyond = if counted == 0 { 0 } else { difference(counted, self.tokens) };
                let lasted = Some(self.began.elapsed());
                let rest = rest(rate, self.tokens);
                let left = LimitLeft { requests: rate.requests.remaining, tokens: rate.tokens.remaining };
                self.tell(GiveLimit { tokens: beyond, lasted, rest, left, ..self.gift() });
                return Ended::Over(Ok(answer));
            }
            Ok(answer) => return Ended::Over(Ok(answer)),
            Err(error) => error,
        };
        let limited = self.limited;
        let may_again = error.may_be_tried_again();
        let rests = rest_after(&error, limited.bounded).filter(|_| may_again);
        if !may_again || (partly && rests.is_none()) {
            if held {
                self.tell(self.gift());
            }
            return Ended::Over(Err(error));
        }
        let limit = error.class == ErrorClass::RateLimit;
        let rest = rests.unwrap_or_default();
        let tokens = if partly || !limit { 0 } else { difference(0, self.tokens) };
        let failed = GiveLimit { tokens, rest, refused: limit && !partly, ..self.gift() };
        let mut so_far = 0;
        if held || limit || !rest.is_zero() {
            so_far = limited.turns.0.give_limit(failed).await.unwrap_or_else(not_given);
        }
        if !limit && !partly {
            // Refusals have a bound of their own.
            let account = limited.buckets.first().map_or("", |bucket| &*bucket.account);
            so_far = limited.turns.failed(account, &format!("{}/failed", self.call)).await;
        }
        if !rest.is_zero() {
            limited.resting.note(limited.model(), rest);
            metrics::MODEL_RESTS.count_of(limited.model());
            tracing::info!(model = limited.model(), rest_ms = rest.as_millis(), so_far, %error, "the model rests");
        }
        let tries_max = if limit { limited.refusals_max } else { limited.retries_max };
        if partly || so_far > tries_max {
            return Ended::Over(Err(error));
        }
        // What rests is waited for at its next turn, behind those that wait already.
        let wait = if rests.is_some() { Duration::ZERO } else { retry::pause(so_far) };
        Ended::Again(wait, error)
    }

    fn gift(&self) -> GiveLimit<'_> {
        let (buckets, call) = (&*self.limited.buckets, &*self.call);
        GiveLimit {
            buckets,
            call,
            tokens: 0,
            lasted: None,
            rest: Duration::ZERO,
            refused: false,
            left: LimitLeft::NOTHING_SAID,
        }
    }

    /// In the background: nothing waits for it, and a lease that ends says the same.
    fn tell(&self, gift: GiveLimit<'_>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (limited, call) = (self.limited.clone(), self.call.clone());
        let GiveLimit { tokens, lasted, rest, refused, left, .. } = gift;
        runtime.spawn(async move {
            let (buckets, call) = (&*limited.buckets, &*call);
            let give = GiveLimit { buckets, call, tokens, lasted, rest, refused, left };
            limited.turns.0.give_limit(give).await.unwrap_or_else(not_given);
        });
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.tell(self.gift());
        }
    }
}

/// How long a model rests after a failure that may pass: as long as its provider asks for; and one with limits also where
/// it is refused because of them and nothing is said.
fn rest_after(error: &ModelError, bounded: bool) -> Option<Duration> {
    let said = error.retry_after_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
    said.or_else(|| (bounded && error.class == ErrorClass::RateLimit).then_some(REST_UNSAID))
}

/// A refusal that cannot be counted is the last: otherwise nothing would end it.
fn not_given(error: StoreError) -> u32 {
    tracing::warn!(%error, "a turn at a model cannot be given back; its lease runs out");
    u32::MAX
}

fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(i64::MAX)
}

/// How long a model rests after an answer that says that nothing is left: until the next call would be let through, where
/// what is left grows all the time, as OpenAI and Anthropic have it.
fn rest(rate: RateFacts, tokens: u64) -> Duration {
    let until = |window: RateWindow, need: u64| match (window.remaining, window.reset_ms) {
        (Some(0), Some(reset_ms)) => {
            let limit = window.limit.unwrap_or(1).max(1);
            reset_ms.saturating_mul(need.clamp(1, limit)).div_ceil(limit)
        }
        _ => 0,
    };
    Duration::from_millis(until(rate.requests, 1).max(until(rate.tokens, tokens)))
}

#[cfg(test)]
mod tests;
