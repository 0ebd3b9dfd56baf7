//! The road of a job through a worker, from the queue to the report. In the order of a job:
//!
//! - [`consume`] reads jobs while there are permits; [`takeover`] takes jobs over from dead workers, and [`suspects`]
//!   decides which.
//! - [`in_flight`] notes a job and [`begin`] starts its attempt, with the workflow from [`workflows`].
//! - [`handle`] is the attempt's way to report; [`reporter`] sends facts and results in batches.
//!
//! Meanwhile [`heartbeat`] renews the leases, [`cancel`] stops cancelled jobs, [`liveness`] says whether the worker
//! makes progress, and [`backoff`] paces repeated requests. [`shared`] is the state that they all use.

pub(crate) mod backoff;
pub(crate) mod begin;
pub(crate) mod cancel;
pub(crate) mod consume;
pub(crate) mod handle;
pub mod heartbeat;
pub(crate) mod in_flight;
pub(crate) mod liveness;
pub(crate) mod reporter;
pub(crate) mod shared;
pub(crate) mod suspects;
pub(crate) mod takeover;
pub(crate) mod workflows;
