//! Redis Clusters that lose servers while runs go on: a master dies or hangs and its replica takes over, a master without a
//! replica stops its own shards only, servers are added and removed, and processes are cut off from a master.

use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::check::answered;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::llm;
use tidemill_tests::patient::Patient;
use tidemill_tests::process::Process;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::workspace;

use super::{QUICK, chat};

/// Enough for each master to have some.
const SHARDS: u16 = 6;
/// The longest time that a run may take here: a fail-over, and what it costs a busy machine.
const END_MAX: Duration = Duration::from_secs(120);

/// Two schedulers and two workers on a cluster, and a model that answers slowly.
struct Fleet {
    redis: RedisCluster,
    schedulers: [Scheduler; 2],
    _workers: [Worker; 2],
    cluster: Cluster,
    text: String,
    _model: Running,
}

impl Fleet {
    async fn start() -> Self {
        Self::on(RedisCluster::start().await).await
    }

    async fn on(redis: RedisCluster) -> Self {
        let pieces = llm::many_pieces(60);
        let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
        let shards = SHARDS.to_string();
        let mut settings = QUICK.to_vec();
        settings.push(("scheduler.shards", &shards));
        let cluster = Cluster::start(&settings, Some(&model)).await.at(&redis.url());
        let schedulers = [cluster.scheduler().await, cluster.scheduler().await];
        let workers = [cluster.worker().await, cluster.worker().await];
        Self { redis, schedulers, _workers: workers, cluster, text: pieces.concat(), _model: model }
    }

    fn patient(&self) -> Patient {
        Patient::new(self.schedulers.iter().map(|scheduler| scheduler.address.clone()).collect())
    }

    fn client(&self) -> Client {
        self.schedulers[0].client()
    }

    fn body() -> Json {
        json!({"workflow": chat().text(), "inputs": {}, "user": "u"})
    }

    /// Submits runs and waits until each has begun to answer.
    async fn begun(&self, count: usize) -> Vec<String> {
        let patient = self.patient();
        let mut runs = Vec::new();
        for n in 0..count {
            runs.push(patient.submit(&Self::body(), &format!("begun {n}")).await.expect("it is accepted"));
        }
        join_all(runs.iter().map(async |run| {
            let mut follower = self.client().follow(run, None).await;
            follower.until_text("<2>").await;
        }))
        .await;
        runs
    }

    /// Waits until all of these have ended well, and their followers have seen the whole answer.
    async fn all_end(&self, runs: &[String]) {
        let patient = self.patient();
        let ended = join_all(runs.iter().map(async |run| (run, patient.follow(run, END_MAX).await))).await;
        for (run, followed) in ended {
            let followed = followed.unwrap_or_else(|(_, trouble)| panic!("{run}: {trouble:?}"));
            assert_eq!(followed.transcript.text(), self.text, "{run} after {} resets", followed.resets);
            answered(&patient.run(run).await.expect("it is there"), &self.text);
        }
    }

    /// The master that has a shard.
    async fn master_of(&self, shard: u64, asked: usize) -> usize {
        let slot = self.redis.slot_of(&format!("tm:{{{shard}}}:fence")).await;
        self.redis.owner_of(slot, asked).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_when_a_master_dies_and_its_replica_takes_over() {
    let mut fleet = Fleet::start().await;
    let runs = fleet.begun(12).await;
    let shard = fleet.client().run(&runs[0]).await["shard"].as_u64().expect("a shard");
    let master = fleet.master_of(shard, 0).await;
    fleet.redis.servers[master].kill();
    fleet.redis.is_master(fleet.redis.replica_of(master)).await;
    fleet.all_end(&runs).await;
    // The old one comes back as a replica of the new one.
    fleet.redis.servers[master].restart().await;
    fleet.redis.is_whole().await;
    let runs = fleet.begun(6).await;
    fleet.all_end(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_when_the_master_with_the_keys_of_the_namespace_dies() {
    let mut fleet = Fleet::start().await;
    let runs = fleet.begun(6).await;
    let slot = fleet.redis.slot_of("{tm}:meta").await;
    let master = fleet.redis.owner_of(slot, 0).await;
    fleet.redis.servers[master].kill();
    fleet.redis.is_master(fleet.redis.replica_of(master)).await;
    fleet.all_end(&runs).await;
    let more = fleet.begun(6).await;
    fleet.all_end(&more).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_master_is_replaced_and_writes_nothing_when_it_wakes() {
    let mut fleet = Fleet::start().await;
    let runs = fleet.begun(12).await;
    let shard = fleet.client().run(&runs[0]).await["shard"].as_u64().expect("a shard");
    let master = fleet.master_of(shard, 0).await;
    fleet.redis.servers[master].process().freeze();
    fleet.redis.is_master(fleet.redis.replica_of(master)).await;
    fleet.all_end(&runs).await;
    fleet.redis.servers[master].process().thaw();
    fleet.redis.is_whole().await;
    let runs = fleet.begun(6).await;
    fleet.all_end(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_without_a_replica_that_is_down_stops_its_own_shards_only() {
    let mut fleet = Fleet::start().await;
    let slot = fleet.redis.slot_of("{tm}:meta").await;
    let home = fleet.redis.owner_of(slot, 0).await;
    let down = (home + 1) % 3;
    let mut of_down = Vec::new();
    for shard in 0..u64::from(SHARDS) {
        if fleet.master_of(shard, 0).await == down {
            of_down.push(shard);
        }
    }
    assert!(!of_down.is_empty() && of_down.len() < usize::from(SHARDS), "{of_down:?} are on master {down}");
    let runs = fleet.begun(12).await;
    let replica = fleet.redis.replica_of(down);
    fleet.redis.servers[replica].kill();
    fleet.redis.servers[down].kill();

    let (mut waiting, mut going_on) = (Vec::new(), Vec::new());
    for run in &runs {
        // The last 14 bits of the id are the shard, and can be read from it alone.
        let low = u64::from_str_radix(&run[run.len() - 12..], 16).expect("a UUID");
        if of_down.contains(&(low & 0x3fff)) { waiting.push(run.clone()) } else { going_on.push(run.clone()) }
    }
    fleet.all_end(&going_on).await;
    // New runs are accepted on the other shards, and end.
    let client = fleet.client();
    let mut accepted = Vec::new();
    until("runs to be accepted on the other shards", LONG, async || {
        let answer = client.post("/api/v1/runs", &Fleet::body()).await;
        match answer.status {
            201 => accepted.push(answer.body["id"].as_str().expect("an id").to_string()),
            503 => {}
            _ => panic!("{} {}", answer.status, answer.text),
        }
        if accepted.len() < 6 { Err(answer.text) } else { Ok(()) }
    })
    .await;
    fleet.all_end(&accepted).await;

    fleet.redis.servers[down].restart().await;
    fleet.redis.servers[replica].restart().await;
    fleet.redis.is_whole().await;
    fleet.all_end(&waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_go_on_when_all_servers_that_they_were_told_of_are_gone() {
    let mut fleet = Fleet::start().await;
    let runs = fleet.begun(6).await;
    // The two servers in `redis.url`, one after the other: the rest has to be a majority each time.
    for named in [0, 2] {
        let replica = fleet.redis.replica_of(named);
        fleet.redis.servers[named].kill();
        fleet.redis.is_master(replica).await;
        fleet.redis.is_whole().await;
        if named == 0 {
            // A process that starts now finds the others through the second one.
            fleet.cluster.worker().await;
        }
    }
    fleet.all_end(&runs).await;
    let runs = fleet.begun(6).await;
    fleet.all_end(&runs).await;
}

/// Runs the commands of the page that move slots or promote a replica: those with this word.
async fn drill(redis: &RedisCluster, word: &str) {
    let page = std::fs::read_to_string(workspace().join("docs/operations.md")).expect("the page");
    let mut blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains(word)).expect("the page has it");
    let port = redis.servers[0].port().to_string();
    let script = block.replace("HOST=10.0.0.1\nPORT=6379", &format!("set -eu\nHOST=127.0.0.1\nPORT={port}"));
    assert_ne!(script, block, "it names a server");
    let folder = tempfile::tempdir().expect("there is room for a temporary folder");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path());
    let mut process = Process::spawn("the drill", command, folder.path().join("drill.log"));
    let end = process.ended(END_MAX).await;
    assert!(end.success(), "{}", process.log_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_drills_of_the_page_hold_while_runs_go_on() {
    let fleet = Fleet::start().await;
    let runs = fleet.begun(12).await;
    let before = fleet.redis.masters().await;
    drill(&fleet.redis, "CLUSTER FAILOVER").await;
    fleet.redis.is_whole().await;
    assert_ne!(fleet.redis.masters().await, before, "a replica was promoted");
    fleet.all_end(&runs).await;
    let runs = fleet.begun(12).await;
    drill(&fleet.redis, "--cluster reshard").await;
    fleet.all_end(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_added_and_removed_while_runs_go_on() {
    let mut fleet = Fleet::start().await;
    let mut runs = fleet.begun(6).await;
    let new = fleet.redis.add().await;
    let shard = fleet.client().run(&runs[0]).await["shard"].as_u64().expect("a shard");
    let slots =
        [fleet.redis.slot_of(&format!("tm:{{{shard}}}:fence")).await, fleet.redis.slot_of("{tm}:meta").await];
    let mut owners = Vec::new();
    for slot in slots {
        let owner = fleet.redis.owner_of(slot, 0).await;
        fleet.redis.move_slot(slot, owner, new).await;
        owners.push(owner);
    }
    let patient = fleet.patient();
    for n in 0..6 {
        runs.push(
            patient.submit(&Fleet::body(), &format!("on the new one {n}")).await.expect("it is accepted"),
        );
    }
    for (slot, owner) in slots.into_iter().zip(owners) {
        fleet.redis.move_slot(slot, new, owner).await;
    }
    fleet.redis.remove(new).await;
    fleet.all_end(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_are_cut_off_from_a_master_go_on_when_it_can_be_reached_again() {
    let mut redis = RedisCluster::start().await;
    redis.put_proxies().await;
    let fleet = Fleet::on(redis).await;
    let runs = fleet.begun(12).await;
    let shard = fleet.client().run(&runs[0]).await["shard"].as_u64().expect("a shard");
    let master = fleet.master_of(shard, 0).await;
    // The other servers still see it, so its replica stays what it is.
    fleet.redis.close(master);
    let client = fleet.client();
    until("a write to the master to be refused", LONG, async || {
        let answer = client.post("/api/v1/runs", &Fleet::body()).await;
        if answer.status == 503 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    fleet.redis.open(master);
    fleet.all_end(&runs).await;
}
