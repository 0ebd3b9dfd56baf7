//! Tidemill's own API, `/api/v1`: one file per resource.

pub mod apps;
pub mod catalog;
pub mod commands;
mod datasets_named;
pub mod dead;
pub mod dead_bulk;
mod dialect;
pub mod events;
pub mod files;
pub mod fleet;
pub mod keys;
pub mod knowledge;
pub mod messages;
pub mod parameters;
pub mod pauses;
mod profiles_named;
pub mod rotate;
mod row_values;
pub mod run_list;
pub mod runs;
pub mod shards;
pub mod snapshot;
mod spending;
pub mod submit;
pub mod triggers;
mod version_use;
pub mod versions;
