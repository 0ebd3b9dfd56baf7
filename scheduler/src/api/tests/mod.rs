//! The API in-process over a fake store.

mod errors;
mod fake;
pub(crate) mod fixtures;
mod following;
mod health;
mod rendering;
mod running;
mod submitting;
