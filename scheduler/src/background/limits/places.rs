//! The places of runs. A run takes one before it is created. The owner of its shard gives it back after the commit that
//! ends the run or lets it wait. A process may die between the two, so places and runs are compared:
//!
//! - the sweep gives places back whose run has ended, waits, or was never created;
//! - the count gives places to runs that work and hold none: they continued, were imported, or began before the limit was set.
//!
//! Each app and each shard is looked at by one scheduler, and in pieces. All changes may be repeated.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::state::run::{RunHead, RunStatus};
use tidemill_common::store::{ListRuns, PlaceChange, PlaceTaken, RunPlace, StoreError, shard_of};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::{Limited, Limiter, OverLimit};
use crate::shards::lease::Lease;
use crate::submit::SubmitError;

/// The pause between two reads of what is set.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause while no limit is set. The first limit of a namespace is in force after this time.
const UNUSED: Duration = Duration::from_secs(5);
/// The pause between two sweeps: a place without a run that works is free after this time.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The pause between two counts of the runs that work.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// The longest time between taking a place and the creation of the run. A request that takes longer takes its place again.
const CREATED_WITHIN: Duration = Duration::from_secs(60);
/// Places of an app that one sweep looks at, and runs in one page of a count.
const PAGE: usize = 500;
/// Changes that are sent at once.
const CHANGES_AT_ONCE: usize = 256;
/// After the signal to stop, changes are still sent until none has come for this time: shards finish their commits.
const DRAIN: Duration = Duration::from_secs(2);

/// The place of a run that is about to be created.
#[derive(Debug, Clone)]
pub(crate) struct TakenPlace {
    place: RunPlace,
    taken_at: Instant,
    /// No earlier request for the same run held it.
    is_new: bool,
}

impl Limiter {
    /// Takes a place for a run that is about to be created; `None` when no limit is in force.
    ///
    /// # Errors
    /// [`SubmitError::OverLimit`] when the app or the key has none left; errors of the store.
    pub(crate) async fn take(
        &self,
        app: &str,
        key: Option<&str>,
        run: RunId,
    ) -> Result<Option<TakenPlace>, SubmitError> {
        let max = self.max(Limited::Runs, app, key).await;
        if max.are_none() {
            return Ok(None);
        }
        let place = RunPlace { app: app.into(), key: key.map(Into::into), run };
        let taken_at = Instant::now();
        match self.store.app_limits().take_place(&place, max).await? {
            PlaceTaken::Taken => Ok(Some(TakenPlace { place, taken_at, is_new: true })),
            PlaceTaken::Held => Ok(Some(TakenPlace { place, taken_at, is_new: false })),
            PlaceTaken::Full(by) => {
                let over: OverLimit = self.refused(Limited::Runs, by, (app, key), max);
                Err(SubmitError::OverLimit(over))
            }
        }
    }

    /// Takes a place again if so much time has passed that the sweep could give it back before the run is created.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) async fn keep(&self, taken: Option<TakenPlace>) -> Result<(), SubmitError> {
        if let Some(TakenPlace { place, taken_at, .. }) = taken
            && taken_at.elapsed() > CREATED_WITHIN / 2
        {
            self.take(&place.app, place.key.as_deref(), place.run).await?;
        }
        Ok(())
    }

    /// Gives a place back whose run was not created. If it may exist, the sweep decides.
    pub(crate) async fn not_used(&self, taken: TakenPlace, why: &SubmitError) {
        let TakenPlace { place, is_new, .. } = taken;
        if !is_new || matches!(why, SubmitError::Store(_) | SubmitError::Unconfirmed { .. }) {
            return;
        }
        // Another request may have created it at the same time.
        let given = match self.store.run_fields(place.run).await {
            Ok(None) => self.store.app_limits().change_places(&[(place, PlaceChange::Give)]).await,
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = given {
            tracing::debug!(%error, "a place that is not used is given back later");
        }
    }

    /// Lets a run hold a place above the limit: it was imported or retried by an operator.
    pub(crate) fn hold(&self, run: RunId, head: &RunHead) {
        self.change(run, head, PlaceChange::Hold);
    }

    /// Follows a status that a commit has written. It never waits: what does not fit is found by the sweep or the count.
    pub(crate) fn moved(&self, run: RunId, head: &RunHead, from: RunStatus, to: RunStatus) {
        if to.is_over() || to == RunStatus::Paused {
            self.change(run, head, PlaceChange::Give);
        } else if from == RunStatus::Paused {
            self.change(run, head, PlaceChange::Hold);
        }
    }

    fn change(&self, run: RunId, head: &RunHead, change: PlaceChange) {
        let (Some(app), None) = (&head.app, &head.caller) else { return };
        if self.known_max(Limited::Runs, app, head.key.as_deref()).are_none() {
            return;
        }
        let place = RunPlace { app: app.clone(), key: head.key.clone(), run };
        drop(self.changes.try_send((place, change)));
    }

    /// Sends the changes of places to the store, in their order.
    pub(crate) async fn send_changes(self: Arc<Self>, mut stop: Receiver<bool>) {
        let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut coming) = coming else { return };
        let mut some = Vec::with_capacity(CHANGES_AT_ONCE);
        loop {
            let drained = async {
                if stop.wait_for(|stops| *stops).await.is_ok() {
                    tokio::time::sleep(DRAIN).await;
                }
            };
            tokio::select! {
                count = coming.recv_many(&mut some, CHANGES_AT_ONCE) => if count == 0 { return },
                () = drained => return,
            }
            if let Err(error) = self.store.app_limits().change_places(&some).await {
                tracing::debug!(%error, "places of runs are given back later");
            }
            some.clear();
        }
    }

    /// Reads what is set, sweeps and counts for the shards of this process, until `stop` is set.
    pub(crate) async fn run(self: Arc<Self>, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let (mut swept, mut counted) = (None, None);
        let (mut positions, mut is_failing) = (HashMap::new(), false);
        let is_due = |at: Option<Instant>, every| at.is_none_or(|at| at.elapsed() >= every);
        while !*stop.borrow() {
            let looked = async {
                self.refresh().await?;
                if self.has_changed.swap(false, Ordering::Relaxed) {
                    counted = None;
                }
                let shards = lease.shards();
                if shards.is_empty() {
                    return Ok(());
                }
                if is_due(swept, SWEEP_EVERY) {
                    self.sweep(&shards, &mut positions).await?;
                    swept = Some(Instant::now());
                }
                if is_due(counted, COUNT_EVERY) {
                    self.count(&shards).await?;
                    counted = Some(Instant::now());
                }
                Ok::<_, StoreError>(())
            };
            let looked = looked.await;
            if let (Err(error), false) = (&looked, is_failing) {
                tracing::warn!(%error, "the limits of apps and keys cannot be checked yet");
            }
            is_failing = looked.is_err();
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(if self.is_used() { LOOK_EVERY } else { UNUSED }) => {}
            }
        }
    }

    /// Gives places back that no working run holds, of the apps that belong to these shards. An app with many places is
    /// looked at in pieces.
    pub(super) async fn sweep(
        &self,
        shards: &[ShardId],
        positions: &mut HashMap<String, usize>,
    ) -> Result<(), StoreError> {
        let apps = match self.apps_with_places() {
            Some(apps) => apps,
            None => self.store.apps().await?.into_iter().collect(),
        };
        if apps.is_empty() {
            return Ok(());
        }
        let (meta, now) = (self.store.meta().await?, self.store.time().await?);
        positions.retain(|app, _| apps.contains(app));
        for app in apps {
            if !shards.contains(&shard_of(&app, meta)) {
                continue;
            }
            let from = positions.get(&app).copied().unwrap_or(0);
            let next = self.sweep_app(&app, from, now).await?;
            positions.insert(app, next);
        }
        Ok(())
    }

    async fn sweep_app(&self, app: &str, from: usize, now: Timestamp) -> Result<usize, StoreError> {
        let found = self.store.app_limits().places(app, from, PAGE).await?;
        if found.is_empty() {
            return Ok(0);
        }
        let runs: Vec<RunId> = found.iter().map(|(place, _)| place.run).collect();
        let fields = self.store.app_records().fields_of_runs(&runs, &["status"]).await?;
        let mut free = Vec::new();
        for ((place, taken_at), fields) in found.iter().zip(fields) {
            if !holds(fields.get("status").map(String::as_str), *taken_at, now) {
                free.push((place.clone(), PlaceChange::Give));
            }
        }
        self.store.app_limits().change_places(&free).await?;
        if !free.is_empty() {
            tracing::debug!(app, count = free.len(), "places without a working run were given back");
        }
        Ok(if found.len() < PAGE { 0 } else { from + found.len() - free.len() })
    }

    /// Gives a place to each run on these shards that works and whose app or key is limited.
    pub(super) async fn count(&self, shards: &[ShardId]) -> Result<(), StoreError> {
        if self.apps_with_places().is_some_and(|apps| apps.is_empty()) {
            return Ok(());
        }
        for status in [RunStatus::Running, RunStatus::Scheduled] {
            let mut before: Option<Timestamp> = None;
            loop {
                let (status, shards) = (Some(status), Some(shards.to_vec()));
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
            }
        }
        Ok(())
    }

    /// The place of a run that works and is limited.
    fn working(&self, run: RunId, fields: &HashMap<String, String>) -> Option<RunPlace> {
        let (app, key) = (fields.get("app")?, fields.get("key"));
        let status = fields.get("status").and_then(|name| RunStatus::from_name(name))?;
        let is_working = !status.is_over() && status != RunStatus::Paused && !fields.contains_key("caller");
        let is_limited = || !self.known_max(Limited::Runs, app, key.map(String::as_str)).are_none();
        (is_working && is_limited()).then(|| RunPlace { app: app.clone(), key: key.cloned(), run })
    }
}

/// Whether a run with this status, or one that does not exist yet, holds its place.
fn holds(status: Option<&str>, taken_at: Timestamp, now: Timestamp) -> bool {
    match status.map(RunStatus::from_name) {
        None => taken_at.plus(CREATED_WITHIN) > now,
        Some(Some(status)) => !status.is_over() && status != RunStatus::Paused,
        // A status of a later version.
        Some(None) => true,
    }
}
