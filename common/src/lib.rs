//! The shared parts of Tidemill.
//!
//! In the order in which a run passes through them: a file is parsed ([`dsl`]) and built into a graph
//! ([`graph`], [`nodes`]); values ([`value`]) flow along its edges; the engine ([`machine`]) decides what
//! each fact changes; the store ([`store`]) saves and transports the result in the formats of [`wire`].
//!
//! Everything outside the feature `runtime` is pure: no I/O, no clock, no async runtime.

pub mod clock;
#[cfg(feature = "runtime")]
pub mod config;
pub mod crash;
pub mod dsl;
pub mod failure;
#[cfg(feature = "runtime")]
pub mod files;
pub mod graph;
pub mod hidden;
pub mod ids;
pub mod kinds;
pub mod knowledge;
pub mod language;
pub mod limits;
pub mod machine;
#[cfg(feature = "runtime")]
pub mod mistakes;
#[cfg(feature = "runtime")]
pub mod networks;
pub mod nodes;
pub mod objects;
#[cfg(feature = "runtime")]
pub mod open_files;
#[cfg(feature = "runtime")]
pub mod registry;
#[cfg(feature = "runtime")]
pub mod serve;
pub mod slots;
#[cfg(feature = "runtime")]
pub mod store;
#[cfg(feature = "runtime")]
pub mod telemetry;
pub mod usage;
pub mod value;
pub mod wire;
#[cfg(feature = "runtime")]
pub mod workflows;
