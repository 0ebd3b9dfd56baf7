//! A problem in a package, with its place.

use std::fmt::{self, Display};

/// The weight of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The plugin cannot run.
    Error,
    /// The plugin may run.
    Warning,
}

/// A problem in a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The file in the package.
    pub file: String,
    pub line: Option<u32>,
    /// The path of the value, such as `parameters[0].type`. Empty for a whole file.
    pub place: String,
    pub message: String,
}

impl Problem {
    /// An error about a whole file.
    pub(super) fn of_file(file: &str, message: String) -> Self {
        Self { severity: Severity::Error, file: file.to_owned(), line: None, place: String::new(), message }
    }

    /// An error about a line of a file.
    pub(super) fn of_line(file: &str, line: usize, message: String) -> Self {
        Self { line: u32::try_from(line).ok(), ..Self::of_file(file, message) }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {word}: {}", self.message)?;
        if !self.place.is_empty() {
            write!(f, " (at {})", self.place)?;
        }
        Ok(())
    }
}
