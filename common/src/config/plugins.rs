//! The settings of plugins: where a worker keeps them, and how it runs them.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::HiddenUrl;

/// `[plugins]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// False: this worker prepares and runs no plugins; those that are installed run on others.
    pub enabled: bool,
    /// The folder of unpacked packages and Python environments. Several processes of a host may share it. Empty:
    /// `tidemill/plugins` in `XDG_CACHE_HOME` or `~/.cache`, for root `/var/cache/tidemill/plugins`.
    pub cache: String,
    /// Interpreters, by name or path: one of the release that a plugin names is used, else the first that fits.
    pub python: Vec<String>,
    /// The index to install Python packages from; empty: pip's own settings.
    pub index_url: HiddenUrl,
    /// A folder with wheels, instead of an index.
    pub wheels: String,
    /// Files with public keys (PEM). If there are any, one of them must have signed a package that is installed.
    pub signing_keys: Vec<String>,
    /// Largest package, in bytes.
    pub package_bytes_max: u64,
    /// Most bytes of all packages in Redis, where `files.url` is not set.
    pub packages_bytes_max: u64,
    /// Longest time to make an environment, in seconds.
    pub install_seconds: u64,
    /// The pause after which a plugin that could not be prepared is tried again, in seconds.
    pub retry_seconds: u64,
    /// Most bytes of an environment.
    pub environment_bytes_max: u64,
    /// Most processes of all plugins of a worker.
    pub processes_max: usize,
    /// Most processes of one plugin for one app.
    pub processes_each_max: usize,
    /// Most invocations at once in a process.
    pub sessions_max: usize,
    /// Longest time until a process says that it is ready, in seconds.
    pub start_seconds: u64,
    /// Longest time of an invocation, in seconds; the node's own limit ends it before.
    pub session_seconds: u64,
    /// How long a process without invocations is kept, in seconds.
    pub idle_seconds: u64,
    /// Most bytes of data of one process.
    pub memory_bytes_max: u64,
    /// Most bytes in the folder that the processes of a plugin may write.
    pub scratch_bytes_max: u64,
}

impl Default for PluginsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            cache: String::new(),
            python: ["python3.12", "python3.13", "python3.11", "python3"].map(String::from).to_vec(),
            index_url: HiddenUrl::default(),
            wheels: String::new(),
            signing_keys: Vec::new(),
            package_bytes_max: 32 << 20,
            packages_bytes_max: 256 << 20,
            install_seconds: 600,
            retry_seconds: 300,
            environment_bytes_max: 2 << 30,
            processes_max: 32,
            processes_each_max: 4,
            sessions_max: 16,
            start_seconds: 60,
            session_seconds: 600,
            idle_seconds: 300,
            memory_bytes_max: 2 << 30,
            scratch_bytes_max: 1 << 30,
        }
    }
}
