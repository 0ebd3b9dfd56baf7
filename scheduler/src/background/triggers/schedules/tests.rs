//! Tests of schedules with an in-memory store whose clock the test moves.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::{Clock, ManualClock, Timestamp};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{App, ListRuns};

use crate::background::triggers::register;
use crate::background::triggers::schedules::*;
use crate::shards::liveness::Liveness;
use crate::workflows::import;

const HOUR: Duration = Duration::from_secs(3600);
/// A full hour.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

struct World {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        Self { store: Arc::new(MemoryStore::new(clock.clone())), clock }
    }

    /// A scheduler that owns both shards.
    fn scheduler(&self) -> Schedules {
        let config = Arc::new(Config::default());
        let workflows = Arc::new(Workflows::new(&config, None));
        let lease = Arc::new(Lease::new("s".into(), 5_000, 1_000));
        for shard in [0, 1] {
            lease.keep(ShardId(shard), Arc::new(Liveness::default()));
        }
        let submitter = Arc::new(Submitter::new(self.store.clone(), config.clone(), workflows.clone()));
        Schedules::new(self.store.clone(), submitter, workflows, lease, &config)
    }

    /// Publishes a version of the app `a` and returns the id of its schedule.
    async fn publish(&self, cron: &str, catch_up: &str) -> String {
        let config = Config::default();
        let text = format!(
            r#"{{"nodes": [{{"id": "plan", "data": {{"type": "trigger-schedule", "mode": "cron", "cron_expression": "{cron}",
                "tidemill": {{"catch_up": "{catch_up}"}}}}}}, {{"id": "end", "data": {{"type": "end", "outputs": []}}}}],
                "edges": [{{"source": "plan", "target": "end"}}]}}"#
        );
        let (workflow, _) =
            import(&Arc::new(Workflows::new(&config, None)), text.into_bytes()).await.unwrap();
        let earlier = self.store.app("a").await.unwrap();
        let plan = register::plan(&*self.store, &workflow.graph, "a", earlier.as_ref(), self.clock.now())
            .await
            .unwrap();
        let app = App {
            id: "a".into(),
            version: workflow.graph.hash.to_string(),
            document: workflow.document.to_string(),
            triggers: plan.triggers.clone(),
            ..App::default()
        };
        self.store.put_app(&app, None, &plan.changes).await.unwrap();
        plan.triggers[0].1.clone()
    }

    async fn runs(&self) -> Vec<RunId> {
        self.store.list_runs(&ListRuns { limit: 100, ..ListRuns::default() }).await.unwrap()
    }

    async fn due(&self, id: &str) -> Option<Timestamp> {
        self.store.trigger(id).await.unwrap().and_then(|state| state.due)
    }
}

/// Looks until nothing is due.
async fn settle(schedules: &mut Schedules) {
    while schedules.poll(&[ShardId(0), ShardId(1)]).await.unwrap() == PollOutcome::Moved {}
}

#[tokio::test]
async fn each_time_starts_one_run_however_many_schedulers_look() {
    let world = World::new();
    let id = world.publish("0 * * * *", "last").await;
    let (mut one, mut two) = (world.scheduler(), world.scheduler());
    settle(&mut one).await;
    assert_eq!(world.runs().await, []);
    world.clock.advance(HOUR);
    tokio::join!(settle(&mut one), settle(&mut two));
    assert_eq!(world.runs().await.len(), 1);
    assert_eq!(world.due(&id).await, Some(START.plus(HOUR * 2)));
    world.clock.advance(HOUR);
    tokio::join!(settle(&mut two), settle(&mut one));
    assert_eq!(world.runs().await.len(), 2);
    let state = world.store.trigger(&id).await.unwrap().unwrap();
    assert_eq!((state.fired.run, state.fired.error), (Some(world.runs().await[0]), None));
}

#[tokio::test]
async fn missed_times_are_caught_up_as_the_file_says() {
    for (catch_up, runs) in [("last", 1), ("none", 0), ("all", 5)] {
        let world = World::new();
        let id = world.publish("0 * * * *", catch_up).await;
        world.clock.advance(HOUR * 5 + Duration::from_secs(600));
        settle(&mut world.scheduler()).await;
        assert_eq!(world.runs().await.len(), runs, "{catch_up}");
        assert_eq!(world.due(&id).await, Some(START.plus(HOUR * 6)), "{catch_up}");
    }
}

#[tokio::test]
async fn changed_times_give_a_new_due_time_and_unchanged_times_keep_it() {
    let world = World::new();
    let id = world.publish("0 * * * *", "last").await;
    world.clock.advance(HOUR + Duration::from_secs(1));
    assert_eq!(world.publish("0 * * * *", "last").await, id);
    assert_eq!(world.due(&id).await, Some(START.plus(HOUR)), "still due");
    world.publish("30 * * * *", "last").await;
    assert_eq!(world.due(&id).await, Some(START.plus(HOUR + HOUR / 2)));
}

#[tokio::test]
async fn a_schedule_whose_app_cannot_run_stays_due_and_stores_the_error() {
    let world = World::new();
    let id = world.publish("0 * * * *", "last").await;
    let app = world.store.app("a").await.unwrap().unwrap();
    let broken = App { document: "{}".into(), ..app.clone() };
    world.store.put_app(&broken, None, &Default::default()).await.unwrap();
    world.clock.advance(HOUR);
    settle(&mut world.scheduler()).await;
    let state = world.store.trigger(&id).await.unwrap().unwrap();
    assert_eq!((state.due, world.runs().await.len()), (Some(START.plus(HOUR)), 0));
    assert!(state.fired.error.is_some());
    world.store.put_app(&app, None, &Default::default()).await.unwrap();
    settle(&mut world.scheduler()).await;
    assert_eq!(world.runs().await.len(), 1);
    assert_eq!(world.store.trigger(&id).await.unwrap().unwrap().fired.error, None);
}

#[tokio::test]
async fn a_schedule_whose_node_is_gone_is_removed() {
    let world = World::new();
    let id = world.publish("0 * * * *", "last").await;
    let mut app = world.store.app("a").await.unwrap().unwrap();
    let (workflow, _) = import(
        &Arc::new(Workflows::new(&Config::default(), None)),
        br#"{"nodes": [{"id": "s", "data": {"type": "start", "variables": []}}], "edges": []}"#.to_vec(),
    )
    .await
    .unwrap();
    app.version = workflow.graph.hash.to_string();
    app.document = workflow.document.to_string();
    world.store.put_app(&app, None, &Default::default()).await.unwrap();
    world.clock.advance(HOUR);
    settle(&mut world.scheduler()).await;
    assert_eq!((world.due(&id).await, world.runs().await.len()), (None, 0));
}
