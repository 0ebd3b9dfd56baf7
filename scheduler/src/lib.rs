//! Owns shards, turns facts into state, serves the API.
//!
//! In the order a run travels: [`api`] and [`submit`] take it in, [`shards`] says who owns it, [`drive`] turns the wheel
//! ([`batch`] decides, the store commits), [`repair`] finds what got lost, [`retention`] lets go of what is over, [`api`] tells.

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
