//! Diagnostics: problems of a workflow file with code, path, message and hint.

use std::fmt;

use serde_json::{Value as Json, json};

use tidemill_base::limits::DIAGNOSTICS_MAX;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The workflow cannot be run.
    Error,
    /// The workflow runs, but perhaps not as its author expects.
    Warning,
}

impl Severity {
    /// Returns the name shown to people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One problem of a workflow file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// The stable code of the problem: Dify's importer code where it has one (`graph.duplicate_node_id`),
    /// else ours in the same form.
    pub code: &'static str,
    /// The path in the document, such as `workflow.graph.nodes[3].data.cases[0].conditions[1]`; empty for the
    /// whole file.
    pub path: String,
    /// The line in the file, from 1, when known.
    pub line: Option<u32>,
    pub message: String,
    /// The remedy, when known.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Builds an error of the whole file at a line.
    pub fn at_line(code: &'static str, line: Option<u32>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            path: String::new(),
            line,
            message: message.into(),
            hint: None,
        }
    }
    /// Adds a hint.
    #[must_use]
    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// True when the problem prevents the workflow from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
    /// Returns `{severity, code, path, line, message, hint}`; `line` and `hint` are null when unknown.
    pub fn to_json(&self) -> Json {
        json!({
            "severity": self.severity.name(),
            "code": self.code,
            "path": self.path,
            "line": self.line,
            "message": self.message,
            "hint": self.hint,
        })
    }
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

/// Largest number of lines that a warning with several places lists.
const PLACES_SHOWN_MAX: usize = 5;

/// Merges warnings of one cause (the same code, message and hint) into the first one, which gets the lines of the
/// others. Errors stay as they are: each of them has to be mended.
pub(crate) fn merge_same_warnings(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut merged: Vec<(Diagnostic, Vec<Option<u32>>)> = Vec::with_capacity(found.len());
    for next in found {
        let is_same = |(first, _): &&mut (Diagnostic, _)| {
            !first.is_error()
                && first.code == next.code
                && first.message == next.message
                && first.hint == next.hint
        };
        match merged.iter_mut().find(is_same) {
            Some((_, places)) if !next.is_error() => places.push(next.line),
            Some(_) | None => merged.push((next, Vec::new())),
        }
    }
    merged.into_iter().map(|(first, places)| with_places(first, &places)).collect()
}

/// Adds the other places of a warning to its message.
fn with_places(mut first: Diagnostic, places: &[Option<u32>]) -> Diagnostic {
    if places.is_empty() {
        return first;
    }
    let lines: Vec<String> = places.iter().flatten().take(PLACES_SHOWN_MAX).map(u32::to_string).collect();
    let more = places.len() - lines.len();
    let shown = match (lines.is_empty(), more) {
        (true, _) => format!("also at {more} more places"),
        (false, 0) => format!("also at line {}", lines.join(", ")),
        (false, _) => format!("also at line {} and {more} more places", lines.join(", ")),
    };
    first.message = format!("{} ({shown})", first.message);
    first
}

/// Collects problems during a check. The path of the part that is being checked is added to each problem.
/// Lines are added later, by code that has the text.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<Diagnostic>,
    prefix: Vec<String>,
    /// The node that is being checked.
    node: Option<String>,
    errors: usize,
    unshown: usize,
}

impl Problems {
    /// Creates an empty collection.
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
    /// Runs `check` on the node with this id.
    pub fn of_node<T>(&mut self, id: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let around = self.node.replace(id.to_string());
        let value = check(self);
        self.node = around;
        value
    }
    /// Returns the id of the node that is being checked.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }
    /// Reports an error at the current path.
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
    /// Reports a warning with a hint.
    pub fn warning_with_hint(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(Severity::Warning, code, message.into(), Some(hint.into()));
    }
    /// Reports a warning about the text itself, whose line is known and whose path is not.
    pub(crate) fn warning_at_line(&mut self, code: &'static str, line: u32, message: String) {
        let shown = self.found.len();
        self.push(Severity::Warning, code, message, None);
        if let Some(added) = self.found.get_mut(shown) {
            added.line = Some(line);
        }
    }
    /// Adds a problem unchanged.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.is_error());
        if self.found.len() < DIAGNOSTICS_MAX {
            self.found.push(diagnostic);
        } else {
            self.unshown += 1;
        }
    }
    /// True when an error was reported.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }
    /// Returns the number of errors so far.
    pub fn error_count(&self) -> usize {
        self.errors
    }
    /// Returns all problems in the order of their discovery. After [`DIAGNOSTICS_MAX`] of them, one entry
    /// gives the number of the rest.
    pub fn into_vec(mut self) -> Vec<Diagnostic> {
        if self.unshown > 0 {
            self.found.push(Diagnostic {
                severity: if self.errors > 0 { Severity::Error } else { Severity::Warning },
                code: "document.more_problems",
                path: String::new(),
                line: None,
                message: format!("{} more problems are not shown", self.unshown),
                hint: None,
            });
        }
        self.found
    }

    fn push(&mut self, severity: Severity, code: &'static str, message: String, hint: Option<String>) {
        let mut path = String::new();
        for part in &self.prefix {
            if !path.is_empty() && !part.is_empty() && !part.starts_with('[') {
                path.push('.');
            }
            path.push_str(part);
        }
        self.add(Diagnostic { severity, code, path, line: None, message, hint });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(message: &str, line: Option<u32>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::at_line("a.b", line, message) }
    }

    #[test]
    fn warnings_of_one_cause_are_one_and_name_their_lines() {
        let cases = [
            (vec![warning("x", Some(3)), warning("y", Some(4))], vec!["x", "y"]),
            (
                vec![
                    warning("x", Some(3)),
                    warning("y", Some(4)),
                    warning("x", Some(7)),
                    warning("x", Some(9)),
                ],
                vec!["x (also at line 7, 9)", "y"],
            ),
            (vec![warning("x", Some(3)), warning("x", None)], vec!["x (also at 1 more places)"]),
            (
                (1..=8).map(|line| warning("x", Some(line))).collect(),
                vec!["x (also at line 2, 3, 4, 5, 6 and 2 more places)"],
            ),
        ];
        for (found, expected) in cases {
            let merged = merge_same_warnings(found);
            assert_eq!(merged.iter().map(|one| one.message.as_str()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn errors_stay_apart_even_with_the_same_words() {
        let error = Diagnostic::at_line("a.b", Some(1), "x");
        let found = vec![error.clone(), error.clone(), warning("x", Some(2))];
        assert_eq!(merge_same_warnings(found.clone()), found);
    }
}
