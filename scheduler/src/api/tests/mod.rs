//! Tests of the API in one process, over a fake store, or in [`whole`] over the in-memory store.

mod cataloguing;
mod controlling;
mod dead;
mod errors;
mod fake;
pub(crate) mod fixtures;
mod following;
mod handing;
mod health;
mod hooks;
mod hosting;
mod keys;
mod looking;
mod moderation;
mod pausing;
mod rendering;
mod running;
mod submitting;
mod verdicts;
mod whole;
