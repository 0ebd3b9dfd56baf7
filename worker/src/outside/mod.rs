//! Everything outside the worker that nodes reach:
//!
//! - [`providers`] asks models, [`tools`] calls tools and MCP servers, [`calls`] runs the registered calls and services of
//!   a workflow, [`knowledge`] searches knowledge bases.
//! - [`plugins`] prepares and runs the Dify plugins that are installed for all workers.
//! - [`extensions`] asks the API extensions of the settings.
//! - [`http`] is the client that all of them use; it checks every address that a workflow names. [`openapi`] turns an
//!   operation into a request.
//! - [`catalog`] keeps what is registered in Redis up to date, and [`hide`] removes secrets from what comes back.

pub mod calls;
pub mod catalog;
pub mod extensions;
pub mod hide;
pub mod knowledge;
pub mod openapi;
pub(crate) mod plugins;
pub mod providers;
pub mod tools;

use std::sync::Arc;

use tidemill_common::files::Files;

pub use tidemill_common::http;

/// Everything outside the worker that nodes reach.
pub(crate) struct Outside {
    pub(crate) providers: providers::Providers,
    pub(crate) http: Arc<http::Http>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) tools: tools::Tools,
    pub(crate) plugins: Arc<plugins::PluginHost>,
    pub(crate) knowledge: knowledge::Datasets,
    pub(crate) calls: calls::Calls,
    pub(crate) extensions: extensions::Extensions,
}
