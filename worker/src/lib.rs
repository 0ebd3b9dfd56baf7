//! The worker: takes jobs, executes nodes, reports results. It keeps no state; when it dies, other workers take over
//! its jobs.
//!
//! The modules in the order a job passes them:
//! - [`jobs`] reads jobs and keeps their leases, starts attempts, and reports facts and results.
//! - [`attempt`] runs one attempt: its input, the stages around the node, its journal, its result.
//! - [`host`] has the executors of a program that contains this worker.
//! - [`nodes`] has one file or folder per node type that does I/O.
//! - [`setup`] knows what this worker can do, and hands jobs back that only others can do.
//! - [`outside`] reaches models, tools, registered calls and services, knowledge bases and servers.
// The modules above are private; the text is for readers of the code.
#![allow(rustdoc::private_intra_doc_links)]

pub mod app;
pub mod attempt;
mod health;
pub mod host;
pub mod jobs;
mod metrics;
pub mod nodes;
pub mod outside;
mod setup;
#[cfg(test)]
mod tests;

pub use app::{StartError, Worker, start, start_alone, start_hosting, start_with};
pub use setup::of_settings::{meets, of_settings};
