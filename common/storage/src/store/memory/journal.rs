//! The journal of a run, with the behaviour of `begin_step.lua` and `record_step.lua`.

use std::collections::HashMap;

use super::shard::Shard;
use crate::store::{EntryBegin, EntryStored, JournalKey};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::BlobId;

/// Added to the mark of a parked try.
const PARKED: &str = " parked";
/// Added to the mark of a try that was begun twice.
const TWICE: &str = " twice";

pub(super) fn begin(
    shard: &mut Shard,
    of: &JournalKey,
    step: &str,
    another: bool,
    now: Timestamp,
) -> EntryBegin {
    if !is_held(shard, of) {
        return EntryBegin::NotYours;
    }
    let journal = &mut shard.runs.entry(of.run).or_default().journal;
    let marks = marks(journal, of, step);
    if let Some(known) = journal.get(&of.field(step)) {
        let possible_duplicate = marks.iter().any(|mark| mark.contains(TWICE));
        return EntryBegin::Known { result: known.clone(), possible_duplicate };
    }
    // A try of an earlier attempt has ended; otherwise this attempt would not exist.
    let last = marks.last().filter(|mark| !another && is_of(mark, of));
    let doubled = last.is_some_and(|mark| mark.contains(TWICE) || !mark.contains(PARKED));
    let was_begun = last.is_some();
    let attempt = u32::try_from(marks.len()).unwrap_or(u32::MAX) + u32::from(!was_begun);
    let twice = if doubled { TWICE } else { "" };
    let text = format!("{} {}{twice}", of.attempt, now.micros());
    journal.insert(format!("{}{attempt}", of.mark(step)), text);
    EntryBegin::Begin { attempt, possible_duplicate: doubled, was_begun }
}

pub(super) fn park(shard: &mut Shard, of: &JournalKey, step: &str) {
    if !is_held(shard, of) {
        return;
    }
    let journal = &mut shard.runs.entry(of.run).or_default().journal;
    let marks = marks(journal, of, step);
    let last = marks.last().filter(|mark| is_of(mark, of) && !mark.contains(PARKED));
    if let Some(text) = last {
        journal.insert(format!("{}{}", of.mark(step), marks.len()), format!("{text}{PARKED}"));
    }
}

/// The marks of an entry's tries, in order.
fn marks(journal: &HashMap<String, String>, of: &JournalKey, step: &str) -> Vec<String> {
    let mark = of.mark(step);
    (1u32..).map_while(|number| journal.get(&format!("{mark}{number}")).cloned()).collect()
}

/// Whether the mark belongs to this attempt of the node.
fn is_of(mark: &str, of: &JournalKey) -> bool {
    mark.split(' ').next() == Some(&of.attempt.to_string())
}

pub(super) fn record(
    shard: &mut Shard,
    of: &JournalKey,
    step: &str,
    (result, (kind, fact), blobs): (&str, (&'static str, &str), &[(BlobId, u64)]),
    now: Timestamp,
) -> EntryStored {
    if !is_held(shard, of) {
        return EntryStored::NotYours;
    }
    if !shard.has_blobs(blobs, now) {
        return EntryStored::BlobGone;
    }
    let journal = &mut shard.runs.entry(of.run).or_default().journal;
    if journal.contains_key(&of.field(step)) {
        return EntryStored::Stored;
    }
    journal.insert(of.field(step), result.to_string());
    shard.accept_blobs(of.run, blobs);
    shard.add_fact(now, of.run.to_string(), kind, fact);
    EntryStored::Stored
}

fn is_held(shard: &Shard, of: &JournalKey) -> bool {
    shard.queues.get(&*of.queue).is_some_and(|queue| queue.is_held(of.entry, &of.consumer, of.number))
}
