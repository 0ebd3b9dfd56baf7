//! What plugins store, with the behaviour of the script.

use super::Namespace;
use crate::store::plugin_values::plugin_value_bytes;
use crate::store::{PluginValue, PluginValuePut};

impl Namespace {
    pub(super) fn put_plugin_value(&mut self, put: PluginValue<'_>) -> PluginValuePut {
        let values = self.plugin_values.entry(put.plugin.to_owned()).or_default();
        let used: u64 = values.iter().map(|(key, value)| plugin_value_bytes(key, value)).sum();
        let old = values.get(put.key).map_or(0, |value| plugin_value_bytes(put.key, value));
        if put.size() > old && used - old + put.size() > put.bytes_max {
            return PluginValuePut::Full { used };
        }
        match put.value {
            Some(value) => values.insert(put.key.to_owned(), value.to_owned()),
            None => values.remove(put.key),
        };
        PluginValuePut::Stored
    }
}
