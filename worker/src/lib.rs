//! Takes jobs, executes nodes, reports what happened.
#![warn(missing_docs)]

pub mod nodes;
pub mod providers;
