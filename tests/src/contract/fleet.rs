//! Records of workers, and the state of queues.

use std::time::Duration;

use super::fixtures::{QUEUE, SHARD, new_run};
use super::{Outcome, Subject, holds, same};
use tidemill_common::ids::{EntryId, ShardId};
use tidemill_common::store::{Fleet, JobHeld, JobPlace, Jobs, NewRun};
use tidemill_common::wire::worker::AboutWorker;

const TTL: Duration = Duration::from_secs(60);

fn fleet_of(s: &Subject) -> &dyn Fleet {
    // Both traits of the store have the method.
    Jobs::fleet(s.store())
}

fn about(host: &str) -> AboutWorker {
    AboutWorker { host: host.into(), queues: vec![QUEUE.into()], ..AboutWorker::default() }
}

pub(super) async fn a_worker_is_listed_with_its_record(s: Subject) -> Outcome {
    let (store, fleet) = (s.store(), fleet_of(&s));
    same("none", fleet.workers().await?, vec![])?;
    store.announce_worker("b", TTL).await?;
    store.announce_worker("a", TTL).await?;
    same("the first", fleet.note_worker("b", TTL, 2, None).await?, true)?;
    same("again", fleet.note_worker("b", TTL, 3, Some(&about("h"))).await?, false)?;
    same("without what stays", fleet.note_worker("b", TTL, 4, None).await?, false)?;
    let listed = fleet.workers().await?;
    same("names", listed.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), vec!["a", "b"])?;
    same("without a record", (listed[0].held, listed[0].serves(QUEUE)), (None, None))?;
    same("held", listed[1].held, Some(4))?;
    same("what it is", listed[1].about.as_deref(), Some(&about("h")))?;
    same("queues", [QUEUE, "gpu"].map(|queue| listed[1].serves(queue)), [Some(true), Some(false)])?;
    store.retire_worker("b").await?;
    same("one has left", fleet.workers().await?.len(), 1)?;
    same("its record is gone", fleet.note_worker("b", TTL, 0, None).await?, true)
}

pub(super) async fn a_record_expires(s: Subject) -> Outcome {
    let (store, fleet) = (s.store(), fleet_of(&s));
    let ttl = s.control.lease();
    store.announce_worker("w", TTL).await?;
    fleet.note_worker("w", ttl, 1, Some(&about("h"))).await?;
    s.control.advance(ttl + Duration::from_millis(50)).await;
    let listed = fleet.workers().await?;
    same("it is listed", listed.len(), 1)?;
    same("without its record", (listed[0].held, listed[0].about.clone()), (None, None))
}

pub(super) async fn all_workers_use_one_salt_for_fingerprints(s: Subject) -> Outcome {
    let fleet = fleet_of(&s);
    same("the first", fleet.fingerprint_salt("one").await?, "one".to_string())?;
    same("later", fleet.fingerprint_salt("two").await?, "one".to_string())
}

pub(super) async fn the_names_of_queues_are_known_once_a_run_uses_them(s: Subject) -> Outcome {
    let fleet = fleet_of(&s);
    same("none", fleet.queue_names().await?, Vec::<String>::new())?;
    let queues = |n: u8, names: &[&str]| NewRun {
        queues: names.iter().map(|name| (*name).into()).collect(),
        ..new_run(n)
    };
    s.store().create_run(&queues(1, &["gpu", QUEUE])).await?;
    s.store().create_run(&queues(2, &[QUEUE])).await?;
    same("both", fleet.queue_names().await?, vec![QUEUE.to_string(), "gpu".to_string()])
}

pub(super) async fn jobs_of_a_queue_are_counted_with_their_places(s: Subject) -> Outcome {
    let fleet = fleet_of(&s);
    let empty = fleet.queue_state(SHARD, "none", &[EntryId::new(1, 0)]).await?;
    same("an unused queue", (empty.waiting, empty.held, empty.oldest), (0, 0, None))?;
    same("a job of it", empty.places, vec![JobPlace::default()])?;

    let (_owning, entries) = s.with_jobs(5).await?;
    let state = |asked: Vec<EntryId>| async move { fleet.queue_state(SHARD, QUEUE, &asked).await };
    let place = |before, held| JobPlace { before, held, queued_at: None };
    let all = state(vec![entries[3], entries[0]]).await?;
    same("no worker yet", (all.waiting, all.held, all.oldest), (5, 0, None))?;
    same(
        "in the order of the question",
        all.places,
        vec![place(3, JobHeld::Waits), place(0, JobHeld::Waits)],
    )?;

    s.deliver("w", 2).await?;
    let some = state(vec![entries[0], entries[2], entries[4]]).await?;
    same("two are held", (some.waiting, some.held, some.oldest), (3, 2, None))?;
    let held = JobHeld::By("w".into());
    same("held", some.places, vec![place(0, held), place(0, JobHeld::Waits), place(2, JobHeld::Waits)])?;

    s.store().hand_back(SHARD, QUEUE, "w", &[(entries[1], 1)]).await?;
    let back = state(vec![entries[1], entries[4]]).await?;
    same("a returned one waits", (back.waiting, back.held, back.oldest), (4, 1, None))?;
    same("before the others", back.places, vec![place(0, JobHeld::Waits), place(3, JobHeld::Waits)])?;

    let elsewhere = fleet.queue_state(ShardId(SHARD.0 + 1), QUEUE, &entries[..1]).await?;
    holds("another shard has its own jobs", elsewhere.waiting == 0)
}
