//! Enforces model limits across all workers. A call to a model with limits needs a permit from the store.
//! Without a permit it waits. The limits that a provider reports apply to all workers.
//!
//! For a model without limits the store only counts failures, because the job may be parked between tries and continue
//! in another worker.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_common::files::FilesError;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::store::{
    GiveLimit, Jobs, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, StoreError, TakeLimit,
};

use crate::jobs::backoff::Backoff;
use crate::metrics;
use crate::outside::providers::profile::LimitsConfig;
use crate::outside::providers::{Detail, ErrorClass, ModelError, RateFacts, RateWindow, retry};

mod resting_models;

pub use crate::outside::providers::limiter::resting_models::RestingModels;

/// The lease of a permit. It is renewed three times as often.
const LEASE: Duration = Duration::from_secs(60);
/// Rest of a model whose refusal names no time.
const REST_UNSAID: Duration = Duration::from_secs(5);
/// Most tries when the store returns unusable answers; then the call runs without a permit.
const NONSENSE_MAX: u32 = 3;

/// Waits on behalf of a call.
#[async_trait::async_trait]
pub trait Waiter: Send + Sync {
    /// The name of the attempt; the same when its job is delivered again.
    fn attempt(&self) -> String;
    /// Waits and records the reason. It may never return; the call may then be made again later.
    async fn wait(&self, wait: Duration, reason: &str);
    /// The run of the call, whose app may have credentials of its own. `None`: no run.
    fn run(&self) -> Option<RunId> {
        None
    }
    /// Checks that the run of the call may read this file.
    ///
    /// # Errors
    /// [`FilesError::NotOfRun`], or the owner of the file cannot be looked up.
    async fn check_file(&self, reference: &str) -> Result<(), FilesError>;
    /// False when the waiter repeats failed calls itself, so that each try is counted and reported: a node that runs
    /// inside another. Then a call makes no tries of its own; only the limits that the operator has set are waited for.
    fn leaves_tries(&self) -> bool {
        true
    }
}

/// The store of permits.
#[derive(Clone)]
pub struct CallPermits(pub Arc<dyn Jobs>);

impl CallPermits {
    /// Counts a failure of a call to something other than a model, and returns the count across all workers.
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

impl fmt::Debug for CallPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallPermits")
    }
}

/// The limits of a model.
#[derive(Debug, Clone)]
pub struct Limited {
    permits: CallPermits,
    /// The model's own limit, then the limit shared by all models of the profile, if any.
    buckets: Arc<[LimitBucket]>,
    /// Most refusals of a call because of limits.
    refusals_max: u32,
    /// Most retries of a call after other failures.
    retries_max: u32,
    /// True if it has a limits table. Without one a call needs a permit only while the model rests.
    bounded: bool,
    resting_models: Arc<RestingModels>,
    /// The provider's name, for people.
    label: Arc<str>,
}

/// A job's call to a model, over all its permits in one worker.
pub struct LimitedCall<'a> {
    limited: &'a Limited,
    waiter: &'a dyn Waiter,
    call: String,
    tokens: u64,
    /// The number of timeouts. They are worth one retry, not several.
    silences: u32,
}

/// The permit of a call. It is given back when dropped.
#[derive(Debug)]
pub struct CallPermit<'a> {
    limited: &'a Limited,
    call: String,
    /// Estimated tokens of the call.
    tokens: u64,
    began: Instant,
    /// True when there is nothing to give back.
    over: bool,
}

/// The result of a call with a permit.
#[derive(Debug)]
pub enum TryEnd<T> {
    /// The call has ended.
    Over(Result<T, ModelError>),
    /// The call failed and must be repeated after this wait, with a new permit.
    Again(Duration, ModelError),
}

/// Facts from an answer that adjust the limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallUsage {
    /// The counted tokens; zero if the server does not count.
    pub tokens: Tokens,
    /// The remaining limits of the provider.
    pub rate: RateFacts,
}

impl Limited {
    /// Creates the limits of a model of an account, whose provider people know by the name beside it. Without a table only the tries of a call are limited: `retries_max`
    /// after the first.
    pub fn new(
        permits: &CallPermits,
        (account, label): (&str, &str),
        model: &str,
        (of_model, of_all): (Option<&LimitsConfig>, Option<&LimitsConfig>),
        (retries_max, resting_models): (u32, &Arc<RestingModels>),
    ) -> Self {
        let account: Arc<str> = account.into();
        let bucket = |model: Option<&str>, limits: Option<&LimitsConfig>| LimitBucket {
            account: account.clone(),
            model: model.map(Into::into),
            bounds: limits.map_or_else(LimitBounds::default, LimitsConfig::bounds),
        };
        let first = of_model.or(of_all);
        // The model's own bucket always exists, because it holds the rest.
        let mut buckets = vec![bucket(Some(model), of_model)];
        if of_all.is_some_and(|limits| limits.bounds() != LimitBounds::default()) {
            buckets.push(bucket(None, of_all));
        }
        let refusals_max = first.map_or(retries_max, LimitsConfig::refusals_max);
        let (permits, resting_models) = (permits.clone(), resting_models.clone());
        Self {
            permits,
            buckets: buckets.into(),
            refusals_max,
            retries_max,
            bounded: first.is_some(),
            resting_models,
            label: label.into(),
        }
    }

    /// Prepares a call with an estimate of its tokens. It waits as the job does.
    pub fn new_call<'a>(&'a self, waiter: &'a dyn Waiter, call: &str, tokens: u64) -> LimitedCall<'a> {
        LimitedCall {
            limited: self,
            waiter,
            call: format!("{}/{call}", waiter.attempt()),
            tokens,
            silences: 0,
        }
    }

    fn model(&self) -> &str {
        self.buckets.first().and_then(|bucket| bucket.model.as_deref()).unwrap_or_default()
    }

    fn model_label(&self, bucket: usize) -> String {
        let bucket = &self.buckets[bucket.min(self.buckets.len() - 1)];
        let profile = &self.label;
        match &bucket.model {
            Some(model) => format!("the model {model} of {profile}"),
            None => format!("{profile}, all its models together"),
        }
    }

    fn reason(&self, bound: LimitBound, bucket: usize) -> String {
        let model_label = self.model_label(bucket);
        let bucket = &self.buckets[bucket.min(self.buckets.len() - 1)];
        match bound {
            LimitBound::Requests => {
                format!("{model_label}: no more than {} requests a minute", bucket.bounds.requests_per_minute)
            }
            LimitBound::Tokens => {
                format!("{model_label}: no more than {} tokens a minute", bucket.bounds.tokens_per_minute)
            }
            LimitBound::Concurrency => {
                format!("{model_label}: no more than {} calls at the same time", bucket.bounds.concurrency)
            }
            LimitBound::Rest => format!("{model_label}: its provider asks to wait"),
        }
    }

    /// Takes a permit and repeats until the store answers. After unusable answers the call runs without a permit.
    async fn take(&self, call: &str, tokens: u64) -> LimitTaken {
        let (mut backoff, mut nonsense) = (Backoff::default(), 0);
        let take = TakeLimit { buckets: &self.buckets, call, tokens, lease: LEASE };
        loop {
            match self.permits.0.take_limit(take).await {
                Ok(taken) => return taken,
                Err(error) => {
                    nonsense += u32::from(!error.is_passing());
                    tracing::warn!(model = self.model(), %error, "cannot get a permit for the model");
                    if nonsense >= NONSENSE_MAX {
                        return LimitTaken::Taken;
                    }
                    backoff.wait().await;
                }
            }
        }
    }
}

impl LimitedCall<'_> {
    /// Waits for a permit for the call.
    pub async fn permit(&self) -> CallPermit<'_> {
        let Self { limited, call, tokens, .. } = self;
        let permit =
            |over| CallPermit { limited, call: call.clone(), tokens: *tokens, began: Instant::now(), over };
        if !limited.bounded && !limited.resting_models.has(limited.model()) {
            return permit(true);
        }
        loop {
            let LimitTaken::Wait { wait, bound, bucket } = limited.take(call, *tokens).await else {
                return permit(false);
            };
            metrics::MODEL_WAITS.count_of(limited.model());
            self.waiter.wait(wait, &limited.reason(bound, bucket)).await;
        }
    }

    /// Returns the result of the call, or `None` after waiting when it must be repeated.
    pub async fn over<T>(&mut self, ended: TryEnd<T>) -> Option<Result<T, ModelError>> {
        let (wait, error) = match ended {
            TryEnd::Over(answer) => return Some(answer),
            TryEnd::Again(wait, error) => (wait, error),
        };
        self.silences += u32::from(error.detail == Detail::Late);
        let is_limit = error.class == ErrorClass::RateLimit && self.limited.bounded;
        if self.silences > 1 || !(self.waiter.leaves_tries() || is_limit) {
            return Some(Err(error));
        }
        let (model, why) = (self.limited.model_label(0), error.brief());
        tracing::warn!(model, error = why, wait_ms = wait.as_millis(), "model call failed, trying again");
        if !wait.is_zero() {
            let reason = format!("{}: a call failed and is repeated", self.limited.model_label(0));
            self.waiter.wait(wait, &reason).await;
        }
        None
    }
}

impl CallPermit<'_> {
    /// Waits for the answer and renews the permit meanwhile.
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

    /// Reports the result to the limits. `partly` means that a piece of the answer was passed on, so the call cannot be
    /// repeated.
    pub async fn end<T>(
        mut self,
        answer: Result<T, ModelError>,
        usage: impl FnOnce(&T) -> CallUsage,
        partly: bool,
    ) -> TryEnd<T> {
        let held = !std::mem::replace(&mut self.over, true);
        let error = match answer {
            Ok(answer) if held => {
                let CallUsage { tokens, rate } = usage(&answer);
                let counted = tokens.prompt.saturating_add(tokens.completion);
                let beyond = if counted == 0 { 0 } else { difference(counted, self.tokens) };
                let lasted = Some(self.began.elapsed());
                let rest = rest(rate, self.tokens);
                let left = LimitLeft { requests: rate.requests.remaining, tokens: rate.tokens.remaining };
                self.give_later(GiveLimit { tokens: beyond, lasted, rest, left, ..self.gift() });
                return TryEnd::Over(Ok(answer));
            }
            Ok(answer) => return TryEnd::Over(Ok(answer)),
            Err(error) => error,
        };
        let limited = self.limited;
        let may_again = error.may_be_tried_again();
        let rests = rest_after(&error, limited.bounded).filter(|_| may_again);
        if !may_again || (partly && rests.is_none()) {
            if held {
                self.give_later(self.gift());
            }
            return TryEnd::Over(Err(error));
        }
        let limit = error.class == ErrorClass::RateLimit;
        let rest = rests.unwrap_or_default();
        let tokens = if partly || !limit { 0 } else { difference(0, self.tokens) };
        let failed = GiveLimit { tokens, rest, refused: limit && !partly, ..self.gift() };
        let mut so_far = 0;
        if held || limit || !rest.is_zero() {
            so_far = limited.permits.0.give_limit(failed).await.unwrap_or_else(not_given);
        }
        if !limit && !partly {
            // Refusals have a separate limit.
            let account = limited.buckets.first().map_or("", |bucket| &*bucket.account);
            so_far = limited.permits.failed(account, &format!("{}/failed", self.call)).await;
        }
        if !rest.is_zero() {
            limited.resting_models.note(limited.model(), rest);
            metrics::MODEL_RESTS.count_of(limited.model());
            let why = error.brief();
            tracing::info!(
                model = limited.model(),
                rest_ms = rest.as_millis(),
                so_far,
                error = why,
                "calls to the model pause"
            );
        }
        let tries_max = if limit { limited.refusals_max } else { limited.retries_max };
        if partly || so_far > tries_max {
            return TryEnd::Over(Err(error));
        }
        // A resting model is waited for for the next permit, after calls that already wait.
        let wait = if rests.is_some() { Duration::ZERO } else { retry::pause(so_far) };
        TryEnd::Again(wait, error)
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

    /// Runs in the background: no call waits for it, and an expiring lease has the same effect.
    fn give_later(&self, gift: GiveLimit<'_>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (limited, call) = (self.limited.clone(), self.call.clone());
        let GiveLimit { tokens, lasted, rest, refused, left, .. } = gift;
        runtime.spawn(async move {
            let (buckets, call) = (&*limited.buckets, &*call);
            let give = GiveLimit { buckets, call, tokens, lasted, rest, refused, left };
            limited.permits.0.give_limit(give).await.unwrap_or_else(not_given);
        });
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.give_later(self.gift());
        }
    }
}

/// The rest after a retryable failure: the time the provider asks for. A model with limits also rests when it is
/// refused because of them without a time.
fn rest_after(error: &ModelError, bounded: bool) -> Option<Duration> {
    let requested = error.retry_after_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
    requested.or_else(|| (bounded && error.class == ErrorClass::RateLimit).then_some(REST_UNSAID))
}

/// A refusal that cannot be counted ends the call; otherwise it could repeat forever.
fn not_given(error: StoreError) -> u32 {
    tracing::warn!(%error, "a permit for a model cannot be given back; its lease expires");
    u32::MAX
}

fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(i64::MAX)
}

/// The rest after an answer that reports nothing left: until the next call would be allowed, assuming the limit refills
/// steadily, as with OpenAI and Anthropic.
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
