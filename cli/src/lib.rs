//! The parts of the `tidemill` command that other programs and tests use, too.
#![warn(missing_docs)]

pub mod mock_llm;
