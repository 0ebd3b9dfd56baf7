//! A problem of a workflow file: a code, a place, a sentence and a hint.

use std::fmt;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The workflow cannot be run.
    Error,
    /// It runs, but not as its author may think.
    Warning,
}

/// One problem. `code` is Dify's importer code where it has one (`graph.duplicate_node_id`), else our own in the same
/// form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Stable name of the kind of problem.
    pub code: &'static str,
    /// Where in the document, such as `workflow.graph.nodes[3].data.cases[0].conditions[1]`; empty for the whole.
    pub path: String,
    /// Line in the file, from 1, when it is known.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// What to do about it, when that is known.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", self.message)?;
        if !self.path.is_empty() {
            write!(f, " (at {})", self.path)?;
        }
        Ok(())
    }
}

/// Problems as they are found. A part of the document is checked with the path of that part; lines are filled in
/// afterwards by whoever knows the text.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<Diagnostic>,
    prefix: Vec<String>,
}

impl Problems {
    /// Nothing found yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Runs `check` with `part` (a key, or an index such as `[3]`) added to the path of what it reports.
    pub fn within<T>(&mut self, part: impl Into<String>, check: impl FnOnce(&mut Self) -> T) -> T {
        self.prefix.push(part.into());
        let value = check(self);
        self.prefix.pop();
        value
    }
    /// Reports an error at the present path.
    pub fn error(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(Severity::Error, code, message.into(), None);
    }
    /// Reports an error with a hint.
    pub fn error_with_hint(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(Severity::Error, code, message.into(), Some(hint.into()));
    }
    /// Reports a warning.
    pub fn warning(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(Severity::Warning, code, message.into(), None);
    }
    /// True when an error was reported.
    pub fn has_errors(&self) -> bool {
        self.found.iter().any(|d| d.severity == Severity::Error)
    }
    /// All that was found, in the order of finding.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.found
    }

    fn push(&mut self, severity: Severity, code: &'static str, message: String, hint: Option<String>) {
        let mut path = String::new();
        for part in &self.prefix {
            if !path.is_empty() && !part.starts_with('[') {
                path.push('.');
            }
            path.push_str(part);
        }
        self.found.push(Diagnostic { severity, code, path, line: None, message, hint });
    }
}
