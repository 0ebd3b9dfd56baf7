//! Owns shards, turns facts into state, serves the API.
#![warn(missing_docs)]

pub mod api;
pub mod pulse;
pub mod submit;
