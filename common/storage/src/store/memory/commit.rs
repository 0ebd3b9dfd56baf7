//! Applies a commit. Everything is checked before anything is written, since there is no rollback.

use super::calls;
use super::queue::Job;
use super::shard::{Blob, Conversation, Run, Shard};
use super::webhooks;
use crate::store::{Commit, CommitError, KeyCost, StoreError, day_of};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ExecutionId};
use tidemill_base::limits;
use tidemill_wire::commit::{ConversationWrite, JobEntry, RunWrite};
use tidemill_wire::fact::kind;
use tidemill_wire::state::messages::{HISTORY_PART, MessagesWrite};

/// Refuses a commit that cannot be written completely.
pub(super) fn check(shard: &Shard, commit: &Commit) -> Result<(), CommitError> {
    let refused = |reason: String| CommitError::NotDone(StoreError::Unexpected { doing: "a commit", reason });
    if commit.number <= shard.fence.commit {
        let last = shard.fence.commit;
        return Err(refused(format!("its number {} does not exceed the last one, {last}", commit.number)));
    }
    let jobs = || commit.writes.iter().flat_map(|write| &write.jobs);
    for job in jobs() {
        let last = shard.queues.get(&*job.queue).map_or(EntryId::ZERO, |queue| queue.last());
        if job.entry <= last || jobs().any(|other| is_shadowed(job, other)) {
            return Err(refused(format!("job {} of queue {} is not above the last", job.entry, job.queue)));
        }
    }
    Ok(())
}

/// Whether two jobs have the same id in one queue.
fn is_shadowed(job: &JobEntry, other: &JobEntry) -> bool {
    !std::ptr::eq(job, other) && job.queue == other.queue && job.entry == other.entry
}

/// Writes a checked commit; returns the executions to stop.
pub(super) fn write(shard: &mut Shard, commit: &Commit, now: Timestamp) -> Vec<ExecutionId> {
    shard.fence.commit = commit.number;
    shard.fence.takeovers = 0;
    shard.fence.trying.clear();
    if let Some(cursor) = commit.cursor {
        shard.fence.cursor = cursor;
    }
    let mut cancelled = Vec::new();
    for write in &commit.writes {
        write_run(shard, commit.number, write);
        write_around(shard, write, now);
        webhooks::write(shard, write, commit.number);
        if let Some(charges) = &write.charges
            && let (Some(key), Some(last)) = (&charges.key, charges.calls.last())
        {
            for day in [None, Some(day_of(last.at))] {
                shard.key_costs.entry((key.clone(), day)).or_default().merge(&KeyCost::of(charges));
            }
        }
        if let Some(calls) = &write.calls {
            calls::write(shard, write.run, calls, commit.number, now);
        }
        cancelled.extend(write.taken_back.iter().map(|job| job.execution));
    }
    for member in &commit.timers_cleared {
        shard.timers.clear(member);
    }
    for dead in &commit.dead {
        shard.bury(dead, now);
    }
    cancelled
}

/// Writes the run's own keys.
fn write_run(shard: &mut Shard, commit: u64, write: &RunWrite) {
    let run = shard.runs.entry(write.run).or_default();
    run.graph = write.graph.to_string();
    run.created_at = write.created_at;
    run.ended_at = write.ended_at.or(run.ended_at);
    for (field, text) in &write.fields {
        run.fields.insert((*field).to_string(), text.clone());
    }
    for (field, text) in write.state.iter() {
        match text {
            Some(text) => run.state.insert(field.to_string(), text.to_string()),
            None => run.state.remove(field),
        };
    }
    if write.collected_cleared {
        run.collected.clear();
    }
    for (field, text) in write.collected.iter() {
        match text {
            Some(text) => run.collected.insert(field.to_string(), text.to_string()),
            None => run.collected.remove(field),
        };
    }
    run.pauses.extend(write.pauses.iter().cloned());
    run.ledger.extend(write.ledger.iter().cloned());
    if let Some(messages) = &write.messages {
        write_messages(run, messages);
    }
    if write.held_cleared {
        run.held.clear();
    }
    run.held.extend_from_slice(&write.held);
    for entry in write.entries.iter() {
        let fields = entry.map(|(name, text)| (name.to_string(), text.to_string())).collect();
        run.events.append_of(commit, fields);
    }
    run.events.trim_to(limits::RUN_EVENTS_MAX);
    run.blobs.extend(write.blobs.iter().map(|(id, text)| (id.clone(), text.len() as u64)));
}

fn write_messages(run: &mut Run, write: &MessagesWrite) {
    let mut append = |part: String, entries: &[String]| {
        if !entries.is_empty() {
            run.lists.entry(part).or_default().extend_from_slice(entries);
        }
    };
    for (list, messages) in &write.messages {
        append(format!("messages:{list}"), messages);
    }
    append(HISTORY_PART.to_string(), &write.history);
    for (key, value) in &write.runtime {
        match value {
            Some(value) => run.runtime.insert(key.clone(), value.clone()),
            None => run.runtime.remove(key),
        };
    }
}

/// Writes what a run changes in other keys of the shard.
fn write_around(shard: &mut Shard, write: &RunWrite, now: Timestamp) {
    for (id, text) in &write.blobs {
        shard.blobs.insert(id.clone(), Blob { text: text.clone(), until: None });
    }
    if let Some(kept) = &write.conversation {
        write_conversation(shard, kept, now);
    }
    if write.leaves_turn {
        shard.unsettled.insert(write.run);
    }
    for job in &write.taken_back {
        if let Some(queue) = shard.queues.get_mut(&*job.queue) {
            queue.remove(job.entry);
        }
    }
    for job in &write.jobs {
        let queue = shard.queues.entry(job.queue.clone()).or_default();
        queue.add(job.entry, Job { run: job.run.to_string(), body: job.body.clone() });
    }
    for member in &write.timers_cleared {
        shard.timers.clear(member);
    }
    for (due, member) in &write.timers_set {
        shard.timers.set(*due, member);
    }
    if write.continue_due {
        shard.add_fact(now, write.run.to_string(), kind::CONTINUE, "{}");
    }
}

/// Each write restarts the time to live of all parts of the conversation.
fn write_conversation(shard: &mut Shard, write: &ConversationWrite, now: Timestamp) {
    let until = Some(now.plus(std::time::Duration::from_secs(limits::CONVERSATION_SECONDS)));
    let conversation = shard.conversations.entry(write.id.clone()).or_default();
    if conversation.until.is_some_and(|until| until <= now) {
        *conversation = Conversation::default();
    }
    conversation.fields.extend(write.fields.iter().cloned());
    conversation.until = until;
    if let Some(run) = write.messages.and_then(|run| shard.runs.get(&run)) {
        conversation.messages = run.lists.get("messages:main").cloned().unwrap_or_default();
    }
    for (from, to) in &write.copies {
        if let Some(text) = shard.blobs.get(from).map(|blob| blob.text.clone()) {
            shard.blobs.insert(to.clone(), Blob { text, until });
        }
    }
    for id in &write.dropped {
        shard.blobs.remove(id);
    }
    for id in &write.kept {
        if let Some(blob) = shard.blobs.get_mut(id) {
            blob.until = until;
        }
    }
}
