//! The servers behind `redis.url`: one, or the masters of a cluster. There is one shared connection per server and purpose,
//! because a multiplexed connection pipelines the requests of all its users.

mod cluster;
mod exchange;
mod line;
mod node;
mod slots;

pub(in crate::store::redis) use cluster::Cluster;
pub(in crate::store::redis) use exchange::{How, Replayed};
pub(in crate::store::redis) use line::slot_of_request;
pub(in crate::store::redis) use node::{Lane, Node, Reach};
