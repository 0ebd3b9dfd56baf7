//! Workflows: from the text of a file to a graph that can be run, and the pure part of every node type.
//!
//! A file is parsed ([`dsl`]) and built into a graph ([`graph`]) of nodes ([`nodes`]). Nodes use messages ([`messages`]),
//! missing input ([`slots`]), knowledge bases ([`knowledge`]) and annotations of chats ([`annotations`]). [`requirements`] lists what a file needs besides
//! itself. This crate does not know runs.

pub mod annotations;
pub mod dsl;
pub mod graph;
pub mod kinds;
pub mod knowledge;
pub mod messages;
pub mod nodes;
pub mod requirements;
pub mod slots;
pub mod usage;
