//! Stops and removes the runs of an app or a user, also the runs that Tidemill has made for them: those beside messages, and
//! those that a key of the app has paid. Of a user also the sub-workflow runs in other apps, at any depth: they are found from
//! below, through the runs that have called them. So a run is removed only after all that it has called.

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{INNER_FIELD, ListRuns, RunCommand, Runs, StoreError};
use tidemill_common::wire::fact;
use tidemill_common::wire::fact::kind;
use tidemill_common::wire::state::caller_run;

use super::{Failed, Piece, Removal, Removals};
use crate::runs::scan::{Fields, just_after};

/// Runs that are looked at in one piece.
const PIECE: usize = 500;
/// The reason of a stop.
const STOPPED: &str = "its app or its user is removed";
/// In this order a run that goes on meanwhile is in one of the lists.
const OPEN: [RunStatus; 3] = [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused];
const CALLER: &str = "caller";
pub(super) const FIELDS: [&str; 8] =
    ["app", "user", "key", "status", "created_at", "conversation_id", INNER_FIELD, CALLER];

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

    /// Removes some of the runs: hides those that have ended, and lets the owners of their shards remove them.
    pub(super) async fn remove_some(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (found, next) = self.some_of(removal, None, &removal.place).await?;
        let is_first_look = removal.looks == 0;
        if is_first_look {
            removal.count("runs", found.len());
        }
        // Those that began meanwhile, or that others have called. A later look removes them.
        let is_open = |fields: &Fields| status_of(fields).is_some_and(|status| !status.is_over());
        let (open, ended): (Vec<_>, Vec<_>) = found.iter().partition(|(_, fields)| is_open(fields));
        self.stop(&open.iter().map(|(run, _)| *run).collect::<Vec<_>>()).await?;
        for (run, fields) in &found {
            if let Some(conversation) = fields.get("conversation_id") {
                self.store.removals().drop_variables(run.shard(), conversation).await?;
            }
        }
        let mut ended: Vec<RunId> = ended.iter().map(|(run, _)| *run).collect();
        if removal.user.is_some() {
            let have_called = self.store.removals().have_called(&ended).await?;
            let alone = ended.iter().zip(have_called).filter(|(_, has_called)| !has_called);
            ended = alone.map(|(run, _)| *run).collect();
        }
        self.submitter.forget_runs(&removal.app, &ended).await?;
        removal.is_left |= !found.is_empty();
        match next {
            Some(place) => {
                removal.place = place;
                Ok(Piece::More)
            }
            None if removal.is_left => Ok(Piece::Again),
            None => Ok(Piece::Done),
        }
    }

    /// Of each of these runs, whether it belongs to a removal.
    pub(super) async fn belong(&self, removal: &Removal, runs: &[Fields]) -> Result<Vec<bool>, StoreError> {
        belong(&*self.store, removal, runs).await
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
        let belong = self.belong(removal, &fields).await?;
        let found = listed.into_iter().zip(fields).zip(belong);
        let found = found.filter_map(|(run, belongs)| belongs.then_some(run)).collect();
        Ok((found, next.map(|next| next.micros().to_string())))
    }
}

/// Of each of these runs, whether it belongs to a removal: the run itself, or of a user a run that has called it, at any
/// depth.
async fn belong(store: &dyn Runs, removal: &Removal, runs: &[Fields]) -> Result<Vec<bool>, StoreError> {
    let mut belong: Vec<bool> = runs.iter().map(|fields| is_of(removal, fields)).collect();
    if removal.user.is_none() {
        return Ok(belong);
    }
    let mut above: Vec<(usize, RunId)> = runs
        .iter()
        .enumerate()
        .filter(|(at, _)| !belong[*at])
        .filter_map(|(at, fields)| Some((at, caller_of(fields)?)))
        .collect();
    // One level of callers after the other, for all of the runs.
    while !above.is_empty() {
        let callers: Vec<RunId> = above.iter().map(|(_, caller)| *caller).collect();
        let fields = store.app_records().fields_of_runs(&callers, &FIELDS).await?;
        let mut next = Vec::new();
        for ((at, _), fields) in above.iter().zip(&fields) {
            if is_of(removal, fields) {
                belong[*at] = true;
            } else if let Some(caller) = caller_of(fields) {
                next.push((*at, caller));
            }
        }
        above = next;
    }
    Ok(belong)
}

fn created_at(fields: &Fields) -> Option<Timestamp> {
    fields.get("created_at")?.parse().ok().map(Timestamp::from_micros)
}

fn status_of(fields: &Fields) -> Option<RunStatus> {
    RunStatus::from_name(fields.get("status")?)
}

/// The run that has called a sub-workflow run.
fn caller_of(fields: &Fields) -> Option<RunId> {
    caller_run(fields.get(CALLER)?).ok()
}

/// True for a run that belongs to a removal, whatever has called it.
fn is_of(removal: &Removal, fields: &Fields) -> bool {
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
    use std::sync::Arc;

    use tidemill_common::clock::SystemClock;
    use tidemill_common::ids::ShardId;
    use tidemill_common::store::memory::MemoryStore;
    use tidemill_common::store::{Created, NewRun};

    use super::*;
    use crate::background::removals::RunsFate;

    #[tokio::test]
    async fn runs_that_were_called_at_any_depth_belong_to_the_user_of_the_first_caller() {
        let store = MemoryStore::with(Arc::new(SystemClock), 1, 100);
        let chain: Vec<RunId> = (0..4).map(|_| RunId::generate(ShardId(0))).collect();
        let (mut all, before) =
            (Vec::new(), [None, Some(0), Some(1), None].map(|at| at.map(|at: usize| chain[at])));
        for ((run, caller), app) in chain.iter().zip(before).zip(["a", "b", "c", "a"]) {
            let user = if all.len() == 3 { "bob" } else { "ada" };
            let mut fields =
                vec![("app", app.to_owned()), ("user", user.to_owned()), ("created_at", "5".into())];
            fields
                .extend(caller.map(|run| (CALLER, serde_json::json!({"run": run, "node": "t"}).to_string())));
            let new = NewRun {
                id: *run,
                graph: ("hash".into(), "{}".into()),
                fields,
                kind: kind::START,
                start: "{}".into(),
                queues: Vec::new(),
                blobs: Vec::new(),
                created_at: Timestamp::from_micros(5),
                schedule: None,
                called: None,
                has_files: false,
                takes_messages: None,
            };
            assert_eq!(store.create_run(&new).await.unwrap(), Created::Created);
            all.push(*run);
        }
        let fields = store.app_records().fields_of_runs(&all, &FIELDS).await.unwrap();
        let of = async |user| {
            let removal = Removal::new("a", user, RunsFate::Remove, Timestamp::from_micros(10));
            belong(&store, &removal, &fields).await.unwrap()
        };
        assert_eq!(of(Some("ada")).await, [true, true, true, false]);
        assert_eq!(of(Some("bob")).await, [false, false, false, true]);
        assert_eq!(of(None).await, [true, false, false, true], "apps that were called keep their runs");
    }

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
