//! An entry of a run's event stream as it lies there: its events' numbers are read, their text is not. Most events are
//! handed on nearly as they were written, some thousand a second; whoever needs one in parts asks for the
//! [`EventRecord`].

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::WireError;
use super::event::{self, EventRecord, kind};
use crate::ids::EntryId;

/// The events of one entry; never none. Shared by all who follow the run.
#[derive(Debug, Clone)]
pub struct EventEntry {
    /// Its id.
    pub id: EntryId,
    events: Vec<StoredEvent>,
    told: OnceLock<Arc<[u8]>>,
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its type.
    pub kind: String,
    /// Counts the run's events from 1.
    pub seq: u64,
    /// Unix milliseconds.
    pub ts: i64,
    /// All of its JSON, `seq` and `ts` included.
    text: String,
}

impl StoredEvent {
    /// All of its JSON.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl EventEntry {
    /// Reads an entry: a field an event.
    ///
    /// # Errors
    /// A value that is not the JSON of an event, or no event at all.
    pub fn read(id: EntryId, fields: impl IntoIterator<Item = (String, String)>) -> Result<Self, WireError> {
        let events: Vec<StoredEvent> = fields.into_iter().map(StoredEvent::read).collect::<Result<_, _>>()?;
        if events.is_empty() {
            return Err(WireError::malformed("an entry of events", "it has none"));
        }
        Ok(Self { id, events, told: OnceLock::new() })
    }

    /// Its events, each with whether it is the last: the one that carries the entry's id.
    pub fn events(&self) -> impl Iterator<Item = (&StoredEvent, bool)> {
        let last = self.events.len() - 1;
        self.events.iter().enumerate().map(move |(at, event)| (event, at == last))
    }

    /// The numbers of its first and its last event, when they count up without a gap.
    pub fn seqs(&self) -> Option<(u64, u64)> {
        let first = self.events.first()?.seq;
        let counts_up = (first..).zip(&self.events).all(|(seq, event)| seq == event.seq);
        counts_up.then(|| (first, self.last_seq()))
    }

    /// The number of its last event.
    pub fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    /// Whether nothing comes after it.
    pub fn is_terminal(&self) -> bool {
        self.events.iter().any(|event| kind::TERMINAL.contains(&event.kind.as_str()))
    }

    /// Bytes of text in it.
    pub fn bytes(&self) -> usize {
        self.events.iter().map(|event| event.text.len()).sum()
    }

    /// Its events in parts.
    ///
    /// # Errors
    /// A value that is not the JSON of an event.
    pub fn records(&self) -> Result<Vec<EventRecord>, WireError> {
        self.events().map(|(event, is_last)| event.record(self.id, is_last)).collect()
    }

    /// What clients are told of it, once somebody has made that of it.
    pub fn told(&self) -> Option<Arc<[u8]>> {
        self.told.get().cloned()
    }

    /// Keeps what clients are told of it for those who follow, too. It must say the same for every client.
    pub fn keep_told(&self, told: &Arc<[u8]>) {
        // Another follower may have been faster, with the same.
        let _ = self.told.set(told.clone());
    }
}

impl StoredEvent {
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

    /// The event in parts; `entry` is where it stands.
    ///
    /// # Errors
    /// Text that is not the JSON of an event.
    pub fn record(&self, entry: EntryId, last_of_entry: bool) -> Result<EventRecord, WireError> {
        event::record(entry, last_of_entry, self.kind.clone(), &self.text)
    }

    /// Its text as a piece of an answer, when it is one that says all by itself.
    pub(super) fn chunk(&self) -> Option<ChunkText<'_>> {
        if self.kind != kind::NODE_RUN_STREAM_CHUNK {
            return None;
        }
        let chunk: ChunkText = serde_json::from_str(&self.text).ok()?;
        // Anything but a text lies apart and must be fetched.
        chunk.chunk.get().starts_with('"').then_some(chunk)
    }
}

/// The stored form of `node_run_stream_chunk`, its values as they were written.
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
}

/// What every event has.
#[derive(Deserialize)]
struct Head {
    seq: u64,
    ts: i64,
}

/// Number and time of an event that begins with them, as all do that we write.
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
    fn what_was_told_is_kept_once() {
        let entry = entry(&[("tick", r#"{"seq":1,"ts":2}"#)]).unwrap();
        assert!(entry.told().is_none());
        for told in ["one", "two"] {
            entry.keep_told(&Arc::from(told.as_bytes()));
        }
        assert_eq!(entry.told().as_deref(), Some("one".as_bytes()));
    }
}
