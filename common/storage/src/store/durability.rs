//! Durability: what has happened to a write before it is acknowledged. Memory is the default. The other levels look, after
//! the write, for what was written on the server that is the master then, and wait until its replicas or its disk have it,
//! too.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreError;
use tidemill_base::ids::RunId;

/// What must have happened to a write before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The master has it in memory.
    #[default]
    Memory,
    /// Every replica that may be promoted has it in memory.
    Replicated,
    /// The master has it on disk.
    Fsync,
}

impl Durability {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Replicated, Self::Fsync];

    /// The name in requests and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Replicated => "replicated",
            Self::Fsync => "fsync",
        }
    }

    /// The level of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was written, and is looked for before it is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// A run.
    Run(RunId),
    /// The answer to a pause of a run.
    Answer {
        run: RunId,
        /// The id of the pause.
        pause: String,
    },
    /// A command to a run, under its key.
    Command { run: RunId, key: String },
}

impl Written {
    /// The run that it belongs to.
    pub const fn run(&self) -> RunId {
        match self {
            Self::Run(run) | Self::Answer { run, .. } | Self::Command { run, .. } => *run,
        }
    }
}

/// Why it is unknown whether a write will survive.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unconfirmed {
    /// A replica or the disk did not acknowledge it in time.
    #[error("{missing} did not acknowledge it within {waited_ms} ms (scheduler.durability_wait_ms)")]
    Late {
        /// What did not: a number of replicas, or the disk.
        missing: String,
        waited_ms: u64,
    },
    /// The master has had no replica for `scheduler.replica_away_seconds`.
    #[error("Redis has no replica, and durability replicated needs one")]
    NoReplica,
    /// The server is no longer the master, or another server is.
    #[error("Redis failed over while the request was waiting")]
    NoLongerMaster,
    /// The master does not have it.
    #[error("Redis failed over and lost the write")]
    Lost,
    /// The store cannot give this durability.
    #[error("{0}")]
    Unsupported(String),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Waits until writes are durable.
#[async_trait]
pub trait Durable: Send + Sync {
    /// Succeeds when the store can give this durability. To be asked before the write.
    ///
    /// # Errors
    /// [`Unconfirmed::Unsupported`] with what to set.
    async fn gives(&self, durability: Durability) -> Result<(), Unconfirmed>;

    /// Waits until what was written is durable, at most for `within`.
    ///
    /// # Errors
    /// See [`Unconfirmed`]. The write may exist or not then, and may be repeated under its key.
    async fn confirm(
        &self,
        written: Written,
        durability: Durability,
        within: Duration,
    ) -> Result<(), Unconfirmed>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_found_by_the_name_that_settings_and_requests_give_it() {
        for level in Durability::ALL {
            assert_eq!(Durability::from_name(level.name()), Some(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.name());
        }
        assert_eq!(Durability::from_name("Memory"), None);
    }
}
