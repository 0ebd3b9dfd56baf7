//! Dead letters: jobs and facts that were given up, and what people can do with them.

use serde_json::{Value as Json, json};
use tidemill_tests::check::answered;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;

/// A worker with another model than the rest of the cluster.
async fn worker_of(cluster: &Cluster, model: &tidemill_mock_llm::Running) -> Worker {
    let mut command = cluster.command("tidemill-worker");
    command.args(["--listen", "127.0.0.1:0"]).env("OPENAI_BASE_URL", model.base_url());
    let mut process = cluster.spawn("worker", command);
    let line = process.wait_for_log("worker started").await;
    Worker { consumer: line["consumer"].to_string(), process }
}

async fn letters(client: &Client) -> Vec<Json> {
    let answer = client.get("/api/v1/dead").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["data"].as_array().cloned().unwrap_or_default()
}

fn path(letter: &Json, rest: &str) -> String {
    format!("/api/v1/dead/{}{rest}", letter["id"].as_str().expect("a dead letter has an id"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_killed_three_workers_goes_on_in_a_new_run_from_where_it_died() {
    let poison = llm::rules(json!([{"match": {}, "reply": "x", "delay_ms": 60_000}])).await;
    let fine = llm::rules(json!([{"match": {}, "reply": "fine"}])).await;
    let cluster = Cluster::start(&QUICK, Some(&poison)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let flow = Flow::new("start -> a -> llm -> b -> answer")
        .template("a", "before {{ x }}", "q")
        .inputs(&["q"])
        .answer("answer", "{{#a.output#}}, {{#llm.text#}}");
    let run = client.start(&flow, &[("q", "it")]).await;
    for asked in 1..=3 {
        let mut worker = cluster.worker().await;
        until("the model to be called", LONG, async || match poison.requests().len() {
            times if times >= asked => Ok(()),
            times => Err(format!("{times} times; {}", worker.process.log_text())),
        })
        .await;
        worker.process.kill();
    }
    let _worker = worker_of(&cluster, &fine).await;
    assert_eq!(client.ended(&run).await["status"], "failed");

    let all = letters(&client).await;
    assert_eq!(all.len(), 1, "{all:#?}");
    let letter = &all[0];
    assert_eq!((&letter["what"], &letter["run"]), (&json!("job"), &json!(run)), "{letter:#}");
    assert_eq!(letter["node_id"], "llm", "{letter:#}");
    assert!(letter["reason"].as_str().is_some_and(|reason| reason.contains("3 times")), "{letter:#}");
    assert!(client.get(&path(letter, "")).await.body["content"].is_string());

    let again = client.post(&path(letter, "/retry"), &json!({})).await;
    assert_eq!(again.status, 201, "{}", again.text);
    assert_eq!((&again.body["retry_of"], &again.body["begins_at"]), (&json!(run), &json!("llm")));
    let next = again.body["id"].as_str().expect("a run has an id").to_string();
    answered(&client.ended(&next).await, "before it, fine");
    let told = client.follow(&next, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.text(), "before it, fine", "the new run streams its answer from the beginning");
    let began =
        |node: &str| told.of_kind("node_run_started").filter(|event| event.data["node_id"] == node).count();
    assert_eq!((began("a"), began("llm"), began("b")), (0, 1, 1), "what came before is kept");
    assert_eq!(client.run(&run).await["status"], "failed", "the first run stays as it ended");
    assert_eq!(letters(&client).await.len(), 0);
    assert_eq!(client.post(&path(letter, "/retry"), &json!({})).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_cannot_be_retried_says_why() {
    let one = [QUICK.as_slice(), &[("scheduler.shards", "1")]].concat();
    let cluster = Cluster::start(&one, None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = client.start(&super::chat(), &[]).await;
    client.node_is(&run, "llm", "queued").await;
    let bury = |fields: &[&str]| {
        cluster.redis.cli(&[&["XADD", "tm:{0}:dead", "*", "reason", "a test"], fields].concat())
    };
    let gone = "0199c0de-0000-7000-8000-000000000000";
    bury(&["what", "fact", "run", &run, "content", "stop {\"reason\":\"enough\"}"]);
    bury(&["what", "fact", "run", &run, "cut", "1", "content", "stop {\"rea"]);
    bury(&["what", "timer", "run", "", "content", "x deadline"]);
    bury(&["what", "job", "run", &run, "frame", "", "node", "llm", "content", "{}"]);
    bury(&["what", "job", "run", gone, "frame", "", "node", "llm", "content", "{}"]);

    // The newest letter comes first.
    let all = letters(&client).await;
    for (letter, says) in all.iter().zip(["is gone", "has not ended", "timer", "bytes of the fact"]) {
        let refused = client.post(&path(letter, "/retry"), &json!({})).await;
        assert_eq!((refused.status, &refused.body["code"]), (409, &json!("not_retryable")), "{letter:#}");
        assert!(refused.text.contains(says), "{says}: {}", refused.text);
        let delete = client.request(reqwest::Method::DELETE, &path(letter, ""));
        assert_eq!(client.send(delete).await.status, 204);
    }
    let applied = client.post(&path(&all[4], "/retry"), &json!({})).await;
    assert_eq!(applied.status, 202, "{}", applied.text);
    assert_eq!(client.ended(&run).await["status"], "stopped", "the fact was applied");
    assert_eq!(letters(&client).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a29_a_job_whose_run_was_lost_becomes_a_dead_letter_and_is_not_delivered_again() {
    let model = llm::rules(json!([{"match": {}, "reply": "late", "delay_ms": 1500}])).await;
    let one = [QUICK.as_slice(), &[("scheduler.shards", "1"), ("scheduler.retention_seconds", "1")]].concat();
    let cluster = Cluster::start(&one, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let asked = async |times: usize| {
        until("the model to be called", LONG, async || match model.requests().len() {
            now if now >= times => Ok(()),
            now => Err(format!("{now} times")),
        })
        .await;
    };
    // A run that is stopped and removed regularly takes its job along.
    let removed = client.start(&super::chat(), &[]).await;
    asked(1).await;
    let stop = json!({"command": "stop", "reason": "enough"});
    assert_eq!(client.post(&format!("/api/v1/runs/{removed}/commands"), &stop).await.status, 202);
    assert_eq!(client.ended(&removed).await["status"], "stopped");
    until("the run to be removed", LONG, async || {
        match client.get(&format!("/api/v1/runs/{removed}")).await.status {
            404 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;

    let lost = client.start(&super::chat(), &[]).await;
    asked(2).await;
    let mut scheduler = scheduler;
    scheduler.process.kill();
    let keys: Vec<String> = cluster.redis.ask(&["KEYS", &format!("*{lost}*")]).await;
    let keys: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let _: i64 = cluster.redis.ask(&keys).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let all = until("the job to be given up", LONG, async || {
        let all = letters(&client).await;
        if all.is_empty() { Err("there is no dead letter".to_owned()) } else { Ok(all) }
    })
    .await;
    assert_eq!(all.len(), 1, "{all:#?}");
    let letter = &all[0];
    assert_eq!((&letter["what"], &letter["run"]), (&json!("job"), &json!(lost)), "{letter:#}");
    assert_eq!(letter["node_id"], "llm", "{letter:#}");
    assert!(letter["reason"].as_str().is_some_and(|why| why.starts_with("RuntimeError: ")), "{letter:#}");
    let refused = client.post(&path(letter, "/retry"), &json!({})).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(model.requests().len(), 2, "no worker has run it again");
    let left: i64 = cluster.redis.ask(&["XLEN", "tm:{0}:jobs:default"]).await;
    assert_eq!(left, 0, "the job is acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_dead_letters_that_match_are_counted_and_retried_at_once() {
    let model = llm::rules(json!([{"match": {}, "reply": "fine", "delay_ms": 60_000}])).await;
    let one = [QUICK.as_slice(), &[("scheduler.shards", "1")]].concat();
    let cluster = Cluster::start(&one, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let (app, _) = client.register(&super::chat()).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let submitted = client.submit(&json!({"app": app, "inputs": {}, "query": "q", "user": "u"})).await;
        client.node_is(&submitted, "llm", "queued").await;
        runs.push(submitted);
    }
    let other = client.start(&super::chat(), &[]).await;
    client.node_is(&other, "llm", "queued").await;
    let bury = |run: &str, what: &str, reason: &str| {
        let content = "stop {\"reason\":\"enough\"}";
        let fields = ["what", what, "run", run, "reason", reason, "node", "llm", "content", content];
        cluster.redis.cli(&[&["XADD", "tm:{0}:dead", "*"], &fields[..]].concat())
    };
    for run in &runs {
        bury(run, "fact", "Put aside by a test");
    }
    bury(&other, "fact", "put aside by a test");
    bury(&runs[0], "fact", "another reason");
    // A job of a run that goes on cannot be retried.
    bury(&runs[0], "job", "put aside by a test");

    let bulk = async |body: Json| {
        let answer = client.post("/api/v1/dead/retry", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body
    };
    let matched =
        async |filter: Json| bulk(json!({"filter": filter, "dry_run": true})).await["matched"].clone();
    assert_eq!(matched(json!({})).await, 6);
    assert_eq!(matched(json!({"what": "fact", "reason": "put aside"})).await, 4);
    assert_eq!(matched(json!({"app": app, "reason": "put aside"})).await, 4);
    assert_eq!(matched(json!({"run": other})).await, 1);
    assert_eq!(matched(json!({"node": "nobody"})).await, 0);
    assert_eq!(matched(json!({"until": 1})).await, 0);
    assert_eq!(letters(&client).await.len(), 6, "counting changes nothing");
    for (wrong, says) in [(json!({}), "filter"), (json!({"filter": {"app": "no such app"}}), "no such app")] {
        let refused = client.post("/api/v1/dead/retry", &wrong).await;
        assert_eq!((refused.status, refused.text.contains(says)), (400, true), "{}", refused.text);
    }

    // The command counts, and does not act without a question or --yes.
    let filter = ["--app", &app, "--reason", "put aside"];
    let tidemill = async |arguments: &[&str]| {
        let mut command = cluster.command("tidemill");
        command.args(["dead", "retry", "--all"]).args(filter).args(arguments);
        command.env("TIDEMILL_URL", format!("http://{}", scheduler.address)).env("TIDEMILL_KEY", ADMIN_KEY);
        let run = tokio::task::spawn_blocking(move || command.output()).await.expect("it runs");
        let run = run.expect("it starts");
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (code, said) = tidemill(&["--dry-run"]).await;
    assert_eq!((code, said.as_str()), (Some(0), "4 dead letters match\n"));
    let (code, said) = tidemill(&[]).await;
    assert_eq!((code, said.contains("4 dead letters match; add --yes")), (Some(2), true), "{said}");
    assert_eq!(letters(&client).await.len(), 6);
    let (code, said) = tidemill(&["--yes"]).await;
    assert_eq!((code, said.contains("3 retried, 1 refused")), (Some(1), true), "{said}");
    assert!(said.contains("has not ended"), "{said}");
    for run in &runs {
        assert_eq!(client.ended(run).await["status"], "stopped", "its fact was applied");
    }
    let left: Vec<String> = letters(&client).await.iter().map(|letter| letter["what"].to_string()).collect();
    assert_eq!(left, ["\"job\"", "\"fact\"", "\"fact\""]);

    // Page by page: one letter a request, until there is no next one.
    bury(&other, "fact", "a page");
    bury(&other, "fact", "a page");
    let first = bulk(json!({"filter": {"reason": "a page"}, "limit": 1})).await;
    assert_eq!(
        (first["retried"].as_array().map(Vec::len), first["next"].is_string()),
        (Some(1), true),
        "{first}"
    );
    assert_eq!(client.ended(&other).await["status"], "stopped");
    let second = bulk(json!({"filter": {"reason": "a page"}, "limit": 1, "before": first["next"]})).await;
    assert_eq!(second["refused"].as_array().map(Vec::len), Some(1), "the run has ended: {second}");
}
