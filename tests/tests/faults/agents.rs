//! An agent whose worker dies between any two of its calls goes on behind the last one that was recorded: nothing that is
//! recorded is asked, called or paid for again, and the log of its rounds is told whole.

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

/// Where a worker dies, at each of the steps: the model's rounds, and a call of the tool between two of them.
const PLACES: [&str; 3] = ["worker.step_begun", "worker.step_made", "worker.step_kept"];
/// Cases at once: each has a Redis and three processes of its own.
const AT_ONCE: usize = 5;
/// Tokens of each round, as the mock counts them.
const TOKENS: u64 = 12;

/// Whose model it is, and with which parameters.
#[derive(Clone, Copy)]
enum Kind {
    OpenAi,
    /// It thinks before each of its replies, and demands its thoughts back while it uses tools.
    Anthropic,
    /// It writes what it would do.
    ReAct,
}

impl Kind {
    /// Rounds of the model; between two of them the tool is called.
    const fn rounds(self) -> usize {
        match self {
            Self::OpenAi | Self::Anthropic => 3,
            // The mock cannot tell a third from the second: both have four messages.
            Self::ReAct => 2,
        }
    }

    /// All that the agent says.
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

/// What each of Anthropic's replies begins with.
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

/// Calls the tool before each round but the first, then answers. The mock numbers the calls of each reply anew, as some servers do.
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
async fn an_agent_goes_on_behind_its_last_step_wherever_its_worker_dies() {
    let steps = 2 * Kind::OpenAi.rounds() - 1;
    let cases = PLACES.iter().flat_map(|place| (1..=steps).map(move |nth| (*place, nth)));
    let goes_on =
        stream::iter(cases).map(|(place, nth)| async move { goes_on(Kind::OpenAi, place, nth).await });
    let failures: Vec<String> =
        goes_on.buffer_unordered(AT_ONCE).filter_map(|outcome| async move { outcome.err() }).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The mock refuses, as Anthropic does, a turn whose thoughts are missing or not as they were signed.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_model_thinks_gives_it_back_what_it_thought_wherever_its_worker_dies() {
    let cases =
        [("worker.step_begun", 3), ("worker.step_made", 3), ("worker.step_kept", 1), ("worker.step_kept", 2)];
    let goes_on =
        stream::iter(cases).map(|(place, nth)| async move { goes_on(Kind::Anthropic, place, nth).await });
    let failures: Vec<String> =
        goes_on.buffer_unordered(AT_ONCE).filter_map(|outcome| async move { outcome.err() }).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_writes_what_it_would_do_goes_on_wherever_its_worker_dies() {
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
    // The file's place, as `TIDEMILL_CONFIG` has it.
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
    let (run, Followed { told, .. }) = acted?;
    let shown = patient.run(&run).await.map_err(|trouble| format!("{at}: {trouble:?}"))?;
    let text = &shown["outputs"]["text"];
    let (rounds, said) = (kind.rounds(), kind.said());
    let calls = rounds - 1;
    if shown["status"] != "succeeded" || *text != said {
        return Err(format!("{at}: {shown:#}"));
    }
    // Only what was under way when the worker died is done twice, and under the same key.
    let is_twice = place == "worker.step_made";
    let asked = model.take_requests().len();
    let called = outside.take();
    let (twice_asked, twice_called) = (is_twice && nth % 2 == 1, is_twice && nth.is_multiple_of(2));
    if asked != rounds + usize::from(twice_asked) || called.len() != calls + usize::from(twice_called) {
        return Err(format!("{at}: the model was asked {asked} times, the tool called {}", called.len()));
    }
    let mut keys: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    called.iter().for_each(|call| *keys.entry(call.key.as_deref()).or_default() += 1);
    if keys.len() != calls || keys.contains_key(&None) {
        return Err(format!("{at}: the calls had the keys {keys:?}"));
    }
    if shown["total_tokens"] != rounds as u64 * TOKENS {
        return Err(format!("{at}: {} tokens were counted", shown["total_tokens"]));
    }
    let first = |kind: &str| told.events.iter().position(|event| event.kind == kind);
    // A call that is known from the journal is not told to begin again.
    if first("tool_call_started") > first("tool_call_completed") {
        return Err(format!("{at}: a call is told to have ended before it began"));
    }
    let mut over: BTreeSet<&str> = BTreeSet::new();
    for line in told.of_kind("node_run_agent_log") {
        let id = line.data["message_id"].as_str().unwrap_or_default();
        match line.data["status"].as_str() {
            Some("start") if over.contains(id) => return Err(format!("{at}: {} begins again", line.data)),
            Some("start") => {}
            _ => _ = over.insert(id),
        }
    }
    // A line a round, a thought and a call.
    let all = 2 * rounds + calls;
    if over.len() != all {
        return Err(format!("{at}: {} lines of the log are told to be over", over.len()));
    }
    // What may have been done twice says so: to whoever follows, in the log and in the record.
    let is_unsure = place != "worker.step_kept";
    let says = |data: &Json| data["possible_duplicate"] == true;
    let told_so = told.of_kind("tool_call_completed").filter(|event| says(&event.data)).count();
    let of_log =
        shown["outputs"]["json"].as_array().into_iter().flatten().filter(|line| says(&line["metadata"]));
    let of_log: Vec<&str> = of_log.filter_map(|line| line["label"].as_str()).collect();
    let ended = told.of_kind("node_run_succeeded").find(|event| event.node() == Some("agent"));
    let record =
        ended.map(|event| event.data["node_run_result"]["process_data"]["possible_duplicates"].clone());
    let steps = record.as_ref().and_then(Json::as_array).map_or(0, Vec::len);
    let expected =
        (usize::from(is_unsure && nth.is_multiple_of(2)), usize::from(is_unsure), usize::from(is_unsure));
    if (told_so, of_log.len(), steps) != expected {
        return Err(format!("{at}: {told_so} calls, {of_log:?}, {record:?} may be twice: {shown:#}"));
    }
    let completed = told.count("tool_call_completed", "agent");
    let lines = shown["outputs"]["json"]
        .as_array()
        .map_or(0, |lines| lines.iter().filter(|line| line["status"] == "success").count());
    if completed != calls || lines != all {
        return Err(format!("{at}: {completed} calls told, {lines} lines: {shown:#}"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_of_an_agent_come_as_they_are_written_and_anew_when_its_worker_dies() {
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
        let run = patient.submit(&body, "once").await.expect("it is taken");
        let followed = patient.follow(&run, END_MAX).await.map_err(|(_, trouble)| trouble);
        (followed.expect("it ends"), run)
    };
    let ((Followed { told, .. }, run), died) = tokio::join!(acting, armed.until_dead(at));
    died.expect("the worker dies");
    let shown = patient.run(&run).await.expect("it is there");
    let said = "I should look.\nNow I know.\nIt is 42.";
    assert_eq!(shown["outputs"]["text"], said, "{shown:#}");
    assert!(
        told.text().starts_with(said),
        "what was told before the worker died is replaced: {}",
        told.text()
    );
    // The log of the agent, which is told behind its text, has the model's words as they came.
    let texts = told.of_kind("node_run_stream_chunk").filter(|event| event.data["selector"][1] == "text");
    let chunks: Vec<&str> = texts.filter_map(|event| event.data["chunk"].as_str()).collect();
    assert!(chunks.contains(&"I sh"), "it is told before the round is over: {chunks:?}");
    assert!(chunks.iter().all(|chunk| !chunk.contains("FinalAnswer")), "{chunks:?}");
    assert_eq!((model.take_requests().len(), outside.take().len()), (2, 1));
}
