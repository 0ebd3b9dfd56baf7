//! An agent whose worker dies between any two of its calls continues after the last recorded call. No recorded call
//! is made or paid for again, and the events of its log are complete.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_mock_llm::Running;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::patient::{Followed, Patient};
use tidemill_tests::redis::free_port;

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

/// Crash points inside each call: the rounds of the model, and the calls of the tool between them.
const PLACES: [&str; 3] = ["worker.step_begun", "worker.step_made", "worker.step_kept"];
/// The number of cases at the same time; each has a Redis and three processes.
const AT_ONCE: usize = 5;
/// The tokens of each round, as the mock reports them.
const TOKENS: u64 = 12;

/// The kind of model that the agent uses.
#[derive(Clone, Copy)]
enum Kind {
    OpenAi,
    /// Its model thinks before each reply, and needs these thoughts back while it uses tools.
    Anthropic,
    /// The model writes its calls as text.
    ReAct,
}

impl Kind {
    /// The number of rounds of the model; the tool is called between two rounds.
    const fn rounds(self) -> usize {
        match self {
            Self::OpenAi | Self::Anthropic => 3,
            // The mock cannot distinguish a third round from the second: both have four messages.
            Self::ReAct => 2,
        }
    }

    /// The complete text of the agent.
    fn said(self) -> String {
        match self {
            Self::OpenAi => "Looking for one.\nLooking for two.\nDone.".into(),
            Self::Anthropic => {
                format!("{THOUGHT}Looking for one.\n{THOUGHT}Looking for two.\n{THOUGHT}Done.")
            }
            Self::ReAct => "Looking for one.\nI know.\nDone.".into(),
        }
    }
}

/// The beginning of each reply of Anthropic's model.
const THOUGHT: &str = "<think>\nWhere is it?\n</think>";

fn workflow(kind: Kind) -> String {
    match kind {
        Kind::OpenAi => agent("function_calling", ("openai", json!({}))),
        Kind::Anthropic => agent("function_calling", ("anthropic", json!({"thinking": true}))),
        Kind::ReAct => agent("ReAct", ("openai", json!({}))),
    }
}

fn agent(strategy: &str, (provider, params): (&str, Json)) -> String {
    let model = json!({"provider": provider, "model": "m", "mode": "chat", "completion_params": params});
    let tool = json!({
        "enabled": true, "type": "builtin", "provider_name": "acme", "tool_name": "find", "settings": {},
        "parameters": {"q": {"auto": 1, "value": null}}, "extra": {"description": "Finds things"},
    });
    let constant = |value: Json| json!({"type": "constant", "value": value});
    json!({
        "nodes": [
            {"id": "start", "data": {"type": "start", "variables": []}},
            {"id": "agent", "data": {
                "type": "agent", "title": "Agent", "agent_strategy_name": strategy,
                "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
                "agent_parameters": {
                    "model": constant(model), "tools": constant(json!([tool])),
                    "instruction": constant(json!("Be brief.")), "query": constant(json!("look")),
                    "maximum_iterations": constant(json!(5)),
                },
            }},
            {"id": "end", "data": {"type": "end", "outputs": [
                {"variable": "text", "value_selector": ["agent", "text"]},
                {"variable": "json", "value_selector": ["agent", "json"]},
            ]}},
        ],
        "edges": [{"source": "start", "target": "agent"}, {"source": "agent", "target": "end"}],
    })
    .to_string()
}

/// The model calls the tool in each round but the last, then answers. The mock numbers the calls of each reply from
/// the start, as some servers do.
async fn model(kind: Kind) -> Running {
    let usage = json!({"prompt_tokens": TOKENS - 2, "completion_tokens": 2});
    let thinking = match kind {
        Kind::OpenAi => "",
        Kind::Anthropic => "Where is it?",
        Kind::ReAct => {
            let action = "{\"action\": \"find\", \"action_input\": {\"q\": \"one\"}}";
            let wants = format!("Thought: Looking for one.\nAction:\n```\n{action}\n```");
            let answers = "Thought: I know.\nFinalAnswer: Done.";
            return llm::rules(json!([
                {"match": {"messages": 2, "has_tools": false}, "reply": wants, "usage": usage},
                {"match": {"messages": 4, "has_tools": false}, "reply": answers, "usage": usage},
            ]))
            .await;
        }
    };
    let call = |messages: u64, q: &str| {
        json!({
            "match": {"messages": messages, "has_tools": true}, "reply": format!("Looking for {q}."), "usage": usage,
            "thinking": thinking, "tool_calls": [{"name": "find", "arguments": {"q": q}}],
        })
    };
    llm::rules(
        json!([call(2, "one"), call(4, "two"), {"match": {"messages": 6}, "reply": "Done.", "usage": usage, "thinking": thinking}]),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_continues_after_its_last_recorded_call_wherever_its_worker_dies() {
    let steps = 2 * Kind::OpenAi.rounds() - 1;
    let cases = PLACES.iter().flat_map(|place| (1..=steps).map(move |nth| (*place, nth)));
    let goes_on =
        stream::iter(cases).map(|(place, nth)| async move { goes_on(Kind::OpenAi, place, nth).await });
    let failures: Vec<String> =
        goes_on.buffer_unordered(AT_ONCE).filter_map(|outcome| async move { outcome.err() }).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Like Anthropic's API, the mock refuses a turn whose thoughts are missing or changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_thinking_model_gets_its_thoughts_back_wherever_the_worker_of_its_agent_dies() {
    let cases =
        [("worker.step_begun", 3), ("worker.step_made", 3), ("worker.step_kept", 1), ("worker.step_kept", 2)];
    let goes_on =
        stream::iter(cases).map(|(place, nth)| async move { goes_on(Kind::Anthropic, place, nth).await });
    let failures: Vec<String> =
        goes_on.buffer_unordered(AT_ONCE).filter_map(|outcome| async move { outcome.err() }).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_writes_its_calls_as_text_continues_wherever_its_worker_dies() {
    let steps = 2 * Kind::ReAct.rounds() - 1;
    let cases = PLACES.iter().flat_map(|place| (1..=steps).map(move |nth| (*place, nth)));
    let goes_on =
        stream::iter(cases).map(|(place, nth)| async move { goes_on(Kind::ReAct, place, nth).await });
    let failures: Vec<String> =
        goes_on.buffer_unordered(AT_ONCE).filter_map(|outcome| async move { outcome.err() }).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn goes_on(kind: Kind, place: &str, nth: usize) -> Result<(), String> {
    let at = format!("{place}:{nth}");
    let (model, outside) = (model(kind).await, Outside::start().await);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("tidemill.toml");
    let table = format!(
        "[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"k\"\n\
         [providers.anthropic.models.m]\nfeatures = [\"tool-call\", \"stream-tool-call\"]\n",
        model.url()
    );
    std::fs::write(&file, table).map_err(|error| error.to_string())?;
    let endpoint = format!("{}/tools", outside.base_url);
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("tools.endpoint", endpoint.as_str())]);
    // The path of the file, as in `TIDEMILL_CONFIG`.
    settings.push(("config", file.to_str().ok_or("temporary paths are text")?));
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let _scheduler = start(&cluster, Program::Scheduler, &scheduler_at, None);
    let process = start(&cluster, Program::Worker, &worker_at, Some(&at));
    let mut armed = Armed { cluster: &cluster, program: Program::Worker, address: worker_at, process };

    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": workflow(kind), "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.map_err(|trouble| format!("{at}: {trouble:?}"))?;
        let followed = patient.follow(&run, END_MAX).await;
        followed.map(|seen| (run, seen)).map_err(|(_, trouble)| format!("{at}: {trouble:?}"))
    };
    let (acted, died) = tokio::join!(acting, armed.until_dead(&at));
    died?;
    let (run, Followed { transcript, .. }) = acted?;
    let shown = patient.run(&run).await.map_err(|trouble| format!("{at}: {trouble:?}"))?;
    let text = &shown["outputs"]["text"];
    let (rounds, said) = (kind.rounds(), kind.said());
    let calls = rounds - 1;
    if shown["status"] != "succeeded" || *text != said {
        return Err(format!("{at}: {shown:#}"));
    }
    // Only the call that was running when the worker died is made twice, with the same key.
    let is_twice = place == "worker.step_made";
    let asked = model.take_requests().len();
    let called = outside.take();
    let (twice_asked, twice_called) = (is_twice && nth % 2 == 1, is_twice && nth.is_multiple_of(2));
    if asked != rounds + usize::from(twice_asked) || called.len() != calls + usize::from(twice_called) {
        return Err(format!("{at}: the model was called {asked} times, the tool {} times", called.len()));
    }
    let mut keys: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    called.iter().for_each(|call| *keys.entry(call.key.as_deref()).or_default() += 1);
    if keys.len() != calls || keys.contains_key(&None) {
        return Err(format!("{at}: the calls had the keys {keys:?}"));
    }
    if shown["total_tokens"] != rounds as u64 * TOKENS {
        return Err(format!("{at}: {} tokens were counted", shown["total_tokens"]));
    }
    let first = |kind: &str| transcript.events.iter().position(|event| event.kind == kind);
    // A call that is known from the journal emits no second start event.
    if first("tool_call_started") > first("tool_call_completed") {
        return Err(format!("{at}: the event for the end of a call comes before the one for its start"));
    }
    let mut over: BTreeSet<&str> = BTreeSet::new();
    for line in transcript.of_kind("node_run_agent_log") {
        let id = line.data["message_id"].as_str().unwrap_or_default();
        match line.data["status"].as_str() {
            Some("start") if over.contains(id) => return Err(format!("{at}: {} begins again", line.data)),
            Some("start") => {}
            _ => _ = over.insert(id),
        }
    }
    // One line for each round, thought and call.
    let all = 2 * rounds + calls;
    if over.len() != all {
        return Err(format!("{at}: {} lines of the log have ended", over.len()));
    }
    // A possible duplicate is marked in the events, in the log and in the node's record.
    let is_unsure = place != "worker.step_kept";
    let says = |data: &Json| data["possible_duplicate"] == true;
    let told_so = transcript.of_kind("tool_call_completed").filter(|event| says(&event.data)).count();
    let of_log =
        shown["outputs"]["json"].as_array().into_iter().flatten().filter(|line| says(&line["metadata"]));
    let of_log: Vec<&str> = of_log.filter_map(|line| line["label"].as_str()).collect();
    let ended = transcript.of_kind("node_run_succeeded").find(|event| event.node() == Some("agent"));
    let record =
        ended.map(|event| event.data["node_run_result"]["process_data"]["possible_duplicates"].clone());
    let steps = record.as_ref().and_then(Json::as_array).map_or(0, Vec::len);
    let expected =
        (usize::from(is_unsure && nth.is_multiple_of(2)), usize::from(is_unsure), usize::from(is_unsure));
    if (told_so, of_log.len(), steps) != expected {
        return Err(format!(
            "{at}: possible duplicates: {told_so} events, log {of_log:?}, record {record:?}: {shown:#}"
        ));
    }
    let completed = transcript.count("tool_call_completed", "agent");
    let lines = shown["outputs"]["json"]
        .as_array()
        .map_or(0, |lines| lines.iter().filter(|line| line["status"] == "success").count());
    if completed != calls || lines != all {
        return Err(format!("{at}: {completed} events of completed calls, {lines} lines: {shown:#}"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_of_an_agent_are_streamed_and_replaced_when_its_worker_dies() {
    let round = |messages: u64, chunks: &[&str]| json!({"match": {"messages": messages}, "chunks": chunks, "chunk_delay_ms": 120});
    let action = "\nAction:\n```\n{\"action\": \"find\", \"action_input\": {\"q\": \"x\"}}\n```";
    let model = llm::rules(json!([
        round(2, &["Thought: I sh", "ould", " look.", action]),
        round(4, &["Thought: Now I ", "know.\nFinal", "Answer: It is ", "42."]),
    ]))
    .await;
    let outside = Outside::start().await;
    let endpoint = format!("{}/tools", outside.base_url);
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("tools.endpoint", endpoint.as_str())]);
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let _scheduler = start(&cluster, Program::Scheduler, &scheduler_at, None);
    let at = "worker.step_kept:2";
    let process = start(&cluster, Program::Worker, &worker_at, Some(at));
    let mut armed = Armed { cluster: &cluster, program: Program::Worker, address: worker_at, process };
    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": agent("ReAct", ("openai", json!({}))), "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.expect("it is accepted");
        let followed = patient.follow(&run, END_MAX).await.map_err(|(_, trouble)| trouble);
        (followed.expect("it ends"), run)
    };
    let ((Followed { transcript, .. }, run), died) = tokio::join!(acting, armed.until_dead(at));
    died.expect("the worker dies");
    let shown = patient.run(&run).await.expect("it exists");
    let said = "I should look.\nNow I know.\nIt is 42.";
    assert_eq!(shown["outputs"]["text"], said, "{shown:#}");
    assert!(
        transcript.text().starts_with(said),
        "the text from before the worker died is replaced: {}",
        transcript.text()
    );
    // The agent's log comes after its text; it has the model's pieces as they came.
    let texts =
        transcript.of_kind("node_run_stream_chunk").filter(|event| event.data["selector"][1] == "text");
    let chunks: Vec<&str> = texts.filter_map(|event| event.data["chunk"].as_str()).collect();
    assert!(chunks.contains(&"I sh"), "it is sent before the end of the round: {chunks:?}");
    assert!(chunks.iter().all(|chunk| !chunk.contains("FinalAnswer")), "{chunks:?}");
    assert_eq!((model.take_requests().len(), outside.take().len()), (2, 1));
}
