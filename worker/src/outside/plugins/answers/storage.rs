//! The storage of a plugin: values by key in Redis, for all its versions and for all apps, as on Dify.

use serde_json::{Value as Json, json};
use tidemill_common::store::{PluginValue, PluginValuePut};

use super::{Answering, text};

/// The digits of a byte.
const DIGITS: u64 = 2;

/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// Most bytes in Redis of a plugin whose manifest asks for so many bytes of values.
pub(super) fn bytes_max(asked: Option<u64>, most: u64) -> u64 {
    asked.unwrap_or(0).saturating_mul(DIGITS).min(most)
}

impl Answering<'_> {
    /// Reads, writes, removes or looks for a value.
    pub(super) async fn stored(&self, request: &Json) -> Result<Json, String> {
        let key = text(request, "key")?;
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(format!("a key of the storage has 1 to {KEY_BYTES_MAX} bytes"));
        }
        let (jobs, plugin) = (&self.host.jobs, self.storage.as_str());
        let put = |value| PluginValue { plugin, key, value, bytes_max: self.storage_max };
        let failed = |error| format!("the storage of the plugin does not answer: {error}");
        match text(request, "opt")? {
            "set" => {
                let value = text(request, "value")?;
                if !value.len().is_multiple_of(2) || !value.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return Err("a value comes in hexadecimal digits".into());
                }
                self.check_installed().await?;
                match jobs.put_plugin_value(put(Some(value))).await.map_err(failed)? {
                    PluginValuePut::Stored => Ok(json!({"data": "ok"})),
                    PluginValuePut::Full { used } => Err(format!(
                        "the storage of the plugin has {used} bytes and may have {} (its manifest, and plugins.storage_bytes_max), two for each byte of a value, and 100 for each value",
                        self.storage_max
                    )),
                }
            }
            "get" => match jobs.plugin_value(plugin, key).await.map_err(failed)? {
                Some(value) => Ok(json!({"data": value})),
                None => Err(format!("the storage of the plugin has no key {key:?}")),
            },
            "del" => {
                jobs.put_plugin_value(put(None)).await.map_err(failed)?;
                Ok(json!({"data": "ok"}))
            }
            "exist" => {
                let value = jobs.plugin_value(plugin, key).await.map_err(failed)?;
                Ok(json!({"data": value.is_some()}))
            }
            other => Err(format!("the storage knows no operation {other:?}")),
        }
    }

    /// Refuses what would be left after the removal of the plugin. A scheduler removes what comes through nevertheless, because this
    /// worker may not know of the removal yet.
    async fn check_installed(&self) -> Result<(), String> {
        let listed = self.host.listed(false).await.ok_or("the list of plugins cannot be read")?;
        if listed.plugins.iter().any(|plugin| plugin.storage() == self.storage) {
            return Ok(());
        }
        Err(format!("the plugin {} is not installed any more, so it stores nothing", self.storage))
    }
}
