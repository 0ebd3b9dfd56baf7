//! Removes what plugins have stored that are not installed any more: a removal may have broken off, and an invocation that still
//! runs may store something after it. Every scheduler does it: values can be removed twice without harm.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::registry::plugins::has_version;
use tidemill_common::store::{Runs, StoreError};
use tokio::sync::watch::Receiver;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// Removes them every minute, until `stop` is set.
pub async fn run(store: Arc<dyn Runs>, mut stop: Receiver<bool>) {
    while !*stop.borrow() {
        if let Err(error) = sweep(&*store).await {
            tracing::warn!(%error, "values of removed plugins cannot be removed yet; it is tried again");
        }
        tokio::select! {
            _ = stop.changed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

async fn sweep(store: &dyn Runs) -> Result<(), StoreError> {
    let known = store.plugin_storages().await?;
    if known.is_empty() {
        return Ok(());
    }
    // After the values, so that a plugin that was installed meanwhile keeps its own.
    let catalog = store.catalog().await?;
    for plugin in known.iter().filter(|plugin| !has_version(&catalog, plugin)) {
        store.remove_plugin_values(plugin).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;
    use tidemill_common::store::{CatalogKind, Expected, Jobs, PluginValue, PutEntry};

    use super::*;

    #[tokio::test]
    async fn values_of_plugins_that_are_not_installed_go() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        for plugin in ["acme/maps", "acme/maps-old"] {
            let value = PluginValue { plugin, key: "a", value: Some("61"), bytes_max: 1_000 };
            store.put_plugin_value(value).await.unwrap();
        }
        let put = PutEntry {
            kind: CatalogKind::Plugin,
            id: "acme/maps:1.0.0",
            fields: &BTreeMap::new(),
            expected: Expected::Absent,
            make_default: false,
        };
        store.put_entry(put).await.unwrap();
        sweep(&store).await.unwrap();
        assert_eq!(store.plugin_value("acme/maps", "a").await.unwrap().as_deref(), Some("61"));
        assert_eq!(store.plugin_value("acme/maps-old", "a").await.unwrap(), None);
    }
}
