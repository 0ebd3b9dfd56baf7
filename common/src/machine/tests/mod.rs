//! The machine, played through.
//!
//! A test draws a graph in a few words ([`draw`]), lets things happen and reads what was told ([`Play`]). Every
//! commit of every test is also written down, loaded and compared with the state in memory ([`durable`]).

mod answers;
mod bounds;
mod draw;
mod durable;
mod failures;
mod holders;
mod loops;
mod play;
mod properties;
mod rewind;
mod tell;
mod traversal;
