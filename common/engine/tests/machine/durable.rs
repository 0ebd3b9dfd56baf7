//! A copy of a run as the store has it, changed by each commit, and the comparison with the state in memory. Both must
//! be equal after every commit.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use tidemill_base::ids::{EntryId, NodeId};
use tidemill_base::value::Stored;
use tidemill_engine::RunState;
use tidemill_engine::state::run::{Frame, RunHead};
use tidemill_wire::asked;
use tidemill_wire::commit::RunWrite;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::event;
use tidemill_wire::state::messages::{MessagesAtRest, list_of_part, parts};
use tidemill_wire::state::{self, AtRest};

/// The keys of a run in the store.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) run: HashMap<String, String>,
    state: HashMap<String, String>,
    held: Vec<String>,
    collected: HashMap<String, String>,
    pauses: HashMap<String, String>,
    /// Lists of messages and history, by the ends of their keys.
    lists: BTreeMap<String, Vec<String>>,
    runtime: BTreeMap<String, String>,
    /// Variables of the conversation.
    pub(super) conversation: HashMap<String, String>,
    /// The ledger.
    pub(super) ledger: BTreeMap<String, String>,
    seq: u64,
}

impl Kept {
    /// The keys as the submission writes them.
    pub(super) fn submitted(head: &RunHead, run: &RunState) -> Self {
        let fields = state::head_fields(head, &run.graph);
        let run = fields.into_iter().map(|(name, text)| (name.to_string(), text)).collect();
        Self { run, ..Self::default() }
    }

    /// Applies a commit.
    pub(super) fn write(&mut self, write: &RunWrite) {
        self.run.extend(write.fields.iter().map(|(name, text)| ((*name).to_string(), text.clone())));
        for (field, text) in write.state.iter() {
            match text {
                Some(text) => self.state.insert(field.to_string(), text.to_string()),
                None => self.state.remove(field),
            };
        }
        if write.collected_cleared {
            self.collected.clear();
        }
        for (field, text) in write.collected.iter() {
            match text {
                Some(text) => self.collected.insert(field.to_string(), text.to_string()),
                None => self.collected.remove(field),
            };
        }
        self.pauses.extend(write.pauses.iter().cloned());
        self.conversation.extend(write.conversation.iter().flat_map(|kept| kept.fields.iter().cloned()));
        self.ledger.extend(write.ledger.iter().cloned());
        if let Some(messages) = &write.messages {
            for (list, messages) in &messages.messages {
                self.lists.entry(format!("messages:{list}")).or_default().extend_from_slice(messages);
            }
            if !messages.history.is_empty() {
                self.lists.entry("history".into()).or_default().extend_from_slice(&messages.history);
            }
            for (key, value) in &messages.runtime {
                match value {
                    Some(value) => self.runtime.insert(key.clone(), value.clone()),
                    None => self.runtime.remove(key),
                };
            }
        }
        if write.held_cleared {
            self.held.clear();
        }
        self.held.extend_from_slice(&write.held);
        if let Some(fields) = write.entries.iter().last() {
            let fields: Vec<(String, String)> =
                fields.map(|(name, text)| (name.to_string(), text.to_string())).collect();
            self.seq = event::last_seq(&fields).expect("every event has a number");
        }
    }

    /// Returns all keys. The fields are in no particular order, as in Redis.
    pub(super) fn at_rest(&self) -> AtRest {
        AtRest {
            run: self.run.clone(),
            state: self.state.clone().into_iter().collect(),
            held: self.held.clone(),
            collected: self.collected.clone().into_iter().collect(),
            pauses: self.pauses.clone().into_iter().collect(),
            messages: self.messages(),
            seq: self.seq,
        }
    }

    fn messages(&self) -> MessagesAtRest {
        let mut found = MessagesAtRest::default();
        for part in self.run.get("objects").into_iter().flat_map(|field| parts(field)) {
            match (list_of_part(part), part) {
                (Some(list), _) => {
                    found.messages.push((list.to_string(), self.lists.get(part).cloned().unwrap_or_default()))
                }
                (None, "history") => found.history = self.lists.get(part).cloned().unwrap_or_default(),
                (None, _) => found.runtime = self.runtime.clone().into_iter().collect(),
            }
        }
        found
    }

    /// Loads the run.
    pub(super) fn load(&self, like: &RunState) -> RunState {
        state::load(like.id, like.graph.0.clone(), self.at_rest()).expect("what was written can be loaded")
    }
}

/// Lists the fields in which two states differ. Two differences do not count: the order of a node's variables where it
/// is not visible, and the edges of a run that has ended, which are not used any more.
pub(super) fn differences(memory: &RunState, loaded: &RunState) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |field: &str, memory: &dyn Debug, loaded: &dyn Debug| {
        let (memory, loaded) = (format!("{memory:?}"), format!("{loaded:?}"));
        if memory != loaded {
            found.push(format!("{field}: in memory {memory}, loaded {loaded}"));
        }
    };
    compare("head", &memory.head, &loaded.head);
    compare("status", &memory.status, &loaded.status);
    compare("started_at", &memory.started_at, &loaded.started_at);
    compare("finished_at", &memory.finished_at, &loaded.finished_at);
    compare("error", &memory.error, &loaded.error);
    compare("seq", &memory.seq, &loaded.seq);
    compare("ready", &memory.ready, &loaded.ready);
    compare("nested", &memory.nested, &loaded.nested);
    compare("containers", &memory.containers, &loaded.containers);
    if !memory.status.is_over() {
        compare("pauses", &memory.pauses, &loaded.pauses);
        compare("sums", &memory.sums, &loaded.sums);
    }
    compare("clock", &memory.clock, &loaded.clock);
    compare("control", &memory.control, &loaded.control);
    compare("objects", &memory.messages, &loaded.messages);
    compare("response", &memory.response, &loaded.response);
    compare("frames", &memory.frames.keys().collect::<Vec<_>>(), &loaded.frames.keys().collect::<Vec<_>>());
    for (path, frame) in &memory.frames {
        let Some(other) = loaded.frames.get(path) else { continue };
        for (at, node) in memory.graph.nodes.iter().enumerate() {
            compare(&format!("node {}", node.id), &frame.nodes[at], &other.nodes[at]);
        }
        if !memory.status.is_over() {
            compare("edges", &frame.edges, &other.edges);
        }
        compare("variables", &variables(frame), &variables(other));
        compare("hidden", &frame.hidden, &other.hidden);
        compare("responded", &frame.responded, &other.responded);
        let of =
            |f: &Frame| (f.opened_at, f.error.clone(), f.loop_end, f.conversation_written.clone(), f.open);
        compare("frame", &of(frame), &of(other));
    }
    let waiting = |run: &RunState| -> Vec<_> {
        run.containers.iter().map(|(key, it)| (key.clone(), it.pending.clone())).collect()
    };
    compare("waiting operations", &waiting(memory), &waiting(loaded));
    compare("outputs", &tidemill_engine::outputs(memory), &tidemill_engine::outputs(loaded));
    found
}

fn variables(frame: &Frame) -> Vec<(&NodeId, &String, &Stored)> {
    let mut all: Vec<_> = frame
        .variables
        .iter()
        .flat_map(|(node, values)| values.iter().map(move |(name, value)| (node, name, value)))
        .collect();
    all.sort_by_key(|(node, name, _)| (*node, *name));
    all
}

/// What a commit stores of questions in its short form must be read back to the last byte.
pub(super) fn is_read_back_from_its_short_form(write: &RunWrite) {
    let mut short = write.clone();
    asked::shorten(&mut short);
    for (stored, whole) in short.entries.iter().zip(write.entries.iter()) {
        let owned = |(kind, text): (&str, &str)| (kind.to_string(), text.to_string());
        let mut entry = EventEntry::read(EntryId::ZERO, stored.map(owned)).expect("it can be read");
        entry.complete(write.run, &short.pauses);
        let read: Vec<(&str, &str)> = entry.events().map(|(event, _)| (&*event.kind, event.text())).collect();
        assert_eq!(read, whole.collect::<Vec<_>>());
    }
    let whole = |(id, text): &(String, String)| (id.clone(), asked::whole_pause(write.run, id, text));
    assert_eq!(short.pauses.iter().map(whole).collect::<Vec<_>>(), write.pauses);
}
