//! The data of one shard.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::queue::Queue;
use super::stream::Stream;
use super::webhooks;
use crate::store::{Dead, KeyCost, RawFact, StoreError, unreadable_events};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, RunId};
use tidemill_base::limits;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::asked::whole_pause;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::event;
use tidemill_wire::state::AtRest;
use tidemill_wire::state::messages::{HISTORY_PART, MessagesAtRest, OBJECTS_FIELD, list_of_part, parts};
use tidemill_workflow::messages::HISTORY_HELD;

#[derive(Clone, Default)]
pub(super) struct Shard {
    /// The holder of the lease, and its end.
    pub(super) lease: Option<(String, Timestamp)>,
    pub(super) fence: Fence,
    pub(super) inbox: Stream<Message>,
    pub(super) queues: BTreeMap<Arc<str>, Queue>,
    pub(super) timers: Timers,
    pub(super) dead: Stream<Dead>,
    /// The blobs of runs that ended up to this time have their time to live.
    pub(super) expired: Option<Timestamp>,
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) blobs: HashMap<BlobId, Blob>,
    pub(super) graphs: HashMap<String, GraphDocument>,
    pub(super) conversations: HashMap<String, Conversation>,
    pub(super) files: BTreeSet<RunId>,
    /// Notices for webhooks, by app.
    pub(super) notices: BTreeMap<String, webhooks::OfApp>,
    /// Ended runs with unsettled turns.
    pub(super) unsettled: BTreeSet<RunId>,
    /// The spending of keys, in total and by day.
    pub(super) key_costs: BTreeMap<(String, Option<String>), KeyCost>,
    /// Ordered sub-workflow runs that are not created yet: commit, run, caller.
    pub(super) calling: BTreeSet<(u64, RunId, RunId)>,
    /// Runs whose files were stored before the run: time of the note, ms.
    pub(super) files_early: BTreeMap<RunId, i64>,
    /// Removed runs whose files are not deleted yet.
    pub(super) files_left: BTreeSet<RunId>,
    /// The due time of each schedule.
    pub(super) schedules: BTreeMap<String, Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Conversation {
    pub(super) fields: HashMap<String, String>,
    /// Oldest first.
    pub(super) turns: Vec<String>,
    /// The messages of its list `main`.
    pub(super) messages: Vec<String>,
    /// Ratings of messages.
    pub(super) ratings: HashMap<String, String>,
    /// When each of these messages was first rated.
    pub(super) rated_at: HashMap<String, Timestamp>,
    pub(super) began_at: Timestamp,
    pub(super) used_at: Timestamp,
    /// When it expires.
    pub(super) until: Option<Timestamp>,
}

/// The fence: what the next commit builds on.
#[derive(Debug, Clone, Default)]
pub(super) struct Fence {
    pub(super) epoch: u64,
    pub(super) holder: String,
    pub(super) commit: u64,
    pub(super) cursor: EntryId,
    pub(super) takeovers: u32,
    pub(super) trying: Vec<EntryId>,
}

/// An entry of the inbox.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: String,
    pub(super) run: String,
    pub(super) body: String,
}

#[derive(Clone)]
pub(super) struct Blob {
    pub(super) text: String,
    /// When it expires; `None` once accepted.
    pub(super) until: Option<Timestamp>,
}

#[derive(Clone)]
pub(super) struct GraphDocument {
    pub(super) text: Arc<str>,
    pub(super) runs: usize,
}

#[derive(Clone, Default)]
pub(super) struct Run {
    pub(super) fields: HashMap<String, String>,
    pub(super) state: HashMap<String, String>,
    pub(super) collected: HashMap<String, String>,
    pub(super) pauses: HashMap<String, String>,
    /// Keys of commands and the hashes of their requests.
    pub(super) commands: HashMap<String, String>,
    pub(super) held: Vec<String>,
    /// Results of journal entries, and marks of their tries.
    pub(super) journal: HashMap<String, String>,
    /// Its sub-workflow runs and their orders.
    pub(super) calls: BTreeMap<RunId, String>,
    /// The cost of each model call.
    pub(super) ledger: HashMap<String, String>,
    /// Message lists `messages:<list>`, and `history`.
    pub(super) lists: BTreeMap<String, Vec<String>>,
    pub(super) runtime: BTreeMap<String, String>,
    pub(super) events: Stream<Vec<(String, String)>>,
    pub(super) blobs: BTreeMap<BlobId, u64>,
    pub(super) graph: String,
    pub(super) created_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

fn fields(hash: &HashMap<String, String>) -> Vec<(String, String)> {
    hash.iter().map(|(field, text)| (field.clone(), text.clone())).collect()
}

impl Run {
    pub(super) fn status(&self) -> Option<RunStatus> {
        self.fields.get("status").and_then(|name| RunStatus::from_name(name))
    }

    /// Neither ended nor paused.
    pub(super) fn is_under_way(&self) -> bool {
        self.status().is_some_and(|status| matches!(status, RunStatus::Scheduled | RunStatus::Running))
    }

    /// The input of [`tidemill_wire::state::load`]. The state's fields are in no particular order, as from
    /// Redis.
    pub(super) fn at_rest(&self, id: RunId) -> AtRest {
        AtRest {
            run: self.fields.clone(),
            state: fields(&self.state),
            collected: fields(&self.collected),
            pauses: self.pauses(id),
            held: self.held.clone(),
            messages: self.messages(),
            seq: self.events.newest().and_then(|fields| event::last_seq(fields)).unwrap_or(0),
        }
    }

    /// Its pauses and the answers to them, complete.
    pub(super) fn pauses(&self, id: RunId) -> Vec<(String, String)> {
        self.pauses.iter().map(|(field, text)| (field.clone(), whole_pause(id, field, text))).collect()
    }

    fn messages(&self) -> MessagesAtRest {
        let mut found = MessagesAtRest::default();
        for part in self.fields.get(OBJECTS_FIELD).into_iter().flat_map(|field| parts(field)) {
            let entries = self.lists.get(part).map(Vec::as_slice).unwrap_or_default();
            if let Some(list) = list_of_part(part) {
                found.messages.push((list.to_string(), entries.to_vec()));
            } else if part == HISTORY_PART {
                found.history = entries[entries.len().saturating_sub(HISTORY_HELD)..].to_vec();
            } else {
                found.runtime = self.runtime.clone().into_iter().collect();
            }
        }
        found
    }

    pub(super) fn entries(
        &self,
        id: RunId,
        after: EntryId,
        count: usize,
    ) -> Result<Vec<EventEntry>, StoreError> {
        let entries = self.events.after(after).take(count);
        let read = entries.map(|(entry, fields)| EventEntry::read(entry, fields.iter().cloned()));
        let mut entries: Vec<EventEntry> = read.collect::<Result<_, _>>().map_err(unreadable_events)?;
        if entries.iter().any(EventEntry::is_short) {
            let questions = self.pauses(id);
            entries.iter_mut().for_each(|entry| entry.complete(id, &questions));
        }
        Ok(entries)
    }
}

impl Shard {
    pub(super) fn add_fact(&mut self, now: Timestamp, run: String, kind: &str, body: &str) {
        self.inbox.append(now, Message { kind: kind.to_string(), run, body: body.to_string() });
    }

    pub(super) fn facts(&self, after: EntryId, count: usize) -> Vec<RawFact> {
        let facts = self.inbox.after(after).take(count);
        facts.map(|(entry, m)| RawFact::read(entry, &m.kind, &m.run, m.body.clone())).collect()
    }

    /// The holder of the lease, while it is valid.
    pub(super) fn holder(&self, now: Timestamp) -> Option<&str> {
        self.lease.as_ref().filter(|(_, until)| *until > now).map(|(id, _)| id.as_str())
    }

    pub(super) fn blob(&self, id: &BlobId, now: Timestamp) -> Option<&str> {
        let blob = self.blobs.get(id)?;
        blob.until.is_none_or(|until| until > now).then_some(blob.text.as_str())
    }

    pub(super) fn put_blob(&mut self, id: &BlobId, text: &str, now: Timestamp) {
        let pending = std::time::Duration::from_secs(limits::BLOB_PENDING_SECONDS);
        self.blobs.retain(|_, blob| blob.until.is_none_or(|until| until > now));
        let until = now.plus(pending);
        // A value never changes under its name, and one that is kept stays so.
        if self.blobs.get(id).is_none_or(|known| known.until.is_some_and(|known| known < until)) {
            self.blobs.insert(id.clone(), Blob { text: text.to_string(), until: Some(until) });
        }
    }

    pub(super) fn has_blobs(&self, blobs: &[(BlobId, u64)], now: Timestamp) -> bool {
        blobs.iter().all(|(id, _)| self.blob(id, now).is_some())
    }

    /// Removes the expiry of blobs and adds them to their run.
    pub(super) fn accept_blobs(&mut self, run: RunId, blobs: &[(BlobId, u64)]) {
        for (id, size) in blobs {
            if let Some(blob) = self.blobs.get_mut(id) {
                blob.until = None;
            }
            if let Some(run) = self.runs.get_mut(&run) {
                run.blobs.insert(id.clone(), *size);
            }
        }
    }

    pub(super) fn bury(&mut self, dead: &Dead, now: Timestamp) {
        self.dead.append(now, dead.clone());
        self.dead.trim_to(limits::DEAD_MAX);
    }

    /// See [`crate::store::Shards::expire_blobs`].
    pub(super) fn expire_blobs(&mut self, ended_by: Timestamp, count: usize, until: Timestamp) -> usize {
        let after = self.expired;
        let is_due = |at: &Timestamp| *at <= ended_by && after.is_none_or(|after| *at > after);
        let ended = self.runs.iter().filter_map(|(id, run)| Some((run.ended_at.filter(is_due)?, *id)));
        let mut ended: Vec<(Timestamp, RunId)> = ended.collect();
        ended.sort_unstable();
        let Some(last) = ended.get(count.saturating_sub(1)).or(ended.last()).map(|(at, _)| *at) else {
            return 0;
        };
        ended.retain(|(at, _)| *at <= last);
        for (_, id) in &ended {
            for blob in self.runs.get(id).into_iter().flat_map(|run| run.blobs.keys()) {
                if let Some(blob) = self.blobs.get_mut(blob) {
                    blob.until = Some(until);
                }
            }
        }
        self.expired = Some(last);
        ended.len()
    }

    /// Settles notes of files that were stored before their run.
    pub(super) fn settle_early(&mut self, noted_by: Timestamp, count: usize) -> usize {
        let is_due = |at: &i64| *at <= noted_by.millis();
        let mut due: Vec<(i64, RunId)> =
            self.files_early.iter().filter(|(_, at)| is_due(at)).map(|(run, at)| (*at, *run)).collect();
        due.sort_unstable();
        due.truncate(count);
        for (_, run) in &due {
            self.files_early.remove(run);
            if !self.runs.contains_key(run) {
                self.files_left.insert(*run);
            }
        }
        due.len()
    }

    /// Removes a run with all its data.
    pub(super) fn remove_run(&mut self, id: RunId) {
        let Some(run) = self.runs.remove(&id) else { return };
        if self.files.remove(&id) {
            self.files_left.insert(id);
        }
        for blob in run.blobs.keys() {
            self.blobs.remove(blob);
        }
        if let Some(graph) = self.graphs.get_mut(&run.graph) {
            graph.runs = graph.runs.saturating_sub(1);
            if graph.runs == 0 {
                self.graphs.remove(&run.graph);
            }
        }
    }
}

/// The timers: members by due time, then by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    due: HashMap<String, Timestamp>,
    order: BTreeSet<(Timestamp, String)>,
}

impl Timers {
    pub(super) fn set(&mut self, due: Timestamp, member: &str) {
        self.clear(member);
        self.due.insert(member.to_string(), due);
        self.order.insert((due, member.to_string()));
    }

    pub(super) fn clear(&mut self, member: &str) {
        if let Some(due) = self.due.remove(member) {
            self.order.remove(&(due, member.to_string()));
        }
    }

    /// Timers due at a time, and the due time of the next one. As in Redis, that is the time of the last
    /// returned one if there may be more.
    pub(super) fn due(&self, now: Timestamp, count: usize) -> (Vec<(Timestamp, String)>, Option<Timestamp>) {
        let due: Vec<_> = self.order.iter().take_while(|(due, _)| *due <= now).take(count).cloned().collect();
        let next = match due.last() {
            Some((last, _)) if due.len() >= count => Some(*last),
            _ => self.order.iter().map(|(due, _)| *due).find(|due| *due > now),
        };
        (due, next)
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(due, _)| *due)
    }
}
