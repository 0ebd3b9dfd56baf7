//! What plugins store: small values by key, bounded for each plugin.

/// A value to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginValue<'a> {
    /// The plugin: `author/name`.
    pub plugin: &'a str,
    pub key: &'a str,
    /// Its bytes in hexadecimal digits. `None` removes it.
    pub value: Option<&'a str>,
    /// Most bytes of all keys and values of the plugin.
    pub bytes_max: u64,
}

impl PluginValue<'_> {
    /// The bytes that it counts.
    pub fn size(&self) -> u64 {
        self.value.map_or(0, |value| (self.key.len() + value.len() / 2) as u64)
    }
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
