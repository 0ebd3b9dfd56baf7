//! Plugins over Dify's SDK on a fleet of two workers. `make plugins-test` runs them: they need an index of Python packages, or a
//! folder with wheels (PLUGINS_WHEELS). PLUGINS_CACHE names the folder of environments; without it the tests are left out, and
//! say so.
#![allow(clippy::print_stdout, reason = "a test that is left out says so")]

mod apps;
mod asks;
mod credentials;
mod fleet;
mod lab;
mod models;
mod models_fleet;
mod source;
