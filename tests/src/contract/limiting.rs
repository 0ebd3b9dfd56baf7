//! Rate limits of models: admission by shared buckets, waiting, and pauses.

use std::time::Duration;

use super::{Broken, Outcome, Subject, holds, same};
use tidemill_common::store::{
    GiveLimit, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, TakeLimit,
};

const LEASE: Duration = Duration::from_secs(60);

fn bucket(model: Option<&str>, requests: u64, tokens: u64, concurrency: u64) -> LimitBucket {
    let bounds = LimitBounds { requests_per_minute: requests, tokens_per_minute: tokens, concurrency };
    LimitBucket { account: "openai/1".into(), model: model.map(Into::into), bounds }
}

impl Subject {
    async fn take(&self, buckets: &[LimitBucket], call: &str, tokens: u64) -> Result<LimitTaken, Broken> {
        Ok(self.store.take_limit(TakeLimit { buckets, call, tokens, lease: LEASE }).await?)
    }

    async fn waits(
        &self,
        buckets: &[LimitBucket],
        call: &str,
        tokens: u64,
    ) -> Result<(Duration, LimitBound, usize), Broken> {
        match self.take(buckets, call, tokens).await? {
            LimitTaken::Wait { wait, bound, bucket } => Ok((wait, bound, bucket)),
            LimitTaken::Taken => Err(Broken::Promise(format!("{call} should have to wait"))),
        }
    }

    /// Takes until a call has to wait, and returns its name: on a slow machine the limit has grown meanwhile.
    async fn first_that_waits(&self, buckets: &[LimitBucket]) -> Result<(String, Duration), Broken> {
        for n in 0..60 {
            let call = format!("first {n}");
            if let LimitTaken::Wait { wait, .. } = self.take(buckets, &call, 0).await? {
                return Ok((call, wait));
            }
        }
        Err(Broken::Promise("a call should have to wait".into()))
    }

    async fn give(&self, give: GiveLimit<'_>) -> Result<u32, Broken> {
        Ok(self.store.give_limit(give).await?)
    }
}

/// The end of a call that succeeded with the expected tokens.
const fn well<'a>(buckets: &'a [LimitBucket], call: &'a str) -> GiveLimit<'a> {
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

/// Checks a wait at one call a second; a clock that runs on its own may have used up part of it.
fn about(what: &str, wait: Duration, seconds: f64) -> Outcome {
    let is = wait.as_secs_f64();
    holds(&format!("{what}: about {seconds} s, is {is}"), is <= seconds + 0.002 && is > seconds - 0.9)
}

pub(super) async fn a_call_is_admitted_by_all_buckets_or_by_none(s: Subject) -> Outcome {
    let (of_a, of_b) = (bucket(Some("a"), 0, 0, 0), bucket(Some("b"), 0, 0, 1));
    let all = bucket(None, 2, 0, 0);
    let (a, b) = ([of_a, all.clone()], [of_b, all]);
    same("the first", s.take(&b, "1", 5).await?, LimitTaken::Taken)?;
    let (_, bound, at) = s.waits(&b, "2", 5).await?;
    same("its model allows one call at a time", (bound, at), (LimitBound::Concurrency, 0))?;
    same("and the bucket of all models is unchanged", s.take(&a, "3", 5).await?, LimitTaken::Taken)?;
    let (wait, bound, at) = s.waits(&a, "4", 5).await?;
    same("all models together have two calls a minute", (bound, at), (LimitBound::Requests, 1))?;
    holds("half a minute until the next", wait > Duration::from_secs(25) && wait <= Duration::from_secs(30))
}

pub(super) async fn a_call_that_is_requested_again_is_counted_once(s: Subject) -> Outcome {
    let buckets = [bucket(Some("a"), 2, 0, 2)];
    for _ in 0..3 {
        same("the same call", s.take(&buckets, "1", 0).await?, LimitTaken::Taken)?;
    }
    same("another", s.take(&buckets, "2", 0).await?, LimitTaken::Taken)?;
    s.waits(&buckets, "3", 0).await.map(drop)
}

pub(super) async fn waiting_calls_are_admitted_one_by_one(s: Subject) -> Outcome {
    let buckets = [bucket(Some("a"), 60, 0, 0)];
    for n in 0..60 {
        same(
            "within the limit of a minute",
            s.take(&buckets, &format!("at once {n}"), 0).await?,
            LimitTaken::Taken,
        )?;
    }
    let (due, first) = s.first_that_waits(&buckets).await?;
    let (second, ..) = s.waits(&buckets, "second", 0).await?;
    let (third, ..) = s.waits(&buckets, "third", 0).await?;
    holds("the first: at most a second", first <= Duration::from_millis(1002))?;
    about("the second", second, first.as_secs_f64() + 1.0)?;
    about("the third", third, first.as_secs_f64() + 2.0)?;
    if s.control.patience() < first + Duration::from_millis(100) {
        return Ok(());
    }
    s.control.advance(first + Duration::from_millis(20)).await;
    let (late, ..) = s.waits(&buckets, "late", 0).await?;
    about("a later call comes last", late, 3.0)?;
    same("a due call is admitted", s.take(&buckets, &due, 0).await?, LimitTaken::Taken)
}

pub(super) async fn tokens_are_corrected_by_the_usage_of_a_call(s: Subject) -> Outcome {
    let buckets = [bucket(Some("a"), 0, 600, 0)];
    same("as estimated", s.take(&buckets, "1", 500).await?, LimitTaken::Taken)?;
    same("too much for now", s.waits(&buckets, "2", 300).await?.1, LimitBound::Tokens)?;
    let fewer = GiveLimit { tokens: -400, ..well(&buckets, "1") };
    s.give(fewer).await?;
    s.give(fewer).await?;
    same("it used fewer tokens", s.take(&buckets, "2", 300).await?, LimitTaken::Taken)?;
    let (wait, ..) = s.waits(&buckets, "3", 400).await?;
    holds(
        "and the level was corrected once",
        wait > Duration::from_secs(15) && wait <= Duration::from_secs(20),
    )?;
    let more = [bucket(Some("b"), 0, 600, 0)];
    let larger = s.take(&more, "4", 10_000).await?;
    same(
        "a call that needs more than the limit is admitted when the bucket is full",
        larger,
        LimitTaken::Taken,
    )
}

pub(super) async fn places_are_free_again_when_returned_or_expired(s: Subject) -> Outcome {
    let buckets = [bucket(Some("a"), 0, 0, 1)];
    let lease = s.control.lease();
    let short = TakeLimit { buckets: &buckets, call: "1", tokens: 0, lease };
    same("the first call gets the place", s.store.take_limit(short).await?, LimitTaken::Taken)?;
    same("the place is in use", s.waits(&buckets, "2", 0).await?.1, LimitBound::Concurrency)?;
    s.give(well(&buckets, "1")).await?;
    same(
        "the place is free",
        s.store.take_limit(TakeLimit { call: "2", ..short }).await?,
        LimitTaken::Taken,
    )?;
    same("the place is in use again", s.waits(&buckets, "3", 0).await?.1, LimitBound::Concurrency)?;
    if s.control.patience() < lease {
        return Ok(());
    }
    s.control.advance(lease + Duration::from_millis(50)).await;
    same("its lease has ended", s.take(&buckets, "3", 0).await?, LimitTaken::Taken)
}

pub(super) async fn a_model_that_refuses_is_paused_and_others_continue(s: Subject) -> Outcome {
    let (a, b) = ([bucket(Some("a"), 60, 0, 0)], [bucket(Some("b"), 60, 0, 0)]);
    same("it is admitted", s.take(&a, "1", 0).await?, LimitTaken::Taken)?;
    let refused = |seconds| GiveLimit { rest: Duration::from_secs(seconds), refused: true, ..well(&a, "1") };
    same("it was refused once", s.give(refused(30)).await?, 1)?;
    same("twice", s.give(refused(10)).await?, 2)?;
    let (wait, bound, _) = s.waits(&a, "2", 0).await?;
    same("it is paused", bound, LimitBound::Rest)?;
    holds("as long as requested", wait > Duration::from_secs(25) && wait <= Duration::from_secs(30))?;
    same("other calls were not refused", s.give(well(&a, "2")).await?, 0)?;
    same("another model continues", s.take(&b, "3", 0).await?, LimitTaken::Taken)
}

pub(super) async fn the_remaining_limit_of_a_provider_lowers_a_level_and_never_raises_it(
    s: Subject,
) -> Outcome {
    let buckets = [bucket(Some("a"), 60, 6000, 0), bucket(None, 600, 0, 0)];
    same("it is admitted", s.take(&buckets, "1", 1000).await?, LimitTaken::Taken)?;
    let left = |requests, tokens| GiveLimit { left: LimitLeft { requests, tokens }, ..well(&buckets, "1") };
    s.give(left(Some(1000), Some(1_000_000))).await?;
    s.give(left(None, Some(500))).await?;
    let (wait, bound, at) = s.waits(&buckets, "2", 1500).await?;
    same("tokens were lowered, of the model", (bound, at), (LimitBound::Tokens, 0))?;
    about("a thousand are missing, at a hundred a second", wait, 10.0)?;
    s.give(left(Some(1000), Some(1_000_000))).await?;
    same("and were not raised", s.waits(&buckets, "2", 1500).await?.1, LimitBound::Tokens)?;
    same("few are enough", s.take(&buckets, "3", 100).await?, LimitTaken::Taken)?;
    let few = [bucket(Some("c"), 60, 0, 0)];
    same("another call is admitted", s.take(&few, "4", 0).await?, LimitTaken::Taken)?;
    s.give(GiveLimit { left: LimitLeft { requests: Some(0), tokens: None }, ..well(&few, "4") }).await?;
    let (wait, bound, at) = s.waits(&few, "5", 0).await?;
    same("requests were lowered", (bound, at), (LimitBound::Requests, 0))?;
    about("one comes back a second", wait, 1.0)?;
    let unbounded = [bucket(Some("b"), 0, 0, 0)];
    let said = LimitLeft { requests: Some(0), tokens: Some(0) };
    s.give(GiveLimit { left: said, ..well(&unbounded, "6") }).await?;
    same("a bucket without a limit has no level", s.take(&unbounded, "7", 10).await?, LimitTaken::Taken)
}
