//! Removes the packages and environments that no process of this host has used for a long time from the cache folder.

use std::time::Duration;

use tidemill_plugins::cache::{Cleaned, clean};

use super::host::{PluginHost, State};

/// The longest and the shortest pause between two looks.
const LOOK_MAX: Duration = Duration::from_secs(3600);
const LOOK_MIN: Duration = Duration::from_secs(5);

impl PluginHost {
    /// Looks at the cache folder until the worker ends.
    pub(super) async fn keep_clean(&self) {
        let Some(unused) = self.settings.unused.filter(|_| self.processes.is_ok()) else {
            return std::future::pending().await;
        };
        // Several looks in that time, so that what this worker uses never looks unused to others.
        let pause = (unused / 4).clamp(LOOK_MIN, LOOK_MAX);
        loop {
            // Not at the start: what was used before it is taken again in that time.
            tokio::time::sleep(pause).await;
            self.touch();
            if !self.is_settled().await {
                continue;
            }
            let cache = self.settings.cache.clone();
            match tokio::task::spawn_blocking(move || clean(&cache, unused)).await {
                Ok(Ok(Cleaned { removed, bytes, failed, .. })) => {
                    if !removed.is_empty() {
                        let folders = removed.len();
                        tracing::info!(
                            folders,
                            bytes,
                            "removed packages and environments that no plugin uses any more"
                        );
                    }
                    if let Some((path, reason)) = failed.first() {
                        let (folders, first) = (failed.len(), path.display());
                        tracing::warn!(folders, %first, reason, "folders in the cache of plugins cannot be cleaned");
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "the cache folder of plugins cannot be cleaned"),
                Err(error) => tracing::warn!(%error, "cleaning the cache folder of plugins was interrupted"),
            }
        }
    }

    /// Tests whether each installed plugin was prepared here, or cannot be: the files of one that is not prepared yet do not look
    /// used.
    async fn is_settled(&self) -> bool {
        let Some(listed) = self.listed(false).await else { return false };
        listed.plugins.iter().all(|plugin| match self.state_of(plugin) {
            Some(State::Ready(_) | State::Failed { .. } | State::Disabled(_)) => true,
            Some(State::Preparing(_)) | None => false,
        })
    }
}
