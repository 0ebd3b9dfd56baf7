//! A mock model for tests and first steps: a server whose replies are set in advance. It supports OpenAI's API (chat,
//! completions, embeddings, rerank, moderation and speech, also at Azure's addresses), Anthropic's and Ollama's.
//!
//! [`rules`] reads the rules, [`matching`] finds the rule for a request, [`reply`] builds the answer in the format of
//! [`protocols`], `routes` has the HTTP routes, `server` starts and stops, `socket` can break connections, [`log`] keeps
//! the requests. The same rules give the same bytes every time. Without rules the mock repeats the user's message, or
//! gives what the request wants ([`friendly`]), so that a workflow can be tried without a key.

pub mod friendly;
pub mod log;
pub mod matching;
pub mod protocols;
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
