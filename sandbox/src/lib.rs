//! Runs the code of code nodes. The trait [`CodeRunner`] hides how: this crate has the built-in sandbox [`BuiltIn`],
//! and the worker has a client of a dify-sandbox service.
//!
//! Untrusted code runs in separate processes that confine themselves ([`confine`]). The host program starts itself
//! again as a helper ([`helper`]). For Python ([`python`]) the helper becomes an interpreter with loaded modules that
//! forks a child per execution. For JavaScript ([`javascript`]) it is QuickJS, with a new context per execution.
//! Confinement needs Linux; on other systems the built-in sandbox refuses to run.
//!
//! Programs that run for a long time, such as Dify plugins, are [`guest`]s: each is a confined process with its own limits.
//!
//! Documents that need a third-party parser ([`documents`]) are also read in such processes, one per document.
// Some modules above are private; the text is for readers of the code.
#![allow(rustdoc::private_intra_doc_links)]

#[cfg(target_os = "linux")]
mod builtin;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod builtin;
#[cfg(target_os = "linux")]
mod confine;
pub mod documents;
pub mod environment;
mod fair;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
pub mod guest;
pub mod helper;
#[cfg(target_os = "linux")]
mod javascript;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod pool;
mod program;
#[cfg(target_os = "linux")]
mod python;
#[cfg(target_os = "linux")]
mod scratch;

pub use builtin::BuiltIn;
pub use fair::Owner;
pub use program::{CodeError, CodeRunner, Program, State};
