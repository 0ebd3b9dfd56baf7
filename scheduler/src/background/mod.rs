//! Work beside the shards and the API. Each part is done by one scheduler at a time, under a lease:
//!
//! - [`subruns`] creates the runs of workflows that are called as tools, and reports their ends.
//! - [`turns`] settles the turns of conversations when their runs have ended.
//! - [`triggers`] starts runs by schedule; [`budgets`] refuses runs of apps and keys that have spent too much.
//! - [`limits`] refuses requests and runs of apps and keys above their limits. Each scheduler does that.
//! - [`webhooks`] notifies the servers that apps name about runs.
//! - [`removals`] removes apps and users of apps.
//! - [`plugin_values`] removes what plugins have stored that are not installed any more. Each scheduler does that, without a lease.
//! - [`uploads`] removes old uploads. Each scheduler does that, without a lease.

pub mod budgets;
pub(crate) mod limits;
pub mod plugin_values;
pub(crate) mod removals;
pub mod subruns;
pub mod triggers;
pub mod turns;
pub mod uploads;
pub(crate) mod webhooks;
