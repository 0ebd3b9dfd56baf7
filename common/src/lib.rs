//! The shared parts of Tidemill: the crates in this folder under one name, and what all processes need beside them:
//! settings, registered providers and calls, listeners, the client for servers that a workflow or a request names, logs
//! and metrics.
//!
//! In the order in which a run passes through them: a file is parsed ([`dsl`]) and built into a graph
//! ([`graph`], [`nodes`]); values ([`value`]) flow along its edges; the engine ([`machine`]) decides what
//! each fact changes; the store ([`store`]) saves and transports the result in the formats of [`wire`].
//!
//! The crates `tidemill-base`, `tidemill-workflow`, `tidemill-engine` and `tidemill-wire` are pure: no I/O, no async runtime.

pub mod app_parameters;
pub mod config;
pub mod http;
pub mod mistakes;
pub mod networks;
pub mod open_files;
pub mod registry;
pub mod serve;
pub mod telemetry;
pub mod workflows;

pub use tidemill_base::{clock, crash, failure, hidden, ids, language, limits, need, sse, value, warning};
pub use tidemill_engine as machine;
pub use tidemill_storage::{files, store};
pub use tidemill_wire as wire;
pub use tidemill_workflow::{
    annotations, dsl, graph, kinds, knowledge, messages, nodes, requirements, slots, usage,
};
