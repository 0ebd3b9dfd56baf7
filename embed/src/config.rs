//! The settings of an embedded engine: those of a fleet, without what only a fleet has.

use std::path::PathBuf;

use tidemill_common::config::{Config, ConfigError, Sources};

/// The settings of an embedded engine.
#[derive(Debug, Clone, Default)]
pub struct EngineConfig {
    /// All settings, as in `tidemill.toml`. Those of Redis and of listeners are not used.
    pub settings: Config,
}

impl EngineConfig {
    /// Reads settings as the programs do: a file, then the environment.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, an invalid value.
    pub fn load(file: Option<PathBuf>) -> Result<Self, ConfigError> {
        let settings = Config::load(&Sources::of_process(file, Vec::new().into_iter().collect()))?;
        Ok(Self { settings })
    }
}
