//! All formats that are stored in Redis, in one place, because processes of other versions read them.
//!
//! Only this module converts the engine's types to JSON and back. A message begins with the version its
//! reader needs (`v`, left out when 1) and its kind; an unknown kind is an error, never guessed.

pub mod annotations;
pub mod asked;
mod calls;
pub mod codec;
pub mod commit;
pub mod conversation;
pub mod entry;
pub mod event;
pub mod expand;
pub mod fact;
mod hide;
pub mod job;
pub mod knowledge;
pub mod notices;
pub mod record;
pub mod snapshot;
pub mod state;
pub mod suspect;
pub mod timers;
pub mod warnings;
pub mod worker;

use serde_json::Value as Json;

use tidemill_base::hidden::without_value;

/// The newest version that this process reads.
pub const VERSION: u32 = 5;
/// From this version on, a node's end may be stored before its hooks have run. Runs and jobs that use it
/// carry this version; all others carry version 1.
pub(crate) const ENDS_ARE_KEPT: u32 = 2;
/// From this version of a namespace on, secrets may be sealed under a salted key ([`tidemill_workflow::dsl::seal`]).
pub const SALTED_SEALS: u32 = 3;

/// From this version of a namespace on, all processes notice when the number of shards is raised.
pub const SHARDS_NOTICED: u32 = 4;

/// From this version of a namespace on, each new run of an app is listed under the app.
pub const RUNS_OF_APPS: u32 = 5;

/// A stored text could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not JSON, or a field of the wrong shape.
    #[error("{what} cannot be read: {reason}")]
    Malformed {
        what: &'static str,
        /// The problem.
        reason: String,
    },
    /// Written by a newer version.
    #[error("{what} is of version {version}, this process reads up to {VERSION}; upgrade it")]
    Version { what: &'static str, version: u64 },
    /// A kind that this process does not know.
    #[error("{what} of unknown kind {kind:?}")]
    Unknown { what: &'static str, kind: String },
    /// A node that the graph does not have.
    #[error("{what} names node {node:?}, which the workflow does not have")]
    UnknownNode { what: &'static str, node: String },
}

impl WireError {
    pub(crate) fn malformed(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Malformed { what, reason: without_value(&reason.to_string()) }
    }
}

/// Reads a message's JSON and checks its version.
pub(crate) fn read(what: &'static str, text: &str) -> Result<Json, WireError> {
    let value: Json = serde_json::from_str(text).map_err(|e| WireError::malformed(what, e))?;
    check_version(what, value.get("v"))?;
    Ok(value)
}

pub(crate) fn check_version(what: &'static str, version: Option<&Json>) -> Result<(), WireError> {
    match version.and_then(Json::as_u64) {
        Some(version) if version > u64::from(VERSION) => Err(WireError::Version { what, version }),
        Some(_) | None => Ok(()),
    }
}
