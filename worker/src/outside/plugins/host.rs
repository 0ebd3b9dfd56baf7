//! The plugins that are installed for all workers, and the state of each on this one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::app_parameters::AppSettings;
use tidemill_common::config::{Config, Prefer};
use tidemill_common::dsl::SealingKey;
use tidemill_common::files::{Packages, open_packages};
use tidemill_common::registry::plugins::{self, InstalledPlugin};
use tidemill_common::store::{Catalog, CatalogEntry, Jobs};
use tidemill_common::wire::worker::{PluginAbility, PluginState};
use tidemill_plugins::install::Installed;
use tidemill_plugins::process::pool::Plugins;
use tidemill_plugins::settings::Settings;
use tidemill_sandbox::helper::Host;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::answers::{AppRoom, ThisWorker};
use super::models::Description;
use crate::jobs::shared::Core;
use crate::outside::catalog::CatalogCopy;
use crate::outside::http::Http;

/// Most descriptions of models that are remembered.
const DESCRIBED_MAX: usize = 500;

/// The plugins of a worker.
pub(crate) struct PluginHost {
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) key: Option<SealingKey>,
    pub(super) settings: Settings,
    /// Where packages are that are not in Redis.
    pub(super) packages: Option<Arc<dyn Packages>>,
    /// The processes, or the reason why this worker runs no plugins.
    pub(super) processes: Result<Plugins, &'static str>,
    pub(super) retry: Duration,
    /// The longest time that a job waits for a plugin.
    pub(super) wait: Duration,
    catalog: CatalogCopy<Listed>,
    /// What plugins have said about models that no file describes. A place is locked while its plugin is asked.
    described: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Option<Description>>>>>,
    places: Mutex<BTreeMap<String, Place>>,
    /// Grows with each change of a place.
    pub(super) changes: watch::Sender<u64>,
    /// Asks the keeper to look now.
    pub(super) wanted: Notify,
    /// The name of this worker among all.
    pub(super) me: String,
    pub(super) queues: Vec<String>,
    /// Most bytes that a plugin stores.
    pub(super) storage_max: u64,
    /// How deep calls of tools by plugins may be nested.
    pub(super) nesting_max: u32,
    /// What plugins learn about the features of apps.
    pub(super) app_settings: AppSettings,
    /// Places of invocations that wait for apps.
    pub(super) app_room: AppRoom,
    /// Plugins come before what this program has itself.
    pub(crate) is_preferred: bool,
    worker: ThisWorker,
}

/// What the catalog has of plugins.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) plugins: Vec<InstalledPlugin>,
    pub(super) credentials: Vec<CatalogEntry>,
}

/// A plugin on this worker.
#[derive(Clone)]
pub(super) struct Place {
    /// The SHA-256 of the package: another package may be installed under the same id later.
    pub(super) sha256: String,
    pub(super) state: State,
}

#[derive(Clone)]
pub(super) enum State {
    /// It is being prepared; in words.
    Preparing(String),
    Ready(Arc<Installed>),
    /// It could not be prepared. This stays while it is tried again.
    Failed {
        reason: String,
        /// The reason without what other programs have written, for runs.
        brief: String,
        at: Instant,
    },
    /// This worker runs no plugins, for this reason.
    Disabled(&'static str),
}

impl PluginHost {
    pub(crate) fn new(
        config: &Config,
        jobs: Arc<dyn Jobs>,
        http: Arc<Http>,
        key: Option<SealingKey>,
        me: &str,
    ) -> Self {
        let settings = Settings::of(config);
        let processes = match Host::named(&config.code.helper) {
            _ if !config.plugins.enabled => Err("plugins.enabled is false"),
            Some(host) => Ok(Plugins::new(settings.clone(), host, http)),
            None => {
                Err("this program cannot start the processes of plugins (code.helper names one that can)")
            }
        };
        let app_room = AppRoom::new(config, &settings.process);
        let refresh = Duration::from_millis(config.worker.providers_refresh_ms);
        Self {
            catalog: CatalogCopy::new(jobs.clone(), "plugins", refresh),
            jobs,
            key,
            settings,
            // A setting that cannot be used was refused before.
            packages: open_packages(&config.files).unwrap_or_default(),
            processes,
            retry: Duration::from_secs(config.plugins.retry_seconds),
            wait: Duration::from_secs(config.plugins.wait_seconds),
            described: Mutex::default(),
            places: Mutex::default(),
            changes: watch::Sender::new(0),
            wanted: Notify::new(),
            me: me.into(),
            queues: config.worker.queues.clone(),
            storage_max: config.plugins.storage_bytes_max,
            nesting_max: config.plugins.nesting_max,
            app_settings: AppSettings::of(config),
            app_room,
            is_preferred: config.plugins.prefer == Prefer::Plugin,
            worker: ThisWorker::new(),
        }
    }

    /// Lets plugins ask back: their questions are answered with what this worker has.
    pub(crate) fn connect(&self, worker: &Arc<Core>) {
        // A second call would name the same worker.
        let _ = self.worker.set(Arc::downgrade(worker));
    }

    /// This worker; `None` while it starts or ends.
    pub(super) fn worker(&self) -> Option<Arc<Core>> {
        self.worker.get()?.upgrade()
    }

    /// The state of each installed plugin here, for the record of this worker.
    pub(crate) fn abilities(&self) -> Vec<PluginAbility> {
        let ability = |(id, place): (&String, &Place)| {
            let (state, note) = match &place.state {
                State::Preparing(text) => (PluginState::Preparing, text.clone()),
                State::Ready(_) => (PluginState::Ready, String::new()),
                State::Failed { reason, .. } => (PluginState::Failed, reason.clone()),
                State::Disabled(reason) => (PluginState::Disabled, (*reason).to_owned()),
            };
            let models = match &place.state {
                State::Ready(installed) => installed.package.providers.models.as_slice(),
                State::Preparing(_) | State::Failed { .. } | State::Disabled(_) => &[],
            };
            let models = models.iter().map(|provider| provider.name.clone()).collect();
            PluginAbility { id: id.clone(), sha256: place.sha256.clone(), state, note, models }
        };
        self.places().iter().map(ability).collect()
    }

    /// Changes when a plugin has become ready, has failed, or was removed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Stops all processes, and waits for their ends.
    pub(crate) async fn stop(&self) {
        if let Ok(processes) = &self.processes {
            processes.stop().await;
        }
    }

    /// The installed plugins. `None` when the store does not answer, and never has.
    pub(super) async fn listed(&self, newest: bool) -> Option<Arc<Listed>> {
        let make = |catalog: Catalog, _: Option<&Listed>| Listed {
            plugins: plugins::all(&catalog),
            credentials: catalog.plugin_credentials,
        };
        let listed = self.catalog.get(newest, make).await;
        listed.inspect_err(|error| tracing::warn!(%error, "the list of plugins cannot be read")).ok()
    }

    pub(super) fn state_of(&self, plugin: &InstalledPlugin) -> Option<State> {
        let places = self.places();
        let place = places.get(&plugin.id()).filter(|place| place.sha256 == plugin.sha256)?;
        Some(place.state.clone())
    }

    /// Notes progress, unless it has failed before: others must know that until it is ready.
    pub(super) fn say(&self, plugin: &InstalledPlugin, text: String) {
        if !matches!(self.state_of(plugin), Some(State::Failed { .. })) {
            self.set(plugin, State::Preparing(text));
        }
    }

    pub(super) fn set(&self, plugin: &InstalledPlugin, state: State) {
        let is_progress = matches!(state, State::Preparing(_));
        self.places().insert(plugin.id(), Place { sha256: plugin.sha256.clone(), state });
        if !is_progress {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Forgets the plugins that are not installed any more.
    pub(super) fn keep_only(&self, listed: &Listed) {
        let is_listed = |id: &String, place: &Place| {
            listed.plugins.iter().any(|plugin| plugin.id() == *id && plugin.sha256 == place.sha256)
        };
        let is_changed = {
            let mut places = self.places();
            let before = places.len();
            places.retain(|id, place| is_listed(id, place));
            places.len() != before
        };
        if is_changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Notes that the plugins that are ready here are used.
    pub(super) fn touch(&self) {
        for place in self.places().values() {
            if let State::Ready(installed) = &place.state {
                installed.touch();
            }
        }
    }

    /// The place of what a plugin has said about a model.
    pub(super) fn description(&self, key: &str) -> Arc<tokio::sync::Mutex<Option<Description>>> {
        // No code panics while it holds the lock.
        let mut all = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= DESCRIBED_MAX && !all.contains_key(key) {
            all.clear();
        }
        all.entry(key.to_owned()).or_default().clone()
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        // No code panics while it holds the lock.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
