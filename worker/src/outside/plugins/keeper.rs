//! Prepares installed plugins on this worker, a few at once, in the background: the package comes from the store, and its files
//! and its Python environment go into the cache folder.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_common::files::FilesError;
use tidemill_common::registry::plugins::InstalledPlugin;
use tidemill_plugins::install::{Installed, install, unpacked};
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::Package;
use tokio::time::Instant;

use super::host::{PluginHost, State};

/// The pause between two looks for newly installed plugins.
const LOOK: Duration = Duration::from_secs(5);
/// Most plugins that are prepared at once. One that takes long does not hold up the others.
const AT_ONCE: usize = 3;

/// The reason why a plugin is not ready.
enum Trouble {
    /// Its package cannot be read now. It is tried again soon.
    Passing(String),
    Lasting {
        reason: String,
        brief: String,
    },
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Lasting { brief: reason.clone(), reason }
    }
}

impl PluginHost {
    /// Prepares plugins until the worker ends.
    pub(crate) async fn keep(&self) {
        let (mut running, mut busy) = (FuturesUnordered::new(), BTreeSet::new());
        // Folders of a worker that was killed.
        drop(tokio::task::spawn_blocking(tidemill_plugins::process::remove_left_over));
        let cleaning = self.keep_clean();
        tokio::pin!(cleaning);
        loop {
            if let Some(listed) = self.listed(true).await {
                self.keep_only(&listed);
                if let Err(reason) = &self.processes {
                    for plugin in listed.plugins.iter().filter(|plugin| self.state_of(plugin).is_none()) {
                        self.set(plugin, State::Disabled(reason));
                    }
                } else {
                    let is_due = |plugin: &&InstalledPlugin| {
                        !busy.contains(&(plugin.id(), plugin.sha256.clone())) && self.is_due(plugin)
                    };
                    let mut due: Vec<InstalledPlugin> =
                        listed.plugins.iter().filter(is_due).cloned().collect();
                    // Those that were ready before the last start are ready soon.
                    due.sort_by_key(|plugin| unpacked(&self.settings, &plugin.sha256).is_none());
                    for plugin in due.into_iter().take(AT_ONCE.saturating_sub(running.len())) {
                        busy.insert((plugin.id(), plugin.sha256.clone()));
                        running.push(self.prepare(plugin));
                    }
                }
            }
            tokio::select! {
                Some(done) = running.next(), if !running.is_empty() => {
                    busy.remove(&done);
                }
                () = &mut cleaning => {}
                _ = tokio::time::timeout(LOOK, self.wanted.notified()) => {}
            }
        }
    }

    /// Returns true for a plugin that was never prepared here, or whose failure is old enough to try again.
    fn is_due(&self, plugin: &InstalledPlugin) -> bool {
        match self.state_of(plugin) {
            None | Some(State::Preparing(_)) => true,
            Some(State::Failed { at, .. }) => at.elapsed() >= self.retry,
            Some(State::Ready(_) | State::Disabled(_)) => false,
        }
    }

    /// Returns the id and the files when it has ended.
    async fn prepare(&self, plugin: InstalledPlugin) -> (String, String) {
        let (id, begun) = (plugin.id(), Instant::now());
        tracing::info!(plugin = id, "preparing a plugin");
        self.say(&plugin, "reading its package".into());
        match self.make(&plugin).await {
            Ok(installed) => {
                let (ms, python) = (begun.elapsed().as_millis(), installed.interpreter.release());
                tracing::info!(plugin = id, ms, python, "a plugin is ready");
                self.set(&plugin, State::Ready(Arc::new(installed)));
            }
            Err(Trouble::Passing(reason)) => {
                tracing::warn!(plugin = id, reason, "the package of a plugin cannot be read now");
                self.say(&plugin, format!("{reason}; it is tried again"));
                // So that a store that fails is not asked all the time.
                tokio::time::sleep(LOOK).await;
            }
            Err(Trouble::Lasting { reason, brief }) => {
                tracing::warn!(plugin = id, reason, "a plugin cannot be prepared");
                self.set(&plugin, State::Failed { reason, brief, at: Instant::now() });
            }
        }
        (id, plugin.sha256)
    }

    /// Reads the package from where the scheduler has stored it.
    async fn package(&self, plugin: &InstalledPlugin) -> Result<Vec<u8>, Trouble> {
        const GONE: &str = "its package is not stored any more; remove the plugin and add it again";
        let unread = |error: String| Trouble::Passing(format!("its package cannot be read: {error}"));
        if plugin.in_files {
            let packages = self.packages.as_ref().ok_or_else(|| {
                Trouble::from("its package is in the storage of files: set files.url here, too".to_owned())
            })?;
            let most = PackageLimits::default().packed_bytes_max;
            let bytes = packages.get(&plugin.sha256, most).await;
            return bytes.map(|bytes| bytes.to_vec()).map_err(|error| match error {
                FilesError::Missing(_) => Trouble::from(GONE.to_owned()),
                other => unread(other.to_string()),
            });
        }
        let bytes = self.jobs.package(&plugin.sha256).await.map_err(|error| unread(error.to_string()))?;
        bytes.ok_or_else(|| Trouble::from(GONE.to_owned()))
    }

    /// The package as its unpacked files here have it, so that the store need not answer. `None` if they are not there, or
    /// differ.
    async fn unpacked(&self, plugin: &InstalledPlugin) -> Option<Package> {
        let folder = unpacked(&self.settings, &plugin.sha256)?;
        let package = Package::open(&folder, &PackageLimits::default(), None).await.ok()?;
        (package.hash == plugin.sha256).then_some(package)
    }

    async fn make(&self, plugin: &InstalledPlugin) -> Result<Installed, Trouble> {
        let package = match self.unpacked(plugin).await {
            Some(package) => package,
            None => self.read(plugin).await?,
        };
        let say = |text: String| self.say(plugin, text);
        let installed = install(Arc::new(package), &self.settings, &say).await;
        installed.map_err(|error| Trouble::Lasting { reason: error.to_string(), brief: error.brief() })
    }

    async fn read(&self, plugin: &InstalledPlugin) -> Result<Package, Trouble> {
        let bytes = self.package(plugin).await?;
        let reading = move || Package::read(&bytes, &PackageLimits::default(), None);
        let package = tokio::task::spawn_blocking(reading).await;
        let package = package.map_err(|_| "reading its package was interrupted".to_owned())?;
        let package = package.map_err(|error| error.to_string())?;
        if package.hash != plugin.sha256 {
            let (hash, expected) = (package.hash, &plugin.sha256);
            return Err(format!("its stored package has the SHA-256 {hash}, not {expected}").into());
        }
        Ok(package)
    }
}
