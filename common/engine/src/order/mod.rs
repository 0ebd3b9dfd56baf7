//! The result of a step: [`changes`] collects it, and the owner of the shard commits it. [`events`] and their
//! [`entries`] are the part that clients see; [`touched`] is a small sorted list.

pub mod changes;
pub mod entries;
pub mod events;
pub mod touched;
