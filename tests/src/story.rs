//! What happened, for the checker: each run as its client saw it, each fault, each call to the world outside.

use std::time::Instant;

use serde_json::Value as Json;

use crate::check::Transcript;

/// One run, from the side of the client that submitted and followed it.
#[derive(Debug, Clone)]
pub struct Story {
    /// Which workflow, by its place among all.
    pub workflow: usize,
    /// The text by which inputs, prompts and outputs of this run are known.
    pub tag: String,
    /// Its id; empty when it could not even be submitted.
    pub run: String,
    /// When it was asked for.
    pub began: Instant,
    /// When its client had seen the end, or gave up.
    pub ended: Instant,
    /// What the follower was told, over all its connections, since the last reset.
    pub told: Transcript,
    /// How often the follower was told to forget.
    pub resets: usize,
    /// Over how many connections it followed.
    pub connections: usize,
    /// What a client is told that asks for everything afterwards.
    pub record: Transcript,
    /// The run at its end; null when there is none.
    pub shown: Json,
    /// What the client could not get over.
    pub trouble: Option<String>,
    /// The run is not there any more.
    pub is_gone: bool,
}

/// A fault that was let happen.
#[derive(Debug, Clone)]
pub struct Happened {
    /// Its name in the table.
    pub name: &'static str,
    /// What exactly.
    pub what: String,
    /// Its beginning.
    pub from: Instant,
    /// The moment when everything was whole again.
    pub to: Instant,
    /// Whether it may make a worker do again what was done.
    pub repeats: bool,
    /// Whether Redis may have lost what it had acknowledged.
    pub loses: bool,
}

/// What a workflow does when nothing goes wrong. Its tag is replaced by [`TAG`] in all of it.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    /// Its name.
    pub workflow: String,
    /// How it ends.
    pub status: String,
    /// Its outputs; none when they are not the same twice.
    pub outputs: Option<Json>,
    /// Calls to the model by their messages, each with how often it is made.
    pub calls: std::collections::BTreeMap<String, usize>,
}

/// Stands for a run's tag.
pub const TAG: &str = "<tag>";

/// A value with the tag replaced.
pub fn without_tag(value: &Json, tag: &str) -> Json {
    // Tags are letters and digits: text in JSON remains what it is.
    serde_json::from_str(&value.to_string().replace(tag, TAG)).unwrap_or_default()
}
