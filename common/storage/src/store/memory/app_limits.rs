//! Limits of apps and keys in memory, with the behaviour of the scripts.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{
    AppLimits, LimitOf, LimitsMax, PlaceChange, PlaceTaken, Reached, RequestTaken, RunPlace, StoreError,
};
use tidemill_base::clock::Timestamp;

const SECOND_US: f64 = 1e6;

/// What is set, and what is counted.
#[derive(Default)]
pub(super) struct Limited {
    set: BTreeMap<LimitOf, String>,
    /// The time up to which the allowed requests are used, us.
    requests: BTreeMap<(String, Option<String>), f64>,
    places: BTreeMap<RunPlace, Timestamp>,
}

impl Limited {
    fn taken(&self, app: &str, key: Option<&str>) -> u64 {
        let is_of = |place: &&RunPlace| place.app == app && (key.is_none() || place.key.as_deref() == key);
        self.places.keys().filter(is_of).count() as u64
    }

    fn take_request(&mut self, app: &str, key: Option<&str>, max: LimitsMax, now: Timestamp) -> RequestTaken {
        let now = now.micros() as f64;
        let mut used = Vec::new();
        for (by, max, key) in [(Reached::App, max.app, None), (Reached::Key, max.key, key)] {
            if max == 0 || (by == Reached::Key && key.is_none()) {
                continue;
            }
            let of = (app.to_string(), key.map(str::to_string));
            let until = self.requests.get(&of).copied().unwrap_or(0.0).max(now) + SECOND_US / max as f64;
            let over = until - now - SECOND_US;
            if over >= 1.0 {
                let wait = Duration::from_millis((over / 1000.0).ceil() as u64);
                return RequestTaken::Refused { by, wait };
            }
            used.push((of, until));
        }
        self.requests.extend(used);
        RequestTaken::Taken
    }

    fn take_place(&mut self, place: &RunPlace, max: LimitsMax, now: Timestamp) -> PlaceTaken {
        // As in Redis, times are whole milliseconds.
        let now = Timestamp::from_millis(now.millis());
        if let Some(at) = self.places.get_mut(place) {
            *at = now;
            return PlaceTaken::Held;
        }
        if max.app > 0 && self.taken(&place.app, None) >= max.app {
            return PlaceTaken::Full(Reached::App);
        }
        if let Some(key) = &place.key
            && max.key > 0
            && self.taken(&place.app, Some(key)) >= max.key
        {
            return PlaceTaken::Full(Reached::Key);
        }
        self.places.insert(place.clone(), now);
        PlaceTaken::Taken
    }
}

#[async_trait]
impl AppLimits for MemoryStore {
    async fn limits_set(&self) -> Result<Vec<(LimitOf, String)>, StoreError> {
        Ok(self.inner.lock().limited.set.clone().into_iter().collect())
    }

    async fn put_limits(&self, of: &LimitOf, limits: Option<&str>) -> Result<(), StoreError> {
        let set = &mut self.inner.lock().limited.set;
        match limits {
            Some(limits) => set.insert(of.clone(), limits.into()),
            None => set.remove(of),
        };
        Ok(())
    }

    async fn take_request(
        &self,
        app: &str,
        key: Option<&str>,
        max: LimitsMax,
    ) -> Result<RequestTaken, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().limited.take_request(app, key, max, now))
    }

    async fn take_place(&self, place: &RunPlace, max: LimitsMax) -> Result<PlaceTaken, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().limited.take_place(place, max, now))
    }

    async fn change_places(&self, changes: &[(RunPlace, PlaceChange)]) -> Result<(), StoreError> {
        let places = &mut self.inner.lock().limited.places;
        for (place, change) in changes {
            match change {
                PlaceChange::Hold => {
                    places.entry(place.clone()).or_insert(Timestamp::from_millis(0));
                }
                PlaceChange::Give => {
                    places.remove(place);
                }
            }
        }
        Ok(())
    }

    async fn places(
        &self,
        app: &str,
        from: usize,
        count: usize,
    ) -> Result<Vec<(RunPlace, Timestamp)>, StoreError> {
        let space = self.inner.lock();
        let of_app = space.limited.places.iter().filter(|(place, _)| place.app == app);
        let mut found: Vec<(RunPlace, Timestamp)> = of_app.map(|(place, at)| (place.clone(), *at)).collect();
        found.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
        Ok(found.into_iter().skip(from).take(count).collect())
    }

    async fn places_taken(&self, app: &str, key: Option<&str>) -> Result<u64, StoreError> {
        Ok(self.inner.lock().limited.taken(app, key))
    }
}
