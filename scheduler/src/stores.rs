//! The parts of the store that a scheduler's own tasks use. They stand here, below those tasks, so that the tasks need
//! not import each other for them.

use std::sync::Arc;

use tidemill_common::store::{Runs, Shards};

/// The store of a shard's loop: the shard's state, and its runs.
pub trait ShardStore: Shards + Runs {}
impl<T: Shards + Runs> ShardStore for T {}

/// The store through which leases are renewed. It has its own connection, so that a large commit delays no renewal.
pub type LeaseStore = Arc<dyn Shards>;
