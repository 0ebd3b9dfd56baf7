//! A model for tests and first steps: an OpenAI-compatible server whose replies are told beforehand.
//!
//! [`rules`] reads what it is to say, [`matching`] finds the rule of a request, [`reply`] makes the answer, `server`
//! puts it on the wire, [`log`] remembers what was asked. The same rules give the same bytes, every time. Without rules
//! it repeats what it was told, so that a workflow can be tried without a key.

pub mod log;
pub mod matching;
pub mod reply;
pub mod rules;
mod server;

pub use rules::{Rules, RulesError};
pub use server::{MockLlm, Running};

#[cfg(test)]
mod tests;
