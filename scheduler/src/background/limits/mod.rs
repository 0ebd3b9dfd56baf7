//! Limits of apps and API keys: requests a second, and runs at the same time. All schedulers share one bound.
//!
//! What is set is in the memory of each scheduler and read again every second (every five while nothing is set), so an app and a key without a limit cost no
//! request to Redis. With a limit, each request is one script: a bucket for each scheduler would need none, but it would
//! give an app more or less with the number of schedulers, and refuse a client that always meets the same one.
//!
//! A run that works holds a place from its creation to its end ([`places`]). A run that waits for a person or for a time
//! gives its place back, because it may wait for days, and takes one again when it continues, without asking: the answer of
//! a person is never refused. Sub-workflow runs are a part of their caller and hold none, so a full app cannot wait for
//! itself.

mod own;
mod places;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_common::config::SchedulerConfig;
use tidemill_common::store::{
    LimitOf, LimitsMax, PlaceChange, Reached, RequestTaken, RunPlace, Runs, StoreError,
};
use tokio::sync::mpsc;

pub(crate) use self::own::{Limited, OwnLimits};
pub(crate) use self::places::TakenPlace;
use crate::metrics as names;

/// Changes of places that wait for the store. What does not fit is found by the sweep.
const CHANGES_MAX: usize = 10_000;
/// The pause between two lines in the log about refusals of the same limit.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// A request or a run was refused, because it was above a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverLimit {
    limited: Limited,
    by: Reached,
    /// The id of the app or of the key.
    of: String,
    max: u64,
    /// The limit was set for this app or key, and is not the default.
    is_own: bool,
}

impl std::fmt::Display for OverLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { max, of, .. } = self;
        let whose = match self.by {
            Reached::App => "this app",
            Reached::Key => "this API key",
        };
        let (what, advice) = match self.limited {
            Limited::Requests => ("requests a second", "try again in a second"),
            Limited::Runs => ("runs at the same time", "try again when one of them has ended"),
        };
        write!(f, "{whose} may have at most {max} {what}; {advice} ")?;
        let (name, by) = (self.limited.name(), self.by.name());
        if self.is_own {
            write!(f, "({name}, set for the {by} {of})")
        } else {
            write!(f, "(scheduler.{by}_{name})")
        }
    }
}

/// What is set, as of the last look.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    apps: HashMap<String, OwnLimits>,
    /// Limits of keys, each with the app of the key.
    keys: HashMap<String, (String, OwnLimits)>,
}

/// Knows the limits, and counts what they limit.
pub struct Limiter {
    store: Arc<dyn Runs>,
    /// The limits of an app and of a key, unless others are set.
    of_app: OwnLimits,
    of_key: OwnLimits,
    table: RwLock<Table>,
    /// The table was read at least once.
    is_known: AtomicBool,
    /// The table has changed since the last count of the runs that work.
    has_changed: AtomicBool,
    changes: mpsc::Sender<(RunPlace, PlaceChange)>,
    /// For the task that applies them.
    coming: Mutex<Option<mpsc::Receiver<(RunPlace, PlaceChange)>>>,
    /// When the log has named each limit.
    noted: Mutex<HashMap<(Limited, Reached, String), Instant>>,
}

impl Limiter {
    /// Creates it with the defaults of these settings.
    pub(crate) fn new(store: Arc<dyn Runs>, config: &SchedulerConfig) -> Self {
        let (changes, coming) = mpsc::channel(CHANGES_MAX);
        let own = |requests, runs| OwnLimits { requests_per_second: Some(requests), runs_max: Some(runs) };
        Self {
            store,
            of_app: own(config.app_requests_per_second, config.app_runs_max),
            of_key: own(config.key_requests_per_second, config.key_runs_max),
            table: RwLock::default(),
            is_known: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
            changes,
            coming: Mutex::new(Some(coming)),
            noted: Mutex::default(),
        }
    }

    /// Counts a request of an app and of a key.
    ///
    /// # Errors
    /// There were too many within the last second.
    pub(crate) async fn admit(&self, app: &str, key: Option<&str>) -> Result<(), OverLimit> {
        let max = self.max(Limited::Requests, app, key).await;
        if max.are_none() {
            return Ok(());
        }
        match self.store.app_limits().take_request(app, key, max).await {
            Ok(RequestTaken::Taken) => Ok(()),
            Ok(RequestTaken::Refused { by, .. }) => Err(self.refused(Limited::Requests, by, (app, key), max)),
            // The request needs the store, too, and says then why it does not answer. A full one still reads.
            Err(error) => {
                tracing::debug!(app, %error, "a request was not counted");
                Ok(())
            }
        }
    }

    /// The limits in force for an app and its key; 0: none.
    async fn max(&self, of: Limited, app: &str, key: Option<&str>) -> LimitsMax {
        if !self.is_known.load(Ordering::Relaxed)
            && let Err(error) = self.refresh().await
        {
            tracing::warn!(%error, "the limits of apps and keys cannot be read yet; the defaults are in force");
        }
        self.known_max(of, app, key)
    }

    fn known_max(&self, of: Limited, app: &str, key: Option<&str>) -> LimitsMax {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let set = |own: Option<&OwnLimits>| own.and_then(|own| own.get(of));
        let default = |own: OwnLimits| own.get(of).unwrap_or(0);
        // What stands for all datasets is no app.
        let is_app = !app.starts_with(':');
        let of_app = set(table.apps.get(app)).unwrap_or_else(|| default(self.of_app));
        let of_key =
            |key: &str| set(table.keys.get(key).map(|(_, own)| own)).unwrap_or_else(|| default(self.of_key));
        LimitsMax { app: if is_app { of_app } else { 0 }, key: key.map_or(0, of_key) }
    }

    /// Reads what is set.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let mut read = Table::default();
        for (of, text) in self.store.app_limits().limits_set().await? {
            let Some((app, own)) = OwnLimits::read(&text) else {
                tracing::error!(of = of.name(), "the stored limits of an app or a key are invalid");
                continue;
            };
            match of {
                LimitOf::App(id) => {
                    read.apps.insert(id, own);
                }
                LimitOf::Key(id) => {
                    read.keys.insert(id, (app, own));
                }
            }
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if *table != read {
            *table = read;
            self.has_changed.store(true, Ordering::Relaxed);
        }
        self.is_known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sets or removes limits. They are in force here at once, and at other schedulers within seconds.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn set(
        &self,
        of: &LimitOf,
        app: &str,
        own: Option<OwnLimits>,
    ) -> Result<(), StoreError> {
        let text = own.map(|own| own.to_text(app));
        self.store.app_limits().put_limits(of, text.as_deref()).await?;
        self.refresh().await
    }

    /// What is set for a key.
    pub(crate) async fn set_for_key(&self, key: &str) -> Result<Option<OwnLimits>, StoreError> {
        self.refresh().await?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        Ok(table.keys.get(key).map(|(_, own)| *own))
    }

    /// The limits in force for an app or one of its keys, and its runs that hold a place. Null: no limit.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn shown(&self, app: &str, key: Option<&str>) -> Result<Json, StoreError> {
        let mut shown = json!({});
        for of in Limited::ALL {
            let max = self.max(of, app, key).await;
            let max = if key.is_some() { max.key } else { max.app };
            shown[of.name()] = (max > 0).then_some(max).into();
        }
        shown["runs"] = if self.known_max(Limited::Runs, app, key).are_none() {
            Json::Null
        } else {
            self.store.app_limits().places_taken(app, key).await?.into()
        };
        Ok(shown)
    }

    /// Counts a refusal, and logs the first one of each minute.
    fn refused(
        &self,
        limited: Limited,
        by: Reached,
        (app, key): (&str, Option<&str>),
        max: LimitsMax,
    ) -> OverLimit {
        let (of, max) = match by {
            Reached::App => (app, max.app),
            Reached::Key => (key.unwrap_or_default(), max.key),
        };
        let is_own = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            let own = match by {
                Reached::App => table.apps.get(of),
                Reached::Key => table.keys.get(of).map(|(_, own)| own),
            };
            own.is_some_and(|own| own.get(limited).is_some())
        };
        let labels = [("limit", limited.name()), ("of", by.name())];
        metrics::counter!(names::OVER_LIMIT.name, &labels).increment(1);
        let over = OverLimit { limited, by, of: of.into(), max, is_own };
        if self.is_to_be_noted(&over) {
            tracing::info!(
                app,
                key,
                limit = limited.name(),
                of = by.name(),
                max,
                "requests are refused above a limit"
            );
        }
        over
    }

    fn is_to_be_noted(&self, over: &OverLimit) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let of = (over.limited, over.by, over.of.clone());
        if noted.get(&of).is_some_and(|at| at.elapsed() < NOTED_EVERY) {
            return false;
        }
        noted.retain(|_, at| at.elapsed() < NOTED_EVERY);
        noted.insert(of, Instant::now());
        true
    }

    /// False while no limit is set.
    fn is_used(&self) -> bool {
        let is_default = Limited::ALL
            .iter()
            .any(|of| [self.of_app, self.of_key].iter().any(|own| own.get(*of).is_some_and(|max| max > 0)));
        is_default || *self.table.read().unwrap_or_else(PoisonError::into_inner) != Table::default()
    }

    /// The apps whose runs are limited, by their own limit or by that of a key; `None`: all.
    fn apps_with_places(&self) -> Option<BTreeSet<String>> {
        let is_set = |own: &OwnLimits| own.get(Limited::Runs).is_some_and(|max| max > 0);
        if is_set(&self.of_app) || is_set(&self.of_key) {
            return None;
        }
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let apps = table.apps.iter().filter(|(_, own)| is_set(own)).map(|(app, _)| app.clone());
        let of_keys = table.keys.values().filter(|(_, own)| is_set(own)).map(|(app, _)| app.clone());
        Some(apps.chain(of_keys).collect())
    }
}

#[cfg(test)]
mod tests;
