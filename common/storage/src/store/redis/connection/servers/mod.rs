//! The servers behind `redis.url`: one, the master that Sentinels name, or the masters of a cluster. There is one shared connection per server and purpose,
//! because a multiplexed connection pipelines the requests of all its users.

mod cluster;
mod exchange;
mod line;
mod node;
mod one;
mod sentinels;
mod slots;

pub(in crate::store::redis) use cluster::Cluster;
pub(in crate::store::redis) use exchange::{How, Replayed};
pub(in crate::store::redis) use line::slot_of_request;
pub(in crate::store::redis) use node::{Lane, Node, Reach};
pub(in crate::store::redis) use one::{Fixed, One};
pub(in crate::store::redis) use sentinels::Sentinels;
