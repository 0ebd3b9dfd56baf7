//! What plugins store: small values by key, bounded for each plugin.

/// What each value counts besides its key and its digits: about what Redis needs for it. The script has it, too.
const ENTRY_BYTES: u64 = 100;

/// A value to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginValue<'a> {
    /// The plugin: `author/name`.
    pub plugin: &'a str,
    pub key: &'a str,
    /// Its bytes in hexadecimal digits. `None` removes it.
    pub value: Option<&'a str>,
    /// Most bytes that all values of the plugin count.
    pub bytes_max: u64,
}

impl PluginValue<'_> {
    /// The bytes that it counts: its key, its digits as they are stored, and 100.
    pub fn size(&self) -> u64 {
        self.value.map_or(0, |value| plugin_value_bytes(self.key, value))
    }
}

/// The bytes that a stored value counts.
pub(super) fn plugin_value_bytes(key: &str, value: &str) -> u64 {
    ENTRY_BYTES + (key.len() + value.len()) as u64
}

/// The answer to a [`PluginValue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginValuePut {
    Stored,
    /// The plugin would have more bytes than it may. Nothing has changed.
    Full {
        /// What it has now, in bytes.
        used: u64,
    },
}
