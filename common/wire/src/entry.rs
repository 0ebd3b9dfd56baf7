//! An entry of a run's event stream in its stored form. Only the numbers of its events are parsed: some
//! thousand events a second pass through almost unchanged. A reader that needs the fields asks for the
//! [`EventRecord`].

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::WireError;
use super::asked::{self, Questions};
use super::event::{self, EventRecord, kind};
use tidemill_base::ids::{EntryId, RunId};

/// The events of one entry, at least one. Shared by all followers of the run.
#[derive(Debug, Clone)]
pub struct EventEntry {
    pub id: EntryId,
    events: Vec<StoredEvent>,
    encoded: OnceLock<Arc<[u8]>>,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub kind: String,
    /// Counts the run's events from 1.
    pub seq: u64,
    /// Unix milliseconds.
    pub ts: i64,
    /// The whole JSON, with `seq` and `ts`.
    text: String,
}

impl StoredEvent {
    /// The whole JSON, with `seq` and `ts`.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl EventEntry {
    /// Reads an entry; each field is an event.
    ///
    /// # Errors
    /// A value is not the JSON of an event, or there is no event.
    pub fn read(id: EntryId, fields: impl IntoIterator<Item = (String, String)>) -> Result<Self, WireError> {
        let events: Vec<StoredEvent> = fields.into_iter().map(StoredEvent::read).collect::<Result<_, _>>()?;
        if events.is_empty() {
            return Err(WireError::malformed("an entry of events", "it has none"));
        }
        Ok(Self { id, events, encoded: OnceLock::new() })
    }

    /// Whether it has a [short form](asked), which must be [completed](Self::complete).
    pub fn is_short(&self) -> bool {
        self.events.iter().any(StoredEvent::is_short)
    }

    /// The ids of the pauses that its short forms need.
    pub fn asked(&self) -> Vec<String> {
        self.events
            .iter()
            .filter(|event| event.is_short())
            .flat_map(|event| asked::asked(&event.text))
            .collect()
    }

    /// Completes its short forms by the pauses of the run. `questions` has at least those that it [asks](Self::asked)
    /// for, unless Redis has lost them.
    pub fn complete(&mut self, run: RunId, questions: &Questions) {
        for event in self.events.iter_mut().filter(|event| event.is_short()) {
            if let Some(whole) = asked::whole_event(run, &event.kind, &event.text, questions) {
                event.text = whole;
            }
        }
    }

    /// Its events; `true` marks the last one, which carries the entry's id.
    pub fn events(&self) -> impl Iterator<Item = (&StoredEvent, bool)> {
        let last = self.events.len() - 1;
        self.events.iter().enumerate().map(move |(at, event)| (event, at == last))
    }

    /// The numbers of the first and the last event; `None` when there is a gap between them.
    pub fn seqs(&self) -> Option<(u64, u64)> {
        let first = self.events.first()?.seq;
        let counts_up = (first..).zip(&self.events).all(|(seq, event)| seq == event.seq);
        counts_up.then(|| (first, self.last_seq()))
    }

    /// The number of the last event.
    pub fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    /// Whether it holds the last event of the run.
    pub fn is_terminal(&self) -> bool {
        self.events.iter().any(|event| kind::TERMINAL.contains(&event.kind.as_str()))
    }

    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        self.events.iter().map(|event| event.text.len()).sum()
    }

    /// Parses its events.
    ///
    /// # Errors
    /// A value is not the JSON of an event.
    pub fn records(&self) -> Result<Vec<EventRecord>, WireError> {
        self.events().map(|(event, is_last)| event.record(self.id, is_last)).collect()
    }

    /// The cached text that clients receive, if a follower has stored it.
    pub fn encoded(&self) -> Option<Arc<[u8]>> {
        self.encoded.get().cloned()
    }

    /// Caches the text that clients receive, for the other followers. It must be the same for every client.
    pub fn set_encoded(&self, encoded: &Arc<[u8]>) {
        // Another follower may have stored the same text first.
        let _ = self.encoded.set(encoded.clone());
    }
}

impl StoredEvent {
    fn is_short(&self) -> bool {
        asked::is_short(&self.kind, &self.text)
    }

    fn read((kind, text): (String, String)) -> Result<Self, WireError> {
        let (seq, ts) = match head(&text) {
            Some(head) => head,
            None => {
                let head: Head =
                    serde_json::from_str(&text).map_err(|e| WireError::malformed("an event", e))?;
                (head.seq, head.ts)
            }
        };
        Ok(Self { kind, seq, ts, text })
    }

    /// Parses the event; `entry` is the id of its entry.
    ///
    /// # Errors
    /// The text is not the JSON of an event.
    pub fn record(&self, entry: EntryId, last_of_entry: bool) -> Result<EventRecord, WireError> {
        event::record(entry, last_of_entry, self.kind.clone(), &self.text)
    }

    /// The event as a piece of an answer; `None` unless its text alone is enough.
    pub(super) fn chunk(&self) -> Option<ChunkText<'_>> {
        if self.kind != kind::NODE_RUN_STREAM_CHUNK {
            return None;
        }
        let chunk: ChunkText = serde_json::from_str(&self.text).ok()?;
        // Any value but a string is a blob and must be fetched.
        chunk.chunk.get().starts_with('"').then_some(chunk)
    }
}

/// The stored form of `node_run_stream_chunk`; values stay unparsed.
#[derive(Deserialize)]
pub(super) struct ChunkText<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) node_id: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) frame: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) selector: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) chunk: &'a RawValue,
    #[serde(default)]
    pub(super) is_final: bool,
    #[serde(default)]
    pub(super) in_answer: Option<bool>,
}

/// The fields that every event has.
#[derive(Deserialize)]
struct Head {
    seq: u64,
    ts: i64,
}

/// Number and time of an event that begins with them, as all events that we write do.
fn head(text: &str) -> Option<(u64, i64)> {
    let (seq, rest) = text.strip_prefix("{\"seq\":")?.split_once(',')?;
    let rest = rest.strip_prefix("\"ts\":")?;
    let (ts, _) = rest.split_once([',', '}'])?;
    Some((seq.parse().ok()?, ts.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[(&str, &str)]) -> Result<EventEntry, WireError> {
        let fields = fields.iter().map(|(kind, text)| ((*kind).to_string(), (*text).to_string()));
        EventEntry::read(EntryId::new(7, 1), fields)
    }

    #[test]
    fn number_and_time_are_read_wherever_they_stand() {
        for (text, expected) in [
            (r#"{"seq":3,"ts":17,"id":"e"}"#, Some((3, 17))),
            (r#"{"seq":3,"ts":17}"#, Some((3, 17))),
            (r#"{"seq":3,"ts":-17}"#, Some((3, -17))),
            (r#"{"seq": 3, "ts": 17}"#, Some((3, 17))),
            (r#"{"id":"a,b","ts":17,"seq":3}"#, Some((3, 17))),
            (r#"{"seq":3}"#, None),
            (r#"{"seq":"3","ts":17}"#, None),
            ("[]", None),
            ("", None),
        ] {
            let read = entry(&[("graph_run_started", text)]);
            assert_eq!(read.ok().map(|e| (e.events[0].seq, e.events[0].ts)), expected, "{text}");
        }
        assert!(entry(&[]).is_err());
    }

    #[test]
    fn the_numbers_of_an_entry_count_up_or_are_none() {
        let event = |seq: u64| format!("{{\"seq\":{seq},\"ts\":1}}");
        for (seqs, expected) in
            [(vec![4], Some((4, 4))), (vec![4, 5, 6], Some((4, 6))), (vec![4, 6], None), (vec![5, 4], None)]
        {
            let texts: Vec<String> = seqs.iter().map(|seq| event(*seq)).collect();
            let fields: Vec<(&str, &str)> = texts.iter().map(|text| ("tick", text.as_str())).collect();
            let entry = entry(&fields).unwrap();
            assert_eq!((entry.seqs(), entry.last_seq()), (expected, *seqs.last().unwrap()), "{seqs:?}");
        }
    }

    #[test]
    fn parts_are_those_of_the_decoded_entry() {
        let fields = [
            ("node_run_started", r#"{"seq":1,"ts":2,"id":"e","node_id":"n"}"#),
            ("graph_run_succeeded", r#"{"seq":2,"ts":3,"outputs":{"a":[1]}}"#),
        ];
        let entry = entry(&fields).unwrap();
        let owned = fields.map(|(kind, text)| (kind.to_string(), text.to_string()));
        assert_eq!(entry.records().unwrap(), event::decode(entry.id, owned).unwrap());
        assert!(entry.is_terminal());
    }

    #[test]
    fn the_cached_text_is_stored_once() {
        let entry = entry(&[("tick", r#"{"seq":1,"ts":2}"#)]).unwrap();
        assert!(entry.encoded().is_none());
        for encoded in ["one", "two"] {
            entry.set_encoded(&Arc::from(encoded.as_bytes()));
        }
        assert_eq!(entry.encoded().as_deref(), Some("one".as_bytes()));
    }
}
