//! Calls of node executors that are written in Python.
//!
//! [`executor`] is what the worker sees. It makes a [`native::NativeCall`] of each attempt and leaves it in the
//! [`queue`] of the engine's threads, or in the mailbox if the function runs on an event loop. Python fetches it, runs the
//! function, and tells the result through the same object. [`registry`] makes the worker's table of what Python registers.

pub(crate) mod executor;
pub(crate) mod native;
pub(crate) mod queue;
pub(crate) mod registry;
