//! The journal of a run, as `begin_step.lua` and `record_step.lua` keep it.

use super::shard::Shard;
use crate::clock::Timestamp;
use crate::ids::BlobId;
use crate::store::{JournalOf, StepBegin, StepKept};

/// Behind the mark of a try that was put down.
const PARKED: &str = " parked";

pub(super) fn begin(
    shard: &mut Shard,
    of: &JournalOf,
    step: &str,
    another: bool,
    now: Timestamp,
) -> StepBegin {
    if !is_held(shard, of) {
        return StepBegin::NotYours;
    }
    let journal = &mut shard.runs.entry(of.run).or_default().journal;
    if let Some(known) = journal.get(&of.field(step)) {
        return StepBegin::Known(known.clone());
    }
    let mark = of.mark(step);
    let begun = (1u32..).take_while(|number| journal.contains_key(&format!("{mark}{number}"))).last();
    let last = begun.and_then(|number| journal.get(&format!("{mark}{number}")));
    // A try that an earlier attempt of the node made has ended, or nobody would have made this attempt.
    let is_of_this = last.is_some_and(|text| text.split(' ').next() == Some(&of.attempt.to_string()));
    let again = is_of_this && !another;
    let parked = last.is_some_and(|text| text.ends_with(PARKED));
    let attempt = begun.unwrap_or(0) + u32::from(!again);
    journal.insert(format!("{mark}{attempt}"), format!("{} {}", of.attempt, now.micros()));
    StepBegin::Begin { attempt, possible_duplicate: again && !parked, was_begun: again }
}

pub(super) fn park(shard: &mut Shard, of: &JournalOf, step: &str) {
    if !is_held(shard, of) {
        return;
    }
    let (journal, mark) = (&mut shard.runs.entry(of.run).or_default().journal, of.mark(step));
    let begun = (1u32..).take_while(|number| journal.contains_key(&format!("{mark}{number}"))).last();
    let last = begun.and_then(|number| journal.get_mut(&format!("{mark}{number}")));
    let is_of_this = |text: &&mut String| text.split(' ').next() == Some(&of.attempt.to_string());
    if let Some(text) = last.filter(is_of_this).filter(|text| !text.ends_with(PARKED)) {
        text.push_str(PARKED);
    }
}

pub(super) fn record(
    shard: &mut Shard,
    of: &JournalOf,
    step: &str,
    (result, (kind, fact), blobs): (&str, (&'static str, &str), &[(BlobId, u64)]),
    now: Timestamp,
) -> StepKept {
    if !is_held(shard, of) {
        return StepKept::NotYours;
    }
    if !shard.has_blobs(blobs, now) {
        return StepKept::BlobGone;
    }
    let journal = &mut shard.runs.entry(of.run).or_default().journal;
    if journal.contains_key(&of.field(step)) {
        return StepKept::Kept;
    }
    journal.insert(of.field(step), result.to_string());
    shard.accept_blobs(of.run, blobs);
    shard.add_fact(now, of.run.to_string(), kind, fact);
    StepKept::Kept
}

fn is_held(shard: &Shard, of: &JournalOf) -> bool {
    shard.queues.get(&*of.queue).is_some_and(|queue| queue.is_held(of.entry, &of.consumer, of.number))
}
