//! The journal: each entry is recorded once, only by the holder of the job, together with its fact.

use super::fixtures::{QUEUE, SHARD, execution, run_id};
use super::{Outcome, Subject, same};
use tidemill_common::ids::{BlobId, EntryId};
use tidemill_common::store::{EntryBegin, EntryStored, JournalKey};
use tidemill_common::wire::fact::kind;

/// The journal of the first run, for this consumer.
pub(super) fn of(entry: EntryId, consumer: &str, number: u32) -> JournalKey {
    JournalKey {
        shard: SHARD,
        queue: QUEUE.into(),
        entry,
        number,
        consumer: consumer.into(),
        run: run_id(1),
        execution: execution(1),
        attempt: 1,
    }
}

/// The entry begins now.
pub(super) const fn begins(attempt: u32, possible_duplicate: bool) -> EntryBegin {
    EntryBegin::Begin { attempt, possible_duplicate, was_begun: possible_duplicate }
}

/// The entry has a result.
fn knows(result: &str, possible_duplicate: bool) -> EntryBegin {
    EntryBegin::Known { result: result.into(), possible_duplicate }
}

pub(super) async fn a_journal_entry_is_recorded_once_with_its_fact(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w", 1).await?;
    let (of, store) = (of(entries[0], "w", 1), s.store());
    let before = s.facts().await?.len();
    same("it begins", store.begin_step(&of, "llm:1", false).await?, begins(1, false))?;
    let record = |result| store.record_step(&of, "llm:1", result, (kind::STEP, "{}"), &[]);
    same("it is kept", record("\"a\"").await?, EntryStored::Stored)?;
    same("once more", record("\"b\"").await?, EntryStored::Stored)?;
    let facts = s.facts().await?;
    same("one fact reports it", facts.len() - before, 1)?;
    same("of its kind", facts.last().map(|fact| &*fact.kind), Some(kind::STEP))?;
    let known = store.begin_step(&of, "llm:1", false).await?;
    same("the first result is kept", known, knows("\"a\"", false))?;
    same("another entry begins", store.begin_step(&of, "llm:2", false).await?, begins(1, false))
}

pub(super) async fn a_journal_entry_keeps_the_large_values_that_it_refers_to(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w", 1).await?;
    let (of, store) = (of(entries[0], "w", 1), s.store());
    let before = s.facts().await?.len();
    let gone = [(BlobId::generate(), 6)];
    let fact = (kind::CHILD_ENDED, "{}");
    let kept = store.record_step(&of, "child:c", "1", fact, &gone).await?;
    same("not without its values", kept, EntryStored::BlobGone)?;
    same("and nothing is reported", s.facts().await?.len(), before)?;
    let blob = s.blob("\"here\"").await?;
    let blobs = [(blob.clone(), 6)];
    let kept = store.record_step(&of, "child:c", "1", fact, &blobs).await?;
    same("with its values it is kept", kept, EntryStored::Stored)?;
    same("and so are the values", store.load_blob(SHARD, &blob).await?, Some("\"here\"".into()))
}

pub(super) async fn tries_of_a_journal_entry_are_counted_across_deliveries(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w", 1).await?;
    let (first, store) = (of(entries[0], "w", 1), s.store());
    same("the first try", store.begin_step(&first, "call", false).await?, begins(1, false))?;
    same("that failed", store.begin_step(&first, "call", true).await?, begins(2, false))?;
    same("begun before", store.begin_step(&first, "call", false).await?, begins(2, true))?;
    store.park_step(&first, "call").await?;
    store.park_step(&first, "never begun").await?;
    let put_down = || EntryBegin::Begin { attempt: 1, possible_duplicate: false, was_begun: true };
    same("still begun twice", store.begin_step(&first, "call", false).await?, begins(2, true))?;
    same("another one", store.begin_step(&first, "wait", false).await?, begins(1, false))?;
    store.park_step(&first, "wait").await?;
    same("parked while it waited", store.begin_step(&first, "wait", false).await?, put_down())?;
    store.park_step(&first, "wait").await?;
    same("and again", store.begin_step(&first, "wait", false).await?, put_down())?;
    same("and begun once more", store.begin_step(&first, "wait", false).await?, begins(1, true))?;
    same(
        "parking does not begin another entry",
        store.begin_step(&first, "never begun", false).await?,
        begins(1, false),
    )?;
    let later = JournalKey { attempt: 2, ..first };
    same("a later attempt", store.begin_step(&later, "call", false).await?, begins(3, false))?;
    same("and again", store.begin_step(&later, "call", false).await?, begins(3, true))
}

pub(super) async fn a_journal_entry_that_was_begun_twice_stays_marked_when_it_has_a_result(
    s: Subject,
) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w", 1).await?;
    let (of, store) = (of(entries[0], "w", 1), s.store());
    let record = |step| store.record_step(&of, step, "1", (kind::STEP, "{}"), &[]);
    for (step, doubled) in [("once", false), ("twice", true), ("put down", false)] {
        same(step, store.begin_step(&of, step, false).await?, begins(1, false))?;
        if doubled {
            same(step, store.begin_step(&of, step, false).await?, begins(1, true))?;
            // A holder that continues from there makes no third call.
            store.park_step(&of, step).await?;
            same(step, store.begin_step(&of, step, false).await?, begins(1, true))?;
        } else if step != "once" {
            store.park_step(&of, step).await?;
            store.begin_step(&of, step, false).await?;
        }
        same(step, record(step).await?, EntryStored::Stored)?;
        same(step, store.begin_step(&of, step, false).await?, knows("1", doubled))?;
    }
    Ok(())
}

pub(super) async fn only_the_holder_of_a_job_writes_its_journal(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w", 1).await?;
    let store = s.store();
    let before = s.facts().await?.len();
    for stranger in [of(entries[0], "other", 1), of(entries[0], "w", 2)] {
        let begun = store.begin_step(&stranger, "call", false).await?;
        same("another worker begins nothing", begun, EntryBegin::NotYours)?;
        let kept = store.record_step(&stranger, "call", "1", (kind::STEP, "{}"), &[]).await?;
        same("and keeps nothing", kept, EntryStored::NotYours)?;
    }
    same("nothing was reported", s.facts().await?.len(), before)?;
    let begun = store.begin_step(&of(entries[0], "w", 1), "call", false).await?;
    same("and nothing is known", begun, begins(1, false))
}
