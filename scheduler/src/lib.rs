//! Owns shards, turns facts into state, serves the API.
//!
//! In the order a run travels:
//!
//! - [`api`] takes requests and [`submit`] creates runs.
//! - [`shards`] owns shards and runs their loops: read facts, decide, commit.
//! - [`runs`] reads runs for clients, and [`api`] sends their events.
//! - [`background`] is the work beside that: sub-workflow runs, turns of conversations, triggers, budgets.

pub mod api;
pub mod app;
pub mod background;
mod features;
mod listeners;
pub mod metrics;
mod namespace;
pub mod parts;
pub mod runs;
pub mod sealing;
pub mod shards;
pub mod stopping;
pub mod stores;
pub mod submit;
pub mod workflows;
