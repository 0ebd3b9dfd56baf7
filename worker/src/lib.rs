//! The worker: takes jobs, executes nodes, reports results. It keeps no state; when it dies, other workers take over
//! its jobs.
//!
//! The modules in the order a job passes them:
//! - [`consume`] reads a job with a permit, or [`takeover`] takes it over from a dead worker.
//! - [`held`] notes it and [`begin`] starts it.
//! - [`execute`], [`executor`] and [`nodes`] run one attempt, with the stages around the node in [`work`].
//! - [`progress`] reports the running attempt, and [`steps`] records what must not be repeated; both mask secrets.
//! - [`calls`] runs the library nodes, registered calls and services of a workflow.
//! - [`spill`] stores large values, and [`lanes`] sends the results in batches.
//!
//! Meanwhile [`heartbeat`] renews the held jobs on its own thread, and [`cancel`] stops cancelled ones.
// The modules above are private; the text is for readers of the code.
#![allow(rustdoc::private_intra_doc_links)]

pub mod app;
mod backoff;
mod begin;
pub mod calls;
mod cancel;
mod consume;
mod core;
mod execute;
pub mod executor;
#[cfg(test)]
mod fake;
mod graphs;
mod growing;
mod hand;
mod health;
pub mod heartbeat;
mod held;
mod hide;
pub mod http;
pub mod knowledge;
mod lanes;
mod lists;
mod metrics;
pub mod nodes;
mod noted_files;
mod progress;
pub mod providers;
mod spill;
pub mod steps;
mod takeover;
#[cfg(test)]
mod tests;
pub mod tools;
mod variables;
mod vital;
mod work;

pub use app::{StartError, Worker, start, start_with};
