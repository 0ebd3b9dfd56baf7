//! Prepares installed plugins on this worker, one after the other, in the background: the package comes from the store, and
//! its files and its Python environment go into the cache folder.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::files::FilesError;
use tidemill_common::registry::plugins::InstalledPlugin;
use tidemill_plugins::install::{Installed, install};
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::Package;
use tokio::time::Instant;

use super::host::{PluginHost, State};

/// The pause between two looks for newly installed plugins.
const LOOK: Duration = Duration::from_secs(5);

impl PluginHost {
    /// Prepares plugins until the worker ends.
    pub(crate) async fn keep(&self) {
        loop {
            if let Some(listed) = self.listed(true).await {
                self.keep_only(&listed);
                for plugin in &listed.plugins {
                    if self.processes.is_ok() && self.is_due(plugin) {
                        self.prepare(plugin).await;
                    }
                }
            }
            let _ = tokio::time::timeout(LOOK, self.wanted.notified()).await;
        }
    }

    /// Returns true for a plugin that was never prepared here, or whose failure is old enough to try again.
    fn is_due(&self, plugin: &InstalledPlugin) -> bool {
        match self.state_of(plugin) {
            None => true,
            Some(State::Failed { at, .. }) => at.elapsed() >= self.retry,
            Some(State::Preparing(_) | State::Ready(_)) => false,
        }
    }

    async fn prepare(&self, plugin: &InstalledPlugin) {
        let (id, begun) = (plugin.id(), Instant::now());
        tracing::info!(plugin = id, "preparing a plugin");
        self.set(plugin, State::Preparing("reading its package".into()));
        match self.make(plugin).await {
            Ok(installed) => {
                let (ms, python) = (begun.elapsed().as_millis(), installed.interpreter.release());
                tracing::info!(plugin = id, ms, python, "a plugin is ready");
                self.set(plugin, State::Ready(Arc::new(installed)));
            }
            Err(reason) => {
                tracing::warn!(plugin = id, reason, "a plugin cannot be prepared");
                self.set(plugin, State::Failed { reason, at: Instant::now() });
            }
        }
    }

    /// Reads the package from where the scheduler has stored it.
    async fn package(&self, plugin: &InstalledPlugin) -> Result<Vec<u8>, String> {
        const GONE: &str = "its package is not stored any more; remove the plugin and add it again";
        if plugin.in_files {
            let packages = self.packages.as_ref();
            let packages =
                packages.ok_or("its package is in the storage of files: set files.url here, too")?;
            let most = PackageLimits::default().packed_bytes_max;
            let bytes = packages.get(&plugin.sha256, most).await;
            return bytes.map(|bytes| bytes.to_vec()).map_err(|error| match error {
                FilesError::Missing(_) => GONE.into(),
                other => format!("its package cannot be read: {other}"),
            });
        }
        let bytes = self.jobs.package(&plugin.sha256).await;
        let bytes = bytes.map_err(|error| format!("its package cannot be read: {error}"))?;
        bytes.ok_or_else(|| GONE.into())
    }

    async fn make(&self, plugin: &InstalledPlugin) -> Result<Installed, String> {
        let bytes = self.package(plugin).await?;
        let reading = move || Package::read(&bytes, &PackageLimits::default(), None);
        let package = tokio::task::spawn_blocking(reading).await;
        let package = package.map_err(|_| "reading its package was interrupted".to_owned())?;
        let package = package.map_err(|error| error.to_string())?;
        if package.hash != plugin.sha256 {
            return Err(format!(
                "its stored package has the SHA-256 {}, not {}",
                package.hash, plugin.sha256
            ));
        }
        let say = |text: String| self.set(plugin, State::Preparing(text));
        install(Arc::new(package), &self.settings, &say).await.map_err(|error| error.to_string())
    }
}
