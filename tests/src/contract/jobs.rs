//! Jobs: delivery, completion and cancellation.

use std::time::Duration;

use super::fixtures::{LONG, NOW, QUEUE, SHARD, execution, job, run_id, take_back, write};
use super::{Outcome, Subject, holds, same};
use tidemill_common::ids::{BlobId, EntryId};
use tidemill_common::store::{Accepted, Completion, Delivered, Hint};
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::fact::kind;

/// The result of a job.
pub(super) fn result(entry: EntryId, number: u32) -> Completion {
    Completion {
        entry,
        number,
        run: run_id(1),
        kind: kind::DONE,
        body: format!("{{\"delivery\":{number}}}"),
        blobs: Vec::new(),
        dead: None,
    }
}

pub(super) fn deliveries(jobs: &[Delivered]) -> Vec<(EntryId, u32)> {
    jobs.iter().map(|job| (job.entry, job.number)).collect()
}

pub(super) async fn a_job_is_delivered_once(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    let jobs = s.deliver("w1", 1).await?;
    same("the first", deliveries(&jobs), vec![(entries[0], 1)])?;
    same("where it comes from", (jobs[0].shard, &*jobs[0].queue), (SHARD, QUEUE))?;
    same("the other, to another", deliveries(&s.deliver("w2", 10).await?), vec![(entries[1], 1)])?;
    same("nothing is left", s.deliver("w1", 10).await?, vec![])
}

/// A commit groups the jobs by run, even when they were created alternately.
pub(super) async fn jobs_of_several_runs_are_delivered_in_the_order_of_their_entries(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let entries: Vec<EntryId> = (0..3).map(|at| EntryId::new(owning.next(), at)).collect();
    let one = RunWrite { jobs: vec![job(1, entries[0]), job(1, entries[2])], ..write(1) };
    let two = RunWrite { jobs: vec![job(2, entries[1])], ..write(2) };
    owning.write(vec![one, two]).await?;
    let jobs = s.deliver("w", 10).await?;
    same("all of them", deliveries(&jobs), entries.iter().map(|entry| (*entry, 1)).collect())
}

pub(super) async fn readers_take_no_more_than_they_ask_for(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(5).await?;
    same("two", deliveries(&s.deliver("w", 2).await?), vec![(entries[0], 1), (entries[1], 1)])?;
    let mut reader = s.store().job_reader("w").await?;
    let both = [(SHARD, "gpu".into()), (SHARD, QUEUE.into())];
    let jobs = reader.read(&both, 2, NOW).await?;
    same("two of several streams", deliveries(&jobs), vec![(entries[2], 1), (entries[3], 1)])?;
    same("nothing of an empty stream", reader.read(&both[..1], 10, NOW).await?, vec![])
}

pub(super) async fn a_waiting_worker_gets_new_jobs(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let mut reader = s.store().job_reader("w").await?;
    let streams = [(SHARD, QUEUE.into())];
    let began = std::time::Instant::now();
    let (jobs, added) = tokio::join!(reader.read(&streams, 10, LONG), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        owning.add_jobs(&[1]).await
    });
    same("what came", deliveries(&jobs?), vec![(added?[0], 1)])?;
    holds("it returned before its time was up", began.elapsed() < LONG)?;
    same("then nothing", reader.read(&streams, 10, Duration::from_millis(30)).await?, vec![])
}

pub(super) async fn a_job_is_completed_once(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(2).await?;
    s.deliver("w", 10).await?;
    let before = s.facts().await?.len();
    let results = [result(entries[0], 1), result(entries[0], 1), result(entries[1], 2)];
    let accepted = s.store().complete(SHARD, QUEUE, "w", &results).await?;
    let expected = vec![Accepted::Stored, Accepted::NotYours, Accepted::NotYours];
    same("once, and by this delivery only", accepted, expected)?;
    let again = s.store().complete(SHARD, QUEUE, "w", &results[..1]).await?;
    same("repeated", again, vec![Accepted::NotYours])?;
    let other = s.store().complete(SHARD, QUEUE, "w2", &[result(entries[1], 1)]).await?;
    same("by another worker", other, vec![Accepted::NotYours])?;
    let facts = s.facts().await?;
    let found: Vec<_> = facts[before..].iter().map(|f| (&*f.kind, f.run_text(), f.body.as_str())).collect();
    same("its fact", found, vec![(kind::DONE, run_id(1).to_string(), "{\"delivery\":1}")])?;
    let lost = s.store().heartbeat(SHARD, QUEUE, "w", &entries).await?;
    same("the job is removed", lost, vec![entries[0]])
}

pub(super) async fn a_result_with_a_missing_blob_leaves_the_job(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    s.deliver("w", 1).await?;
    let before = s.facts().await?.len();
    let blob = BlobId::generate();
    let result = [Completion { blobs: vec![(blob.clone(), 6)], ..result(entries[0], 1) }];
    let refused = s.store().complete(SHARD, QUEUE, "w", &result).await?;
    same("without the blob", refused, vec![Accepted::BlobMissing])?;
    same("no fact", s.facts().await?.len(), before)?;
    same("still held", s.store().heartbeat(SHARD, QUEUE, "w", &entries).await?, vec![])?;
    s.store().store_blob(SHARD, &blob, "\"here\"").await?;
    let stored = s.store().complete(SHARD, QUEUE, "w", &result).await?;
    same("with the blob", stored, vec![Accepted::Stored])?;
    let pending = Duration::from_secs(tidemill_common::limits::BLOB_PENDING_SECONDS + 1);
    if pending <= s.control.patience() {
        s.control.advance(pending).await;
    }
    same("the blob stays", s.store().blob(SHARD, &blob).await?, Some("\"here\"".to_string()))
}

pub(super) async fn held_jobs_can_be_read_again(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(3).await?;
    let first = s.deliver("w1", 2).await?;
    s.deliver("w2", 1).await?;
    let held = s.store().held(SHARD, QUEUE, "w1").await?;
    same("its own", held.iter().map(|job| job.entry).collect(), entries[..2].to_vec())?;
    let body = |jobs: &[Delivered]| jobs.iter().map(|job| job.body.clone()).collect::<Vec<_>>();
    same("with their bodies", body(&held), body(&first))?;
    let results: Vec<_> = held.iter().map(|job| result(job.entry, job.number)).collect();
    let accepted = s.store().complete(SHARD, QUEUE, "w1", &results).await?;
    same("under the reported number", accepted, vec![Accepted::Stored; 2])?;
    same("nothing more", s.store().held(SHARD, QUEUE, "w1").await?, vec![])
}

pub(super) async fn a_cancelled_job_is_never_delivered(s: Subject) -> Outcome {
    let (mut owning, entries) = s.with_jobs(2).await?;
    owning.write(vec![RunWrite { taken_back: vec![take_back(1, entries[0])], ..write(1) }]).await?;
    same("the other only", deliveries(&s.deliver("w", 10).await?), vec![(entries[1], 1)])?;
    let taken = s.take_over("w2", Duration::ZERO, 10).await?;
    same("and never taken over", deliveries(&taken), vec![(entries[1], 2)])
}

pub(super) async fn a_cancelled_job_is_lost_to_its_holder(s: Subject) -> Outcome {
    let (mut owning, entries) = s.with_jobs(2).await?;
    s.deliver("w", 10).await?;
    owning.write(vec![RunWrite { taken_back: vec![take_back(1, entries[0])], ..write(1) }]).await?;
    let before = s.facts().await?.len();
    same("lost", s.store().heartbeat(SHARD, QUEUE, "w", &entries).await?, vec![entries[0]])?;
    let refused = s.store().complete(SHARD, QUEUE, "w", &[result(entries[0], 1)]).await?;
    same("its result", refused, vec![Accepted::NotYours])?;
    same("no fact", s.facts().await?.len(), before)
}

pub(super) async fn hints_arrive(s: Subject) -> Outcome {
    let (mut owning, entries) = s.with_jobs(2).await?;
    let mut hints = s.store().hints().await?;
    owning.write(vec![RunWrite { taken_back: vec![take_back(1, entries[0])], ..write(1) }]).await?;
    let next = tokio::time::timeout(LONG, hints.next()).await.ok().flatten();
    same("which", next, Some(Hint::Stop(execution(1))))?;
    s.deliver("w", 1).await?;
    s.store().hand_back(SHARD, QUEUE, "w", &[(entries[1], 1)]).await?;
    let next = tokio::time::timeout(LONG, hints.next()).await.ok().flatten();
    same("where", next, Some(Hint::HandedBack(SHARD)))
}

pub(super) async fn lost_jobs_are_the_jobs_that_no_worker_will_run(s: Subject) -> Outcome {
    let (mut owning, entries) = s.with_jobs(4).await?;
    s.deliver("w", 2).await?;
    s.store().complete(SHARD, QUEUE, "w", &[result(entries[0], 1)]).await?;
    owning.write(vec![RunWrite { taken_back: vec![take_back(1, entries[2])], ..write(1) }]).await?;
    let never = EntryId::new(owning.next(), 7);
    let asked = [entries.as_slice(), &[never]].concat();
    let lost = s.store().lost_jobs(SHARD, QUEUE, &asked).await?;
    same("done, taken back, never there", lost, vec![entries[0], entries[2], never])?;
    same("of an unknown queue", s.store().lost_jobs(SHARD, "none", &asked[..1]).await?, vec![entries[0]])
}

pub(super) async fn trimming_a_queue_loses_no_job(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(5).await?;
    s.store().trim_jobs(SHARD, "none").await?;
    s.store().trim_jobs(SHARD, QUEUE).await?;
    s.deliver("w", 3).await?;
    s.store().complete(SHARD, QUEUE, "w", &[result(entries[0], 1)]).await?;
    s.store().trim_jobs(SHARD, QUEUE).await?;
    let held: Vec<EntryId> =
        s.store().held(SHARD, QUEUE, "w").await?.into_iter().map(|job| job.entry).collect();
    same("the held jobs", held, entries[1..3].to_vec())?;
    let waiting: Vec<EntryId> = s.deliver("w", 10).await?.into_iter().map(|job| job.entry).collect();
    same("what waits", waiting, entries[3..].to_vec())
}
