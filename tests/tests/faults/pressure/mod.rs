//! More than there is room for: queues, inboxes, memory, clients that do not read. `make pressure` runs the long
//! forms.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_tests::check::answered;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};
use tokio::io::AsyncWriteExt;

use super::{QUICK, chat};

mod streams;
mod waiting;

/// The short leases and these settings, with one shard.
fn one_shard<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [QUICK.as_slice(), &[("scheduler.shards", "1")], more].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_runs_are_refused_while_too_many_jobs_wait_and_accepted_afterwards() {
    let model = llm::rules(json!([{"match": {}, "reply": "done"}])).await;
    let cluster = Cluster::start(&one_shard(&[("scheduler.queue_max", "3")]), Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = client.start(&chat(), &[]).await;
        client.node_is(&run, "llm", "queued").await;
        runs.push(run);
    }
    let refused = client.submit_answer(&chat()).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.headers.contains_key("retry-after") && refused.text.contains("queue_max"));
    let _worker = cluster.worker().await;
    for run in &runs {
        answered(&client.ended(run).await, "done");
    }
    let next = client.start(&chat(), &[]).await;
    answered(&client.ended(&next).await, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_runs_are_refused_while_the_inbox_is_full_and_all_accepted_runs_end() {
    let long =
        [("scheduler.inbox_max", "5"), ("scheduler.shards", "1"), ("scheduler.shard_lease_ms", "60000")];
    let cluster = Cluster::start(&long, None).await;
    let owner = cluster.scheduler().await;
    until("the shard to have an owner", LONG, async || {
        let holder = cluster.redis.cli(&["GET", "tm:{0}:owner"]);
        if holder == owner.id { Ok(()) } else { Err(holder) }
    })
    .await;
    let other = cluster.scheduler().await;
    let client = other.client();
    owner.process.freeze();
    let flow = Flow::new("start -> end");
    let mut accepted = Vec::new();
    let refused = loop {
        let answer = client.submit_answer(&flow).await;
        if answer.status != 201 {
            break answer;
        }
        accepted.push(answer.body["id"].as_str().expect("a run has an id").to_string());
        assert!(accepted.len() < 50, "the limit is five");
    };
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.headers.contains_key("retry-after") && refused.text.contains("inbox_max"));
    owner.process.thaw();
    for run in &accepted {
        assert_eq!(client.ended(run).await["status"], "succeeded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_size_limit_the_oldest_ended_runs_are_removed_and_open_runs_stay() {
    let cluster = Cluster::start(&one_shard(&[("scheduler.retention_bytes", "1")]), None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let open = client.start(&chat(), &[]).await;
    client.node_is(&open, "llm", "queued").await;
    let old = client.start(&Flow::new("start -> end"), &[]).await;
    let young = client.start(&Flow::new("start -> end"), &[]).await;
    for run in [&old, &young] {
        assert_eq!(client.ended(run).await["status"], "succeeded");
    }
    // As if it had ended two minutes ago.
    let ended: i64 = cluster.redis.cli(&["ZSCORE", "tm:{0}:ended", &old]).parse().expect("a time in us");
    cluster.redis.cli(&["ZADD", "tm:{0}:ended", &(ended - 120_000_000).to_string(), &old]);
    until("the old run to be removed", LONG, async || {
        match client.get(&format!("/api/v1/runs/{old}")).await.status {
            404 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    assert_eq!(client.run(&young).await["status"], "succeeded", "a client may still want to read it");
    assert_eq!(client.run(&open).await["status"], "running");
    let metrics = client.get("/metrics").await.text;
    assert!(metrics.contains("tidemill_runs_evicted_total 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_data_of_an_ended_run_expires_even_without_a_sweep() {
    let cluster = Cluster::start(&one_shard(&[("run.inline_bytes_max", "100")]), None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let flow = Flow::new("start -> a -> end").inputs(&["q"]).template("a", "{{ x }}{{ x }}", "q");
    let run = client.start(&flow, &[("q", &"large ".repeat(100))]).await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
    let keys = |pattern: &str| {
        let found = cluster.redis.cli(&["--scan", "--pattern", pattern]);
        found.lines().map(str::to_string).collect::<Vec<_>>()
    };
    let blobs = keys("tm:{0}:blob:*");
    assert!(!blobs.is_empty(), "large values are stored as blobs");
    until("everything to have a time to live", LONG, async || {
        let all = [keys("tm:{0}:blob:*"), keys("tm:{0}:run:*")].concat();
        let lasting: Vec<_> =
            all.into_iter().filter(|key| cluster.redis.cli(&["TTL", key]) == "-1").collect();
        if lasting.is_empty() { Ok(()) } else { Err(format!("{lasting:?}")) }
    })
    .await;
    assert_eq!(client.run(&run).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_delays_no_other_client() {
    let pieces: Vec<String> = (0..500).map(|n| format!("<{n}>{}", "x".repeat(8_000))).collect();
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 1).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.start(&chat(), &[]).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut socket = tokio::net::TcpStream::connect(&scheduler.address).await.expect("it listens");
        let key = tidemill_tests::cluster::ADMIN_KEY;
        let request = format!(
            "GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.expect("it accepts requests");
        idle.push(socket);
    }
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.text(), pieces.concat());
    answered(&client.ended(&run).await, &pieces.concat());
    // Each of the twenty clients may hold one page: far less than twenty times four megabytes.
    let rss = scheduler.process.memory_bytes();
    assert!(rss < 400 * 1024 * 1024, "the scheduler has {rss} bytes");
}

// ---- the long forms: `make pressure`

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[allow(clippy::print_stderr, reason = "the numbers are what the long forms are for")]
fn measured(what: &str, cluster: &Cluster, processes: &[(&str, u64)]) {
    let memory = cluster.redis.cli(&["INFO", "memory"]);
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap_or("?").trim();
    let shown: Vec<String> =
        processes.iter().map(|(name, rss)| format!("{name} {} MiB", rss >> 20)).collect();
    eprintln!("{what}: {}, Redis {used} bytes", shown.join(", "));
}

async fn submitted(client: &tidemill_tests::client::Client, body: &Json) -> String {
    client.submit(body).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make pressure"]
async fn paused_runs_need_only_their_keys_in_redis() {
    let runs = number("PAUSED", 2_000);
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let before = scheduler.process.memory_bytes();
    let body =
        json!({"workflow": include_str!("../../it/workflows/ask_twice.yml"), "inputs": {"name": "Ada"}});
    for _ in 0..runs {
        submitted(&client, &body).await;
    }
    let paused = || -> usize {
        (0..2)
            .map(|n| cluster.redis.cli(&["ZCARD", &format!("tm:{{{n}}}:runs:paused")]))
            .filter_map(|count| count.parse::<usize>().ok())
            .sum()
    };
    until("all to be paused", Duration::from_secs(300), async || match paused() {
        all if all == runs => Ok(()),
        some => Err(some.to_string()),
    })
    .await;
    let commands = || -> u64 {
        let stats = cluster.redis.cli(&["INFO", "stats"]);
        let found = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        found.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    let first = commands();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let rate = (commands() - first) / 10;
    let after = scheduler.process.memory_bytes();
    measured(
        &format!("{runs} paused runs, {rate} commands a second"),
        &cluster,
        &[("scheduler before", before), ("scheduler", after)],
    );
    assert!(rate < 100, "{rate} commands a second for runs that are paused");
}

fn loops(outer: u32, inner: u32, wide: usize) -> Json {
    let looping = |title: &str, start: &str, count: u32| {
        json!({"type": "loop", "title": title, "start_node_id": start, "loop_count": count,
            "logical_operator": "or", "break_conditions": [], "loop_variables": []})
    };
    let mut nodes = vec![
        json!({"id": "s", "data": {"type": "start", "title": "s", "variables": []}}),
        json!({"id": "a", "data": looping("a", "a0", outer)}),
        json!({"id": "a0", "parentId": "a", "data": {"type": "loop-start", "title": "", "isInLoop": true}}),
        json!({"id": "b", "parentId": "a", "data": looping("b", "b0", inner)}),
        json!({"id": "b0", "parentId": "b", "data": {"type": "loop-start", "title": "", "isInLoop": true}}),
        json!({"id": "e", "data": {"type": "end", "title": "e",
            "outputs": [{"variable": "rounds", "value_selector": ["a", "loop_round"]}]}}),
    ];
    let edge = |from: &str, to: &str| {
        json!({"id": format!("{from}-{to}"), "source": from, "target": to,
        "sourceHandle": "source", "targetHandle": "target"})
    };
    let mut edges = vec![edge("s", "a"), edge("a", "e"), edge("a0", "b")];
    let mut last = "b0".to_string();
    for n in 0..wide {
        let id = format!("t{n}");
        nodes.push(json!({"id": id, "parentId": "b", "data": {"type": "template-transform", "title": id,
            "template": "x", "variables": []}}));
        edges.push(edge(&last, &id));
        last = id;
    }
    json!({"kind": "app", "version": "0.6.0", "app": {"name": "long", "mode": "workflow"},
        "workflow": {"conversation_variables": [], "environment_variables": [], "features": {},
            "graph": {"nodes": nodes, "edges": edges}}})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make pressure"]
async fn a_run_of_a_hundred_thousand_steps_ends_in_bounded_memory() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let body = json!({"workflow": loops(100, 100, 10).to_string(), "inputs": {},
        "options": {"max_steps": 1_000_000, "max_execution_time_s": 3600}});
    let run = submitted(&client, &body).await;
    let ended = client.ended_within(&run, Duration::from_secs(900)).await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
    let rss = scheduler.process.memory_bytes();
    measured(&format!("100 000 steps in {} s", ended["elapsed_time"]), &cluster, &[("scheduler", rss)]);
    assert!(rss < 600 << 20, "{rss}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make pressure"]
async fn an_output_of_sixty_four_megabytes_arrives() {
    let piece = "x".repeat(1_000_000);
    let pieces = vec![piece.as_str(); 64];
    let model = llm::slow(&pieces, 0).await;
    let cluster = Cluster::start(&[], Some(&model)).await;
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.start(&Flow::new("start -> llm -> end"), &[]).await;
    let ended = client.ended_within(&run, Duration::from_secs(300)).await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
    assert_eq!(ended["outputs"]["llm"].as_str().map(str::len), Some(64_000_000));
    let rss = [("scheduler", scheduler.process.memory_bytes()), ("worker", worker.process.memory_bytes())];
    measured(&format!("64 MB in {} s", ended["elapsed_time"]), &cluster, &rss);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make pressure"]
async fn a_stream_of_a_million_chunks_is_bounded() {
    let chunks = number("CHUNKS", 1_000_000);
    let pieces = vec!["x"; chunks];
    // Each piece is a fact and an event; a million of them take a while.
    let settings = [
        ("worker.chunk_gather_ms", "0"),
        ("worker.execution_seconds_max", "7200"),
        ("run.max_execution_time_s", "7200"),
    ];
    let model = llm::slow(&pieces, 0).await;
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.start(&chat(), &[]).await;
    let ended = client.ended_within(&run, Duration::from_secs(7200)).await;
    assert_eq!(ended["outputs"]["answer"].as_str().map(str::len), Some(chunks), "{}", ended["error"]);
    let shard = &client.run(&run).await["shard"];
    let kept: u64 =
        cluster.redis.cli(&["XLEN", &format!("tm:{{{shard}}}:run:{run}:events")]).parse().expect("a number");
    let rss = [("scheduler", scheduler.process.memory_bytes()), ("worker", worker.process.memory_bytes())];
    measured(&format!("{chunks} chunks in {} s, {kept} entries kept", ended["elapsed_time"]), &cluster, &rss);
    assert!(kept <= 100_200, "cut at run_events_max");
}
