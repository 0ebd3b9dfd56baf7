//! The places of runs. A run takes one before it is created. The owner of its shard gives it back after the commit that
//! ends the run or lets it wait. A process may die between the two, so [`compare`](super::compare) looks at both.
//!
//! Until the run is sent to the store, its place is given back when the request ends without it: it is refused, or its client
//! goes away.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::{RunHead, RunStatus};
use tidemill_common::store::{LimitsMax, PlaceChange, PlaceTaken, Reached, RunPlace, StoreError};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::compare::{CREATED_WITHIN, works};
use super::{Limited, Limiter};
use crate::submit::SubmitError;

/// Changes that are sent at once.
const CHANGES_AT_ONCE: usize = 256;
/// After the signal to stop, changes are still sent until none has come for this time: shards finish their commits.
const DRAIN: Duration = Duration::from_secs(2);

/// What becomes of a place; `None`: it is given back unless its run works.
pub(super) type Change = Option<PlaceChange>;

/// The place of a run that is about to be created. Dropped before [`TakenPlace::is_sent`], it is given back.
#[derive(Debug)]
pub(crate) struct TakenPlace {
    place: RunPlace,
    taken_at: Instant,
    /// An earlier request for the same run held it, and gives it back.
    is_of_another: bool,
    /// It is given back when this is dropped.
    is_armed: bool,
    changes: Sender<(RunPlace, Change)>,
}

impl TakenPlace {
    /// The run is sent to the store now: from here on it may exist, and the sweep decides.
    pub(crate) fn is_sent(&mut self) {
        self.is_armed = false;
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        if self.is_armed {
            // What does not fit is found by the sweep.
            drop(self.changes.try_send((self.place.clone(), None)));
        }
    }
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
        let mut taken = self.store.app_limits().take_place(&place, max).await?;
        if matches!(taken, PlaceTaken::Full(_)) && self.frees_some(app).await {
            taken = self.store.app_limits().take_place(&place, max).await?;
        }
        let is_of_another = match taken {
            PlaceTaken::Taken => false,
            PlaceTaken::Held => true,
            PlaceTaken::Full(by) => {
                return Err(SubmitError::OverLimit(self.refused(Limited::Runs, by, (app, key), max)));
            }
        };
        crash::pass(CrashPoint::PlaceTaken);
        let (is_armed, changes) = (!is_of_another, self.changes.clone());
        Ok(Some(TakenPlace { place, taken_at, is_of_another, is_armed, changes }))
    }

    /// The limit that leaves no room for another run, if one does. It costs a read or two and takes nothing, so it may be
    /// asked before there is any work for a request that will be refused.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn full(
        &self,
        app: &str,
        key: Option<&str>,
    ) -> Result<Option<(Reached, LimitsMax)>, StoreError> {
        let max = self.max(Limited::Runs, app, key).await;
        let mut full = self.reached(app, key, max).await?;
        if full.is_some() && self.frees_some(app).await {
            full = self.reached(app, key, max).await?;
        }
        Ok(full.map(|by| (by, max)))
    }

    async fn reached(
        &self,
        app: &str,
        key: Option<&str>,
        max: LimitsMax,
    ) -> Result<Option<Reached>, StoreError> {
        let limits = self.store.app_limits();
        if max.app > 0 && limits.places_taken(app, None).await? >= max.app {
            return Ok(Some(Reached::App));
        }
        if max.key > 0 && key.is_some() && limits.places_taken(app, key).await? >= max.key {
            return Ok(Some(Reached::Key));
        }
        Ok(None)
    }

    /// Takes a place again if it may be gone: so much time has passed that the sweep could give it back before the run is
    /// created, or an earlier request for the same run held it and was perhaps refused.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) async fn keep(&self, taken: &mut TakenPlace) -> Result<(), SubmitError> {
        if !taken.is_of_another && taken.taken_at.elapsed() <= CREATED_WITHIN / 2 {
            return Ok(());
        }
        let RunPlace { app, key, run } = taken.place.clone();
        if let Some(again) = self.take(&app, key.as_deref(), run).await? {
            let was_of_another = taken.is_of_another;
            let mut before = std::mem::replace(taken, again);
            before.is_armed = false;
            if !was_of_another {
                // This request holds it since the first time.
                (taken.is_of_another, taken.is_armed) = (false, true);
            }
        }
        Ok(())
    }

    /// Gives a place back whose run was not created, or existed before and does not work any more.
    pub(crate) async fn not_used(&self, mut taken: TakenPlace) {
        if taken.is_of_another {
            return;
        }
        // If the client goes away now, or the store fails, it is done later.
        taken.is_armed = true;
        match self.apply(&mut vec![(taken.place.clone(), None)]).await {
            Ok(()) => taken.is_armed = false,
            Err(error) => tracing::debug!(%error, "a place that is not used is given back later"),
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
        drop(self.changes.try_send((place, Some(change))));
    }

    /// Sends the changes of places to the store: one request at a time, so that they arrive in their order. Changes that
    /// the store does not take are not sent again; the sweep and the count find them.
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
            if some.iter().any(|(_, change)| *change == Some(PlaceChange::Give)) {
                crash::pass(CrashPoint::PlaceLeft);
            }
            if let Err(error) = self.apply(&mut some).await {
                tracing::debug!(%error, "places of runs are given back later");
            }
            some.clear();
        }
    }

    /// Changes places in the store.
    async fn apply(&self, some: &mut Vec<(RunPlace, Change)>) -> Result<(), StoreError> {
        let unsure = some.iter().filter(|(_, change)| change.is_none()).map(|(place, _)| place.run);
        let unsure: Vec<RunId> = unsure.collect();
        let read = if unsure.is_empty() {
            Ok(Vec::new())
        } else {
            self.store.app_records().fields_of_runs(&unsure, &["status"]).await
        };
        let (mut fields, failed) = match read {
            Ok(fields) => (fields.into_iter(), None),
            // The shard of one of them does not answer. The other changes need no look at it.
            Err(error) => (Vec::new().into_iter(), Some(error)),
        };
        let changes = some.drain(..).filter_map(|(place, change)| {
            let change = match change {
                Some(change) => change,
                None => {
                    let fields = fields.next()?;
                    let status = fields.get("status").map(String::as_str);
                    (!works(status)).then_some(PlaceChange::Give)?
                }
            };
            Some((place, change))
        });
        let changes: Vec<_> = changes.collect();
        self.store.app_limits().change_places(&changes).await?;
        failed.map_or(Ok(()), Err)
    }
}
