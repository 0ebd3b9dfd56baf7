//! The settings of an embedded engine: those of a fleet, and what only its host can give: executors, a clock, the place of
//! the `tidemill` program.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::config::{Config, ConfigError, Sources};
use tidemill_worker::host::Hosts;

/// The number of ended runs that an engine keeps besides those that its host still holds.
pub const ENDED_RUNS_MAX: usize = 1_000;

/// The settings of an embedded engine.
#[derive(Clone)]
pub struct EngineConfig {
    /// All settings, as in `tidemill.toml`. Those of Redis and of listeners are not used.
    pub settings: Config,
    /// The executors of the host. Nodes without one are executed by the engine.
    pub hosts: Hosts,
    /// The `tidemill` program of the same version, which runs code nodes and reads documents in processes of its own. If it
    /// is absent, it is looked for: the running program, if that is `tidemill`; else beside it; else on `PATH`.
    pub tidemill: Option<PathBuf>,
    /// The most ended runs that are kept although no [`Run`](crate::Run) or [`EventStream`](crate::EventStream) of them
    /// is left, such as those that other runs have called.
    pub ended_runs_max: usize,
    /// The clock of timers, forms and waits. Tests of workflows can move it.
    pub clock: Arc<dyn Clock>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            settings: Config::default(),
            hosts: Hosts::default(),
            tidemill: None,
            ended_runs_max: ENDED_RUNS_MAX,
            clock: Arc::new(SystemClock),
        }
    }
}

impl EngineConfig {
    /// Reads settings as the programs do: a file, then the environment.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, an invalid value.
    pub fn load(file: Option<PathBuf>) -> Result<Self, ConfigError> {
        let settings = Config::load(&Sources::of_process(file, Vec::new()))?;
        Ok(Self { settings, ..Self::default() })
    }
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig")
            .field("settings", &self.settings)
            .field("hosts", &self.hosts)
            .field("tidemill", &self.tidemill)
            .field("ended_runs_max", &self.ended_runs_max)
            .finish_non_exhaustive()
    }
}
