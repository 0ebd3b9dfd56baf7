//! From the text of a workflow file to a document, and to everything that is wrong with it.
//!
//! Parsing returns what it could read and all problems it found, each with its place; an author mends ten
//! mistakes in one go.

pub mod diagnostic;
mod read;

pub use diagnostic::{Diagnostic, Problems, Severity};
pub use read::ParseLimits;
