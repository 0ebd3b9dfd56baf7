//! The state of a run: data, and what can be read from it. Nothing here decides.
//!
//! [`run`] is the whole. Its parts: [`frame`], [`node`], [`container`], [`change`], [`pause`], [`response`], [`control`], and the
//! [`options`] that are fixed when the run is created. [`clock`] is the time that it has worked. [`pool`] reads variables,
//! [`totals`] counts, [`record`] is the result of an execution. [`invariants`] says what holds after each step, [`recent`]
//! is a cache of ids.

pub mod change;
pub mod clock;
pub mod container;
pub mod control;
pub mod cost;
pub(crate) mod frame;
pub mod invariants;
pub(crate) mod node;
pub mod options;
pub mod pause;
pub(crate) mod pool;
pub(crate) mod recent;
pub mod record;
pub mod response;
pub mod run;
pub mod step_event;
pub mod totals;
pub mod transitions;
pub mod warnings;

use tidemill_base::value::Stored;

/// Stored values with their names.
pub type NamedValues = Vec<(String, Stored)>;
