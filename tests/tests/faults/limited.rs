//! Runs of apps with a limit, and a scheduler that dies between a change of a run and of its place: no run is lost or made
//! twice, and no place is lost.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::crash::{CRASH_POINTS, CrashPoint, Program};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;
use super::crash_points::{Armed, start};

/// A fleet with an app that may have one run at a time, and a scheduler that dies at a place.
struct World<'a> {
    cluster: &'a Cluster,
    app: String,
    client: Client,
    armed: Armed<'a>,
    name: &'static str,
}

async fn world(cluster: &Cluster, place: CrashPoint) -> World<'_> {
    let app = {
        let scheduler = cluster.scheduler().await;
        let admin = scheduler.client();
        let (app, _) = admin.register(&Flow::new("start -> end")).await;
        let request = admin.request(Method::PUT, &format!("/api/v1/apps/{app}/limits"));
        let set = admin.send(request.json(&json!({"runs_max": 1}))).await;
        assert_eq!(set.status, 200, "{}", set.text);
        app
    };
    let address = format!("127.0.0.1:{}", free_port());
    let (_, name, ..) = CRASH_POINTS.iter().find(|(it, ..)| *it == place).expect("a crash point");
    let process = start(cluster, Program::Scheduler, &address, Some(name));
    let mut armed = Armed { cluster, program: Program::Scheduler, address: address.clone(), process };
    armed.process.wait_for_log("scheduler started").await;
    let client = Client::new(&address, Some(ADMIN_KEY));
    World { cluster, app, client, armed, name }
}

impl World<'_> {
    /// Submits a run under an idempotency key. The scheduler may die meanwhile.
    async fn submit(&self) -> Option<Json> {
        let request = self.client.request(Method::POST, "/api/v1/runs").header("idempotency-key", "once");
        let answer = request.json(&json!({"app": self.app})).send().await.ok()?;
        let status = answer.status().as_u16();
        let body: Json = answer.json().await.ok()?;
        [200, 201].contains(&status).then_some(body)
    }

    async fn until_dead(&mut self) {
        self.armed.until_dead(self.name).await.unwrap_or_else(|error| panic!("{error}"));
        self.armed.process.wait_for_log("scheduler started").await;
    }

    fn places(&self) -> String {
        self.cluster.redis.cli(&["ZRANGE", &self.places_key(), "0", "-1"])
    }

    fn places_key(&self) -> String {
        format!("tm:limits:{{{}}}:runs", self.app)
    }

    fn runs(&self) -> String {
        self.cluster.redis.cli(&["ZCARD", "tm:{0}:runs"])
    }
}

async fn cluster() -> Cluster {
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    Cluster::start(&settings, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_whose_scheduler_dies_before_it_creates_the_run_is_given_back_and_the_run_is_made_once() {
    let cluster = cluster().await;
    let mut world = world(&cluster, CrashPoint::PlaceTaken).await;
    assert_eq!(world.submit().await, None, "the scheduler has answered");
    world.until_dead().await;
    let lost = world.places();
    assert!(!lost.is_empty() && world.runs() == "0", "a place without a run: {lost:?} {}", world.runs());

    // As if a minute had passed.
    cluster.redis.cli(&["ZADD", &world.places_key(), "XX", "1", &lost]);
    let made = until("the repeated request to be accepted", LONG, async || {
        world.submit().await.ok_or_else(|| world.places())
    })
    .await;
    let run = made["id"].as_str().expect("a run");
    assert_eq!(world.client.ended(run).await["status"], "succeeded");
    assert_eq!(world.submit().await.map(|again| again["id"].clone()), Some(run.into()));
    assert_eq!(world.runs(), "1", "the run was made once");
    until("its place to be free", LONG, async || {
        let held = world.places();
        if held.is_empty() { Ok(()) } else { Err(held) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_place_of_a_run_whose_scheduler_dies_after_its_end_is_given_back() {
    let cluster = cluster().await;
    let mut world = world(&cluster, CrashPoint::PlaceLeft).await;
    // The answer and the death race.
    world.submit().await;
    world.until_dead().await;
    assert_eq!(world.runs(), "1");
    let run = cluster.redis.cli(&["ZRANGE", "tm:{0}:runs", "0", "-1"]);
    assert_eq!(world.client.ended(&run).await["status"], "succeeded", "its end was written");
    until("its place to be free", LONG, async || {
        let held = world.places();
        if held.is_empty() { Ok(()) } else { Err(held) }
    })
    .await;
    let again = world.submit().await.expect("the same run");
    assert_eq!((again["id"].as_str(), world.runs().as_str()), (Some(run.as_str()), "1"));
    let next = world.client.submit(&json!({"app": world.app})).await;
    assert_eq!(world.client.ended(&next).await["status"], "succeeded");
}
