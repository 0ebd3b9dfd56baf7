//! The input of the checker: each run as its client saw it, each fault, and each call to other servers.

use std::time::Instant;

use serde_json::Value as Json;

use crate::check::Transcript;

/// One run, as the client that submitted and followed it saw it.
#[derive(Debug, Clone)]
pub struct Story {
    /// The index of its workflow.
    pub workflow: usize,
    /// A text that is part of all inputs, prompts and outputs of this run, and of no other.
    pub tag: String,
    /// Empty when it could not be submitted.
    pub run: String,
    /// The time when the client submitted it.
    pub began: Instant,
    /// The time when the client saw its end, or gave up.
    pub ended: Instant,
    /// The events that the follower received since the last reset, over all connections.
    pub transcript: Transcript,
    /// The number of resets that the follower received.
    pub resets: usize,
    /// The number of connections that the follower used.
    pub connections: usize,
    /// The events that a client receives afterwards, when it reads them from the beginning.
    pub record: Transcript,
    /// The run after its end; null when it does not exist.
    pub shown: Json,
    /// The error that made the client give up.
    pub trouble: Option<String>,
    /// True when the run does not exist any more.
    pub is_gone: bool,
}

/// A fault that was injected.
#[derive(Debug, Clone)]
pub struct Happened {
    pub name: &'static str,
    /// Its details.
    pub what: String,
    pub from: Instant,
    /// The time when everything had recovered.
    pub to: Instant,
    /// The most times that it can make workers repeat one call.
    pub repeats: usize,
    /// True when Redis may have lost acknowledged writes.
    pub loses: bool,
}

/// The results of a workflow without faults. [`TAG`] replaces the run's tag everywhere.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    pub workflow: String,
    /// The final status of its runs.
    pub status: String,
    /// `None` when two runs had different outputs.
    pub outputs: Option<Json>,
    /// The messages of each call to the model, and how often it is made.
    pub calls: std::collections::BTreeMap<String, usize>,
}

/// Replaces the tag of a run.
pub const TAG: &str = "<tag>";

/// Returns the value with [`TAG`] in place of this tag.
pub fn without_tag(value: &Json, tag: &str) -> Json {
    // Tags have only letters and digits, so the text is still valid JSON.
    serde_json::from_str(&value.to_string().replace(tag, TAG)).unwrap_or_default()
}
