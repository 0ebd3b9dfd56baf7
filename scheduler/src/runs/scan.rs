//! Looks at runs, newest first, in pieces: for lists that want few of them.

use std::collections::{HashMap, HashSet};

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{INNER_FIELD, ListRuns, Runs, StoreError};

/// Runs that are read at once.
const PIECE: usize = 500;
/// Runs of no app that are passed over for each other one that may be looked at. An app has a few inner runs for each of
/// its own at most.
const OTHERS: usize = 4;
const CREATED_AT: &str = "created_at";
const STATUS: &str = "status";
/// The fields that a look reads of every run.
const NEEDED: [&str; 3] = ["app", INNER_FIELD, CREATED_AT];

/// Some fields of a run.
pub(crate) type Fields = HashMap<String, String>;

/// A look at runs.
pub(crate) struct Scan {
    query: ListRuns,
    /// Only runs of this app are wanted.
    app: Option<String>,
    /// The store lists only runs of this app. If it cannot yet, this look reads of other runs only whose they are.
    is_by_app: bool,
    is_begun: bool,
    names: Vec<&'static str>,
    /// Those of the last piece: the next one begins with runs of the same time.
    seen: HashSet<RunId>,
    budget: Budget,
    is_over: bool,
}

impl Scan {
    /// Looks at the runs that the query wants, and reads these fields of each. It ends after `most` runs of apps.
    pub(crate) fn new(query: ListRuns, names: &[&'static str], most: usize) -> Self {
        let mut names = names.to_vec();
        if query.label.is_some() && query.status.is_some() && !names.contains(&STATUS) {
            names.push(STATUS);
        }
        for needed in NEEDED {
            if !names.contains(&needed) {
                names.push(needed);
            }
        }
        let budget = Budget { own: most, all: most.saturating_mul(1 + OTHERS) };
        Self {
            query: ListRuns { limit: PIECE, ..query },
            app: None,
            is_by_app: false,
            is_begun: false,
            names,
            seen: HashSet::new(),
            budget,
            is_over: false,
        }
    }

    /// Begins with a piece of so many runs, two at least, since a piece begins with the last run of the one before. The
    /// next ones are larger.
    pub(crate) fn in_pieces_of(mut self, count: usize) -> Self {
        self.query.limit = count.clamp(2, PIECE);
        self
    }

    /// Looks only at runs of this app, or, while an earlier version is upgraded, reads the fields only of these.
    pub(crate) fn of_app(mut self, app: &str) -> Self {
        self.app = Some(app.to_owned());
        if self.query.status.is_some() && !self.names.contains(&STATUS) {
            self.names.push(STATUS);
        }
        self
    }

    /// True when the last piece was the end of all runs, and not that of the budget.
    pub(crate) fn has_seen_all(&self) -> bool {
        self.is_over && self.budget.is_left()
    }

    /// The next runs; `None` when there are no more to look at.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn next(
        &mut self,
        store: &dyn Runs,
    ) -> Result<Option<Vec<(RunId, Fields)>>, StoreError> {
        if self.is_over || !self.budget.is_left() {
            return Ok(None);
        }
        if let Some(app) = self.app.as_ref().filter(|_| self.query.label.is_none())
            && !std::mem::replace(&mut self.is_begun, true)
            && store.lists_runs_by_app(app, self.query.status).await?
        {
            self.is_by_app = true;
            self.query.app = Some(app.clone());
        }
        let asked = self.query.limit;
        let (listed, fresh, fields) = loop {
            let listed = store.list_runs(&self.query).await?;
            let fresh: Vec<RunId> = listed.iter().filter(|run| !self.seen.contains(*run)).copied().collect();
            let fields = self.read(store, &fresh).await?;
            let gone = self.take_off(store, &fresh, &fields).await?;
            // With nothing but removed runs there is no time to go on from; the next ones come without them.
            if gone == 0 || gone < fresh.len() || listed.len() < asked {
                break (listed, fresh, fields);
            }
        };
        let time = |fields: &Fields| fields.get(CREATED_AT)?.parse().ok();
        self.query.limit = (asked * 2).min(PIECE);
        match fields.iter().rev().find_map(time) {
            Some(oldest) if listed.len() >= asked => {
                // The next piece begins with the runs of the same time; those that were seen are passed over.
                self.query.before = Some(just_after(Timestamp::from_micros(oldest)));
                self.seen = listed.into_iter().collect();
            }
            Some(_) | None => self.is_over = true,
        }
        let found: Vec<(RunId, Fields)> = fresh.into_iter().zip(fields).collect();
        let budget = &mut self.budget;
        let looked_at = found.into_iter().take_while(|(_, fields)| budget.takes(fields));
        // The list of an app has runs of every status, and so has that of a label.
        let is_of_every_status = self.is_by_app || self.query.label.is_some();
        let status = self.query.status.filter(|_| is_of_every_status).map(RunStatus::name);
        let is_wanted =
            |fields: &Fields| status.is_none_or(|status| fields.get(STATUS).is_some_and(|it| it == status));
        Ok(Some(looked_at.filter(|(_, fields)| is_wanted(fields)).collect()))
    }
}

impl Scan {
    /// Takes runs off the list of the app or the label that no longer exist; returns their number. The sweep of an earlier version, or of a
    /// run whose keys had expired, leaves them there.
    async fn take_off(
        &self,
        store: &dyn Runs,
        runs: &[RunId],
        fields: &[Fields],
    ) -> Result<usize, StoreError> {
        if self.query.app.is_none() && self.query.label.is_none() {
            return Ok(0);
        }
        let gone = runs.iter().zip(fields).filter(|(_, fields)| fields.is_empty());
        let gone: Vec<RunId> = gone.map(|(run, _)| *run).collect();
        store.runs_gone(&self.query, &gone).await?;
        Ok(gone.len())
    }

    async fn read(&self, store: &dyn Runs, runs: &[RunId]) -> Result<Vec<Fields>, StoreError> {
        let records = store.app_records();
        let Some(app) = self.app.as_ref().filter(|_| !self.is_by_app) else {
            return records.fields_of_runs(runs, &self.names).await;
        };
        let mut found = records.fields_of_runs(runs, &NEEDED).await?;
        let is_own = |fields: &Fields| fields.get("app").is_some_and(|of| of == app);
        let own: Vec<usize> = (0..found.len()).filter(|at| is_own(&found[*at])).collect();
        let runs: Vec<RunId> = own.iter().map(|at| runs[*at]).collect();
        if !runs.is_empty() {
            for (at, fields) in own.into_iter().zip(records.fields_of_runs(&runs, &self.names).await?) {
                found[at] = fields;
            }
        }
        Ok(found)
    }
}

/// What may still be looked at.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Runs of apps.
    own: usize,
    /// All runs.
    all: usize,
}

impl Budget {
    fn is_left(self) -> bool {
        self.own > 0 && self.all > 0
    }

    /// Counts a run. Inner runs and others of no app, such as those that index documents, cost no place of the runs of apps.
    fn takes(&mut self, fields: &Fields) -> bool {
        let takes = self.is_left();
        let is_of_app = fields.contains_key("app") && !fields.contains_key(INNER_FIELD);
        self.all = self.all.saturating_sub(1);
        self.own = self.own.saturating_sub(usize::from(is_of_app));
        takes
    }
}

/// The bound of a list that includes this time.
pub(crate) fn just_after(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros().saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_no_app_take_no_place_of_runs_of_apps_up_to_a_bound() {
        let fields = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        let (own, inner, bare) = (fields(&["app"]), fields(&[INNER_FIELD]), fields(&[]));
        let looked = |most: usize, runs: &[&Fields]| {
            let mut budget = Budget { own: most, all: most * (1 + OTHERS) };
            runs.iter().take_while(|fields| budget.takes(fields)).count()
        };
        assert_eq!(looked(2, &[&own, &own, &own]), 2);
        assert_eq!(looked(2, &[&inner, &bare, &inner, &own, &bare, &own, &own]), 6);
        assert_eq!(looked(1, &[&inner; 9]), 5);
    }
}
