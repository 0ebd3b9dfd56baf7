//! The plugins that are installed for all workers, and the state of each on this one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::files::{Packages, open_packages};
use tidemill_common::need::Need;
use tidemill_common::registry::plugins::{self, InstalledPlugin, PluginName};
use tidemill_common::store::{Catalog, CatalogEntry, Jobs};
use tidemill_common::wire::worker::{PluginAbility, PluginState};
use tidemill_plugins::install::Installed;
use tidemill_plugins::process::pool::Plugins;
use tidemill_plugins::settings::Settings;
use tidemill_sandbox::helper::Host;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::outside::catalog::CatalogCopy;
use crate::outside::http::Http;
use crate::outside::tools::{ToolError, ToolName};

/// The pause between two looks at a plugin that is being prepared. It is longer than the age of the list of workers with
/// which a job is handed back, so that a job is handed back only to a worker that this list has.
const LOOK_AGAIN: Duration = Duration::from_millis(2_200);

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
    catalog: CatalogCopy<Listed>,
    places: Mutex<BTreeMap<String, Place>>,
    /// Grows with each change of a place.
    changes: watch::Sender<u64>,
    /// Asks the keeper to look now.
    pub(super) wanted: Notify,
    queues: Vec<String>,
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
    /// It could not be prepared.
    Failed {
        reason: String,
        at: Instant,
    },
}

impl PluginHost {
    pub(crate) fn new(
        config: &Config,
        jobs: Arc<dyn Jobs>,
        http: Arc<Http>,
        key: Option<SealingKey>,
    ) -> Self {
        let settings = Settings::of(config);
        let processes = match Host::named(&config.code.helper) {
            _ if !config.plugins.enabled => Err("plugins.enabled is false"),
            Some(host) => Ok(Plugins::new(settings.clone(), host, http)),
            None => {
                Err("this program cannot start the processes of plugins (code.helper names one that can)")
            }
        };
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
            places: Mutex::default(),
            changes: watch::Sender::new(0),
            wanted: Notify::new(),
            queues: config.worker.queues.clone(),
        }
    }

    /// The state of each installed plugin here, for the record of this worker.
    pub(crate) fn abilities(&self) -> Vec<PluginAbility> {
        let ability = |(id, place): (&String, &Place)| {
            let (state, note) = match &place.state {
                State::Preparing(text) => (PluginState::Preparing, text.clone()),
                State::Ready(_) => (PluginState::Ready, String::new()),
                State::Failed { reason, .. } => (PluginState::Failed, reason.clone()),
            };
            PluginAbility { id: id.clone(), state, note }
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

    /// The plugin that runs a tool, prepared on this worker. Waits while it is being prepared here and no other worker has it.
    /// `None` if no installed plugin is named.
    pub(super) async fn ready(&self, name: &ToolName<'_>) -> Result<Option<Arc<Installed>>, ToolError> {
        let Some(named) = PluginName::of(name.plugin, name.provider_id) else { return Ok(None) };
        let Some(plugin) = self.chosen(&named, name.tool).await? else { return Ok(None) };
        let id = plugin.id();
        let lacking =
            |reason: String| ToolError::unavailable(reason).lacking(Need::Plugin { id: id.clone() });
        if let Err(reason) = &self.processes {
            return Err(lacking(format!("this worker does not run the plugin {id}: {reason}")));
        }
        let mut elsewhere = 0;
        loop {
            let mut changes = self.changes.subscribe();
            match self.state_of(&plugin) {
                Some(State::Ready(installed)) => return Ok(Some(installed)),
                Some(State::Failed { reason, .. }) => {
                    return Err(lacking(format!(
                        "the plugin {id} cannot be prepared on this worker: {reason}"
                    )));
                }
                Some(State::Preparing(_)) => {}
                None => self.wanted.notify_one(),
            }
            elsewhere = if self.others_have(&id).await { elsewhere + 1 } else { 0 };
            if elsewhere > 1 {
                return Err(lacking(format!("the plugin {id} is being prepared on this worker")));
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
            let is_installed = |listed: &Listed| listed.plugins.iter().any(|known| *known == plugin);
            if self.listed(false).await.is_some_and(|listed| !is_installed(&listed)) {
                return Err(ToolError::unavailable(format!("the plugin {id} has been removed")));
            }
        }
    }

    async fn chosen(&self, named: &PluginName<'_>, tool: &str) -> Result<Option<InstalledPlugin>, ToolError> {
        let find = |listed: Option<Arc<Listed>>| match listed {
            Some(listed) => plugins::choose(&listed.plugins, named, tool).map(Option::<&_>::cloned),
            None => Ok(None),
        };
        if let Ok(Some(found)) = find(self.listed(false).await) {
            return Ok(Some(found));
        }
        // It may have been installed just now.
        find(self.listed(true).await).map_err(ToolError::unavailable)
    }

    /// Returns true if another worker that serves the same queues has the plugin ready.
    async fn others_have(&self, id: &str) -> bool {
        let Ok(workers) = self.jobs.fleet().workers().await else { return false };
        workers
            .iter()
            .filter_map(|worker| worker.about.as_ref())
            .any(|about| self.queues.iter().all(|queue| about.queues.contains(queue)) && about.has_plugin(id))
    }

    pub(super) fn state_of(&self, plugin: &InstalledPlugin) -> Option<State> {
        let places = self.places();
        let place = places.get(&plugin.id()).filter(|place| place.sha256 == plugin.sha256)?;
        Some(place.state.clone())
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

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        // No code panics while it holds the lock.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
