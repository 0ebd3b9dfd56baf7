//! Masters that Sentinels watch: they fail over by plan and by a crash while runs go on, and a master that is cut off, but
//! keeps the connections of the processes, gets no write after the Sentinels have named another.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::patient::Patient;
use tidemill_tests::sentinels::Sentinels;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

/// The longest time that a run may take here.
const END_MAX: Duration = Duration::from_secs(120);

/// Two schedulers and two workers, and a model that answers slowly.
struct Fleet {
    redis: Sentinels,
    schedulers: [Scheduler; 2],
    _workers: [Worker; 2],
    _cluster: Cluster,
    text: String,
    _model: Running,
}

impl Fleet {
    async fn on(redis: Sentinels) -> Self {
        let pieces = llm::many_pieces(60);
        let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
        let own = redis.settings();
        let mut settings = QUICK.to_vec();
        settings.push(("scheduler.shards", "3"));
        settings.extend(own.iter().map(|(key, value)| (*key, value.as_str())));
        let cluster = Cluster::start(&settings, Some(&model)).await.at(&redis.url());
        let schedulers = [cluster.scheduler().await, cluster.scheduler().await];
        let workers = [cluster.worker().await, cluster.worker().await];
        Self { redis, schedulers, _workers: workers, _cluster: cluster, text: pieces.concat(), _model: model }
    }

    fn client(&self) -> Client {
        self.schedulers[0].client()
    }

    fn patient(&self) -> Patient {
        Patient::new(self.schedulers.iter().map(|scheduler| scheduler.address.clone()).collect())
    }

    /// Submits runs and waits until each has begun to answer, and the replicas have that.
    async fn begun(&self, count: usize) -> Vec<String> {
        let body = json!({"workflow": chat().text(), "inputs": {}, "user": "u"});
        let mut runs = Vec::new();
        for n in 0..count {
            runs.push(self.patient().submit(&body, &format!("begun {n}")).await.expect("it is accepted"));
        }
        for run in &runs {
            self.client().follow(run, None).await.until_text("<2>").await;
        }
        runs
    }

    /// Waits until all of these have ended well, and their followers have seen the whole answer.
    async fn all_end(&self, runs: &[String]) {
        for run in runs {
            let followed = self.patient().follow(run, END_MAX).await;
            let followed = followed.unwrap_or_else(|(_, trouble)| panic!("{run}: {trouble:?}"));
            assert_eq!(followed.transcript.text(), self.text, "{run} after {} resets", followed.resets);
        }
    }

    /// Submits until a run is accepted that the master of the moment has, and prints after how long that was. The old one may
    /// accept some more before the processes have left it.
    #[allow(clippy::print_stderr, reason = "how long it took depends on the machine, so it is only shown")]
    async fn first_kept(&self, what: &str, since: Instant) -> String {
        let mut lost = 0;
        loop {
            let run = self.first_accepted().await;
            let (took, key) = (since.elapsed(), format!("tm:*:run:{run}"));
            let master = &self.redis.servers[self.redis.master()];
            if master.cli(&["--scan", "--pattern", &key]).contains(&run) {
                let took = took.as_millis();
                eprintln!(
                    "{what}: the first submission was accepted after {took} ms ({lost} by the old master before)"
                );
                return run;
            }
            lost += 1;
        }
    }

    /// Submits until a run is accepted.
    async fn first_accepted(&self) -> String {
        let client = self.client();
        until("a run to be accepted", END_MAX, async || {
            let answer = client.post("/api/v1/runs", &short()).await;
            match answer.status {
                201 => Ok(answer.body["id"].as_str().expect("an id").to_string()),
                503 => Err(answer.text),
                status => panic!("{status} {}", answer.text),
            }
        })
        .await
    }
}

fn short() -> Json {
    json!({"workflow": Flow::new("start -> end").text(), "inputs": {}, "user": "u"})
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_when_sentinels_fail_over_as_planned() {
    let fleet = Fleet::on(Sentinels::start().await).await;
    let runs = fleet.begun(6).await;
    let old = fleet.redis.master();
    fleet.redis.begin_fail_over().await;
    fleet.redis.another_than(old).await;
    let named = Instant::now();
    let run = fleet.first_kept("a planned fail-over, since the Sentinels named the new master", named).await;
    // The Sentinels turn the old master into a replica some seconds later: until then it is a master without clients.
    until("no process to be connected to the old master", LONG, async || {
        let open = fleet.redis.connections(old);
        if open.is_empty() { Ok(()) } else { Err(open.join("\n")) }
    })
    .await;
    eprintln!("all processes had left the old master after {} ms", named.elapsed().as_millis());
    fleet.client().ended_within(&run, END_MAX).await;
    fleet.all_end(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_when_the_master_that_sentinels_watch_dies() {
    let mut fleet = Fleet::on(Sentinels::start().await).await;
    let runs = fleet.begun(6).await;
    let old = fleet.redis.master();
    fleet.redis.servers[old].kill();
    let killed = Instant::now();
    let run = fleet.first_kept("a crash of the master, down after 1000 ms", killed).await;
    fleet.redis.another_than(old).await;
    fleet.client().ended_within(&run, END_MAX).await;
    fleet.all_end(&runs).await;
    // The old one comes back, is made a replica, and takes part in the next fail-over.
    fleet.redis.servers[old].restart().await;
    fleet.redis.settled().await;
    let new = fleet.redis.master();
    fleet.redis.servers[new].kill();
    let run = fleet.first_kept("a second crash", Instant::now()).await;
    fleet.client().ended_within(&run, END_MAX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_cut_off_and_keeps_its_connections_gets_no_write_after_the_switch() {
    let mut fleet = Fleet::on(Sentinels::start().await).await;
    let runs = fleet.begun(4).await;
    let old = fleet.redis.master();
    assert!(!fleet.redis.connections(old).is_empty());
    fleet.redis.cut_off(old);
    let new = fleet.redis.another_than(old).await;
    // It still says that it is the master, and answers everybody.
    assert!(fleet.redis.servers[old].cli(&["ROLE"]).starts_with("master"));
    let named = Instant::now();
    for scheduler in &mut fleet.schedulers {
        scheduler.process.wait_for_log("another server is the master of Redis").await;
    }
    until("no process to be connected to the old master", LONG, async || {
        let open = fleet.redis.connections(old);
        if open.is_empty() { Ok(()) } else { Err(open.join("\n")) }
    })
    .await;
    eprintln!("all processes had left the old master after {} ms", named.elapsed().as_millis());
    fleet.redis.servers[old].cli(&["CONFIG", "RESETSTAT"]);
    let mut accepted = Vec::new();
    for _ in 0..20 {
        accepted.push(fleet.first_accepted().await);
    }
    for run in &accepted {
        fleet.client().ended_within(run, END_MAX).await;
        let key = format!("tm:*:run:{run}");
        assert!(fleet.redis.servers[new].cli(&["--scan", "--pattern", &key]).contains(run), "{run} is lost");
    }
    let stats = fleet.redis.servers[old].cli(&["INFO", "commandstats"]);
    // Each commit and each script has one of these. An EXEC alone is a Sentinel's attempt to make it a replica.
    let writes = ["cmdstat_evalsha", "cmdstat_set", "cmdstat_xadd", "cmdstat_hset"];
    assert!(fleet.redis.servers[old].cli(&["ROLE"]).starts_with("master"), "it is still cut off");
    assert!(!writes.iter().any(|write| stats.contains(&format!("{write}:"))), "{stats}");
    fleet.all_end(&runs).await;
    fleet.redis.let_in(old);
    fleet.redis.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_is_down_at_the_start_and_another_one_later_hold_up_nothing() {
    let mut redis = Sentinels::start().await;
    redis.kill_sentinel(0);
    let mut fleet = Fleet::on(redis).await;
    let run = fleet.first_kept("one Sentinel down", Instant::now()).await;
    fleet.client().ended_within(&run, END_MAX).await;
    fleet.redis.restart_sentinel(0);
    fleet.redis.settled().await;
    // Without any Sentinel the master stays what it is.
    for sentinel in 0..3 {
        fleet.redis.kill_sentinel(sentinel);
    }
    let run = fleet.first_kept("no Sentinel", Instant::now()).await;
    fleet.client().ended_within(&run, END_MAX).await;
    for sentinel in 0..3 {
        fleet.redis.restart_sentinel(sentinel);
    }
    fleet.redis.settled().await;
    let old = fleet.redis.master();
    fleet.redis.servers[old].kill();
    let run = fleet.first_kept("a crash after that", Instant::now()).await;
    fleet.client().ended_within(&run, END_MAX).await;
}
