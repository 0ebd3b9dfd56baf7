//! The listeners of real processes: idle connections, few open files, slow headers, wrong keys, separate metrics.

use std::process::Command;
use std::time::Duration;

use tidemill_common::open_files::{self, Need};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The open files that the test itself needs besides its connections.
const OWN_FILES: u64 = 200;

/// Starts a scheduler in a shell that has limited its open files; `ulimit` has the arguments of that command.
async fn scheduler_under(cluster: &Cluster, ulimit: &str) -> Scheduler {
    let program = cluster.command("tidemill-scheduler");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {ulimit} && exec \"$0\" --listen 127.0.0.1:0")]);
    command.arg(program.get_program());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(cluster.logs());
    cluster.scheduler_of(command).await
}

/// Opens this many connections that send nothing.
async fn held(address: &str, count: usize) -> Vec<TcpStream> {
    let room = open_files::prepare(&Need { own: OWN_FILES, connections: count, settings: "this test" });
    assert_eq!(room, count, "this test needs more open files: raise ulimit -Hn");
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(TcpStream::connect(address).await.expect("a connection"));
    }
    held
}

async fn serves(client: &Client) {
    for path in ["/livez", "/readyz"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let run = client.start(&Flow::new("start -> end"), &[]).await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
}

/// These limits are so high that no idle connection is closed for them.
const PATIENT: [(&str, &str); 2] =
    [("scheduler.header_timeout_ms", "600000"), ("scheduler.idle_seconds", "600")];

#[tokio::test]
async fn idle_connections_do_not_block_the_api_while_there_are_enough_files() {
    let cluster = Cluster::start(&PATIENT, None).await;
    let scheduler = scheduler_under(&cluster, "-S -n 1024").await;
    let mut all = Vec::new();
    for count in [1_100, 3_900] {
        all.extend(held(&scheduler.address, count).await);
        serves(&scheduler.client()).await;
    }
    // The soft limit was raised, so no connection was closed.
    let metrics = scheduler.client().get("/metrics").await.text;
    assert!(!metrics.contains("reason=\"room\""), "{metrics}");
}

#[tokio::test]
async fn idle_connections_do_not_block_the_api_when_there_are_few_files() {
    let cluster = Cluster::start(&PATIENT, None).await;
    let mut scheduler = scheduler_under(&cluster, "-n 1024").await;
    let said = scheduler.process.log_text();
    assert!(
        said.contains("the limit of open files is too low") && said.contains("scheduler.connections_max"),
        "{said}"
    );
    let _held = held(&scheduler.address, 1_100).await;
    serves(&scheduler.client()).await;
    scheduler
        .process
        .wait_for_log("at the limit of connections; those that are idle longest are closed for new ones")
        .await;
    let _more = held(&scheduler.address, 3_900).await;
    serves(&scheduler.client()).await;
}

#[tokio::test]
async fn a_header_that_arrives_slowly_is_cut_off_and_a_silent_stream_is_not() {
    let settings = [("scheduler.header_timeout_ms", "2000"), ("scheduler.idle_seconds", "2")];
    let cluster = Cluster::start(&settings, None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    // No worker runs, so the run waits and its stream is silent.
    let run = client.start(&Flow::new("start -> code -> end"), &[]).await;
    let mut following = client.follow(&run, None).await;
    let mut slow = TcpStream::connect(&scheduler.address).await.expect("a connection");
    let cut = async {
        while slow.write_all(b"G").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, cut).await.expect("a slow header is cut off");
    let mut idle = TcpStream::connect(&scheduler.address).await.expect("a connection");
    idle.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it can be written");
    let mut all = Vec::new();
    let read = tokio::time::timeout(LONG, idle.read_to_end(&mut all)).await;
    read.expect("an idle connection is closed").expect("in order");
    assert!(all.starts_with(b"HTTP/1.1 200"));
    assert_eq!(
        client
            .post(&format!("/api/v1/runs/{run}/commands"), &serde_json::json!({"command": "stop"}))
            .await
            .status,
        202
    );
    following.until("the end", |told| told.events.iter().any(|e| e.kind == "graph_run_aborted")).await;
}

#[tokio::test]
async fn a_client_that_tries_keys_is_slowed_down_and_the_right_key_is_served_at_once() {
    let proxies = [("scheduler.trusted_proxies", "127.0.0.0/8")];
    let cluster = Cluster::start(&proxies, None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let (_, app) = client.register(&Flow::new("start -> end")).await;
    let wrong = client.with_key(Some("app-none"));
    let from = |client: &Client, path: &str, address: &str| {
        let client = client.clone();
        let request = client.request(reqwest::Method::GET, path).header("x-forwarded-for", address);
        async move { client.send(request).await }
    };
    for (path, right) in [("/api/v1/runs", &client), ("/v1/info", &app)] {
        // However slow this machine is, there is a second with seventeen tries.
        let slowed = until("a 429", LONG, async || {
            let tries = (0..64).map(|_| from(&wrong, path, "192.0.2.1"));
            let answers = futures_util::future::join_all(tries).await;
            assert!(answers.iter().all(|answer| [401, 429].contains(&answer.status)));
            answers.into_iter().find(|answer| answer.status == 429).ok_or_else(|| "401 alone".to_string())
        })
        .await;
        assert_eq!(slowed.headers["retry-after"], "1");
        assert_eq!(slowed.body["code"], "too_many_requests", "{}", slowed.text);
        assert_eq!(slowed.body["status"], 429);
        // End users of an app do not read names of settings.
        let names_setting = slowed.text.contains("scheduler.wrong_keys_max");
        assert_eq!(names_setting, path.starts_with("/api/"), "{}", slowed.text);
        assert_eq!(from(right, path, "192.0.2.1").await.status, 200, "the right key, {path}");
        assert_eq!(from(&wrong, path, "192.0.2.99").await.status, 401, "another address, {path}");
    }
}

#[tokio::test]
async fn metrics_may_have_their_own_listener() {
    let cluster = Cluster::start(&[("scheduler.metrics_listen", "127.0.0.1:0")], None).await;
    let mut scheduler = cluster.scheduler().await;
    assert_eq!(scheduler.client().get("/metrics").await.status, 404);
    let line = scheduler.process.wait_for_log("metrics have a listener of their own").await;
    let apart = Client::new(line["address"].as_str().expect("an address"), Some(ADMIN_KEY));
    let apart = apart.undescribed();
    let metrics = apart.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.text.contains("tidemill_api_requests_total"), "{}", metrics.text);
    for path in ["/api/v1/runs", "/readyz", "/v1/info"] {
        assert_eq!(apart.get(path).await.status, 404, "{path}");
    }
    scheduler.process.terminate();
    assert!(scheduler.process.ended(LONG).await.success());
}

#[tokio::test]
async fn a_worker_answers_its_probes_despite_idle_connections() {
    let cluster =
        Cluster::start(&[("worker.connections_max", "10"), ("worker.idle_seconds", "600")], None).await;
    let _scheduler = cluster.scheduler().await;
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = cluster.command("tidemill-worker");
    command.args(["--listen", &address]);
    let mut worker = cluster.spawn("worker", command);
    worker.wait_for_log("worker started").await;
    let _held = held(&address, 50).await;
    let client = Client::new(&address, None).undescribed();
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let metrics = client.get("/metrics").await.text;
    assert!(metrics.contains("tidemill_connections{listener=\"health\"} 10"), "{metrics}");
}
