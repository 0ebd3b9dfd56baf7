//! Freezes the data that today's programs leave in Redis when all of them die at once, for the tests of later
//! versions: see `frozen/README.md`. Each situation has a function. It brings runs to a point and notes how they must
//! end; then everything is killed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running as Model;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::frozen::Frozen;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::super::QUICK;
use super::answer_form;

/// A hundred years: this time has not passed when a test reads the file.
const LONG_S: u64 = 36_500 * 24 * 3600;
/// It has passed when a test reads the file, and is long enough to reach the point.
const SHORT_S: u64 = 20;
/// The delay of a reply that never comes.
const NEVER_MS: u64 = 600_000;

const FORM: &str = include_str!("workflows/form.yml");
const NESTED: &str = include_str!("workflows/nested.yml");
const TALK: &str = include_str!("workflows/talk.yml");

/// The folder for the files of this version.
fn folder() -> PathBuf {
    Path::new(super::FROZEN).join(env!("CARGO_PKG_VERSION"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the frozen files of this version again"]
async fn the_state_of_today_is_frozen() {
    std::fs::create_dir_all(folder()).expect("the folder of this version");
    let keep = |name: &str, frozen: Frozen| frozen.write(&folder().join(format!("{name}.jsonl")));
    keep("chain", chain().await);
    keep("overdue", overdue().await);
    keep("outage", outage().await);
    keep("form", form().await);
    keep("form_too_late", form_too_late().await);
    keep("containers", containers().await);
    keep("retry", retry().await);
    keep("stream", stream().await);
    keep("inbox", inbox().await);
    keep("ended", ended().await);
}

/// The expected results of a run.
struct Wanted {
    run: String,
    /// The request that submitted it. It is also run without interruption, to see how it ends.
    body: Json,
    /// The answer to its form.
    answer: Option<Json>,
    /// Its end, when that differs from the end without interruption.
    ends: Option<Json>,
}

/// A fleet that will be killed.
struct Stage {
    cluster: Cluster,
    model: Model,
    schedulers: Vec<Scheduler>,
    worker: Worker,
    wanted: Vec<Wanted>,
}

impl Stage {
    async fn open(rules: Json, settings: &[(&str, &str)]) -> Self {
        let model = llm::rules(rules).await;
        let settings = [&QUICK[..], &[("scheduler.shards", "1")], settings].concat();
        let cluster = Cluster::start(&settings, Some(&model)).await;
        let (schedulers, worker) = (vec![cluster.scheduler().await], cluster.worker().await);
        Self { cluster, model, schedulers, worker, wanted: Vec::new() }
    }

    /// A client of the scheduler that lives longest.
    fn client(&self) -> Client {
        self.schedulers.last().expect("there is a scheduler").client()
    }

    async fn submit(&mut self, workflow: &str, inputs: Json, options: Json) -> String {
        let mut body = json!({"workflow": workflow, "inputs": inputs, "user": "tester", "options": options});
        if body["options"]["max_execution_time_s"].is_null() {
            body["options"]["max_execution_time_s"] = LONG_S.into();
        }
        let run = self.client().submit(&body).await;
        self.wanted.push(Wanted { run: run.clone(), body, answer: None, ends: None });
        run
    }

    fn last(&mut self) -> &mut Wanted {
        self.wanted.last_mut().expect("something was submitted")
    }

    /// Kills everything and writes down what is left. `model` has the rules of the model for the test that reads the
    /// file.
    async fn freeze(mut self, story: &str, model: Json) -> Frozen {
        self.worker.process.kill();
        let mut runs = Vec::new();
        for wanted in &self.wanted {
            let (last, events) = self.told(&wanted.run).await;
            runs.push(json!({"run": wanted.run, "last_event_id": last, "events": events}));
        }
        self.schedulers.iter_mut().for_each(|one| one.process.kill());
        let at = chrono::Utc::now().timestamp_millis();
        let host = self.worker.consumer.rsplitn(3, '-').last().unwrap_or_default().to_string();
        for (row, wanted) in runs.iter_mut().zip(&self.wanted) {
            row["ends"] = match &wanted.ends {
                Some(ends) => ends.clone(),
                None => without_interruption(wanted, &model).await,
            };
            if let Some(answer) = &wanted.answer {
                row["answer"] = answer.clone();
            }
        }
        let head = json!({"story": story, "version": env!("CARGO_PKG_VERSION"), "at": at, "model": model,
            "runs": runs});
        Frozen::take(&self.cluster.redis, head, &[(&host, "w-gone")]).await
    }

    /// All events that a client can have received from a run: the id of the last one, and their number.
    async fn told(&self, run: &str) -> (Option<String>, usize) {
        let key = format!("tm:{{0}}:run:{run}:events");
        let newest: Vec<(String, Vec<String>)> =
            self.cluster.redis.ask(&["XREVRANGE", &key, "+", "-", "COUNT", "1"]).await;
        let Some((newest, _)) = newest.into_iter().next() else { return (None, 0) };
        let mut follower = self.client().follow(run, None).await;
        let told = follower.until(&newest, |told| told.last_id() == Some(&newest)).await;
        (Some(newest), told.events.len())
    }

    async fn held_jobs(&self) -> usize {
        let held = self.cluster.redis.cli(&["XPENDING", "tm:{0}:jobs:default", "workers", "-", "+", "100"]);
        held.lines().filter(|line| line.starts_with("w-")).count()
    }

    async fn until_len(&self, command: &str, key: &str, least: u64) {
        until(key, LONG, async || {
            let found: u64 = self.cluster.redis.ask(&[command, key]).await;
            if found >= least { Ok(()) } else { Err(format!("{found} of {least}")) }
        })
        .await;
    }
}

async fn without_interruption(wanted: &Wanted, model: &Json) -> Json {
    let model = llm::rules(model.clone()).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.submit(&wanted.body).await;
    if let Some(answer) = &wanted.answer {
        answer_form(&client, &run, answer).await;
    }
    let ended = client.ended(&run).await;
    let mut ends = json!({"status": ended["status"], "outputs": ended["outputs"]});
    if !ended["conversation"].is_null() {
        ends["conversation"] = ended["conversation"].clone();
    }
    ends
}

fn echo() -> Json {
    json!([{"match": {}, "echo": "last_user"}])
}

/// A model that never answers.
fn silent() -> Json {
    json!([{"match": {}, "echo": "last_user", "delay_ms": NEVER_MS}])
}

/// One job is held and one waits, because the worker takes one at a time.
async fn held_and_queued(options: Json) -> Stage {
    let mut stage = Stage::open(silent(), &[("worker.permits", "1")]).await;
    let flow = Flow::new("start -> a -> (llm1, llm2) -> b -> end")
        .inputs(&["q"])
        .template("a", "{{ x }}!", "q")
        .prompt("llm1", "{{#a.output#}} one")
        .prompt("llm2", "{{#a.output#}} two");
    let flow = flow.with(
        "b",
        json!({"template": "{{ p }}, {{ q }}", "variables": [
        {"variable": "p", "value_selector": ["llm1", "text"]},
        {"variable": "q", "value_selector": ["llm2", "text"]}]}),
    );
    let run = stage.submit(&flow.text(), json!({"q": "hallo"}), options).await;
    until("one job held and one waiting", LONG, async || {
        let shown = stage.client().run(&run).await;
        let status = |node: &str| {
            let all = shown["nodes"].as_array().into_iter().flatten();
            all.filter(|n| n["id"] == node).map(|n| n["status"].clone()).next().unwrap_or_default()
        };
        let mut both = [status("llm1"), status("llm2")].map(|status| status.to_string());
        both.sort();
        if both == ["\"queued\"", "\"running\""] { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!(stage.held_jobs().await, 1);
    stage
}

async fn chain() -> Frozen {
    let stage = held_and_queued(json!({})).await;
    stage.freeze("in the middle of a chain: one job is held by a dead worker, one is queued", echo()).await
}

async fn overdue() -> Frozen {
    let mut stage = held_and_queued(json!({"max_execution_time_s": SHORT_S})).await;
    stage.last().ends = Some(json!({"status": "stopped", "error": "Maximum execution time exceeded"}));
    stage
        .freeze("a worker takes the job again, and holds it for longer than the run may work", silent())
        .await
}

async fn outage() -> Frozen {
    let stage = held_and_queued(json!({"max_execution_time_s": SHORT_S})).await;
    stage.freeze("no process was alive for longer than the run may work: it goes on", echo()).await
}

async fn form() -> Frozen {
    let mut stage = Stage::open(echo(), &[]).await;
    let past = stage.submit(&Flow::new("start -> a -> end").text(), json!({}), json!({})).await;
    stage.client().ended(&past).await;
    paused(&mut stage, LONG_S).await;
    stage.last().answer = Some(json!({"action": "ok", "inputs": {"word": "deep"}}));
    stage.freeze("a run waits at a form; another one has ended", echo()).await
}

async fn form_too_late() -> Frozen {
    let mut stage = Stage::open(echo(), &[]).await;
    paused(&mut stage, SHORT_S).await;
    stage.last().ends = Some(json!({"status": "stopped", "error": "Human input global timeout"}));
    stage.freeze("the time of the form ended before a process started again", echo()).await
}

async fn paused(stage: &mut Stage, seconds: u64) {
    let run = stage.submit(FORM, json!({"name": "Ada"}), json!({"human_input_timeout_s": seconds})).await;
    until("the run to pause", LONG, async || {
        let shown = stage.client().run(&run).await;
        if shown["status"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

async fn containers() -> Frozen {
    let silent =
        |contains: &str| json!({"match": {"contains": contains}, "echo": "last_user", "delay_ms": NEVER_MS});
    let rules = json!([silent("slow 1"), silent("late 0"), {"match": {}, "echo": "last_user"}]);
    let mut stage = Stage::open(rules, &[]).await;
    let items = json!({"items": {"list": ["quick", "slow", "late", "last"]}});
    let run = stage.submit(NESTED, items, json!({})).await;
    stage.until_len("HLEN", &format!("tm:{{0}}:run:{run}:collected"), 1).await;
    until("both open items to call the model", LONG, async || {
        let asked: Vec<String> =
            stage.model.requests().iter().map(|request| format!("{request:?}")).collect();
        let both = ["slow 1", "late 0"].iter().all(|what| asked.iter().any(|request| request.contains(what)));
        if both { Ok(()) } else { Err(asked.join("\n")) }
    })
    .await;
    assert_eq!(stage.held_jobs().await, 2);
    let story =
        "of four items one is collected, two are open, each in a loop of which one is in its second round";
    stage.freeze(story, echo()).await
}

async fn retry() -> Frozen {
    let mut stage = Stage::open(json!([{"match": {}, "status": 500, "error": "not now"}]), &[]).await;
    let wait = json!({"retry_config": {"retry_enabled": true, "max_retries": 3, "retry_interval": 10_000}});
    let flow = Flow::new("start -> llm -> end").with("llm", wait);
    let run = stage.submit(&flow.text(), json!({}), json!({})).await;
    stage.client().node_is(&run, "llm", "retrying").await;
    stage.last().ends = Some(json!({"status": "partial-succeeded", "outputs": {"llm": "llm"}}));
    stage.freeze("a node waits for its second attempt", echo()).await
}

async fn stream() -> Frozen {
    let said = |pause_ms: u64| {
        let pieces = |of: &str| -> Vec<String> { (1..=12).map(|n| format!("<{of}{n}>")).collect() };
        let rule =
            |of: &str| json!({"match": {"equals": of}, "chunks": pieces(of), "chunk_delay_ms": pause_ms});
        json!([rule("one"), rule("two")])
    };
    let mut stage = Stage::open(said(300), &[]).await;
    let run = stage.submit(TALK, json!({}), json!({"inline_bytes_max": 64})).await;
    stage.client().follow(&run, None).await.until_text("<one3>").await;
    stage.until_len("LLEN", &format!("tm:{{0}}:run:{run}:held"), 3).await;
    let story = "one text is half sent, pieces of another are held back; the conversation has a value that is stored as a blob";
    stage.freeze(story, said(0)).await
}

async fn inbox() -> Frozen {
    let lease = [("scheduler.shard_lease_ms", "60000")];
    let rules = json!([{"match": {}, "echo": "last_user", "delay_ms": 1500}]);
    let mut stage = Stage::open(rules, &lease).await;
    let other = stage.cluster.scheduler().await;
    let flow = Flow::new("start -> llm -> a -> end").text();
    let run = stage.submit(&flow, json!({}), json!({})).await;
    stage.client().node_is(&run, "llm", "running").await;
    // The other scheduler accepts runs, and the lease of the shard is long: no scheduler reads the inbox.
    stage.schedulers[0].process.kill();
    stage.schedulers.push(other);
    stage.submit(&flow, json!({}), json!({})).await;
    until("facts that no scheduler has read", Duration::from_secs(20), async || {
        let cursor: String = stage.cluster.redis.ask(&["HGET", "tm:{0}:fence", "cursor"]).await;
        let behind = format!("({cursor}");
        let waiting = stage.cluster.redis.cli(&["XRANGE", "tm:{0}:inbox", &behind, "+"]);
        let kinds = ["start", "done"].iter().all(|kind| waiting.lines().any(|line| line == *kind));
        if kinds { Ok(()) } else { Err(waiting) }
    })
    .await;
    stage.freeze("a result and a new run are in the inbox, and no scheduler has read them", echo()).await
}

async fn ended() -> Frozen {
    let mut stage = Stage::open(echo(), &[]).await;
    let flow = Flow::new("start -> llm -> answer").prompt("llm", "all is said");
    let run = stage.submit(&flow.text(), json!({}), json!({})).await;
    stage.client().ended(&run).await;
    stage.freeze("a run has ended, and its events exist", echo()).await
}
