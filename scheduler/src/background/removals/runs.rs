//! Stops and removes the runs of an app or a user, also the runs that Tidemill has made for them: those beside messages, and
//! those that a key of the app has paid. Of a user also the sub-workflow runs in other apps, at any depth. So a run of a user
//! is removed only after all that it has called.

use std::collections::HashSet;

use futures_util::future::join_all;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Outage, RunCommand, StoreError};
use tidemill_common::wire::fact;
use tidemill_common::wire::fact::kind;

use super::found::{CALLER, add_called, belong, some_of, status_of};
use super::{Failed, Piece, Removal, Removals, RunsFate, UNSTOPPED};
use crate::runs::scan::Fields;

/// The reason of a stop.
const STOPPED: &str = "its app or its user is removed";
/// In this order a run that goes on meanwhile is in one of the lists.
const OPEN: [RunStatus; 3] = [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused];
/// Runs that are stopped at the same time.
const STOPS_AT_ONCE: usize = 100;

/// A part of a look at the runs that are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All runs, for those that were called. The `calls` of a caller may be gone before the caller; then only the caller's
    /// record leads from these runs to the user. So they are removed first.
    Called,
    /// The app's list.
    OfApp,
    /// All runs, for those that are in no such list.
    All,
}

impl Part {
    /// The part that a removal has reached, and the place in it. A look at the runs of a user begins with the called ones, once.
    fn of(removal: &Removal) -> (Self, String) {
        for part in [Self::Called, Self::OfApp, Self::All] {
            if let Some(place) = removal.place.strip_prefix(part.word()) {
                return (part, place.to_owned());
            }
        }
        if removal.user.is_some() && removal.looks == 0 {
            // An earlier version may have begun with the app's list; the look begins again.
            return (Self::Called, String::new());
        }
        (Self::OfApp, removal.place.clone())
    }

    /// Begins its places.
    fn word(self) -> &'static str {
        match self {
            Self::Called => "called ",
            Self::OfApp => "app ",
            Self::All => "all ",
        }
    }

    fn place(self, place: &str) -> String {
        format!("{}{place}", self.word())
    }
}

impl Removals {
    /// Stops some of the runs that are under way.
    pub(super) async fn stop_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (at, place) = removal.place.split_once(' ').unwrap_or(("0", ""));
        let at: usize = at.parse().unwrap_or(0);
        let Some(status) = OPEN.get(at) else {
            return Ok(if removal.is_left { Piece::Again } else { Piece::Done });
        };
        // The shorter one of the lists of the app and the status. Called runs are stopped with their callers. Runs that Tidemill
        // has made for the app are in no list of an app: if runs are removed, a later stage stops them.
        let is_by_app = removal.runs == RunsFate::Remove
            && self.store.lists_runs_by_app(&removal.app, Some(*status)).await?;
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
    /// the app's list, in as many looks as are needed; then those that are in no such list, likewise. Of a user, before all
    /// these once the runs that were called: if there is nothing of the user in all runs and in the list, that is all.
    pub(super) async fn remove_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (mut part, place) = Part::of(removal);
        if part == Part::OfApp && !self.store.lists_runs_by_app(&removal.app, None).await? {
            part = Part::All;
        }
        let mut found = some_of(&*self.store, removal, (None, part == Part::OfApp), &place).await?;
        let have_called = match removal.user {
            // Runs that an app has called in others stay.
            None => HashSet::new(),
            Some(_) => add_called(&*self.store, &mut found.runs).await?,
        };
        // Those that began meanwhile, or that others have called. A later look removes them.
        let is_open = |fields: &Fields| status_of(fields).is_some_and(|status| !status.is_over());
        let (open, ended): (Vec<_>, Vec<_>) = found.runs.iter().partition(|(_, fields)| is_open(fields));
        for (run, fields) in &found.runs {
            if let Some(conversation) = fields.get("conversation_id") {
                self.store.removals().drop_variables(run.shard(), conversation).await?;
            }
        }
        let is_meant = |(run, fields): &&&(RunId, Fields)| {
            !have_called.contains(run) && (part != Part::Called || fields.contains_key(CALLER))
        };
        let alone: Vec<RunId> = ended.iter().filter(is_meant).map(|(run, _)| *run).collect();
        let hidden = self.submitter.forget_runs(&removal.app, &alone).await?;
        removal.count("runs", hidden);
        // Last, because a full Redis refuses it.
        self.stop(removal, &open.iter().map(|(run, _)| *run).collect::<Vec<_>>()).await?;
        removal.is_left |= !found.runs.is_empty();
        let are_all_seen = removal.looks == 0 && removal.user.is_some();
        removal.place = match (found.next, part) {
            (Some(place), part) => part.place(&place),
            (None, Part::Called) => Part::OfApp.place(""),
            (None, _) if removal.is_left => return Ok(Piece::Again),
            (None, Part::OfApp) if !are_all_seen => Part::All.place(""),
            (None, _) => return Ok(Piece::Done),
        };
        Ok(Piece::More)
    }

    /// Of each of these runs, whether it belongs to a removal.
    pub(super) async fn belong(&self, removal: &Removal, runs: &[Fields]) -> Result<Vec<bool>, StoreError> {
        belong(&*self.store, removal, runs).await
    }

    /// Stops runs. Returns false when Redis is full and refuses it, if the other runs of the removal can be removed meanwhile.
    async fn stop(&self, removal: &mut Removal, runs: &[RunId]) -> Result<bool, StoreError> {
        let command = RunCommand::new(kind::STOP, fact::stop_body(STOPPED));
        for some in runs.chunks(STOPS_AT_ONCE) {
            for sent in join_all(some.iter().map(|run| self.store.send_command(*run, &command))).await {
                match sent {
                    // It may have ended meanwhile.
                    Ok(_) => removal.error = None,
                    Err(error)
                        if removal.runs == RunsFate::Remove && Outage::of(&error) == Some(Outage::Full) =>
                    {
                        removal.is_unstopped = true;
                        removal.error = Some(UNSTOPPED.to_owned());
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }
}
