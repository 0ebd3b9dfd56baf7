//! Programs that find no Redis or no scheduler say so and end.

use std::process::Command;

use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::LONG;

/// Checks that the command ends with this code and that its last line contains all these parts.
async fn ends_with(cluster: &Cluster, command: Command, code: i32, parts: &[&str]) {
    let mut process = cluster.spawn("refused", command);
    let end = process.ended(LONG).await;
    let said = process.log_text();
    assert_eq!(end.code(), Some(code), "{said}");
    let last = said.lines().last().unwrap_or_default();
    for part in parts {
        assert!(last.contains(part), "the last line names {part:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_every_program_says_where_it_looked_and_ends_with_3() {
    let mut cluster =
        Cluster::start(&[("scheduler.listen", "127.0.0.1:0"), ("worker.listen", "")], None).await;
    cluster.redis.stop().await;
    let port = cluster.redis.port().to_string();
    for program in ["tidemill-scheduler", "tidemill-worker"] {
        ends_with(&cluster, cluster.command(program), 3, &["Redis", &port]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_scheduler_the_command_line_says_where_it_looked_and_ends_with_3() {
    let cluster = Cluster::start(&[], None).await;
    let mut command = cluster.command("tidemill");
    // Nothing listens at port 1.
    command.args(["ps", "--url", "http://127.0.0.1:1"]);
    ends_with(&cluster, command, 3, &["127.0.0.1:1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_setting_is_named_and_the_program_ends_with_2() {
    let cluster = Cluster::start(&[("worker.permit", "3")], None).await;
    for program in ["tidemill-scheduler", "tidemill-worker"] {
        ends_with(&cluster, cluster.command(program), 2, &["TIDEMILL_WORKER_PERMITS"]).await;
    }
}
