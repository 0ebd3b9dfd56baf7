//! Limits of apps and of API keys: the stored limits, the requests of a second, and the places of runs.
//!
//! A run of an app that has a limit holds a place from its creation to its end. The places of an app are one sorted set,
//! with one script that compares and takes, so schedulers and shards share one bound exactly. Two ways were compared:
//! - to count in the script that creates the run and in the commit that ends it: on a cluster the counter of an app is in
//!   another slot than most of its runs, so it would have to be one counter for each shard, and no sum of them is exact;
//! - to take the place first, and to give it back after the commit that ends the run (chosen). A process that dies between
//!   the two leaves a place without a run that works. Places have the ids of their runs, so a sweep finds each, and what is
//!   done twice changes nothing.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::RunId;

/// The owner of a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitOf {
    /// The app with this id.
    App(String),
    /// The API key with this id.
    Key(String),
}

impl LimitOf {
    /// The stored name.
    pub fn name(&self) -> String {
        match self {
            Self::App(id) => format!("app:{id}"),
            Self::Key(id) => format!("key:{id}"),
        }
    }

    /// Reads the stored name; `None` for an owner of a later version.
    pub fn named(name: &str) -> Option<Self> {
        let (kind, id) = name.split_once(':')?;
        match kind {
            "app" => Some(Self::App(id.into())),
            "key" => Some(Self::Key(id.into())),
            _ => None,
        }
    }
}

/// Limits of one kind that hold together; 0: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitsMax {
    pub app: u64,
    pub key: u64,
}

impl LimitsMax {
    /// True when nothing is limited.
    pub fn are_none(self) -> bool {
        self == Self::default()
    }
}

/// The one of two limits that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reached {
    /// That of the app.
    App,
    /// That of the API key.
    Key,
}

impl Reached {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Key => "key",
        }
    }
}

/// The place of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPlace {
    pub app: String,
    /// The id of the API key of the run.
    pub key: Option<String>,
    pub run: RunId,
}

/// The result of taking a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceTaken {
    /// It is taken now.
    Taken,
    /// The run holds it already; its time starts again.
    Held,
    /// All places are taken; nothing was done.
    Full(Reached),
}

/// The result of counting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTaken {
    /// It is counted.
    Taken,
    /// There are too many; it is not counted.
    Refused {
        by: Reached,
        /// When the next one is possible; never zero.
        wait: Duration,
    },
}

/// A change of a place that no limit refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceChange {
    /// The run exists and works: it holds its place, also above the limit.
    Hold,
    /// The run has ended, waits, or does not exist.
    Give,
}

/// The store of limits of apps and keys.
#[async_trait]
pub trait AppLimits: Send + Sync {
    /// All stored limits, as JSON.
    async fn limits_set(&self) -> Result<Vec<(LimitOf, String)>, StoreError>;
    /// Stores or removes limits.
    async fn put_limits(&self, of: &LimitOf, limits: Option<&str>) -> Result<(), StoreError>;
    /// Counts a request for its app and its key, or for neither. After a quiet second so many may come at once, and then
    /// evenly.
    async fn take_request(
        &self,
        app: &str,
        key: Option<&str>,
        max: LimitsMax,
    ) -> Result<RequestTaken, StoreError>;
    /// Takes a place for a run that is about to be created, of its app and of its key, or of neither. The cost does not
    /// depend on the number of places.
    async fn take_place(&self, place: &RunPlace, max: LimitsMax) -> Result<PlaceTaken, StoreError>;
    /// Changes places. May be repeated. Runs whose place is held like this exist, so the time of the place is 0.
    async fn change_places(&self, changes: &[(RunPlace, PlaceChange)]) -> Result<(), StoreError>;
    /// Places of an app by the time when they were taken, with that time.
    async fn places(
        &self,
        app: &str,
        from: usize,
        count: usize,
    ) -> Result<Vec<(RunPlace, Timestamp)>, StoreError>;
    /// The number of places that an app has taken; of one of its keys if given.
    async fn places_taken(&self, app: &str, key: Option<&str>) -> Result<u64, StoreError>;
}

/// The text of a place in the set of its app.
pub(super) fn member(place: &RunPlace) -> String {
    match &place.key {
        Some(key) => format!("{} {key}", place.run),
        None => place.run.to_string(),
    }
}

/// Reads [`member`].
pub(super) fn place_of(app: &str, member: &str) -> Option<RunPlace> {
    let (run, key) = match member.split_once(' ') {
        Some((run, key)) => (run, Some(key.to_string())),
        None => (member, None),
    };
    Some(RunPlace { app: app.into(), key, run: run.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::ids::ShardId;

    #[test]
    fn places_and_owners_are_read_as_they_were_written() {
        let run = RunId::new(1, 2, ShardId(3));
        for key in [None, Some("k1".to_string())] {
            let place = RunPlace { app: "a".into(), key, run };
            assert_eq!(place_of("a", &member(&place)), Some(place));
        }
        assert_eq!(place_of("a", "no run"), None);
        for of in [LimitOf::App("a:b".into()), LimitOf::Key("k".into())] {
            assert_eq!(LimitOf::named(&of.name()), Some(of));
        }
        assert_eq!(LimitOf::named("tenant:x"), None);
    }
}
