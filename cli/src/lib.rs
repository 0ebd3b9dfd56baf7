//! The `tidemill` command as a library, so that other programs and tests can use parts of it.
//!
//! The way of a call: [`commands`] reads the arguments and has one file per command. A command talks to a scheduler
//! through `client`, or starts everything itself: `embedded` an engine in this process, for one run; `stack` a private
//! Redis, and `local` scheduler and workers in this process; their data is in a `data_folder`. `migrate` makes a report about many files. `output` shows the result on
//! the terminal, as plain lines or as JSON.

mod client;
pub mod commands;
mod console;
mod data_folder;
mod embedded;
mod error;
mod form;
mod local;
mod migrate;
mod output;
mod question;
mod redis_server;
mod stack;
mod target;
mod workflow_file;
mod workflow_folder;
