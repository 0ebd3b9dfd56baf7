//! The shards that this scheduler owns, in the order of their life:
//!
//! - [`keeper`] takes and releases shards, [`lease`] renews them, [`liveness`] tells whether their loops make progress.
//! - [`shard_loop`] runs one shard: it reads facts, lets [`batch`] decide, and commits. [`step_buffers`] keeps the
//!   memory of earlier steps for the next ones.
//! - [`failures`] logs which nodes and runs have failed.
//! - [`run_cache`] keeps states of runs. Losing it costs a reload.
//! - [`repair`] enqueues lost jobs again, [`retention`] removes runs that have ended.

pub mod batch;
pub mod failures;
pub mod keeper;
pub mod lease;
pub mod liveness;
pub mod repair;
pub mod retention;
pub mod run_cache;
pub mod shard_loop;
pub mod step_buffers;
