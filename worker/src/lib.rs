//! Takes jobs, executes nodes, reports what happened. Stateless: what it holds when it dies is taken over by others.
//!
//! In the order of a job's way: it is read with a permit ([`consume`]) or taken over ([`takeover`]), noted as held
//! ([`held`]) and started ([`begin`]); one attempt runs ([`execute`], [`executor`], [`nodes`]) and tells of its progress
//! ([`progress`]) and keeps what it must not do twice ([`steps`]), neither of them in the words of a secret, with what
//! surrounds the node in its job ([`work`]); what steps of a workflow run is in [`calls`]; the result is made fit to travel
//! ([`spill`]) and goes back in batches ([`lanes`]). Meanwhile a thread
//! keeps what is held ([`heartbeat`]), and hints stop what is not wanted any more ([`cancel`]).
#![warn(missing_docs)]
// The modules named above are private; the text is for readers of the code.
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
