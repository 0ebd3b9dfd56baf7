//! A model for tests and first steps: a server whose replies are told beforehand. It speaks OpenAI's API (chat,
//! completions, embeddings, rerank, under Azure's addresses too), Anthropic's and Ollama's.
//!
//! [`rules`] reads what it is to say, [`matching`] finds the rule of a request, [`reply`] makes the answer in the words of
//! [`speech`], `routes` puts it on the wire, `server` starts and stops, `socket` breaks, [`log`] remembers what was asked. The same rules give the same bytes, every time. Without rules
//! it repeats what it was told, so that a workflow can be tried without a key.

pub mod log;
pub mod matching;
pub mod reply;
mod routes;
pub mod rules;
mod server;
mod socket;
pub mod speech;

pub use rules::{Rules, RulesError};
pub use server::{MockLlm, Running};

#[cfg(test)]
mod tests;
