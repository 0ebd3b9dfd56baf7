//! Tests of limits with a store in memory whose clock the test moves.

use tidemill_common::clock::{ManualClock, Timestamp};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{App, NewRun, TriggerChanges};

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
async fn a_place_whose_run_was_refused_is_free_at_once_and_one_whose_run_exists_is_not() {
    let world = World::new();
    let limiter = world.limiter(1);
    let place = limiter.take("a", None, id(1)).await.unwrap().unwrap();
    limiter.not_used(place, &SubmitError::Busy).await;
    assert_eq!(world.taken(None).await, 0);
    let place = limiter.take("a", None, id(2)).await.unwrap().unwrap();
    world.run(id(2), None, RunStatus::Scheduled).await;
    limiter.not_used(place, &SubmitError::Busy).await;
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
        limiter.take("a", Some("k"), id(number)).await.unwrap();
        world.run(id(number), Some("k"), status).await;
    }
    // The process died before it created this run.
    limiter.take("a", Some("k"), id(9)).await.unwrap();
    let mut positions = HashMap::new();
    limiter.sweep(&SHARDS, &mut positions).await.unwrap();
    assert_eq!([world.taken(None).await, world.taken(Some("k")).await], [3, 3], "the last may come yet");
    world.clock.advance(Duration::from_secs(61));
    limiter.sweep(&[], &mut positions).await.unwrap();
    assert_eq!(world.taken(None).await, 3, "another scheduler looks at this app");
    limiter.sweep(&SHARDS, &mut positions).await.unwrap();
    assert_eq!([world.taken(None).await, world.taken(Some("k")).await], [2, 2]);
}

#[tokio::test]
async fn runs_that_began_before_the_limit_are_counted() {
    let world = World::new();
    for (number, status) in [(1, RunStatus::Running), (2, RunStatus::Scheduled), (3, RunStatus::Paused)] {
        world.run(id(number), None, status).await;
    }
    let limiter = world.limiter(0);
    limiter.count(&SHARDS).await.unwrap();
    assert_eq!(world.taken(None).await, 0, "nothing is limited");
    limiter.set(&app(), "a", Some(own(None, Some(2)))).await.unwrap();
    for _ in 0..2 {
        limiter.count(&SHARDS).await.unwrap();
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
        limiter.changes.try_send((place(number), change)).unwrap();
    }
    let (_stop, stopped) = tokio::sync::watch::channel(true);
    limiter.send_changes(stopped).await;
    let left = world.store.app_limits().places("a", 0, 10).await.unwrap();
    assert_eq!(left.into_iter().map(|(place, _)| place).collect::<Vec<_>>(), [place(2)]);
}

#[test]
fn a_limit_is_named_in_the_log_once_a_minute() {
    let limiter = World::new().limiter(1);
    let over = |of: &str| OverLimit {
        limited: Limited::Runs,
        by: Reached::App,
        of: of.into(),
        max: 1,
        is_own: false,
    };
    let noted = ["a", "a", "b"].map(|of| limiter.is_to_be_noted(&over(of)));
    assert_eq!(noted, [true, false, true]);
}
