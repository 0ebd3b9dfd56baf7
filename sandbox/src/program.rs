//! Programs, their results, and the trait for everything that runs them.

use tidemill_common::nodes::code::CodeLanguage;

use crate::fair::Owner;

/// A program: user code that defines `main`, and the inputs of `main`.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    pub language: CodeLanguage,
    /// The code as the user wrote it.
    pub code: &'a str,
    /// The inputs, as the text of one JSON object.
    pub inputs: &'a str,
    /// The app and the run that the code belongs to. Apps share the slots fairly.
    pub owner: Owner<'a>,
}

/// The failure of a program. Workflows see the text as the node's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodeError(pub String);

/// Runs programs.
#[async_trait::async_trait]
pub trait CodeRunner: Send + Sync {
    /// Returns everything the program printed, with its result between two marks
    /// ([`tidemill_common::nodes::code::result::MARK`]). Dropping the future ends the execution.
    ///
    /// # Errors
    /// It failed, exceeded a limit, or could not be run.
    async fn run(&self, program: Program<'_>) -> Result<String, CodeError>;

    /// Tests whether programs can run, and returns the state for operators. A sandbox that permanently refuses programs
    /// is not an error here, because the worker can still do everything else.
    ///
    /// # Errors
    /// Programs should run, but do not.
    async fn ready(&self) -> Result<String, CodeError> {
        Ok(self.state().text)
    }

    /// Like [`CodeRunner::able`], from what can be seen without starting anything.
    ///
    /// # Errors
    /// As there.
    fn seems_able(&self, language: CodeLanguage) -> Result<(), String>;

    /// Tests whether programs of this language can run here at all.
    ///
    /// # Errors
    /// The reason why none can.
    async fn able(&self, language: CodeLanguage) -> Result<(), String>;

    /// The state for operators.
    fn state(&self) -> State;
}

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// True if it runs code with full confinement.
    pub sound: bool,
    /// The state in words.
    pub text: String,
}
