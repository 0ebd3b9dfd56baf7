//! Stops and removes the runs of an app or a user, also the runs that Tidemill has made for them: those beside messages, and
//! those that a key of the app has paid. Of a user also the sub-workflow runs in other apps.

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{INNER_FIELD, ListRuns, RunCommand, StoreError};
use tidemill_common::wire::fact;
use tidemill_common::wire::fact::kind;

use super::{Failed, Piece, Removal, Removals};
use crate::runs::scan::{Fields, just_after};

/// Runs that are looked at in one piece.
const PIECE: usize = 500;
/// The reason of a stop.
const STOPPED: &str = "its app or its user is removed";
/// In this order a run that goes on meanwhile is in one of the lists.
const OPEN: [RunStatus; 3] = [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused];
pub(super) const FIELDS: [&str; 7] =
    ["app", "user", "key", "status", "created_at", "conversation_id", INNER_FIELD];

impl Removals {
    /// Stops some of the runs that are under way.
    pub(super) async fn stop_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (at, place) = removal.place.split_once(' ').unwrap_or(("0", ""));
        let at: usize = at.parse().unwrap_or(0);
        let Some(status) = OPEN.get(at) else {
            return Ok(if removal.is_left { Piece::Again } else { Piece::Done });
        };
        let (found, next) = self.some_of(removal, Some(*status), place).await?;
        let open: Vec<RunId> = found.into_iter().map(|(run, _)| run).collect();
        self.stop(&open).await?;
        removal.is_left |= !open.is_empty();
        removal.place = match next {
            Some(place) => format!("{at} {place}"),
            None => format!("{} ", at + 1),
        };
        Ok(Piece::More)
    }

    /// Removes some of the runs: hides them, and lets the owners of their shards remove those that have ended.
    pub(super) async fn remove_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (found, next) = self.some_of(removal, None, &removal.place).await?;
        let is_first_look = removal.looks == 0;
        if is_first_look {
            removal.count("runs", found.len());
        }
        let mut runs: Vec<RunId> = found.iter().map(|(run, _)| *run).collect();
        if removal.user.is_some() {
            for run in runs.clone() {
                let (called, _) = self.store.calls_of(run).await?;
                runs.extend(called.into_iter().map(|(run, _)| run));
            }
        }
        // Those that began meanwhile, or that others have called.
        let is_open = |fields: &Fields| status_of(fields).is_some_and(|status| !status.is_over());
        let open = found.iter().filter(|(_, fields)| is_open(fields)).map(|(run, _)| *run);
        self.stop(&open.collect::<Vec<_>>()).await?;
        for (run, fields) in &found {
            if let Some(conversation) = fields.get("conversation_id") {
                self.store.removals().drop_variables(run.shard(), conversation).await?;
            }
        }
        self.submitter.forget_runs(&removal.app, &runs).await?;
        removal.is_left |= !runs.is_empty();
        match next {
            Some(place) => {
                removal.place = place;
                Ok(Piece::More)
            }
            None if removal.is_left => Ok(Piece::Again),
            None => Ok(Piece::Done),
        }
    }

    async fn stop(&self, runs: &[RunId]) -> Result<(), StoreError> {
        for run in runs {
            let command = RunCommand::new(kind::STOP, fact::stop_body(STOPPED));
            // It may have ended meanwhile.
            self.store.send_command(*run, &command).await?;
        }
        Ok(())
    }

    /// Some runs that belong to a removal, with their fields, from a place on (a creation time; empty: the newest). And the
    /// next place.
    async fn some_of(
        &self,
        removal: &Removal,
        status: Option<RunStatus>,
        place: &str,
    ) -> Result<(Vec<(RunId, Fields)>, Option<String>), StoreError> {
        let before = place.parse().ok().map(Timestamp::from_micros);
        let query = ListRuns { status, before, limit: PIECE, ..ListRuns::default() };
        let listed = self.store.list_runs(&query).await?;
        let fields = self.store.app_records().fields_of_runs(&listed, &FIELDS).await?;
        let is_last = listed.len() < PIECE;
        let oldest = fields.iter().rev().find_map(created_at);
        let next = oldest.filter(|_| !is_last).map(|oldest| {
            // Those of the same time may be on the next page, too; but each page goes on.
            let next = just_after(oldest);
            if before.is_some_and(|before| next >= before) { oldest } else { next }
        });
        let found = listed.into_iter().zip(fields).filter(|(_, fields)| is_of(removal, fields)).collect();
        Ok((found, next.map(|next| next.micros().to_string())))
    }
}

fn created_at(fields: &Fields) -> Option<Timestamp> {
    fields.get("created_at")?.parse().ok().map(Timestamp::from_micros)
}

fn status_of(fields: &Fields) -> Option<RunStatus> {
    RunStatus::from_name(fields.get("status")?)
}

/// True for a run that belongs to a removal.
pub(super) fn is_of(removal: &Removal, fields: &Fields) -> bool {
    let text = |name: &str| fields.get(name).map(String::as_str);
    let is_of_key = text("key").is_some_and(|key| removal.keys.iter().any(|known| known == key));
    let is_own = text("app") == Some(removal.app.as_str());
    match removal.user.as_deref() {
        None => is_own || (is_of_key && fields.contains_key(INNER_FIELD)),
        Some(user) => {
            let is_before = created_at(fields).is_none_or(|at| at < removal.asked_at);
            text("user").unwrap_or_default() == user && is_before && (is_own || is_of_key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::removals::RunsFate;

    #[test]
    fn the_runs_of_an_app_and_of_a_user_are_theirs_also_those_that_are_made_for_them() {
        let fields = |pairs: &[(&str, &str)]| -> Fields {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let of = |user| {
            let mut removal = Removal::new("a", user, RunsFate::Remove, Timestamp::from_micros(10));
            removal.keys.push("k".into());
            removal
        };
        for (pairs, of_app, of_ada) in [
            (vec![("app", "a"), ("user", "ada"), ("created_at", "9")], true, true),
            (vec![("app", "a"), ("user", "ada"), ("created_at", "10")], true, false),
            (vec![("app", "a"), ("user", "bob")], true, false),
            (vec![("app", "b"), ("user", "ada")], false, false),
            (vec![("app", "b"), ("user", "ada"), ("key", "k")], false, true),
            (vec![("user", "ada"), ("key", "k"), (INNER_FIELD, "x")], true, true),
            (vec![("user", "ada"), ("key", "l"), (INNER_FIELD, "x")], false, false),
        ] {
            let fields = fields(&pairs);
            assert_eq!(is_of(&of(None), &fields), of_app, "{pairs:?}");
            assert_eq!(is_of(&of(Some("ada")), &fields), of_ada, "{pairs:?}");
        }
    }
}
