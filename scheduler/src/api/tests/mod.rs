//! The API in-process over a fake store; in [`whole`] over a real one in memory.

mod errors;
mod fake;
pub(crate) mod fixtures;
mod following;
mod health;
mod rendering;
mod running;
mod submitting;
mod whole;
