//! Tests of limits with a store in memory whose clock the test moves.

use tidemill_common::clock::{ManualClock, Timestamp};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{App, NewRun, PlaceChange, TriggerChanges};

use super::*;
use crate::submit::SubmitError;

const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);
const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];

struct World {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        Self { store: Arc::new(MemoryStore::new(clock.clone())), clock }
    }

    /// The limiter of a scheduler with these defaults for the runs of apps.
    fn limiter(&self, app_runs_max: u64) -> Limiter {
        Limiter::new(self.store.clone(), &SchedulerConfig { app_runs_max, ..SchedulerConfig::default() })
    }

    /// Creates a run of an app, and of a key if given.
    async fn run(&self, run: RunId, key: Option<&str>, status: RunStatus) {
        let mut fields = vec![("app", "a".to_string()), ("status", status.name().to_string())];
        fields.push(("created_at", START.micros().to_string()));
        fields.extend(key.map(|key| ("key", key.to_string())));
        let new = NewRun {
            id: run,
            graph: ("hash".into(), "{}".into()),
            fields,
            kind: "start",
            start: "{}".into(),
            queues: Vec::new(),
            blobs: Vec::new(),
            created_at: START,
            schedule: None,
            called: None,
            has_files: false,
            takes_messages: None,
        };
        self.store.create_run(&new).await.unwrap();
    }

    /// The runs that hold places.
    async fn places(&self) -> Vec<RunId> {
        let found = self.store.app_limits().places("a", 0, 1000).await.unwrap().found;
        found.into_iter().map(|(place, _)| place.run).collect()
    }

    async fn taken(&self, key: Option<&str>) -> u64 {
        self.store.app_limits().places_taken("a", key).await.unwrap()
    }
}

fn id(number: u64) -> RunId {
    RunId::new(number, 1, SHARDS[usize::from(number % 2 == 1)])
}

fn own(requests_per_second: Option<u64>, runs_max: Option<u64>) -> OwnLimits {
    OwnLimits { requests_per_second, runs_max }
}

/// The signal to stop, as it is given already.
fn stopped() -> tokio::sync::watch::Receiver<bool> {
    tokio::sync::watch::channel(true).1
}

fn app() -> LimitOf {
    LimitOf::App("a".into())
}

#[tokio::test]
async fn an_app_without_a_limit_asks_the_store_for_nothing() {
    let world = World::new();
    let limiter = world.limiter(0);
    limiter.refresh().await.unwrap();
    let before = world.store.requests();
    limiter.admit("a", Some("k")).await.unwrap();
    assert!(limiter.take("a", Some("k"), id(1)).await.unwrap().is_none());
    assert_eq!(world.store.requests(), before);
}

#[tokio::test]
async fn own_limits_replace_the_defaults_and_zero_is_no_limit() {
    let world = World::new();
    let limiter = world.limiter(7);
    let runs = |limiter: &Limiter| limiter.known_max(Limited::Runs, "a", Some("k"));
    assert_eq!(runs(&limiter), LimitsMax { app: 7, key: 0 });
    limiter.set(&app(), "a", Some(own(Some(5), None))).await.unwrap();
    assert_eq!(runs(&limiter), LimitsMax { app: 7, key: 0 });
    assert_eq!(limiter.known_max(Limited::Requests, "a", None), LimitsMax { app: 5, key: 0 });
    limiter.set(&LimitOf::Key("k".into()), "a", Some(own(None, Some(2)))).await.unwrap();
    limiter.set(&app(), "a", Some(own(None, Some(0)))).await.unwrap();
    assert_eq!(runs(&limiter), LimitsMax { app: 0, key: 2 });
    limiter.set(&app(), "a", None).await.unwrap();
    assert_eq!(runs(&limiter), LimitsMax { app: 7, key: 2 });
    assert_eq!(limiter.known_max(Limited::Runs, ":datasets", None), LimitsMax::default());
}

#[tokio::test]
async fn two_schedulers_hold_one_bound_together() {
    let world = World::new();
    let (one, two) = (world.limiter(2), world.limiter(2));
    one.take("a", None, id(1)).await.unwrap();
    two.take("a", None, id(2)).await.unwrap();
    for limiter in [&one, &two] {
        let refused = limiter.take("a", None, id(3)).await.unwrap_err();
        let said = "this app may have at most 2 runs at the same time; try again when one of them has ended \
                    (scheduler.app_runs_max)";
        assert!(matches!(&refused, SubmitError::OverLimit(_)) && refused.to_string() == said, "{refused}");
    }
    one.set(&app(), "a", Some(own(Some(1), None))).await.unwrap();
    two.refresh().await.unwrap();
    one.admit("a", None).await.unwrap();
    let refused = two.admit("a", None).await.unwrap_err().to_string();
    let said = "this app may have at most 1 requests a second; try again in a second (requests_per_second, set \
                for the app a)";
    assert_eq!(refused, said);
}

#[tokio::test]
async fn a_place_whose_run_was_refused_is_free_at_once_and_one_whose_run_works_is_not() {
    let world = World::new();
    let limiter = world.limiter(1);
    let place = limiter.take("a", None, id(1)).await.unwrap().unwrap();
    limiter.not_used(place).await;
    assert_eq!(world.taken(None).await, 0);
    // The run existed before and has ended, as that of a schedule that is tried again.
    let place = limiter.take("a", None, id(2)).await.unwrap().unwrap();
    world.run(id(2), None, RunStatus::Succeeded).await;
    limiter.not_used(place).await;
    assert_eq!(world.taken(None).await, 0);
    let place = limiter.take("a", None, id(3)).await.unwrap().unwrap();
    world.run(id(3), None, RunStatus::Scheduled).await;
    limiter.not_used(place).await;
    assert_eq!(world.taken(None).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_ends_before_its_run_was_sent_gives_its_place_back() {
    let world = World::new();
    let limiter = Arc::new(world.limiter(3));
    let mut sent = limiter.take("a", None, id(1)).await.unwrap().unwrap();
    limiter.keep(&mut sent).await.unwrap();
    sent.is_sent();
    let left = limiter.take("a", None, id(2)).await.unwrap().unwrap();
    // A repeated request shares the place of the first one, and gives nothing back.
    let shared = limiter.take("a", None, id(1)).await.unwrap().unwrap();
    drop((sent, left, shared));
    assert_eq!(world.taken(None).await, 2);
    limiter.clone().send_changes(stopped()).await;
    assert_eq!(world.places().await, [id(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_taken_again_after_a_long_check_is_given_back_once() {
    let world = World::new();
    let limiter = Arc::new(world.limiter(3));
    let mut place = limiter.take("a", None, id(1)).await.unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    limiter.keep(&mut place).await.unwrap();
    // The request that held it for both was refused.
    let mut shared = limiter.take("a", None, id(1)).await.unwrap().unwrap();
    limiter.not_used(place).await;
    assert_eq!(world.taken(None).await, 0);
    limiter.keep(&mut shared).await.unwrap();
    assert_eq!(world.taken(None).await, 1);
    drop(shared);
    limiter.clone().send_changes(stopped()).await;
    assert_eq!(world.taken(None).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_lost_before_its_run_was_created_is_free_after_a_minute() {
    let world = World::new();
    let limiter = world.limiter(1);
    // The process died between the two.
    limiter.take("a", None, id(1)).await.unwrap().unwrap().is_sent();
    assert!(limiter.take("a", None, id(2)).await.is_err());
    world.clock.advance(Duration::from_secs(61));
    assert!(limiter.take("a", None, id(2)).await.is_err(), "a full app is looked at once a second");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(limiter.take("a", None, id(2)).await.is_ok(), "no other scheduler has to look");
    assert_eq!(world.places().await, [id(2)]);
}

#[tokio::test]
async fn a_limit_that_was_removed_and_set_again_refuses_no_run_that_has_room() {
    let world = World::new();
    let limiter = world.limiter(0);
    limiter.set(&app(), "a", Some(own(None, Some(1)))).await.unwrap();
    limiter.take("a", None, id(1)).await.unwrap().unwrap().is_sent();
    limiter.set(&app(), "a", None).await.unwrap();
    // It ends while nothing is counted.
    world.run(id(1), None, RunStatus::Succeeded).await;
    limiter.set(&app(), "a", Some(own(None, Some(1)))).await.unwrap();
    assert!(limiter.full("a", None).await.unwrap().is_none());
    assert!(limiter.take("a", None, id(2)).await.is_ok());
}

#[tokio::test]
async fn only_a_change_of_a_limit_of_runs_lets_runs_be_counted_at_once() {
    let world = World::new();
    let limiter = world.limiter(0);
    let changes = || limiter.changes_of_runs.load(Ordering::Relaxed);
    limiter.set(&app(), "a", Some(own(Some(5), None))).await.unwrap();
    assert_eq!(changes(), 0);
    for (runs_max, count) in [(Some(3), 1), (Some(3), 1), (Some(4), 2), (None, 3)] {
        limiter.set(&app(), "a", Some(own(Some(5), runs_max))).await.unwrap();
        assert_eq!(changes(), count);
    }
    limiter.set(&app(), "a", Some(own(None, None))).await.unwrap();
    assert!(world.store.app_limits().limits_set().await.unwrap().is_empty(), "nothing is set");
}

#[tokio::test]
async fn a_full_app_is_seen_before_anything_is_taken() {
    let world = World::new();
    let limiter = world.limiter(2);
    limiter.set(&LimitOf::Key("k".into()), "a", Some(own(None, Some(1)))).await.unwrap();
    assert!(limiter.full("a", Some("k")).await.unwrap().is_none());
    limiter.take("a", Some("k"), id(1)).await.unwrap().unwrap().is_sent();
    let full = limiter.full("a", Some("k")).await.unwrap();
    assert_eq!(full, Some((Reached::Key, LimitsMax { app: 2, key: 1 })));
    assert!(limiter.full("a", None).await.unwrap().is_none());
    assert_eq!(world.taken(None).await, 1);
}

#[tokio::test]
async fn the_sweep_frees_places_without_a_run_that_works() {
    let world = World::new();
    let app = App { id: "a".into(), ..App::default() };
    world.store.put_app(&app, None, &TriggerChanges::default()).await.unwrap();
    let limiter = world.limiter(10);
    let statuses = [
        RunStatus::Scheduled,
        RunStatus::Running,
        RunStatus::Paused,
        RunStatus::Succeeded,
        RunStatus::Failed,
    ];
    for (number, status) in (1..).zip(statuses) {
        limiter.take("a", Some("k"), id(number)).await.unwrap().unwrap().is_sent();
        world.run(id(number), Some("k"), status).await;
    }
    // The process died before it created this run.
    limiter.take("a", Some("k"), id(9)).await.unwrap().unwrap().is_sent();
    limiter.sweep(&SHARDS).await;
    assert_eq!([world.taken(None).await, world.taken(Some("k")).await], [3, 3], "the last may come yet");
    world.clock.advance(Duration::from_secs(61));
    limiter.sweep(&[]).await;
    assert_eq!(world.taken(None).await, 3, "another scheduler looks at this app");
    limiter.sweep(&SHARDS).await;
    assert_eq!([world.taken(None).await, world.taken(Some("k")).await], [2, 2]);
}

#[tokio::test]
async fn runs_that_began_before_the_limit_are_counted() {
    let world = World::new();
    for (number, status) in [(1, RunStatus::Running), (2, RunStatus::Scheduled), (3, RunStatus::Paused)] {
        world.run(id(number), None, status).await;
    }
    let limiter = world.limiter(0);
    limiter.count(&SHARDS).await;
    assert_eq!(world.taken(None).await, 0, "nothing is limited");
    limiter.set(&app(), "a", Some(own(None, Some(2)))).await.unwrap();
    for _ in 0..2 {
        limiter.count(&SHARDS).await;
        assert_eq!(world.taken(None).await, 2);
    }
    assert!(limiter.take("a", None, id(4)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn changes_of_places_reach_the_store_in_their_order_and_the_task_ends_after_the_stop() {
    let world = World::new();
    let limiter = Arc::new(world.limiter(3));
    let place = |number| RunPlace { app: "a".into(), key: None, run: id(number) };
    for (number, change) in [(1, PlaceChange::Hold), (2, PlaceChange::Hold), (1, PlaceChange::Give)] {
        limiter.changes.try_send((place(number), Some(change))).unwrap();
    }
    limiter.send_changes(stopped()).await;
    assert_eq!(world.places().await, [id(2)]);
}

#[test]
fn the_log_names_the_same_thing_once_a_minute() {
    let noted = Mutex::default();
    assert_eq!(["a", "a", "b"].map(|of| is_first(&noted, of)), [true, false, true]);
}

#[tokio::test]
async fn runs_of_a_shard_that_does_not_answer_keep_their_places_and_others_are_compared() {
    let world = World::new();
    let limiter = world.limiter(0);
    let [away, here] = [id(1), id(2)];
    limiter.set(&app(), "a", Some(own(None, Some(5)))).await.unwrap();
    for run in [away, here] {
        limiter.take("a", None, run).await.unwrap().unwrap().is_sent();
        world.run(run, None, RunStatus::Succeeded).await;
    }
    world.run(id(4), None, RunStatus::Running).await;
    world.run(id(3), None, RunStatus::Running).await;
    world.store.silence(away.shard());
    limiter.sweep(&SHARDS).await;
    assert_eq!(world.places().await, [away]);
    limiter.count(&SHARDS).await;
    assert_eq!(world.places().await, [id(4), away]);
}

#[tokio::test]
async fn a_sweep_looks_at_all_places_of_an_app() {
    let world = World::new();
    let limiter = world.limiter(0);
    limiter.set(&app(), "a", Some(own(None, Some(1)))).await.unwrap();
    let place = |number| RunPlace { app: "a".into(), key: None, run: id(number) };
    // More than two pages of runs that do not exist, and one that works among the last.
    let all: Vec<_> = (1..=1200).map(|number| (place(number), PlaceChange::Hold)).collect();
    world.store.app_limits().change_places(&all).await.unwrap();
    world.run(id(1100), None, RunStatus::Running).await;
    limiter.sweep(&SHARDS).await;
    assert_eq!(world.places().await, [id(1100)]);
}
