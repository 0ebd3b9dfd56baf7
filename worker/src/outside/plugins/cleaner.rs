//! Removes the packages and environments that no process of this host has used for a long time from the cache folder.

use std::time::Duration;

use tidemill_plugins::cache::{Cleaned, clean};

use super::host::PluginHost;

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
            let cache = self.settings.cache.clone();
            match tokio::task::spawn_blocking(move || clean(&cache, unused)).await {
                Ok(Ok(Cleaned { removed, bytes, .. })) => {
                    if !removed.is_empty() {
                        let folders = removed.len();
                        tracing::info!(
                            folders,
                            bytes,
                            "removed packages and environments that no plugin uses any more"
                        );
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "the cache folder of plugins cannot be cleaned"),
                Err(error) => tracing::warn!(%error, "cleaning the cache folder of plugins was interrupted"),
            }
        }
    }
}
