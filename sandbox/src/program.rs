//! What is run, what comes of it, and the door to whatever runs it.

use tidemill_common::nodes::code::CodeLanguage;

/// A program: user code that defines `main`, and what `main` is given.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The language.
    pub language: CodeLanguage,
    /// The user's code.
    pub code: &'a str,
    /// The inputs, as the text of one JSON object.
    pub inputs: &'a str,
}

/// Why a program has no result. The text is what a workflow sees as the node's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodeError(pub String);

/// Runs programs.
#[async_trait::async_trait]
pub trait CodeRunner: Send + Sync {
    /// Everything that the program printed, with its result between two marks
    /// ([`tidemill_common::nodes::code::result::MARK`]). Dropping the future ends the execution.
    ///
    /// # Errors
    /// It failed, took too long or too much, or could not be run at all.
    async fn run(&self, program: Program<'_>) -> Result<String, CodeError>;

    /// Tries what a program needs; answers what an operator should know of it. One that is refused for good is no failure: a
    /// worker whose sandbox does not run code does all else.
    ///
    /// # Errors
    /// Programs that should run do not.
    async fn ready(&self) -> Result<String, CodeError> {
        Ok(self.state().text)
    }

    /// What an operator should know of it.
    fn state(&self) -> State;
}

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// It runs code, and confines it as it should.
    pub sound: bool,
    /// In words.
    pub text: String,
}
