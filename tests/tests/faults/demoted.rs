//! A Redis master that was demoted and keeps its connections: it answers every write with READONLY.

use tidemill_tests::check::answered;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::redis::Redis;
use tidemill_tests::switching_proxy::SwitchingProxy;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

/// What the old master does.
#[derive(Clone, Copy, PartialEq)]
enum Old {
    Demoted,
    /// It goes on as a master, without replicas.
    CutOff,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_on_the_new_master_although_the_old_one_keeps_its_connections() {
    continues_after(Old::Demoted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_on_the_new_master_although_the_old_one_is_still_a_master_without_replicas() {
    continues_after(Old::CutOff).await;
}

async fn continues_after(what: Old) {
    let pieces = llm::many_pieces(60);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (old, new) = (&cluster.redis, Redis::start().await);
    new.cli(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    until("the replica to have all data", LONG, async || {
        let info = new.cli(&["INFO", "replication"]);
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
    let proxy = SwitchingProxy::start(old.port()).await;
    let start = |program: &str| {
        let mut command = cluster.command(program);
        command.args(["--listen", "127.0.0.1:0"]).env("TIDEMILL_REDIS_URL", proxy.url());
        cluster.spawn(program, command)
    };
    let mut scheduler = start("tidemill-scheduler");
    let address =
        scheduler.wait_for_log("scheduler started").await["address"].as_str().unwrap_or("").to_string();
    let mut worker = start("tidemill-worker");
    worker.wait_for_log("worker started").await;
    let client = tidemill_tests::client::Client::new(&address, Some(tidemill_tests::cluster::ADMIN_KEY));

    let run = client.start(&chat(), &[]).await;
    client.follow(&run, None).await.until_text("<3>").await;
    proxy.switch_to(new.port());
    if what == Old::CutOff {
        old.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    }
    new.cli(&["REPLICAOF", "NO", "ONE"]);
    if what == Old::Demoted {
        old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    }

    answered(&client.ended(&run).await, &pieces.concat());
    assert!(new.cli(&["ROLE"]).starts_with("master"));
    if what == Old::CutOff {
        // Also those that only read, and are refused nothing.
        until("all connections to leave the old master", LONG, async || {
            let left = old.cli(&["CLIENT", "LIST"]);
            if left.lines().count() == 1 { Ok(()) } else { Err(left) }
        })
        .await;
    }
    let shard = &client.run(&run).await["shard"];
    assert_eq!(new.cli(&["HGET", &format!("tm:{{{shard}}}:run:{run}"), "status"]), "succeeded");
    assert_eq!(client.follow(&run, None).await.to_the_end().await.text(), pieces.concat());
}
