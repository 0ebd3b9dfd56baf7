//! Tests of the worker's two ends: its requests to the store, and the results it sends.

pub(crate) mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::ids::{EntryId, ShardId};
use tidemill_common::store::{Accepted, Completion, Delivered};

use crate::jobs::shared::Core;
use crate::jobs::{cancel, consume, heartbeat};
use crate::tests::fake::{BOOM, FakeJobs, config, core, delivered, execution, unreachable, until};

/// Starts the read loop and the listener for hints.
fn working(jobs: &Arc<FakeJobs>, permits: usize) -> Arc<Core> {
    let core = core(jobs, permits);
    tokio::spawn(consume::run(core.clone()));
    tokio::spawn(cancel::listen(core.clone()));
    core
}

async fn results(jobs: &FakeJobs, count: usize) -> Vec<Completion> {
    until("results", || jobs.results().len() >= count).await;
    jobs.results()
}

fn body(result: &Completion) -> Json {
    serde_json::from_str(&result.body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn short_jobs_are_handed_in_together_and_tell_nothing_before() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 8);
    // The first job fetches the graph.
    jobs.push(jobs.job(1, json!("a")));
    results(&jobs, 1).await;
    jobs.state().queued.extend([2, 3, 4].map(|entry| jobs.job(entry, json!("Zoë"))));
    jobs.push(jobs.job(5, json!("Zoë")));
    let all = results(&jobs, 5).await;
    assert_eq!(jobs.state().batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 4]);
    assert!(jobs.state().facts.is_empty());
    assert_eq!((all[4].kind, &body(&all[4])["outputs"]), ("done", &json!({"output": "Hello Zoë"})));
    until("nothing held", || core.in_flight.len() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn no_more_jobs_are_read_than_there_are_permits() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 2);
    (1..=5).for_each(|entry| jobs.push(jobs.hanging_job(entry)));
    until("two jobs run", || jobs.hanging.load(Ordering::SeqCst) == 2).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((core.in_flight.len(), jobs.state().queued.len()), (2, 3));
    assert!(jobs.state().reads.iter().all(|(streams, count, _)| streams.len() * count <= 2));
    // One job ends, and one more is read.
    jobs.state().lost.insert(EntryId::new(1, 0));
    heartbeat::beat(&core, &*jobs).await.unwrap();
    until("the next is read", || jobs.state().queued.len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn with_few_permits_every_stream_has_its_turn() {
    let jobs = FakeJobs::new();
    jobs.state().shards = 3;
    let _core = working(&jobs, 1);
    until("five reads", || jobs.state().reads.len() >= 5).await;
    let state = jobs.state();
    let turns: Vec<_> =
        state.reads.iter().map(|(streams, _, block)| (streams[0].0.0, block.as_millis())).collect();
    assert_eq!(turns[..5], [(0, 0), (1, 0), (2, 0), (0, 50), (1, 0)]);
    assert!(state.reads.iter().all(|(streams, count, _)| streams.len() == 1 && *count == 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_is_dropped_at_once_and_brings_nothing() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.push(jobs.hanging_job(1));
    until("it runs", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    jobs.state().lost.insert(EntryId::new(1, 0));
    let asked = tokio::time::Instant::now();
    jobs.cancel(execution(1));
    until("it is dropped", || jobs.hanging.load(Ordering::SeqCst) == 0).await;
    assert!(asked.elapsed() < Duration::from_millis(5));
    assert_eq!((core.in_flight.len(), jobs.results().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_means_an_earlier_attempt_stops_nothing() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.cancel(execution(1));
    until("heard", || core.remembered.contains(&execution(1))).await;
    jobs.push(jobs.hanging_job(1));
    until("asked", || jobs.state().asked.contains(&EntryId::new(1, 0))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((jobs.hanging.load(Ordering::SeqCst), core.in_flight.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_comes_after_its_cancellation_is_dropped() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.cancel(execution(1));
    until("heard", || core.remembered.contains(&execution(1))).await;
    jobs.state().lost.insert(EntryId::new(1, 0));
    jobs.push(jobs.hanging_job(1));
    until("asked", || !jobs.state().asked.is_empty()).await;
    until("dropped", || core.in_flight.len() == 0 && jobs.hanging.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_job_tells_that_it_started_before_it_ends() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.push(jobs.hanging_job(1));
    until("it runs", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(jobs.state().facts.is_empty());
    tokio::time::sleep(Duration::from_millis(15)).await;
    assert_eq!(jobs.state().arrived, ["started"]);
    // The job exceeds its time limit.
    tokio::time::sleep(core.settings.execution_max).await;
    let all = results(&jobs, 1).await;
    assert_eq!(jobs.state().arrived, ["started", "failed"]);
    assert_eq!(body(&all[0])["error_type"], "TimeoutError");
    assert_eq!(jobs.hanging.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_result_is_repeated_until_it_is_answered() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.state().answers.extend([Err(unreachable()), Err(unreachable()), Ok(Accepted::Stored)]);
    jobs.push(jobs.job(1, json!("a")));
    let all = results(&jobs, 3).await;
    assert!(all[0] == all[1] && all[1] == all[2]);
    until("nothing held", || core.in_flight.len() == 0).await;
    // A refused result is dropped.
    jobs.state().answers.push_back(Ok(Accepted::NotYours));
    jobs.push(jobs.job(2, json!("a")));
    results(&jobs, 4).await;
    until("nothing held", || core.in_flight.len() == 0).await;
    assert_eq!(jobs.results().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_store_cannot_take_does_not_hold_up_the_others() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    let nonsense = || {
        let reason = "WRONGTYPE".into();
        Err(tidemill_common::store::StoreError::Unexpected { doing: "testing", reason })
    };
    jobs.state().answers.extend([nonsense(), nonsense(), nonsense()]);
    jobs.push(jobs.job(1, json!("a")));
    results(&jobs, 3).await;
    until("released", || core.in_flight.len() == 0).await;
    jobs.push(jobs.job(2, json!("a")));
    assert_eq!(results(&jobs, 4).await[3].entry, EntryId::new(2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_large_output_is_stored_first_and_again_when_it_expired() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.state().answers.extend([Ok(Accepted::BlobMissing), Ok(Accepted::Stored)]);
    jobs.push(jobs.job(1, json!("x".repeat(9_000))));
    let all = results(&jobs, 2).await;
    until("nothing held", || core.in_flight.len() == 0).await;
    let (id, size) = all[1].blobs.last().unwrap().clone();
    let output = body(&all[1])["outputs"]["output"].clone();
    assert_eq!(output, json!({"$tm": "blob", "id": id.as_str(), "type": "string", "size": size}));
    let stored = jobs.state().stored.iter().filter(|it| **it == id).count();
    assert_eq!((stored, size), (2, 9_008));
}

#[tokio::test(start_paused = true)]
async fn an_input_that_came_as_a_blob_is_referred_to_by_the_same_blob() {
    let jobs = FakeJobs::new();
    let _core = working(&jobs, 4);
    let text = "y".repeat(9_000);
    jobs.state().blobs.insert("b1".into(), json!(text).to_string());
    jobs.push(jobs.job(1, json!({"$tm": "blob", "id": "b1", "type": "string", "size": 9_002})));
    let all = results(&jobs, 1).await;
    assert_eq!(body(&all[0])["inputs"]["name"]["id"], "b1");
    assert_eq!(all[0].blobs.len(), 1, "only the output was stored");
    // A missing blob fails the node.
    jobs.push(jobs.job(2, json!({"$tm": "blob", "id": "b2", "type": "string", "size": 9_002})));
    let all = results(&jobs, 2).await;
    assert_eq!((all[1].kind, &body(&all[1])["error_type"]), ("failed", &json!("BlobMissingError")));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_node_and_not_the_worker() {
    let jobs = FakeJobs::new();
    let _core = working(&jobs, 1);
    jobs.push(jobs.job(1, json!({"$tm": "blob", "id": BOOM, "type": "string", "size": 9})));
    let all = results(&jobs, 1).await;
    assert_eq!((all[0].kind, &body(&all[0])["error_type"]), ("failed", &json!("WorkerPanicError")));
    assert!(!all[0].body.contains("as told"));
    jobs.push(jobs.job(2, json!("a")));
    assert_eq!(results(&jobs, 2).await[1].kind, "done");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_lost_alone_too_often_is_given_up() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    tokio::time::sleep(core.settings.lease * 2).await;
    let mut job = jobs.hanging_job(1);
    job.number = 3;
    jobs.state().abandoned.push_back(job.clone());
    until("the third time it runs", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    job.number = 4;
    jobs.state().abandoned.push_back(job);
    let all = results(&jobs, 1).await;
    let it = body(&all[0]);
    assert_eq!((all[0].kind, all[0].number, &it["error_type"]), ("failed", 4, &json!("WorkerLostError")));
    assert_eq!(it["error"], "node t was delivered 3 times and no worker returned a result");
    assert_eq!(all[0].dead.as_ref().map(|dead| dead.what), Some("job"));
    let lost_at = it["lost_at"].as_i64().expect("the last sign of life of the dead worker is reported");
    assert!(lost_at < it["started_at"].as_i64().expect("a time"), "{it}");
    assert_eq!(jobs.state().cleared, ["dead"], "those that were suspected with it are cleared");
    // The attempt with the older delivery count was stopped.
    until("nothing runs", || jobs.hanging.load(Ordering::SeqCst) == 0 && core.in_flight.len() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_fail_over_delivers_to_its_holder_again_goes_on() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.push(jobs.hanging_job(1));
    until("it runs", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    jobs.push(jobs.hanging_job(1));
    jobs.push(jobs.job(2, json!("a")));
    let all = results(&jobs, 1).await;
    assert_eq!(all[0].kind, "done", "the read loop goes on");
    assert_eq!((jobs.hanging.load(Ordering::SeqCst), jobs.hung.load(Ordering::SeqCst)), (1, 1));
    until("only it is held", || core.in_flight.len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_a_lost_entry_count_on() {
    let jobs = FakeJobs::new();
    let _core = working(&jobs, 4);
    let mut job = jobs.job(1, json!("a"));
    let mut map: Json = serde_json::from_str(&job.body).unwrap();
    map["delivered"] = json!(2);
    job.body = map.to_string();
    jobs.push(job);
    let all = results(&jobs, 1).await;
    assert_eq!((all[0].number, &body(&all[0])["delivery"]), (1, &json!(3)));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_makes_no_sense_fails_its_node() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    let of = |change: Json| {
        let mut map: Json = serde_json::from_str(&jobs.job(1, json!("a")).body).unwrap();
        map.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        map.to_string()
    };
    let cases = [
        (of(json!({"node": "ghost"})), "has no node \"ghost\""),
        (of(json!({"graph": "0000"})), "not in the store"),
        (of(json!({"inputs": {"start": {"name": {"$tm": "riddle"}}}})), "riddle"),
    ];
    for (at, (text, says)) in cases.into_iter().enumerate() {
        jobs.push(delivered(at as u64 + 1, text));
        let last = results(&jobs, at + 1).await.pop().unwrap();
        let it = body(&last);
        assert_eq!((last.kind, &it["error_type"]), ("failed", &json!("EngineError")), "{says}");
        assert!(it["error"].as_str().unwrap().contains(says), "{it}");
        assert_eq!(it["attempt"], 1);
    }
    // This job names no node; it leaves the queue and is kept as a dead letter.
    jobs.push(delivered(9, "not JSON".into()));
    let last = results(&jobs, 4).await.pop().unwrap();
    assert_eq!(last.dead.map(|dead| dead.content), Some("(withheld)".into()));
    until("nothing held", || core.in_flight.len() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_newer_version_is_left_to_a_newer_worker() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    let mut map: Json = serde_json::from_str(&jobs.job(1, json!("a")).body).unwrap();
    map["v"] = json!(tidemill_common::wire::VERSION + 1);
    jobs.push(delivered(1, map.to_string()));
    until("it is returned", || jobs.state().handed_back == [(EntryId::new(1, 0), 1)]).await;
    jobs.push(jobs.job(2, json!("a")));
    assert_eq!(results(&jobs, 1).await[0].entry, EntryId::new(2, 0));
    until("nothing held", || core.in_flight.len() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn after_an_error_unknown_jobs_of_this_worker_are_run() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    jobs.push(jobs.hanging_job(1));
    until("it runs", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    {
        let mut state = jobs.state();
        state.pending.push(jobs.job(2, json!("lost on the way")));
        state.read_errors = 2;
    }
    let all = results(&jobs, 1).await;
    assert_eq!(all[0].entry, EntryId::new(2, 0));
    // A job already known does not start a second time.
    assert_eq!((core.in_flight.len(), jobs.hanging.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn only_what_was_handed_back_is_taken_in_the_first_lease_after_a_disturbance() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    let lease = core.settings.lease;
    tokio::time::sleep(lease - Duration::from_secs(1)).await;
    core.liveness.disturb();
    tokio::time::sleep(lease - Duration::from_secs(4)).await;
    let returned = jobs.job(1, json!("a"));
    jobs.state().returned.push_back(returned);
    assert_eq!(results(&jobs, 1).await[0].number, 1);
    assert_eq!(jobs.state().looks, 0);
    let mut job = jobs.job(2, json!("a"));
    job.number = 2;
    jobs.state().abandoned.push_back(job);
    let all = results(&jobs, 2).await;
    assert_eq!((all[1].number, all[1].kind), (2, "done"));
    // A single worker checks about once a second.
    let before = jobs.state().looks;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let looks = jobs.state().looks - before;
    assert!((10..=60).contains(&looks), "{looks}");
}

#[tokio::test(start_paused = true)]
async fn what_another_hands_back_is_taken_as_soon_as_it_is_told() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    core.liveness.set_fleet(1_000);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = tokio::time::Instant::now();
    jobs.give_back(jobs.job(1, json!("a")));
    results(&jobs, 1).await;
    assert!(told.elapsed() < Duration::from_millis(100), "{:?}", told.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_finds_many_abandoned_jobs_looks_for_more_at_once() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 64);
    tokio::time::sleep(core.settings.lease + Duration::from_secs(3)).await;
    let many: Vec<_> = (1..=40).map(|entry| Delivered { number: 2, ..jobs.job(entry, json!("a")) }).collect();
    core.liveness.set_fleet(1_000);
    jobs.state().abandoned.extend(many);
    results(&jobs, 1).await;
    let first = tokio::time::Instant::now();
    results(&jobs, 40).await;
    assert!(first.elapsed() < Duration::from_secs(3), "{:?}", first.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_renews_what_is_held_and_drops_what_is_lost() {
    let jobs = FakeJobs::new();
    let core = working(&jobs, 4);
    (1..=2).for_each(|entry| jobs.push(jobs.hanging_job(entry)));
    until("both run", || jobs.hanging.load(Ordering::SeqCst) == 2).await;
    jobs.state().lost.insert(EntryId::new(2, 0));
    heartbeat::beat(&core, &*jobs).await.unwrap();
    assert_eq!(jobs.state().asked.len(), 2);
    until("one is dropped", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    let left = core.in_flight.by_stream();
    assert_eq!(left[&(ShardId(0), "default".into())], [(EntryId::new(1, 0), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_hands_back_what_does_not_end_in_time() {
    let jobs = FakeJobs::new();
    let worker = crate::start(&config(4), jobs.clone()).await.unwrap();
    let mut job = jobs.hanging_job(1);
    job.number = 2;
    jobs.push(job);
    until("it runs", || jobs.hanging.load(Ordering::SeqCst) == 1).await;
    worker.stop(Duration::from_secs(3)).await;
    let state = jobs.state();
    assert_eq!(state.handed_back, [(EntryId::new(1, 0), 2)]);
    assert_eq!((state.batches.len(), state.dropped_consumers, state.retired), (0, 1, true));
    assert_eq!(jobs.hanging.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_results_and_takes_no_more_jobs() {
    let jobs = FakeJobs::new();
    let worker = crate::start(&config(4), jobs.clone()).await.unwrap();
    jobs.state().answers.extend([Err(unreachable()), Err(unreachable())]);
    jobs.push(jobs.job(1, json!("a")));
    until("it is on its way", || !jobs.results().is_empty()).await;
    let stopping = tokio::spawn(worker.stop(Duration::from_secs(5)));
    tokio::task::yield_now().await;
    jobs.push(jobs.job(2, json!("b")));
    stopping.await.unwrap();
    let state = jobs.state();
    assert_eq!((state.arrived.as_slice(), state.queued.len()), (["done"].as_slice(), 1));
    assert!(state.handed_back.is_empty());
}
