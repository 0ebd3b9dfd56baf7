//! Stops and removes the runs of an app or a user, also the runs that Tidemill has made for them: those beside messages, and
//! those that a key of the app has paid. Of a user also the sub-workflow runs in other apps, at any depth. So a run of a user
//! is removed only after all that it has called.

use std::collections::HashSet;

use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Outage, RunCommand, StoreError};
use tidemill_common::wire::fact;
use tidemill_common::wire::fact::kind;

use super::found::{add_called, belong, some_of, status_of};
use super::{Failed, Piece, Removal, Removals, RunsFate};
use crate::runs::scan::Fields;

/// The reason of a stop.
const STOPPED: &str = "its app or its user is removed";
/// In this order a run that goes on meanwhile is in one of the lists.
const OPEN: [RunStatus; 3] = [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused];
/// Begins the places of the look at all runs.
const ALL: &str = "all ";

impl Removals {
    /// Stops some of the runs that are under way.
    pub(super) async fn stop_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (at, place) = removal.place.split_once(' ').unwrap_or(("0", ""));
        let at: usize = at.parse().unwrap_or(0);
        let Some(status) = OPEN.get(at) else {
            return Ok(if removal.is_left { Piece::Again } else { Piece::Done });
        };
        // The shorter one of the lists of the app and the status. Called runs are stopped with their callers.
        let is_by_app = self.store.lists_runs_by_app(&removal.app, Some(*status)).await?;
        let found = some_of(&*self.store, removal, (Some(*status), is_by_app), place).await?;
        let open: Vec<RunId> = found.runs.into_iter().map(|(run, _)| run).collect();
        if !self.stop(removal, &open).await? {
            // The removal of runs that have ended needs no memory, and frees some.
            return Ok(Piece::Done);
        }
        removal.is_left |= !open.is_empty();
        removal.place = match found.next {
            Some(place) => format!("{at} {place}"),
            None => format!("{} ", at + 1),
        };
        Ok(Piece::More)
    }

    /// Removes some of the runs: hides those that have ended, and lets the owners of their shards remove them. First those of
    /// the app's list, in as many looks as are needed; then those that are in no such list.
    pub(super) async fn remove_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (is_all, place) = match removal.place.strip_prefix(ALL) {
            Some(place) => (true, place),
            None => (!self.store.lists_runs_by_app(&removal.app, None).await?, removal.place.as_str()),
        };
        let mut found = some_of(&*self.store, removal, (None, !is_all), place).await?;
        let have_called = match removal.user {
            // Runs that an app has called in others stay.
            None => HashSet::new(),
            Some(_) => add_called(&*self.store, &mut found.runs).await?,
        };
        if removal.looks == 0 {
            removal.count("runs", found.runs.len());
        }
        // Those that began meanwhile, or that others have called. A later look removes them.
        let is_open = |fields: &Fields| status_of(fields).is_some_and(|status| !status.is_over());
        let (open, ended): (Vec<_>, Vec<_>) = found.runs.iter().partition(|(_, fields)| is_open(fields));
        for (run, fields) in &found.runs {
            if let Some(conversation) = fields.get("conversation_id") {
                self.store.removals().drop_variables(run.shard(), conversation).await?;
            }
        }
        let ended: Vec<RunId> = ended.iter().map(|(run, _)| *run).collect();
        let alone: Vec<RunId> = ended.into_iter().filter(|run| !have_called.contains(run)).collect();
        self.submitter.forget_runs(&removal.app, &alone).await?;
        // Last, because a full Redis refuses it.
        self.stop(removal, &open.iter().map(|(run, _)| *run).collect::<Vec<_>>()).await?;
        removal.is_left |= !found.runs.is_empty();
        let begin = if is_all { ALL } else { "" };
        match found.next {
            Some(place) => removal.place = format!("{begin}{place}"),
            None if removal.is_left => return Ok(Piece::Again),
            None if is_all => return Ok(Piece::Done),
            None => removal.place = ALL.to_owned(),
        }
        Ok(Piece::More)
    }

    /// Of each of these runs, whether it belongs to a removal.
    pub(super) async fn belong(&self, removal: &Removal, runs: &[Fields]) -> Result<Vec<bool>, StoreError> {
        belong(&*self.store, removal, runs).await
    }

    /// Stops runs. Returns false when Redis is full and refuses it, if the other runs of the removal can be removed meanwhile.
    async fn stop(&self, removal: &mut Removal, runs: &[RunId]) -> Result<bool, StoreError> {
        for run in runs {
            let command = RunCommand::new(kind::STOP, fact::stop_body(STOPPED));
            match self.store.send_command(*run, &command).await {
                // It may have ended meanwhile.
                Ok(_) => {}
                Err(error)
                    if removal.runs == RunsFate::Remove && Outage::of(&error) == Some(Outage::Full) =>
                {
                    removal.is_unstopped = true;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
