//! The expected result of a run: the events that a client received, and the checks that tests make on them.

use serde_json::Value as Json;

use crate::sse::Message;

/// An event of `/api/v1/runs/{id}/events`.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The id to continue after; only the last event of an entry has one.
    pub id: Option<String>,
    pub kind: String,
    /// Counts from 1.
    pub seq: u64,
    pub data: Json,
}

impl Event {
    /// Parses a message; returns `None` for pings, and for the advice to reconnect.
    ///
    /// # Panics
    /// When the message is not an event.
    pub fn of(message: &Message) -> Option<Self> {
        let text = message.data.as_ref()?;
        let envelope: Json = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let kind = envelope["type"].as_str().unwrap_or_else(|| panic!("no type: {text}")).to_string();
        assert_eq!(message.event.as_deref(), Some(kind.as_str()), "the field event names the type: {text}");
        if kind == "reconnect" {
            return None;
        }
        // These have no number: numbering starts again after a reset, and nothing comes after `gone`.
        let seq = if ["reset", "gone"].contains(&kind.as_str()) {
            0
        } else {
            envelope["seq"].as_u64().expect("events are numbered")
        };
        Some(Self { id: message.id.clone(), kind, seq, data: envelope["data"].clone() })
    }

    /// The node that the event is about.
    pub fn node(&self) -> Option<&str> {
        self.data["node_id"].as_str()
    }

    /// The path of that node's frame; empty for the root frame.
    pub fn frame(&self) -> &str {
        self.data["frame"].as_str().unwrap_or_default()
    }
}

/// The events that a client received, over one or more connections.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    pub events: Vec<Event>,
}

impl Transcript {
    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The id after which another connection continues.
    pub fn last_id(&self) -> Option<&str> {
        self.events.iter().rev().find_map(|event| event.id.as_deref())
    }

    /// Drops the events after [`Self::last_id`]: an entry that was not received completely is sent again.
    pub fn forget_unfinished(&mut self) {
        let whole = self.events.iter().rposition(|event| event.id.is_some()).map_or(0, |at| at + 1);
        self.events.truncate(whole);
    }

    /// Adds the events of a later connection.
    pub fn append(&mut self, other: Self) {
        self.events.extend(other.events);
    }

    /// The text that a client shows: all chunks of the answer in order, with replaced texts in place of the withdrawn ones.
    pub fn text(&self) -> String {
        let mut shown: Vec<(String, String)> = Vec::new();
        // The live text of a node inside another is not part of the answer.
        for event in self.events.iter().filter(|event| event.data["in_answer"] != false) {
            let source = event.data["selector"].to_string();
            let text = |key: &str| event.data[key].as_str().unwrap_or_default().to_string();
            match event.kind.as_str() {
                "reset" => shown.clear(),
                "node_run_stream_chunk" => shown.push((source, text("chunk"))),
                "node_run_stream_replaced" => {
                    let place = shown.iter().position(|(of, _)| *of == source).unwrap_or(shown.len());
                    shown.retain(|(of, _)| *of != source);
                    shown.insert(place.min(shown.len()), (source, text("text")));
                }
                _ => {}
            }
        }
        shown.into_iter().map(|(_, text)| text).collect()
    }

    /// Events of a type.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.kind == kind)
    }

    /// The number of events of this type about a node.
    pub fn count(&self, kind: &str, node: &str) -> usize {
        self.of_kind(kind).filter(|event| event.node() == Some(node)).count()
    }

    /// Checks that every event is there once, in order, from 1 to the end of the run.
    ///
    /// # Panics
    /// At a gap or a repetition, or when the last event does not end the run.
    pub fn is_whole(&self) {
        let numbers: Vec<u64> = self.events.iter().map(|event| event.seq).collect();
        let all: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, all, "each event is sent once, in order: {self:#?}");
        let last = self.events.last().map(|event| event.kind.as_str());
        let terminal = tidemill_common::wire::event::kind::TERMINAL;
        assert!(last.is_some_and(|last| terminal.contains(&last)), "the last event ends the run: {last:?}");
        let ends = self.events.iter().filter(|event| terminal.contains(&event.kind.as_str())).count();
        assert_eq!(ends, 1, "a run ends once");
    }

    /// Checks that every node that started also ended, and did both once.
    ///
    /// # Panics
    /// When a node does not.
    pub fn nodes_end_once(&self) {
        let ends = ["node_run_succeeded", "node_run_failed", "node_run_exception"];
        for started in self.of_kind("node_run_started") {
            let of = &started.data["id"];
            let same = |event: &&Event| event.data["id"] == *of;
            let starts = self.of_kind("node_run_started").filter(same).count();
            let ended = self.events.iter().filter(|e| ends.contains(&e.kind.as_str())).filter(same).count();
            assert_eq!((starts, ended), (1, 1), "{:?} starts once and ends once: {self:#?}", started.node());
        }
    }
}

/// Checks that an ended run has succeeded with this answer.
///
/// # Panics
/// When it has not.
pub fn answered(run: &Json, answer: &str) {
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert_eq!(run["outputs"]["answer"], answer, "{run:#}");
}
