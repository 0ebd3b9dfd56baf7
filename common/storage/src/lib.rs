//! Storage: the store of runs, in Redis or in memory ([`store`]), and the store of files, in a folder or in S3 ([`files`]).

pub mod files;
pub mod store;
