//! The worker: takes jobs, executes nodes, reports results. It keeps no state; when it dies, other workers take over
//! its jobs.
//!
//! The modules in the order a job passes them:
//! - [`jobs`] reads jobs and keeps their leases, starts attempts, and reports facts and results.
//! - [`attempt`] runs one attempt: its input, the stages around the node, its journal, its result.
//! - [`nodes`] has one file or folder per node type that does I/O.
//! - [`providers`], [`tools`], [`calls`], [`knowledge`] and [`http`] reach what is outside: models, tools, registered
//!   calls and services, knowledge bases, servers. `catalog` and `openapi` have what several of them share.
// The modules above are private; the text is for readers of the code.
#![allow(rustdoc::private_intra_doc_links)]

pub mod app;
pub mod attempt;
pub mod calls;
mod catalog;
#[cfg(test)]
mod fake;
mod health;
mod hide;
pub mod http;
pub mod jobs;
pub mod knowledge;
mod metrics;
pub mod nodes;
mod openapi;
pub mod providers;
#[cfg(test)]
mod tests;
pub mod tools;

pub use app::{StartError, Worker, start, start_with};
