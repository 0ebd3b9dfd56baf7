//! What plugins store.

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{PluginValue, PluginValuePut, StoreError};

impl RedisStore {
    pub(super) async fn value_of_plugin(
        &self,
        plugin: &str,
        key: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.plugin_values(plugin)).arg(field(key));
        self.connector.ask("reading a value of a plugin", &command).await
    }

    pub(super) async fn put_value_of_plugin(
        &self,
        put: PluginValue<'_>,
    ) -> Result<PluginValuePut, StoreError> {
        const DOING: &str = "storing a value of a plugin";
        if put.value.is_some() {
            // Before the value, and never taken back, so that no value is without it.
            let mut known = redis::cmd("SADD");
            known.arg(self.keys.plugin_storages()).arg(put.plugin);
            let _: u64 = self.connector.ask(DOING, &known).await?;
        }
        let keys = [self.keys.plugin_values(put.plugin)];
        let args = args![field(put.key), put.value.unwrap_or_default(), put.size(), put.bytes_max];
        let words: Vec<String> =
            self.connector.run(DOING, &self.scripts.put_plugin_value, &keys, &args).await?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["STORED"] => Ok(PluginValuePut::Stored),
            ["FULL", used] => match used.parse() {
                Ok(used) => Ok(PluginValuePut::Full { used }),
                Err(_) => Err(unexpected(DOING, "the bytes so far are no number")),
            },
            _ => Err(unexpected(DOING, words.join(" "))),
        }
    }

    pub(super) async fn storages_of_plugins(&self) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("SMEMBERS");
        command.arg(self.keys.plugin_storages());
        self.connector.ask("listing the plugins that have stored values", &command).await
    }

    pub(super) async fn remove_values_of_plugin(&self, plugin: &str) -> Result<(), StoreError> {
        let mut command = redis::cmd("UNLINK");
        command.arg(self.keys.plugin_values(plugin));
        self.connector.ask("removing the values of a plugin", &command).await
    }
}

/// The field of a key. No key is the field with the count of bytes.
fn field(key: &str) -> String {
    format!("k:{key}")
}
