//! Runs the code of code nodes. What is run, and where, is behind one door, [`CodeRunner`]; this crate has the sandbox that
//! is built in, [`BuiltIn`], and the worker has the client of a dify-sandbox beside it.
//!
//! Untrusted code runs in processes of its own that confine themselves ([`confine`]): the program that hosts the sandbox
//! starts itself anew as a helper ([`helper`]). For Python ([`python`]) the helper becomes an interpreter that has its
//! modules loaded and forks a child for each execution; for JavaScript ([`javascript`]) it is QuickJS, with a new context for
//! each. Confinement needs Linux; elsewhere the built-in sandbox refuses, and says so.
//!
//! Documents that take a parser of others to read ([`documents`]) are read in such processes, too: one a document.
#![warn(missing_docs)]
// Some modules named above are private; the text is for readers of the code.
#![allow(rustdoc::private_intra_doc_links)]

#[cfg(target_os = "linux")]
mod builtin;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod builtin;
#[cfg(target_os = "linux")]
mod confine;
pub mod documents;
#[cfg(target_os = "linux")]
mod frame;
pub mod helper;
#[cfg(target_os = "linux")]
mod javascript;
#[cfg(target_os = "linux")]
mod pool;
mod program;
#[cfg(target_os = "linux")]
mod python;
#[cfg(target_os = "linux")]
mod scratch;

pub use builtin::BuiltIn;
pub use program::{CodeError, CodeRunner, Program, State};
