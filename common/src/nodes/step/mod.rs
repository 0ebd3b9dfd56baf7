//! Steps: nodes that run a *call*, which is something with a name, a schema of its input, and pieces of text or objects as
//! its output. What the calls do is in the worker; here is what needs no outside world.

pub mod chunk;
pub mod error;

pub use chunk::{Chunk, Gathered};
pub use error::CallError;
