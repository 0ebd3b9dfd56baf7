//! Owns shards, turns facts into state, serves the API.
//!
//! The modules in the order of a run: [`api`] and [`submit`] create it. [`shards`] decides which process owns it. [`drive`]
//! runs the loop of a shard: [`batch`] decides, and the store commits. [`repair`] finds lost jobs, [`retention`] removes
//! ended runs, and [`api`] sends events to clients.

pub mod api;
pub mod app;
pub mod batch;
pub mod budgets;
pub mod calls;
pub mod changed;
mod doors;
pub mod drive;
pub mod lease;
pub mod metrics;
pub mod pulse;
pub mod repair;
pub mod retention;
pub mod run_cache;
pub mod sealing;
pub mod shards;
pub mod submit;
pub mod triggers;
pub mod turns;
pub mod workflows;
