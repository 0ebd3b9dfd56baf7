//! Limits of apps and keys in Redis. `tm:limits` holds what is set. What an app and its keys count is in one slot.

use async_trait::async_trait;

use super::RedisStore;
use super::connection::{Arg, args};
use crate::store::app_limits::{member, place_of};
use crate::store::redis::connection::replies::unexpected;
use crate::store::{
    AppLimits, LimitOf, LimitsMax, PlaceChange, PlaceTaken, Reached, RequestTaken, RunPlace, StoreError,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::limits;

#[async_trait]
impl AppLimits for RedisStore {
    async fn limits_set(&self) -> Result<Vec<(LimitOf, String)>, StoreError> {
        let all = self.hash_of(self.keys.limits_set()).await?;
        Ok(all.into_iter().filter_map(|(name, text)| Some((LimitOf::named(&name)?, text))).collect())
    }

    async fn put_limits(&self, of: &LimitOf, limits: Option<&str>) -> Result<(), StoreError> {
        let mut command = redis::cmd(if limits.is_some() { "HSET" } else { "HDEL" });
        command.arg(self.keys.limits_set()).arg(of.name());
        if let Some(limits) = limits {
            command.arg(limits);
        }
        let _: u64 = self.connector.ask("setting the limits of an app or a key", &command).await?;
        Ok(())
    }

    async fn take_request(
        &self,
        app: &str,
        key: Option<&str>,
        max: LimitsMax,
    ) -> Result<RequestTaken, StoreError> {
        const DOING: &str = "counting a request";
        let keys = [self.keys.limited(app, "requests", None), self.keys.limited(app, "requests", key)];
        let key_max = if key.is_some() { max.key } else { 0 };
        let list: Vec<Arg<'_>> = Vec::from(args![max.app, key_max]);
        let words: Vec<String> = self.connector.run(DOING, &self.scripts.take_request, &keys, &list).await?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["TAKEN"] => Ok(RequestTaken::Taken),
            [who @ ("APP" | "KEY"), ms] => {
                let ms: u64 = ms.parse().map_err(|_| unexpected(DOING, "a wait has no time"))?;
                let by = if who == "APP" { Reached::App } else { Reached::Key };
                Ok(RequestTaken::Refused { by, wait: std::time::Duration::from_millis(ms.max(1)) })
            }
            _ => Err(unexpected(DOING, words.join(" "))),
        }
    }

    async fn take_place(&self, place: &RunPlace, max: LimitsMax) -> Result<PlaceTaken, StoreError> {
        const DOING: &str = "taking a place for a run";
        let keys = [
            self.keys.limited(&place.app, "runs", None),
            self.keys.limited(&place.app, "runs", place.key.as_deref()),
        ];
        let list: Vec<Arg<'_>> = Vec::from(args![
            member(place),
            place.run.to_string(),
            max.app,
            max.key,
            limits::PLACES_KEPT_SECONDS
        ]);
        let word: String = self.connector.run(DOING, &self.scripts.take_place, &keys, &list).await?;
        match word.as_str() {
            "TAKEN" => Ok(PlaceTaken::Taken),
            "HELD" => Ok(PlaceTaken::Held),
            "APP" => Ok(PlaceTaken::Full(Reached::App)),
            "KEY" => Ok(PlaceTaken::Full(Reached::Key)),
            _ => Err(unexpected(DOING, word)),
        }
    }

    async fn change_places(&self, changes: &[(RunPlace, PlaceChange)]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for (place, change) in changes {
            let of_app = self.keys.limited(&place.app, "runs", None);
            let of_key = place.key.as_deref().map(|key| self.keys.limited(&place.app, "runs", Some(key)));
            let both = [Some((of_app, member(place))), of_key.map(|key| (key, place.run.to_string()))];
            let both = both.into_iter().flatten();
            match change {
                // The set of the app is complete at any time: the sweep looks there.
                PlaceChange::Hold => both.for_each(|(key, member)| {
                    pipe.cmd("ZADD").arg(&key).arg("NX").arg(0).arg(member).ignore();
                    pipe.cmd("EXPIRE").arg(&key).arg(limits::PLACES_KEPT_SECONDS).ignore();
                }),
                PlaceChange::Give => both.rev().for_each(|(key, member)| {
                    pipe.cmd("ZREM").arg(key).arg(member).ignore();
                }),
            }
        }
        self.connector.ask_all("giving places of runs back", &pipe).await
    }

    async fn places(
        &self,
        app: &str,
        from: usize,
        count: usize,
    ) -> Result<Vec<(RunPlace, Timestamp)>, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.keys.limited(app, "runs", None));
        command.arg(from).arg((from + count).saturating_sub(1)).arg("WITHSCORES");
        let found: Vec<(String, i64)> = self.connector.ask("reading the places of an app", &command).await?;
        let read = |(member, at): (String, i64)| Some((place_of(app, &member)?, Timestamp::from_millis(at)));
        Ok(found.into_iter().filter_map(read).collect())
    }

    async fn places_taken(&self, app: &str, key: Option<&str>) -> Result<u64, StoreError> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.keys.limited(app, "runs", key));
        self.connector.ask("counting the places of an app", &command).await
    }
}
