//! Dify plugins. The way of a plugin: its [`package`] is read and checked.

pub mod limits;
pub mod package;
