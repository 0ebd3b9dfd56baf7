//! The settings of a host of plugins.

use std::path::PathBuf;
use std::time::Duration;

use tidemill_common::config::Config;

/// Where and how plugins are installed and run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of unpacked packages and environments. Several processes of this host may share it.
    pub cache: PathBuf,
    /// Interpreters, by name or path. The first that fits a plugin is used; one of the release that its manifest names
    /// comes before the others.
    pub pythons: Vec<String>,
    /// The index to install from, instead of pip's own settings. Empty: those.
    pub index_url: String,
    /// A folder with wheels, instead of an index.
    pub wheels: Option<PathBuf>,
    /// Longest time to make an environment.
    pub install_timeout: Duration,
    /// What no process has used for this time is removed from the cache. `None`: never.
    pub unused: Option<Duration>,
    /// Most bytes of an environment.
    pub environment_bytes_max: u64,
    /// User and group of plugins when the host program runs as root.
    pub user: (u32, u32),
    /// Run plugins also if a part of the confinement fails.
    pub allow_weaker: bool,
    pub process: ProcessLimits,
}

/// The limits of the processes of plugins and of the sessions in them.
#[derive(Debug, Clone)]
pub struct ProcessLimits {
    /// Most processes of all plugins.
    pub processes_max: usize,
    /// Most processes of one plugin for one app.
    pub processes_each_max: usize,
    /// Most sessions at once in a process.
    pub sessions_max: usize,
    /// The share of processes, and of places for sessions, that is kept for nested invocations, in per cent.
    pub nested_percent: usize,
    /// Longest line that a plugin may write, in bytes.
    pub line_bytes_max: u64,
    /// Most bytes that one session may write, with its questions.
    pub output_bytes_max: u64,
    /// Largest blob that is put together from pieces, and most bytes of all blobs of a session.
    pub blob_bytes_max: usize,
    /// Most bytes of the answers to the questions of a session.
    pub answers_bytes_max: u64,
    /// Largest file that a session uploads.
    pub upload_bytes_max: usize,
    /// Most bytes of uploads of a process that are held in memory at once. The largest one fits always.
    pub uploads_bytes_max: u64,
    /// Most questions of a session at once. More end the session.
    pub questions_max: usize,
    /// Most questions of a session in all. More end the session.
    pub session_questions_max: u64,
    /// Most lines of a process that are logged in a minute.
    pub log_lines_max: u32,
    /// Longest time until the first heartbeat.
    pub start_timeout: Duration,
    /// Longest time of a session.
    pub session_timeout: Duration,
    /// How long a process may live on in which a cancelled session does not end.
    pub cancel_grace: Duration,
    /// Longest time without a line of the process. The SDK sends a heartbeat every 10 s.
    pub silence_max: Duration,
    /// How long a process without sessions is kept.
    pub idle_max: Duration,
    /// How long a process may take to end, in each of two steps.
    pub stop_grace: Duration,
    /// The pause after a failed start. Each further failure doubles it.
    pub backoff: Duration,
    /// Longest pause after failed starts.
    pub backoff_max: Duration,
    /// Most bytes of data of one process.
    pub memory_bytes_max: u64,
    /// Largest file that a process writes.
    pub file_bytes_max: u64,
    /// Most bytes in the folder of a process. It is looked at every few seconds.
    pub scratch_bytes_max: u64,
    /// Most files and folders in the folder of a process.
    pub scratch_entries_max: u64,
    /// Most processes and threads of a plugin.
    pub threads_max: u64,
    /// Most connections of a process at once.
    pub connections_max: usize,
    /// Most bytes of one connection.
    pub network_bytes_max: u64,
}

impl Settings {
    /// The settings with this cache folder, and else the defaults.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            cache,
            pythons: ["python3.12", "python3.13", "python3.11", "python3"].map(String::from).to_vec(),
            index_url: String::new(),
            wheels: None,
            install_timeout: Duration::from_secs(600),
            unused: None,
            environment_bytes_max: 2 << 30,
            user: (65534, 65534),
            allow_weaker: false,
            process: ProcessLimits::default(),
        }
    }
}

/// The folder of environments where none is named. Root's plugins run as another user, who may not enter root's home.
pub fn default_cache() -> PathBuf {
    let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(of_home);
    match own.filter(|folder| !folder.starts_with("/root")) {
        Some(folder) => folder.join("tidemill/plugins"),
        None => "/var/cache/tidemill/plugins".into(),
    }
}

impl Settings {
    /// The settings of a process of Tidemill.
    pub fn of(config: &Config) -> Self {
        let plugins = &config.plugins;
        let cache = if plugins.cache.is_empty() { default_cache() } else { PathBuf::from(&plugins.cache) };
        Self {
            pythons: plugins.python.clone(),
            index_url: plugins.index_url.0.clone(),
            wheels: Some(PathBuf::from(&plugins.wheels)).filter(|folder| !folder.as_os_str().is_empty()),
            install_timeout: Duration::from_secs(plugins.install_seconds),
            unused: Some(Duration::from_secs(plugins.unused_seconds)).filter(|time| !time.is_zero()),
            environment_bytes_max: plugins.environment_bytes_max,
            user: (config.code.sandbox_uid, config.code.sandbox_gid),
            allow_weaker: config.code.allow_weaker_sandbox,
            process: ProcessLimits {
                processes_max: plugins.processes_max,
                processes_each_max: plugins.processes_each_max,
                sessions_max: plugins.sessions_max,
                nested_percent: plugins.nested_percent,
                session_questions_max: plugins.session_questions_max,
                start_timeout: Duration::from_secs(plugins.start_seconds),
                session_timeout: Duration::from_secs(plugins.session_seconds),
                idle_max: Duration::from_secs(plugins.idle_seconds),
                memory_bytes_max: plugins.memory_bytes_max,
                scratch_bytes_max: plugins.scratch_bytes_max,
                ..ProcessLimits::default()
            },
            ..Self::new(cache)
        }
    }
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            processes_max: 32,
            processes_each_max: 4,
            sessions_max: 16,
            nested_percent: 25,
            line_bytes_max: 8 << 20,
            output_bytes_max: 128 << 20,
            blob_bytes_max: 64 << 20,
            answers_bytes_max: 128 << 20,
            upload_bytes_max: 64 << 20,
            uploads_bytes_max: 64 << 20,
            questions_max: 8,
            session_questions_max: 1_000,
            log_lines_max: 200,
            start_timeout: Duration::from_secs(60),
            session_timeout: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(10),
            silence_max: Duration::from_secs(120),
            idle_max: Duration::from_secs(300),
            stop_grace: Duration::from_secs(2),
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            memory_bytes_max: 2 << 30,
            file_bytes_max: 256 << 20,
            scratch_bytes_max: 1 << 30,
            scratch_entries_max: 100_000,
            threads_max: 256,
            connections_max: 64,
            network_bytes_max: 1 << 30,
        }
    }
}
