//! Limits of apps and keys: what is set, requests of a second, and places of runs.

use std::time::Duration;

use super::{Broken, Outcome, Subject, holds, same};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::{LimitOf, LimitsMax, PlaceChange, PlaceTaken, Reached, RequestTaken, RunPlace};

const MAX: LimitsMax = LimitsMax { app: 3, key: 2 };

/// Runs of several shards: an app's places are shared by all of them.
fn place(number: u64, key: Option<&str>) -> RunPlace {
    let shard = ShardId(u16::try_from(number % 2).unwrap_or(0));
    RunPlace { app: "a".into(), key: key.map(Into::into), run: RunId::new(number, 7, shard) }
}

pub(super) async fn limits_of_apps_and_keys_are_set_and_removed(s: Subject) -> Outcome {
    let limits = s.store.app_limits();
    let [app, key] = [LimitOf::App("a".into()), LimitOf::Key("k".into())];
    limits.put_limits(&app, Some("{}")).await?;
    limits.put_limits(&key, Some("[]")).await?;
    let mut all = limits.limits_set().await?;
    all.sort();
    same("both", all, vec![(app.clone(), "{}".to_string()), (key.clone(), "[]".to_string())])?;
    limits.put_limits(&app, None).await?;
    same("one", limits.limits_set().await?, vec![(key, "[]".to_string())])
}

pub(super) async fn a_run_takes_a_place_of_its_app_and_of_its_key_or_none(s: Subject) -> Outcome {
    let limits = s.store.app_limits();
    for (number, key, answer) in [
        (1, Some("k"), PlaceTaken::Taken),
        (2, Some("k"), PlaceTaken::Taken),
        // A request that is repeated takes no second place.
        (2, Some("k"), PlaceTaken::Held),
        (3, Some("k"), PlaceTaken::Full(Reached::Key)),
        (4, Some("other"), PlaceTaken::Taken),
        (5, Some("other"), PlaceTaken::Full(Reached::App)),
        (6, None, PlaceTaken::Full(Reached::App)),
        // A place that is held stays so in a full app.
        (1, Some("k"), PlaceTaken::Held),
    ] {
        same("a place", limits.take_place(&place(number, key), MAX).await?, answer)?;
    }
    same("taken by the app", limits.places_taken("a", None).await?, 3)?;
    same("taken by the key", limits.places_taken("a", Some("k")).await?, 2)?;
    let other = RunPlace { app: "b".into(), ..place(7, Some("k")) };
    same("another app", limits.take_place(&other, MAX).await?, PlaceTaken::Taken)?;
    let unlimited = LimitsMax { app: 0, key: 2 };
    same("no limit", limits.take_place(&place(8, None), unlimited).await?, PlaceTaken::Taken)
}

pub(super) async fn a_place_is_free_when_it_was_given_back_and_a_working_run_holds_one_above_the_limit(
    s: Subject,
) -> Outcome {
    let limits = s.store.app_limits();
    let [first, second, third] = [1, 2, 3].map(|number| place(number, Some("k")));
    limits.take_place(&first, MAX).await?;
    limits.take_place(&second, MAX).await?;
    limits.change_places(&[]).await?;
    for _ in 0..2 {
        // Repeated changes are harmless.
        limits.change_places(&[(first.clone(), PlaceChange::Give)]).await?;
    }
    same("free", limits.take_place(&third, MAX).await?, PlaceTaken::Taken)?;
    let changes = [(first.clone(), PlaceChange::Hold), (second.clone(), PlaceChange::Hold)];
    limits.change_places(&changes).await?;
    same("above the limit of the key", limits.places_taken("a", Some("k")).await?, 3)?;
    let full = limits.take_place(&place(4, Some("k")), MAX).await?;
    holds("it is full", matches!(full, PlaceTaken::Full(_)))?;
    let found = limits.places("a", 0, 10).await?;
    let runs: Vec<RunPlace> = found.iter().map(|(place, _)| place.clone()).collect();
    same("in the order of their times", runs, vec![first, second, third])?;
    holds("a place that is only held has no time", found[0].1.millis() == 0)?;
    holds("a place that was taken has its time", found[1].1.millis() > 0)?;
    same("pages", limits.places("a", 1, 1).await?.len(), 1)?;
    same("the end", limits.places("a", 3, 10).await?, Vec::new())
}

impl Subject {
    /// Sends requests until one is refused; at most `most`.
    async fn requests(
        &self,
        app: &str,
        key: Option<&str>,
        max: LimitsMax,
        most: usize,
    ) -> Result<(usize, Option<(Reached, Duration)>), Broken> {
        for sent in 0..most {
            if let RequestTaken::Refused { by, wait } =
                self.store.app_limits().take_request(app, key, max).await?
            {
                return Ok((sent, Some((by, wait))));
            }
        }
        Ok((most, None))
    }
}

pub(super) async fn requests_above_the_limit_of_a_second_are_refused_until_some_time_has_passed(
    s: Subject,
) -> Outcome {
    let max = LimitsMax { app: 2, key: 0 };
    // On a slow machine the next one becomes possible meanwhile.
    let (sent, refused) = s.requests("a", Some("k"), max, 1000).await?;
    holds("as many at once as in a second", (2..1000).contains(&sent))?;
    let (by, wait) = refused.unwrap_or((Reached::Key, Duration::ZERO));
    same("by", by, Reached::App)?;
    holds("a wait", wait > Duration::ZERO && wait <= Duration::from_secs(1))?;
    s.control.advance(wait + Duration::from_millis(2)).await;
    same("after the wait", s.requests("a", Some("k"), max, 1).await?, (1, None))?;
    // The limit of a key is counted besides, and a refused request counts for neither.
    let max = LimitsMax { app: 1000, key: 1 };
    let (_, refused) = s.requests("b", Some("k"), max, 1000).await?;
    same("by the key", refused.map(|(by, _)| by), Some(Reached::Key))?;
    same("another key", s.requests("b", Some("l"), max, 1).await?, (1, None))?;
    same("no key", s.requests("b", None, max, 5).await?, (5, None))
}
