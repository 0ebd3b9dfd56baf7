//! Schedulers are replaced one after the other behind a proxy while clients follow runs: no client sees a stream that
//! was cut without a word.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::wire::event::kind;
use tidemill_mock_llm::Running as Model;
use tidemill_tests::check::{Event, Transcript};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::process::Process;
use tidemill_tests::ready_proxy::ReadyProxy;
use tidemill_tests::sse::{Message, Messages};
use tidemill_tests::wait::LONG;

/// The grace period of the schedulers: longer than a short answer, and shorter than a long one.
const GRACE: &str = "6";
const SHORT: usize = 20;
const LONGER: usize = 200;
const PAUSE_MS: u64 = 100;
const QUESTION: &str = "{{#start.q#}}";

async fn model() -> Model {
    let rule = |q: &str, count: usize| json!({"match": {"contains": q}, "chunks": llm::many_pieces(count), "chunk_delay_ms": PAUSE_MS});
    llm::rules(json!([rule("short", SHORT), rule("long", LONGER)])).await
}

fn flow() -> Flow {
    let flow = Flow::new("start -> llm -> end").inputs(&["q"]);
    let outputs = json!([{"variable": "text", "value_selector": ["llm", "text"]}]);
    flow.prompt("llm", QUESTION).with("end", json!({"outputs": outputs}))
}

/// What a client of `/v1` has seen.
#[derive(Default)]
struct Seen {
    text: String,
    kinds: Vec<String>,
    comments: Vec<String>,
    last_id: Option<String>,
    run: String,
}

impl Seen {
    /// Reads a stream until it ends, or until so many pieces of text have come.
    async fn read(&mut self, stream: &mut Messages, pieces: usize) {
        while self.kinds.iter().filter(|kind| *kind == "text_chunk").count() < pieces {
            let Some(message) = stream.next().await else { return };
            self.comments.extend(message.comment);
            let Some(data) = message.data else { continue };
            let event: Json = serde_json::from_str(&data).expect("frames of /v1 are JSON");
            self.kinds.push(event["event"].as_str().expect("each has a name").into());
            self.text.push_str(event["data"]["text"].as_str().unwrap_or_default());
            self.run = event["workflow_run_id"].as_str().map_or(self.run.clone(), Into::into);
            self.last_id = message.id.or(self.last_id.take());
        }
    }

    fn is_whole(&self, pieces: usize) {
        assert_eq!(self.kinds.first().map(String::as_str), Some("workflow_started"));
        assert_eq!(self.kinds.last().map(String::as_str), Some("workflow_finished"), "{:?}", self.comments);
        assert_eq!(self.text, llm::many_pieces(pieces).concat());
        assert_eq!(self.kinds.iter().filter(|kind| *kind == "workflow_finished").count(), 1);
    }
}

async fn open(client: &Client, q: &str) -> Messages {
    let body = json!({"inputs": {"q": q}, "user": "u", "response_mode": "streaming"});
    let path = "/v1/workflows/run?event_ids=true";
    let request = client.request(Method::POST, path).header("content-type", "application/json");
    client.open(request.body(body.to_string())).await
}

/// Reads a stream of a short answer in a task of its own; it must come whole.
fn follow_whole(mut stream: Messages) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut seen = Seen::default();
        seen.read(&mut stream, usize::MAX).await;
        seen.is_whole(SHORT);
        assert!(seen.comments.is_empty(), "{:?}", seen.comments);
    })
}

/// Follows a run over our own API to its end, first at a scheduler that will stop, then through the proxy.
async fn follow_ours(first: Client, proxy: Client, run: String) {
    let path = format!("/api/v1/runs/{run}/events");
    let mut stream = first.open(first.request(Method::GET, &path)).await;
    let (mut told, mut reconnects) = (Transcript::default(), 0);
    loop {
        let mut last: Vec<Message> = Vec::new();
        while let Some(message) = stream.next().await {
            Event::of(&message).into_iter().for_each(|event| told.add(event));
            last.push(message);
        }
        let is_end = |event: &Event| kind::TERMINAL.contains(&event.kind.as_str());
        if told.events.last().is_some_and(is_end) {
            break;
        }
        // The scheduler has stopped: a comment and an event say so.
        let [.., comment, event] = last.as_slice() else { panic!("the stream was cut: {last:?}") };
        assert!(comment.comment.as_ref().is_some_and(|comment| comment.contains("stops")), "{comment:?}");
        assert_eq!(event.event.as_deref(), Some("reconnect"));
        reconnects += 1;
        told.forget_unfinished();
        let id = told.last_id().expect("entries have ids").to_string();
        stream = proxy.open(proxy.request(Method::GET, &path).header("last-event-id", id)).await;
    }
    assert!(reconnects > 0);
    told.is_whole();
    assert_eq!(told.text(), llm::many_pieces(LONGER).concat());
}

/// Follows a run with `tidemill watch` through the proxy.
fn watch(cluster: &Cluster, proxy: &ReadyProxy, run: &str) -> Process {
    let mut command = cluster.command("tidemill");
    command.args(["watch", run, "--json"]);
    command.env("TIDEMILL_URL", format!("http://{}", proxy.address)).env("TIDEMILL_KEY", ADMIN_KEY);
    cluster.spawn("watch", command)
}

/// Replaces a scheduler; meanwhile clients come to the proxy with short answers.
async fn replace(cluster: &Cluster, proxy: &ReadyProxy, mut old: Scheduler, app: &Client) -> Scheduler {
    old.process.terminate();
    let mut streams = Vec::new();
    let new = cluster.scheduler().await;
    proxy.add(&new.address);
    while old.process.end().is_none() {
        // Each has a connection of its own, as other programs have.
        let client = Client::new(&proxy.address, app.key());
        streams.push(follow_whole(open(&client, "short").await));
        let body = json!({"inputs": {"q": "short"}, "user": "u", "response_mode": "blocking"});
        let answer = client.post("/v1/workflows/run", &body).await;
        assert_eq!(answer.body["data"]["status"], "succeeded", "{}", answer.text);
    }
    for stream in streams {
        stream.await.expect("a stream that began during the restart is whole");
    }
    assert!(old.process.ended(LONG).await.success());
    new
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_cuts_no_stream_without_a_word() {
    let model = model().await;
    let settings = [("scheduler.grace_seconds", GRACE), ("scheduler.shards", "2")];
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (first, second) = (cluster.scheduler().await, cluster.scheduler().await);
    let _worker = cluster.worker().await;
    let proxy = ReadyProxy::start().await;
    let (_, app) = first.client().register(&flow()).await;
    for scheduler in [&first, &second] {
        proxy.add(&scheduler.address);
    }

    // A short and a long one at each scheduler, and two clients of our own API that follow another long run.
    let mut longer = Vec::new();
    let mut short = Vec::new();
    for scheduler in [&first, &second] {
        let client = Client::new(&scheduler.address, app.key());
        let (mut stream, mut seen) = (open(&client, "long").await, Seen::default());
        seen.read(&mut stream, 1).await;
        longer.push((stream, seen));
        short.push(follow_whole(open(&client, "short").await));
    }
    let ours = Client::new(&proxy.address, Some(ADMIN_KEY));
    let run = ours.start(&flow(), &[("q", "long")]).await;
    let own = tokio::spawn(follow_ours(first.client(), ours.clone(), run.clone()));
    let watched = [(); 2].map(|()| watch(&cluster, &proxy, &run));

    let first = replace(&cluster, &proxy, first, &app).await;
    for stream in short.drain(..1) {
        stream.await.expect("a short stream is whole");
    }
    let _second = replace(&cluster, &proxy, second, &app).await;
    for stream in short {
        stream.await.expect("a short stream is whole");
    }
    for (mut stream, mut seen) in longer {
        seen.read(&mut stream, usize::MAX).await;
        assert_eq!(seen.comments.len(), 1, "{:?}", seen.comments);
        let path = format!("/v1/workflow/{}/events?user=u", seen.run);
        let id = seen.last_id.clone().expect("frames have ids");
        let again = Client::new(&proxy.address, app.key());
        let again_request = again.request(Method::GET, &path).header("last-event-id", id);
        seen.read(&mut again.open(again_request).await, usize::MAX).await;
        seen.is_whole(LONGER);
    }
    own.await.expect("nothing is lost and nothing comes twice");
    for mut watch in watched {
        assert!(watch.ended(LONG).await.success(), "{}", watch.tail());
        let log = watch.log_text();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        let numbers: Vec<u64> = events.filter_map(|event| event["seq"].as_u64()).collect();
        assert!(numbers.len() > LONGER, "{log}");
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    }
    drop(first);
}
