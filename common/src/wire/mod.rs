//! What is written into Redis and read from it by processes of other versions: every form in one place.
//!
//! Only this module turns things of the engine into JSON and back. A message begins with the version that its reader has to
//! know (`v`, left out while that is 1) and its kind; an unknown kind is told as such and never guessed.

pub mod between_runs;
pub mod breakpoint;
mod calls;
mod child;
pub mod commit;
pub mod conversation;
mod done;
pub mod entry;
pub mod event;
pub mod expand;
pub mod fact;
pub(crate) mod fields;
mod hide;
pub mod job;
pub mod knowledge;
pub mod objects;
pub mod open;
pub mod pairs;
pub mod pause;
pub mod record;
pub mod report;
mod scan;
pub mod snapshot;
pub mod state;
pub(crate) mod text;
pub mod timers;
pub mod value;

use serde_json::Value as Json;

/// The newest version that is read.
pub const VERSION: u32 = 3;
/// Since this version a node's end may be known before it counts. A run and a job of which that holds say so; everything else
/// is of version 1.
pub(crate) const ENDS_ARE_KEPT: u32 = 2;
/// Since this version of a namespace secrets may be sealed under a salted key ([`crate::dsl::seal`]).
pub const SALTED_SEALS: u32 = 3;

/// Text that is not the message it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not JSON, or a field of the wrong shape.
    #[error("{what} cannot be read: {reason}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// Written by a newer version.
    #[error("{what} is of version {version}, this process reads up to {VERSION}; upgrade it")]
    Version {
        /// Which message.
        what: &'static str,
        /// Its version.
        version: u64,
    },
    /// A kind that this process does not know.
    #[error("{what} of unknown kind {kind:?}")]
    Unknown {
        /// Which message.
        what: &'static str,
        /// Its kind.
        kind: String,
    },
    /// A node that the graph does not have.
    #[error("{what} names node {node:?}, which the workflow does not have")]
    UnknownNode {
        /// Which message.
        what: &'static str,
        /// The node.
        node: String,
    },
}

impl WireError {
    pub(crate) fn malformed(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Malformed { what, reason: reason.to_string() }
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
