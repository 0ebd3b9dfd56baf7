//! Jobs that kill each worker that begins them, and the jobs beside them.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running as Model;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Worker};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

/// Longest time until a poison job is found; each death takes about two leases.
const FOUND_MAX: Duration = Duration::from_secs(180);
/// The duration of an innocent job, in milliseconds. All are held when the first worker dies.
const INNOCENT_MS: u64 = 3_000;

/// A fleet whose workers are killed whenever they begin a poison job.
struct Stage {
    cluster: Cluster,
    model: Model,
    client: Client,
    workers: Vec<Worker>,
    /// Each poison run, and how often a worker began it.
    poison: Vec<(String, usize)>,
    innocent: Vec<String>,
    kills: usize,
}

impl Stage {
    async fn with(
        workers: usize,
        poison: usize,
        innocent: usize,
    ) -> (Self, tidemill_tests::cluster::Scheduler) {
        let model = llm::rules(json!([{"match": {"contains": "poison"}, "reply": "x", "delay_ms": 120_000},
            {"match": {}, "reply": "fine", "delay_ms": INNOCENT_MS}]))
        .await;
        let cluster = Cluster::start(&QUICK, Some(&model)).await;
        let scheduler = cluster.scheduler().await;
        let client = scheduler.client();
        let mut stage =
            Self { cluster, model, client, workers: vec![], poison: vec![], innocent: vec![], kills: 0 };
        // The runs wait for a worker, so that the workers take all jobs at once.
        for _ in 0..innocent {
            stage.innocent.push(stage.client.start(&chat(), &[]).await);
        }
        for number in 0..poison {
            let flow = chat().prompt("llm", &format!("poison-{number}."));
            stage.poison.push((stage.client.start(&flow, &[]).await, 0));
        }
        for run in stage.innocent.iter().chain(stage.poison.iter().map(|(run, _)| run)) {
            stage.client.node_is(run, "llm", "queued").await;
        }
        for _ in 0..workers {
            stage.workers.push(stage.cluster.worker().await);
        }
        (stage, scheduler)
    }

    /// Kills each worker that begins a poison job, and starts another one, until all runs have ended.
    async fn play(&mut self) {
        let began = std::time::Instant::now();
        loop {
            for at in 0..self.poison.len() {
                let asked = self.asked(&format!("poison-{at}."));
                if asked > self.poison[at].1 {
                    self.poison[at].1 = asked;
                    self.kill_holder(&self.poison[at].0.clone()).await;
                }
            }
            let open = self.open_runs().await;
            if open == 0 {
                return;
            }
            let log = self.workers.iter().map(|worker| worker.process.tail()).collect::<Vec<_>>();
            assert!(began.elapsed() < FOUND_MAX, "{open} runs are open, {} kills: {log:?}", self.kills);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the worker that holds the job of this run, if there is one.
    async fn kill_holder(&mut self, run: &str) {
        let Some(holder) = self.holder(run).await else { return };
        let Some(at) = self.workers.iter().position(|worker| worker.consumer == holder) else { return };
        self.workers.remove(at).process.kill();
        self.kills += 1;
        self.workers.push(self.cluster.worker().await);
    }

    async fn holder(&self, run: &str) -> Option<String> {
        let shown = self.client.run(run).await;
        let node = shown["nodes"].as_array()?.iter().find(|node| node["id"] == "llm")?.clone();
        let jobs = format!("tm:{{{}}}:jobs:default", shown["shard"]);
        let entry = node["job"].as_str()?;
        let held: Vec<(String, String, u64, u64)> =
            self.cluster.redis.ask(&["XPENDING", &jobs, "workers", entry, entry, "1"]).await;
        held.into_iter().next().map(|(_, consumer, ..)| consumer)
    }

    /// How often the model was asked something with this word.
    fn asked(&self, word: &str) -> usize {
        self.model.requests().iter().filter(|request| request.to_string().contains(word)).count()
    }

    async fn open_runs(&self) -> usize {
        let mut open = 0;
        for run in self.innocent.iter().chain(self.poison.iter().map(|(run, _)| run)) {
            let status = self.client.run(run).await["status"].clone();
            open += usize::from(status == "running" || status == "scheduled");
        }
        open
    }

    /// Checks that the poison runs failed, and only they.
    async fn only_poison_failed(&self) {
        for run in &self.innocent {
            let shown = self.client.run(run).await;
            assert_eq!(shown["status"], "succeeded", "{shown:#}");
        }
        for (run, begun) in &self.poison {
            let shown = self.client.run(run).await;
            assert_eq!(shown["status"], "failed", "{shown:#}");
            let node = shown["nodes"].as_array().into_iter().flatten().find(|node| node["id"] == "llm");
            let error = node.map_or(Json::Null, |node| node["error"].clone()).to_string();
            assert!(error.contains("no worker returned a result"), "{error} after {begun} begins");
        }
        let letters = self.client.get("/api/v1/dead").await.body;
        let count = letters["data"].as_array().map_or(0, Vec::len);
        assert_eq!(count, self.poison.len(), "{letters:#}");
        // A worker that dies, or was only slow, between a result and the removal of its record leaves the record.
        let keys: Vec<String> = self.cluster.redis.ask(&["KEYS", "tm:*suspects*"]).await;
        for key in keys {
            let left: i64 = self.cluster.redis.ask(&["PTTL", &key]).await;
            assert!(left > 0, "{key} stays forever");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_job_fails_alone_on_one_worker() {
    let (mut stage, _scheduler) = Stage::with(1, 1, 20).await;
    stage.play().await;
    stage.only_poison_failed().await;
    assert!((3..=12).contains(&stage.kills), "{} workers died", stage.kills);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_job_fails_alone_on_four_workers() {
    let (mut stage, _scheduler) = Stage::with(4, 1, 20).await;
    stage.play().await;
    stage.only_poison_failed().await;
    assert!((3..=12).contains(&stage.kills), "{} workers died", stage.kills);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_poison_jobs_fail_and_the_jobs_beside_them_succeed() {
    let (mut stage, _scheduler) = Stage::with(2, 2, 12).await;
    stage.play().await;
    stage.only_poison_failed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_workers_die_at_once_again_and_again_no_job_is_given_up() {
    let (mut stage, _scheduler) = Stage::with(3, 0, 30).await;
    // No job ends before all workers have died four times, however long they take to begin the jobs. A worker takes at
    // most half as many suspects as the one that died, so fewer jobs begin at each round.
    stage.model.hold(true);
    let mut before = 0;
    for begins in [30, 9, 3, 3] {
        until("jobs to be begun again", LONG, async || {
            let begun = stage.asked("messages") - before;
            if begun >= begins { Ok(()) } else { Err(format!("{begun} of {begins}")) }
        })
        .await;
        before = stage.asked("messages");
        stage.workers.iter_mut().for_each(|worker| worker.process.kill());
        stage.workers.clear();
        for _ in 0..3 {
            stage.workers.push(stage.cluster.worker().await);
        }
    }
    assert_eq!(stage.open_runs().await, 30, "every job was held by a worker that died");
    stage.model.hold(false);
    stage.play().await;
    stage.only_poison_failed().await;
    assert_eq!(stage.kills, 0);
}
