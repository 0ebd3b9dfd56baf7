//! What the script of a client reported.

use serde::Deserialize;

/// What became of one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It gave what the client expects.
    Works,
    /// It fails here, and works on Dify.
    Fails,
    /// It fails on Dify, too: a fault of the client.
    Client,
}

/// A line of a report.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Line {
    pub(crate) method: String,
    pub(crate) result: Verdict,
    /// What went wrong.
    pub(crate) note: String,
}

/// All that a client reported.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Its name on the registry.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) lines: Vec<Line>,
}

impl Outcome {
    /// The number of methods with this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.lines.iter().filter(|line| line.result == verdict).count()
    }

    /// The number of methods that fail here and work on Dify.
    pub(crate) fn failures(&self) -> usize {
        self.count(Verdict::Fails)
    }
}
