//! The API in-process over a fake store; in [`whole`] over a real one in memory.

mod cataloguing;
mod controlling;
mod dead;
mod errors;
mod fake;
pub(crate) mod fixtures;
mod following;
mod health;
mod hooks;
mod keys;
mod moderation;
mod pausing;
mod rendering;
mod running;
mod submitting;
mod whole;
