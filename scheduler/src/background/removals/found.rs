//! The runs of a removal. Those of its app are found in the app's list, as soon as that has all of them; of a user also those
//! that they have called, at any depth, in other apps. Runs of no app, and those whose caller is gone, are in no such list: a
//! look at all runs finds them from below, through the runs that have called them.

use std::collections::HashSet;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{INNER_FIELD, ListRuns, Runs, StoreError};
use tidemill_common::wire::state::caller_run;

use super::Removal;
use crate::runs::scan::{Fields, just_after};

/// Runs of a list that are looked at in one piece.
const PIECE: usize = 500;
/// Called runs that are looked at in one piece, about. The next look goes on with what is left.
const CALLED: usize = 1_000;
pub(super) const CALLER: &str = "caller";
pub(super) const FIELDS: [&str; 8] =
    ["app", "user", "key", "status", "created_at", "conversation_id", INNER_FIELD, CALLER];

/// Some runs of a removal.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Each with its fields.
    pub(super) runs: Vec<(RunId, Fields)>,
    /// Where the next piece begins (a creation time); `None` at the end.
    pub(super) next: Option<String>,
}

/// Some runs that belong to a removal, from a place on (empty: the newest): of the app's list, or of all runs. `status`: only
/// those with this status.
pub(super) async fn some_of(
    store: &dyn Runs,
    removal: &Removal,
    (status, is_by_app): (Option<RunStatus>, bool),
    place: &str,
) -> Result<Found, StoreError> {
    let before = place.parse().ok().map(Timestamp::from_micros);
    let app = is_by_app.then(|| removal.app.clone());
    let query = ListRuns { status, before, app, limit: PIECE, ..ListRuns::default() };
    let (listed, fields) = loop {
        let listed = store.list_runs(&query).await?;
        let fields = store.app_records().fields_of_runs(&listed, &FIELDS).await?;
        let gone = listed.iter().zip(&fields).filter(|(_, fields)| is_by_app && fields.is_empty());
        let gone: Vec<RunId> = gone.map(|(run, _)| *run).collect();
        if !gone.is_empty() {
            store.runs_gone(&query, &gone).await?;
        }
        // With nothing but removed runs there is no time to go on from; the next ones come without them.
        if gone.len() < listed.len() || listed.len() < PIECE {
            break (listed, fields);
        }
    };
    let oldest = fields.iter().rev().find_map(created_at).filter(|_| listed.len() >= PIECE);
    let next = oldest.map(|oldest| {
        // Those of the same time may be on the next page, too; but each page goes on.
        let next = just_after(oldest);
        if before.is_some_and(|before| next >= before) { oldest } else { next }
    });
    let belong = match is_by_app {
        true => fields.iter().map(|fields| is_of(removal, fields)).collect(),
        false => belong(store, removal, &fields).await?,
    };
    // The list of an app has runs of every status.
    let is_wanted = |fields: &Fields| status.is_none_or(|status| status_of(fields) == Some(status));
    let runs = listed.into_iter().zip(fields).zip(belong);
    let runs = runs.filter_map(|(run, belongs)| (belongs && is_wanted(&run.1)).then_some(run)).collect();
    Ok(Found { runs, next: next.map(|next| next.micros().to_string()) })
}

/// Adds the runs that these have called, at any depth. Returns those of all of them that have called a run that exists.
pub(super) async fn add_called(
    store: &dyn Runs,
    found: &mut Vec<(RunId, Fields)>,
) -> Result<HashSet<RunId>, StoreError> {
    let (mut callers, mut begin, most) = (HashSet::new(), 0, found.len() + CALLED);
    let mut known: HashSet<RunId> = found.iter().map(|(run, _)| *run).collect();
    // One level of called runs after the other.
    while begin < found.len() {
        let level: Vec<RunId> = found[begin..].iter().map(|(run, _)| *run).collect();
        begin = found.len();
        let have_called = store.removals().have_called(&level).await?;
        for caller in level.into_iter().zip(have_called).filter_map(|(run, has)| has.then_some(run)) {
            callers.insert(caller);
            let mut from = Some(String::new());
            while let Some(place) = from.take().filter(|_| found.len() < most) {
                let (mut called, next) = store.removals().some_called(caller, &place).await?;
                called.retain(|run| known.insert(*run));
                let fields = store.app_records().fields_of_runs(&called, &FIELDS).await?;
                found.extend(called.into_iter().zip(fields).filter(|(_, fields)| !fields.is_empty()));
                from = next;
            }
        }
    }
    Ok(callers)
}

/// Of each of these runs, whether it belongs to a removal: the run itself, or of a user a run that has called it, at any
/// depth.
pub(super) async fn belong(
    store: &dyn Runs,
    removal: &Removal,
    runs: &[Fields],
) -> Result<Vec<bool>, StoreError> {
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

pub(super) fn status_of(fields: &Fields) -> Option<RunStatus> {
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

    use serde_json::json;
    use tidemill_common::clock::SystemClock;
    use tidemill_common::config::Config;
    use tidemill_common::ids::ShardId;
    use tidemill_common::store::memory::MemoryStore;
    use tidemill_common::store::{Created, NewRun};
    use tidemill_common::wire::fact::kind;

    use super::*;
    use crate::background::removals::{Removals, RunsFate};
    use crate::submit::Submitter;
    use crate::workflows::Workflows;

    /// Creates a run of an app and a user at a time, in microseconds.
    async fn create(store: &MemoryStore, (app, user): (&str, &str), at: i64, caller: Option<RunId>) -> RunId {
        let run = RunId::generate(ShardId(0));
        let mut fields = vec![("app", app.to_owned()), ("user", user.to_owned())];
        fields.extend([("created_at", at.to_string()), ("status", "scheduled".to_owned())]);
        fields.extend(caller.map(|run| (CALLER, json!({"run": run, "node": "t"}).to_string())));
        let new = NewRun {
            id: run,
            graph: ("hash".into(), "{}".into()),
            fields,
            kind: kind::START,
            start: "{}".into(),
            queues: Vec::new(),
            blobs: Vec::new(),
            created_at: Timestamp::from_micros(at),
            schedule: None,
            called: None,
            has_files: false,
            takes_messages: None,
        };
        assert_eq!(store.create_run(&new).await.unwrap(), Created::Created);
        run
    }

    fn store() -> MemoryStore {
        MemoryStore::with(Arc::new(SystemClock), 1, 10_000)
    }

    fn removal(user: Option<&str>) -> Removal {
        Removal::new("a", user, RunsFate::Remove, Timestamp::from_micros(1_000_000))
    }

    #[tokio::test]
    async fn the_list_of_an_app_shows_its_runs_at_once_however_many_others_have() {
        let store = store();
        let mut own = vec![create(&store, ("a", "ada"), 5, None).await];
        create(&store, ("a", "bob"), 6, None).await;
        own.push(create(&store, ("a", "ada"), 7, None).await);
        for at in 0..PIECE {
            create(&store, ("b", "ada"), 10 + i64::try_from(at).unwrap(), None).await;
        }
        let of = async |status, is_by_app| {
            let found = some_of(&store, &removal(Some("ada")), (status, is_by_app), "").await.unwrap();
            (found.runs.iter().map(|(run, _)| *run).rev().collect::<Vec<_>>(), found.next)
        };
        assert_eq!(of(None, true).await, (own.clone(), None));
        assert_eq!(of(Some(RunStatus::Scheduled), true).await, (own, None));
        assert_eq!(of(Some(RunStatus::Paused), true).await, (Vec::new(), None));
        let (first, next) = of(None, false).await;
        assert!(first.is_empty() && next.is_some(), "a look at all runs takes more pieces");
    }

    #[tokio::test]
    async fn a_removal_of_a_user_without_runs_looks_once_at_the_runs_of_others() {
        let mut config = Config::default();
        config.files.url = "/nowhere/uploads".into();
        let config = Arc::new(config);
        for (others, pieces) in [(0, 1), (4 * PIECE, 5)] {
            let store = Arc::new(store());
            for at in 0..others {
                create(&store, ("b", "bob"), i64::try_from(at).unwrap(), None).await;
            }
            let workflows = Arc::new(Workflows::new(&config, None));
            let submitter = Arc::new(Submitter::new(store.clone(), config.clone(), workflows));
            let removals = Removals::new(store.clone(), submitter);
            let text = removal(Some("ada")).to_text();
            store.removals().move_removal("r", None, Some(&text)).await.unwrap();
            let before = store.lists_of_all_runs();
            let mut waiting = Vec::new();
            while !store.removals().removals_under_way().await.unwrap().is_empty() {
                removals.look(&mut waiting).await.unwrap();
            }
            assert_eq!(store.lists_of_all_runs() - before, pieces, "{others} runs of others");
        }
    }

    #[tokio::test]
    async fn runs_that_were_called_at_any_depth_belong_to_the_user_of_the_first_caller() {
        let store = store();
        let mut chain = Vec::new();
        for (app, user, is_called) in
            [("a", "ada", false), ("b", "ada", true), ("c", "ada", true), ("a", "bob", false)]
        {
            let caller = chain.last().copied().filter(|_| is_called);
            chain.push(create(&store, (app, user), 5, caller).await);
        }
        let fields = store.app_records().fields_of_runs(&chain, &FIELDS).await.unwrap();
        let of = async |user| belong(&store, &removal(user), &fields).await.unwrap();
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
