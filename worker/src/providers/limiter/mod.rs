//! Turns at models that have limits, which all workers share: who has none waits, and what a provider says of its limits
//! holds for everybody.
//!
//! A model without limits in its profile never comes here.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::store::{
    GiveLimit, Jobs, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, StoreError, TakeLimit,
};

use super::profile::LimitsConfig;
use super::{ErrorClass, ModelError, RateFacts, RateWindow};
use crate::backoff::Backoff;
use crate::metrics;

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
    refusals_max: u32,
}

/// A call's turn. Dropped, it is given back.
#[derive(Debug)]
pub struct Turn<'a> {
    limited: &'a Limited,
    call: String,
    /// Tokens that it is taken to need.
    tokens: u64,
    began: Instant,
    over: bool,
}

/// What comes of a turn.
#[derive(Debug)]
pub enum Ended<T> {
    /// The call is over.
    Over(Result<T, ModelError>),
    /// The provider has refused it, and it is to be made again when it has another turn.
    Again,
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
    /// The limits of a model of an account; none when neither of them has any.
    pub fn new(
        turns: &Turns,
        account: &str,
        model: &str,
        (of_model, of_all): (Option<&LimitsConfig>, Option<&LimitsConfig>),
    ) -> Option<Self> {
        let account: Arc<str> = account.into();
        let bucket = |model: Option<&str>, limits: Option<&LimitsConfig>| LimitBucket {
            account: account.clone(),
            model: model.map(Into::into),
            bounds: limits.map_or_else(LimitBounds::default, LimitsConfig::bounds),
        };
        let first = of_model.or(of_all)?;
        // The model's own is there in any case: it is what rests.
        let mut buckets = vec![bucket(Some(model), of_model)];
        if of_all.is_some_and(|limits| limits.bounds() != LimitBounds::default()) {
            buckets.push(bucket(None, of_all));
        }
        let refusals_max = first.refusals_max();
        Some(Self { turns: turns.clone(), buckets: buckets.into(), refusals_max })
    }

    /// Waits for the turn of a call that is taken to need so many tokens.
    pub async fn turn(&self, pace: &dyn Pace, call: &str, tokens: u64) -> Turn<'_> {
        let call = format!("{}/{call}", pace.attempt());
        loop {
            let LimitTaken::Wait { wait, bound, bucket } = self.take(&call, tokens).await else {
                return Turn { limited: self, call, tokens, began: Instant::now(), over: false };
            };
            metrics::MODEL_WAITS.count_of(self.model());
            pace.wait(wait, &self.reason(bound, bucket)).await;
        }
    }

    fn model(&self) -> &str {
        self.buckets.first().and_then(|bucket| bucket.model.as_deref()).unwrap_or_default()
    }

    fn reason(&self, bound: LimitBound, bucket: usize) -> String {
        let bucket = &self.buckets[bucket.min(self.buckets.len() - 1)];
        let profile = bucket.account.split('/').next().unwrap_or_default();
        let whose = match &bucket.model {
            Some(model) => format!("the model {model} of {profile}"),
            None => format!("{profile}, all its models together"),
        };
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

impl Turn<'_> {
    /// Waits for the answer and keeps the turn meanwhile.
    pub async fn during<T>(&self, answer: impl Future<Output = T>) -> T {
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
        self.over = true;
        match answer {
            Ok(answer) => {
                let Spent { tokens, rate } = spent(&answer);
                let counted = tokens.prompt.saturating_add(tokens.completion);
                let beyond = if counted == 0 { 0 } else { difference(counted, self.tokens) };
                let lasted = Some(self.began.elapsed());
                let rest = rest(rate, self.tokens);
                let left = LimitLeft { requests: rate.requests.remaining, tokens: rate.tokens.remaining };
                self.tell(GiveLimit { tokens: beyond, lasted, rest, left, ..self.gift() });
                Ended::Over(Ok(answer))
            }
            Err(error) if error.class == ErrorClass::RateLimit && error.retryable => {
                let after =
                    error.retry_after_ms.filter(|ms| *ms > 0).map_or(REST_UNSAID, Duration::from_millis);
                let tokens = if partly { 0 } else { difference(0, self.tokens) };
                let refused = GiveLimit { tokens, rest: after, refused: !partly, ..self.gift() };
                let so_far = self.limited.turns.0.give_limit(refused).await.unwrap_or_else(not_given);
                metrics::MODEL_RESTS.count_of(self.limited.model());
                tracing::info!(model = self.limited.model(), rest_ms = after.as_millis(), so_far, %error, "the model rests");
                if partly || so_far > self.limited.refusals_max {
                    return Ended::Over(Err(error));
                }
                Ended::Again
            }
            Err(error) => {
                self.tell(self.gift());
                Ended::Over(Err(error))
            }
        }
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
