//! Jobs that move to another worker.

use std::time::Duration;

use super::fixtures::{QUEUE, SHARD, taken};
use super::jobs::{deliveries, result};
use super::{Outcome, Subject, holds, same, steps};
use tidemill_common::ids::{Delivery, EntryId};
use tidemill_common::store::{Accepted, EntryBegin, EntryStored, Note, StaleJob, TakeOver};
use tidemill_common::wire::fact::kind;
use tidemill_common::wire::suspect::Suspect;

pub(super) async fn a_silent_job_is_taken_over_with_a_higher_number(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    let idle = s.control.lease();
    let store = s.store();
    let jobs = s.deliver("w1", 10).await?;
    same("too early", s.take_over("w2", idle, 10).await?, vec![])?;
    s.control.advance(idle * 5 / 4).await;
    let taken = s.take_over("w2", idle, 1).await?;
    same("no more than asked for", deliveries(&taken), vec![(entries[0], 2)])?;
    same("with its body", (&taken[0].body, &taken[0].run), (&jobs[0].body, &jobs[0].run))?;
    let old = store.complete(SHARD, QUEUE, "w1", &[result(entries[0], 1)]).await?;
    same("the old holder", old, vec![Accepted::NotYours])?;
    let old = store.complete(SHARD, QUEUE, "w1", &[result(entries[0], 2)]).await?;
    same("not under the new number either", old, vec![Accepted::NotYours])?;
    let new = store.complete(SHARD, QUEUE, "w2", &[result(entries[0], 2)]).await?;
    same("the new holder", new, vec![Accepted::Stored])?;
    let late = store.complete(SHARD, QUEUE, "w1", &[result(entries[1], 1)]).await?;
    same("silent, but not taken over", late, vec![Accepted::Stored])
}

pub(super) async fn a_heartbeat_keeps_a_job(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    let idle = s.control.lease();
    s.deliver("w1", 10).await?;
    for _ in 0..3 {
        s.control.advance(idle / 2).await;
        same("lost", s.store().heartbeat(SHARD, QUEUE, "w1", &entries[..1]).await?, vec![])?;
    }
    let taken = s.take_over("w2", idle, 10).await?;
    same("only the silent one is taken over", deliveries(&taken), vec![(entries[1], 2)])
}

pub(super) async fn a_heartbeat_returns_lost_jobs(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    let idle = s.control.lease();
    s.deliver("w1", 10).await?;
    s.control.advance(idle * 5 / 4).await;
    s.take_over("w2", idle, 1).await?;
    let never = EntryId::new(1, 1);
    let asked = [entries[0], entries[1], never];
    let lost = s.store().heartbeat(SHARD, QUEUE, "w1", &asked).await?;
    same("one taken over, one that never existed", lost, vec![entries[0], never])?;
    s.control.advance(idle * 5 / 4).await;
    s.store().heartbeat(SHARD, QUEUE, "w1", &entries[..1]).await?;
    let taken = s.take_over("w3", idle, 10).await?;
    holds("it stays lost to its old holder", deliveries(&taken).contains(&(entries[0], 3)))
}

pub(super) async fn held_streams_are_the_streams_with_a_held_job(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    let streams = [(SHARD, QUEUE.into()), (SHARD, "none".into())];
    same("not handed out", s.store().are_held(&streams).await?, vec![false, false])?;
    s.deliver("w1", 10).await?;
    same("in hand", s.store().are_held(&streams).await?, vec![true, false])?;
    s.store().hand_back(SHARD, QUEUE, "w1", &[(entries[0], 1)]).await?;
    same("handed back", s.store().are_held(&streams).await?, vec![true, false])?;
    s.take_over("w2", s.control.lease(), 10).await?;
    s.store().complete(SHARD, QUEUE, "w2", &[result(entries[0], 1 + Delivery::HAND_BACK)]).await?;
    same("done", s.store().are_held(&streams).await?, vec![false, false])
}

pub(super) async fn the_idle_time_of_a_held_job_counts_from_the_last_heartbeat(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(3).await?;
    let idle = s.control.lease();
    let none = s.store().idle_of(SHARD, "none", &entries[..1]).await?;
    same("of a queue that no worker has read", none, vec![None])?;
    s.deliver("w1", 2).await?;
    s.control.advance(idle).await;
    s.store().heartbeat(SHARD, QUEUE, "w1", &entries[..1]).await?;
    let found = s.store().idle_of(SHARD, QUEUE, &entries).await?;
    let is_long: Vec<Option<bool>> = found.iter().map(|found| found.map(|found| found >= idle)).collect();
    same("renewed, silent, and held by no worker", is_long, vec![Some(false), Some(true), None])?;
    s.store().hand_back(SHARD, QUEUE, "w1", &[(entries[0], 1)]).await?;
    same("handed back", s.store().idle_of(SHARD, QUEUE, &entries[..1]).await?, vec![None])
}

pub(super) async fn a_job_that_is_handed_back_is_taken_at_once_and_not_counted(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    s.deliver("w1", 10).await?;
    s.store().hand_back(SHARD, QUEUE, "w1", &[(entries[0], 1)]).await?;
    let refused = s.store().complete(SHARD, QUEUE, "w1", &[result(entries[0], 1)]).await?;
    same("the old holder no longer has it", refused, vec![Accepted::NotYours])?;
    let taken = s.take_over("w2", s.control.lease(), 10).await?;
    // Higher than the previous holder's number, but not counted.
    let number = 1 + Delivery::HAND_BACK;
    same("at once, with its own number", deliveries(&taken), vec![(entries[0], number)])?;
    let counted = Delivery { consumer: "w2".into(), number }.counted();
    same("which counts as the first", counted, 1)?;
    same("it is not lost", s.store().lost_jobs(SHARD, QUEUE, &entries).await?, vec![])?;
    let accepted = s.store().complete(SHARD, QUEUE, "w2", &[result(entries[0], number)]).await?;
    same("the new holder's result", accepted, vec![Accepted::Stored])
}

pub(super) async fn only_the_holder_hands_back(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w1", 10).await?;
    s.store().hand_back(SHARD, QUEUE, "w2", &[(entries[0], 1)]).await?;
    s.store().hand_back(SHARD, QUEUE, "w1", &[(entries[0], 2)]).await?;
    let taken = s.take_over("w2", s.control.lease(), 10).await?;
    same("nothing to take over", taken, vec![])?;
    let accepted = s.store().complete(SHARD, QUEUE, "w1", &[result(entries[0], 1)]).await?;
    same("the holder's result", accepted, vec![Accepted::Stored])
}

pub(super) async fn a_job_is_handed_back_once(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w1", 10).await?;
    s.store().hand_back(SHARD, QUEUE, "w1", &[(entries[0], 1)]).await?;
    // A worker that shuts down returns all jobs that the store lists as held.
    let held: Vec<_> =
        s.store().held(SHARD, QUEUE, "w1").await?.iter().map(|j| (j.entry, j.number)).collect();
    s.store().hand_back(SHARD, QUEUE, "w1", &held).await?;
    let taken = s.take_over("w2", s.control.lease(), 10).await?;
    same("the same as after one", deliveries(&taken), vec![(entries[0], 1 + Delivery::HAND_BACK)])
}

pub(super) async fn forgetting_consumers_loses_no_job(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w1", 10).await?;
    s.store().drop_consumers(SHARD, QUEUE, "w1", Duration::ZERO).await?;
    same("still held", deliveries(&s.store().held(SHARD, QUEUE, "w1").await?), vec![(entries[0], 1)])?;
    let accepted = s.store().complete(SHARD, QUEUE, "w1", &[result(entries[0], 1)]).await?;
    same("its result", accepted, vec![Accepted::Stored])?;
    s.store().drop_consumers(SHARD, QUEUE, "w1", Duration::ZERO).await?;
    same("holds nothing", s.store().held(SHARD, QUEUE, "w1").await?, vec![])
}

pub(super) async fn xc_02_a_worker_that_lost_a_job_records_nothing_of_it(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    let (idle, store) = (s.control.lease(), s.store());
    s.deliver("w1", 1).await?;
    let (old, new) = (steps::of(entries[0], "w1", 1), steps::of(entries[0], "w2", 2));
    let begun = store.begin_step(&old, "call", false).await?;
    same("it begins an entry", begun, steps::begins(1, false))?;
    s.control.advance(idle * 5 / 4).await;
    let taken = s.take_over("w2", idle, 1).await?;
    same("and loses the job", deliveries(&taken), vec![(entries[0], 2)])?;
    let before = s.facts().await?.len();
    let kept = store.record_step(&old, "call", "\"late\"", (kind::STEP, "{}"), &[]).await?;
    same("its result is refused", kept, EntryStored::NotYours)?;
    let again = store.begin_step(&old, "call", false).await?;
    same("and another try of the entry", again, EntryBegin::NotYours)?;
    let end = store.complete(SHARD, QUEUE, "w1", &[result(entries[0], 1)]).await?;
    same("and the end of the job", end, vec![Accepted::NotYours])?;
    same("nothing is reported", s.facts().await?.len(), before)?;
    // The next holder finds the begun try and no result.
    let begun = store.begin_step(&new, "call", false).await?;
    same("the try is known", begun, steps::begins(1, true))?;
    let kept = store.record_step(&new, "call", "\"new\"", (kind::STEP, "{}"), &[]).await?;
    same("the new holder records", kept, EntryStored::Stored)
}

/// The stale jobs of the queue.
async fn stale(s: &Subject, idle: Duration) -> Result<Vec<StaleJob>, super::Broken> {
    Ok(s.store().stale(&[(SHARD, QUEUE.into())], idle).await?.jobs)
}

pub(super) async fn a_stale_job_shows_its_holder_its_number_and_its_record(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(3).await?;
    let idle = s.control.lease();
    s.deliver("w1", 3).await?;
    same("none is stale", stale(&s, idle).await?, vec![])?;
    s.control.advance(idle * 5 / 4).await;
    s.store().heartbeat(SHARD, QUEUE, "w1", &entries[2..]).await?;
    let seen = stale(&s, idle).await?;
    let shown: Vec<_> = seen.iter().map(|job| (job.entry, job.holder.as_str(), job.number)).collect();
    same("two are", shown, vec![(entries[0], "w1", 1), (entries[1], "w1", 1)])?;
    holds("for a lease or more", seen.iter().all(|job| job.idle >= idle && job.suspect.is_none()))?;
    let none = [(SHARD, "none".into())];
    same("a queue that was never read", s.store().stale(&none, idle).await?.jobs, vec![])
}

pub(super) async fn only_a_job_that_is_as_it_was_seen_is_taken_or_noted(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(3).await?;
    let (idle, store) = (s.control.lease(), s.store());
    s.deliver("w1", 3).await?;
    s.control.advance(idle * 5 / 4).await;
    let seen = stale(&s, idle).await?;
    let record =
        |size| Suspect { holder: "w1".into(), size, lost: 1, origin: "w1".into(), ..Suspect::default() };
    let noted = |job, size| TakeOver { new_number: None, ..taken(job, Note::Write(record(size))) };
    // Two workers decide on what they saw at the same moment.
    let first = [taken(&seen[0], Note::Write(record(3))), noted(&seen[1], 3)];
    let got = store.take_over(SHARD, QUEUE, "w2", idle, &first).await?;
    same("the first gets what it asked for", deliveries(&got), vec![(entries[0], 2)])?;
    let second = [noted(&seen[0], 9), taken(&seen[0], Note::Remove), taken(&seen[1], Note::Leave)];
    let got = store.take_over(SHARD, QUEUE, "w3", idle, &second).await?;
    same("the second only the other one", deliveries(&got), vec![(entries[1], 2)])?;
    let wrong = TakeOver { number: 2, ..taken(&seen[2], Note::Write(record(9))) };
    same("another number", store.take_over(SHARD, QUEUE, "w3", idle, &[wrong]).await?, vec![])?;
    s.control.advance(idle * 5 / 4).await;
    let records: Vec<_> = stale(&s, idle).await?.into_iter().map(|job| (job.holder, job.suspect)).collect();
    let expected = vec![("w2".into(), Some(record(3))), ("w3".into(), Some(record(3))), ("w1".into(), None)];
    same("the records", records, expected)
}

pub(super) async fn a_job_that_shows_a_sign_of_life_meanwhile_is_not_taken(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    let (idle, store) = (s.control.lease(), s.store());
    s.deliver("w1", 1).await?;
    s.control.advance(idle * 5 / 4).await;
    let seen = stale(&s, idle).await?;
    store.heartbeat(SHARD, QUEUE, "w1", &entries).await?;
    let asked = [taken(&seen[0], Note::Write(Suspect::default()))];
    same("taken", store.take_over(SHARD, QUEUE, "w2", idle, &asked).await?, vec![])?;
    let accepted = store.complete(SHARD, QUEUE, "w1", &[result(entries[0], 1)]).await?;
    same("its result", accepted, vec![Accepted::Stored])
}

pub(super) async fn a_record_is_removed_on_request_and_a_cleared_origin_is_remembered(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    let (idle, store) = (s.control.lease(), s.store());
    let streams = [(SHARD, QUEUE.into())];
    s.deliver("w1", 2).await?;
    s.control.advance(idle * 5 / 4).await;
    let seen = stale(&s, idle).await?;
    let record = Suspect { origin: "w1".into(), ..Suspect::default() };
    let note = |job| TakeOver { new_number: None, ..taken(job, Note::Write(record.clone())) };
    store.take_over(SHARD, QUEUE, "w2", idle, &[note(&seen[0]), note(&seen[1])]).await?;
    store.forget_suspects(SHARD, QUEUE, &entries[..1]).await?;
    let records = |jobs: Vec<StaleJob>| jobs.into_iter().map(|job| job.suspect).collect::<Vec<_>>();
    same("one is left", records(stale(&s, idle).await?), vec![None, Some(record.clone())])?;
    same("none is cleared", store.stale(&streams, idle).await?.cleared.len(), 0)?;
    store.clear_suspects("w1").await?;
    holds("cleared", store.stale(&streams, idle).await?.cleared.contains("w1"))?;
    let removed = TakeOver { new_number: None, ..taken(&seen[1], Note::Remove) };
    store.take_over(SHARD, QUEUE, "w2", idle, &[removed]).await?;
    same("none is left", records(stale(&s, idle).await?), vec![None, None])
}
