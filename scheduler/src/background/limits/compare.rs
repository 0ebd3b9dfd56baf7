//! Places and runs are compared, because a process may die between a change of one and of the other:
//!
//! - the sweep gives places back whose run has ended, waits, or was never created;
//! - the count gives places to runs that work and hold none: they continued, were imported, or began before the limit was set.
//!
//! Each app is swept by the owner of its shard, each shard is counted by its owner. An app or a shard that cannot be looked at
//! stops no other one, and a run whose shard does not answer holds its place. All changes may be repeated.
//!
//! The owner of an app's shard may be busy, or be of a version that knows no limits. So a scheduler that refuses a run looks
//! at some places of the full app itself, at most once a second for each app.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{ListRuns, PlaceChange, RunPlace, StoreError, shard_of};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::{Limited, Limiter, is_first};
use crate::shards::lease::Lease;

/// The pause between two reads of what is set, and between two looks at the places of an app that refuses runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause while no limit is set. The first limit of a namespace is in force after this time.
const UNUSED: Duration = Duration::from_secs(5);
/// The pause between two sweeps: a place without a run that works is free after this time.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The pause between two counts of the runs that work.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// The longest time between taking a place and the creation of the run. A request that takes longer takes its place again.
pub(super) const CREATED_WITHIN: Duration = Duration::from_secs(60);
/// The longest time that a refused request waits for a look at the places of its app.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// For how long the place of the last look at an app is remembered.
const LOOK_REMEMBERED: Duration = Duration::from_secs(60);
/// Places or runs that are looked at together.
const PAGE: usize = 500;
/// The pause between two pages, so that other requests come between them.
const PAGE_PAUSE: Duration = Duration::from_millis(5);
/// Apps that are swept, and shards that are counted, at the same time.
const AT_ONCE: usize = 8;

/// One of the two comparisons. Neither waits for the other.
#[derive(Clone, Copy)]
enum Work {
    Sweep,
    Count,
}

impl Work {
    const fn every(self) -> Duration {
        match self {
            Self::Sweep => SWEEP_EVERY,
            Self::Count => COUNT_EVERY,
        }
    }
}

/// The last look at the places of an app that refused a run.
pub(super) struct Look {
    at: Instant,
    /// The place where the next look begins.
    next: usize,
}

/// What a look at a page of places has done.
struct Swept {
    freed: usize,
    /// The place where the next page begins; `None` after the last page.
    next: Option<usize>,
}

impl Limiter {
    /// Reads what is set, until `stop` is set.
    pub(crate) async fn watch(self: Arc<Self>, mut stop: Receiver<bool>) {
        let mut is_failing = false;
        while !*stop.borrow() {
            let read = self.refresh().await;
            if let (Err(error), false) = (&read, is_failing) {
                tracing::warn!(%error, "the limits of apps and keys cannot be read yet");
            }
            is_failing = read.is_err();
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(self.pause()) => {}
            }
        }
    }

    fn pause(&self) -> Duration {
        if self.is_used() { LOOK_EVERY } else { UNUSED }
    }

    /// Sweeps and counts for the shards of this process, until `stop` is set.
    pub(crate) async fn run(self: Arc<Self>, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let (sweeps, counts) = (self.repeat(&lease, Work::Sweep), self.repeat(&lease, Work::Count));
        // All changes may be repeated, so both may end anywhere.
        tokio::select! {
            _ = stop.wait_for(|stops| *stops) => {}
            () = sweeps => {}
            () = counts => {}
        }
    }

    /// Works for the shards of this process, again after some time and after each change of a limit of runs.
    async fn repeat(&self, lease: &Lease, work: Work) {
        let (mut begun, mut seen): (Option<Instant>, u64) = (None, 0);
        loop {
            let (shards, changes) = (lease.shards(), self.changes_of_runs.load(Ordering::Relaxed));
            let is_due = changes != seen || begun.is_none_or(|at| at.elapsed() >= work.every());
            if is_due && !shards.is_empty() {
                (begun, seen) = (Some(Instant::now()), changes);
                match work {
                    Work::Sweep => self.sweep(&shards).await,
                    Work::Count => self.count(&shards).await,
                }
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// Gives places back that no working run holds, of the apps that belong to these shards.
    pub(super) async fn sweep(&self, shards: &[ShardId]) {
        let (apps, now) = match self.apps_on(shards).await {
            Ok(found) => found,
            Err(error) => return self.note_failure("", &error),
        };
        let swept = stream::iter(apps).for_each_concurrent(AT_ONCE, |app| async move {
            if let Err(error) = self.sweep_app(&app, now).await {
                self.note_failure(&app, &error);
            }
        });
        swept.await;
    }

    /// The apps whose runs are limited and that belong to these shards, and the time.
    async fn apps_on(&self, shards: &[ShardId]) -> Result<(Vec<String>, Timestamp), StoreError> {
        let apps: Vec<String> = match self.apps_with_places() {
            Some(apps) => apps.into_iter().collect(),
            None => self.store.apps().await?,
        };
        if apps.is_empty() {
            return Ok((apps, Timestamp::from_millis(0)));
        }
        let (meta, now) = (self.store.meta().await?, self.store.time().await?);
        let own = apps.into_iter().filter(|app| shards.contains(&shard_of(app, meta)));
        Ok((own.collect(), now))
    }

    async fn sweep_app(&self, app: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut from = 0;
        while let Some(next) = self.sweep_page(app, from, now).await?.next {
            from = next;
            tokio::time::sleep(PAGE_PAUSE).await;
        }
        Ok(())
    }

    async fn sweep_page(&self, app: &str, from: usize, now: Timestamp) -> Result<Swept, StoreError> {
        let page = self.store.app_limits().places(app, from, PAGE).await?;
        let free = self.free_among(app, page.found, now).await;
        self.store.app_limits().change_places(&free).await?;
        if !free.is_empty() {
            tracing::debug!(app, count = free.len(), "places without a working run were given back");
        }
        let next = (page.read >= PAGE).then(|| from + page.read - free.len());
        Ok(Swept { freed: free.len(), next })
    }

    /// The places that no working run holds. A run whose shard does not answer holds its place.
    async fn free_among(
        &self,
        app: &str,
        places: Vec<(RunPlace, Timestamp)>,
        now: Timestamp,
    ) -> Vec<(RunPlace, PlaceChange)> {
        if places.is_empty() {
            return Vec::new();
        }
        if let Ok(free) = self.free_of(&places, now).await {
            return free;
        }
        let mut of_shards: BTreeMap<ShardId, Vec<(RunPlace, Timestamp)>> = BTreeMap::new();
        for place in places {
            of_shards.entry(place.0.run.shard()).or_default().push(place);
        }
        let asked = of_shards.values().map(|places| self.free_of(places, now));
        let mut free = Vec::new();
        for answer in join_all(asked).await {
            match answer {
                Ok(of_shard) => free.extend(of_shard),
                Err(error) => self.note_failure(app, &error),
            }
        }
        free
    }

    async fn free_of(
        &self,
        places: &[(RunPlace, Timestamp)],
        now: Timestamp,
    ) -> Result<Vec<(RunPlace, PlaceChange)>, StoreError> {
        let runs: Vec<RunId> = places.iter().map(|(place, _)| place.run).collect();
        let fields = self.store.app_records().fields_of_runs(&runs, &["status"]).await?;
        let is_free = |fields: &HashMap<String, String>, taken_at: Timestamp| {
            let status = fields.get("status").map(String::as_str);
            // It may be created yet.
            let is_new = status.is_none() && taken_at.plus(CREATED_WITHIN) > now;
            !is_new && !works(status)
        };
        let free = places.iter().zip(&fields).filter(|((_, taken_at), fields)| is_free(fields, *taken_at));
        Ok(free.map(|((place, _), _)| (place.clone(), PlaceChange::Give)).collect())
    }

    /// Looks at some places of an app that is full, at most once a second. Returns true if one is free now.
    pub(super) async fn frees_some(&self, app: &str) -> bool {
        let from = {
            let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            looks.retain(|_, look| look.at.elapsed() < LOOK_REMEMBERED);
            let at = Instant::now();
            let look = match looks.get_mut(app) {
                Some(look) if look.at.elapsed() < LOOK_EVERY => return false,
                Some(look) => look,
                None => looks.entry(app.into()).or_insert(Look { at, next: 0 }),
            };
            look.at = at;
            look.next
        };
        let looked = async { self.sweep_page(app, from, self.store.time().await?).await };
        let swept = match tokio::time::timeout(LOOK_WITHIN, looked).await {
            Ok(Ok(swept)) => swept,
            Ok(Err(error)) => {
                self.note_failure(app, &error);
                return false;
            }
            Err(_late) => return false,
        };
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look) = looks.get_mut(app) {
            look.next = swept.next.unwrap_or(0);
        }
        swept.freed > 0
    }

    /// Gives a place to each run on these shards that works and whose app or key is limited.
    pub(super) async fn count(&self, shards: &[ShardId]) {
        if self.apps_with_places().is_some_and(|apps| apps.is_empty()) {
            return;
        }
        let counted = stream::iter(shards.to_vec()).for_each_concurrent(AT_ONCE, |shard| async move {
            if let Err(error) = self.count_shard(shard).await {
                self.note_failure("", &error);
            }
        });
        counted.await;
    }

    async fn count_shard(&self, shard: ShardId) -> Result<(), StoreError> {
        for status in [RunStatus::Running, RunStatus::Scheduled] {
            let mut before: Option<Timestamp> = None;
            loop {
                let (status, shards) = (Some(status), Some(vec![shard]));
                let query = ListRuns { status, before, shards, limit: PAGE, ..ListRuns::default() };
                let runs = self.store.list_runs(&query).await?;
                let names = ["app", "key", "caller", "status", "created_at"];
                let fields = self.store.app_records().fields_of_runs(&runs, &names).await?;
                let (is_full, earlier) = (runs.len() >= PAGE, before);
                let created = |fields: &HashMap<String, String>| fields.get("created_at")?.parse().ok();
                before = fields.iter().rev().find_map(created).map(Timestamp::from_micros).or(before);
                let working =
                    runs.into_iter().zip(&fields).filter_map(|(run, fields)| self.working(run, fields));
                let working: Vec<_> = working.map(|place| (place, PlaceChange::Hold)).collect();
                self.store.app_limits().change_places(&working).await?;
                // The time did not move on (all runs of the page were removed): the next page would be the same one.
                if !is_full || before == earlier {
                    break;
                }
                tokio::time::sleep(PAGE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// The place of a run that works and is limited.
    fn working(&self, run: RunId, fields: &HashMap<String, String>) -> Option<RunPlace> {
        let (app, key) = (fields.get("app")?, fields.get("key"));
        let is_working = fields.contains_key("status") && works(fields.get("status").map(String::as_str));
        let is_limited = || !self.known_max(Limited::Runs, app, key.map(String::as_str)).are_none();
        let holds = is_working && !fields.contains_key("caller") && is_limited();
        holds.then(|| RunPlace { app: app.clone(), key: key.cloned(), run })
    }

    /// Logs a failure, once a minute for each app.
    fn note_failure(&self, app: &str, error: &StoreError) {
        if is_first(&self.failed, app.to_owned()) {
            tracing::warn!(app, %error, "places of runs cannot all be compared with the runs yet");
        }
    }

    /// The apps whose runs are limited, by their own limit or by that of a key; `None`: all.
    fn apps_with_places(&self) -> Option<BTreeSet<String>> {
        let is_set = |own: &super::OwnLimits| own.get(Limited::Runs).is_some_and(|max| max > 0);
        if is_set(&self.of_app) || is_set(&self.of_key) {
            return None;
        }
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let apps = table.apps.iter().filter(|(_, own)| is_set(own)).map(|(app, _)| app.clone());
        let of_keys = table.keys.values().filter(|(_, own)| is_set(own)).map(|(app, _)| app.clone());
        Some(apps.chain(of_keys).collect())
    }
}

/// Whether a run with this status holds a place; `None`: it does not exist.
pub(super) fn works(status: Option<&str>) -> bool {
    match status.map(RunStatus::from_name) {
        None => false,
        Some(Some(status)) => !status.is_over() && status != RunStatus::Paused,
        // A status of a later version.
        Some(None) => true,
    }
}
