//! The settings of plugins: where a worker keeps them, and how it runs them.

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use tidemill_base::hidden::HiddenUrl;
use tidemill_base::limits::SIDE_CALLS_MAX;

/// `[plugins]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// False: this worker prepares and runs no plugins; those that are installed run on others.
    pub enabled: bool,
    /// Which comes first where Tidemill and an installed plugin know the same provider of models or the same agent strategy.
    pub prefer: Prefer,
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
    /// The longest time that a job waits for a plugin that is being prepared, in seconds; then it is handed back.
    pub wait_seconds: u64,
    /// Packages and environments in the cache folder are removed when no process has used them for this time, in seconds.
    /// 0: never; `tidemill plugins clean` removes them.
    pub unused_seconds: u64,
    /// Most bytes of an environment.
    pub environment_bytes_max: u64,
    /// Most processes of all plugins of a worker.
    pub processes_max: usize,
    /// Most processes of one plugin for one app.
    pub processes_each_max: usize,
    /// Most invocations at once in a process.
    pub sessions_max: usize,
    /// The part of processes, and of places for invocations in them, that is kept for tools and models that other plugins call,
    /// in per cent. One process and one place are always for the others.
    pub nested_percent: usize,
    /// Most questions that a plugin asks back in one invocation, such as calls of models and tools. More end it.
    pub session_questions_max: u64,
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
    /// Most bytes that a plugin stores in Redis, if its manifest asks for more: keys, two for each byte of a value, and 100 for
    /// each value.
    pub storage_bytes_max: u64,
    /// How deep the calls of plugins may be nested: each call of a tool by a plugin counts 1, also of a tool of Tidemill.
    pub nesting_max: u32,
    /// Most apps whose runs a job waits for at once, with all invocations in it.
    pub app_calls_max: usize,
    /// How many invocations of a worker may wait for apps at once, in per cent of what it has least of: permits, processes, and
    /// places of a plugin. One of each always stays for the others.
    pub apps_percent: usize,
}

/// What comes first where both can do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// Tidemill's own: a provider of the settings or of Redis, a strategy that is a part of Tidemill.
    #[default]
    Own,
    /// An installed plugin.
    Plugin,
}

impl Default for PluginsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            prefer: Prefer::default(),
            cache: String::new(),
            python: ["python3.12", "python3.13", "python3.11", "python3"].map(String::from).to_vec(),
            index_url: HiddenUrl::default(),
            wheels: String::new(),
            signing_keys: Vec::new(),
            package_bytes_max: 32 << 20,
            packages_bytes_max: 256 << 20,
            install_seconds: 600,
            retry_seconds: 300,
            wait_seconds: 300,
            unused_seconds: 7 * 24 * 3600,
            environment_bytes_max: 2 << 30,
            processes_max: 32,
            processes_each_max: 4,
            sessions_max: 16,
            nested_percent: 25,
            session_questions_max: 1_000,
            start_seconds: 60,
            session_seconds: 600,
            idle_seconds: 300,
            memory_bytes_max: 2 << 30,
            scratch_bytes_max: 1 << 30,
            storage_bytes_max: 16 << 20,
            nesting_max: 5,
            app_calls_max: 8,
            apps_percent: 50,
        }
    }
}

/// The longest time of a setting: a week.
const SECONDS_MAX: u64 = 7 * 24 * 3600;
/// The longest time without use: ten years.
const UNUSED_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;
/// Most processes, and most invocations in one.
const COUNT_MAX: u64 = 10_000;
const BYTES_MAX: u64 = i64::MAX.cast_unsigned();

impl Config {
    /// Checks the settings of plugins; `origin` as for [`Config::check`].
    pub(super) fn check_plugins<'a>(&self, origin: &impl Fn(&str) -> &'a str) -> Result<(), ConfigError> {
        let plugins = &self.plugins;
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        for (key, value, least, most) in [
            ("package_bytes_max", plugins.package_bytes_max, 1, BYTES_MAX),
            ("install_seconds", plugins.install_seconds, 1, SECONDS_MAX),
            ("retry_seconds", plugins.retry_seconds, 1, SECONDS_MAX),
            ("wait_seconds", plugins.wait_seconds, 1, SECONDS_MAX),
            ("unused_seconds", plugins.unused_seconds, 0, UNUSED_SECONDS_MAX),
            ("environment_bytes_max", plugins.environment_bytes_max, 1, BYTES_MAX),
            ("processes_max", count(plugins.processes_max), 1, COUNT_MAX),
            ("processes_each_max", count(plugins.processes_each_max), 1, COUNT_MAX),
            ("sessions_max", count(plugins.sessions_max), 1, COUNT_MAX),
            ("nested_percent", count(plugins.nested_percent), 0, 90),
            ("session_questions_max", plugins.session_questions_max, 1, BYTES_MAX),
            ("start_seconds", plugins.start_seconds, 1, SECONDS_MAX),
            ("session_seconds", plugins.session_seconds, 1, SECONDS_MAX),
            ("idle_seconds", plugins.idle_seconds, 1, SECONDS_MAX),
            ("memory_bytes_max", plugins.memory_bytes_max, 64 << 20, BYTES_MAX),
            ("scratch_bytes_max", plugins.scratch_bytes_max, 1, BYTES_MAX),
            ("storage_bytes_max", plugins.storage_bytes_max, 1, BYTES_MAX),
            ("nesting_max", u64::from(plugins.nesting_max), 1, 100),
            ("app_calls_max", count(plugins.app_calls_max), 1, count(SIDE_CALLS_MAX)),
            ("apps_percent", count(plugins.apps_percent), 0, 90),
        ] {
            if !(least..=most).contains(&value) {
                let key = format!("plugins.{key}");
                let origin = origin(&key).into();
                return Err(ConfigError::Value { key, origin, reason: format!("{least} to {most}") });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_process_can_have_are_refused_by_name() {
        let refused = |change: fn(&mut PluginsConfig)| {
            let mut config = Config::default();
            change(&mut config.plugins);
            config.check_again("a test").map_err(|error| error.to_string())
        };
        assert_eq!(refused(|_| {}), Ok(()));
        let error = refused(|plugins| plugins.processes_max = 0).unwrap_err();
        assert!(error.contains("plugins.processes_max") && error.contains("1 to 10000"), "{error}");
        let error = refused(|plugins| plugins.session_seconds = u64::MAX).unwrap_err();
        assert!(error.contains("plugins.session_seconds"), "{error}");
        let error = refused(|plugins| plugins.memory_bytes_max = 1).unwrap_err();
        assert!(error.contains("plugins.memory_bytes_max"), "{error}");
        let error = refused(|plugins| plugins.app_calls_max = SIDE_CALLS_MAX + 1).unwrap_err();
        assert!(error.contains("plugins.app_calls_max") && error.contains("1 to 64"), "{error}");
        let error = refused(|plugins| plugins.apps_percent = 91).unwrap_err();
        assert!(error.contains("plugins.apps_percent") && error.contains("0 to 90"), "{error}");
    }
}
