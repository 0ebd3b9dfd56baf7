//! The `tidemill` command, and the parts of it that other programs and tests use, too.
//!
//! In the order of a call: [`commands`] reads the arguments and has one file per verb; a verb asks a scheduler through
//! `client`, or brings its own (`stack`: a private Redis, `local`: scheduler and workers in this process, kept in a
//! `data_folder`); `output` says on the terminal, in plain lines or in JSON what came of it.

mod client;
pub mod commands;
mod console;
mod data_folder;
mod error;
mod form;
mod local;
mod output;
mod question;
mod redis_server;
mod stack;
mod target;
mod workflow_file;
