//! Tests of steps with scripted calls: their events, outputs and history.

use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{Graph, builder};
use tidemill_common::ids::{Delivery, EntryId, FramePath, ShardId};
use tidemill_common::language::Language;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::pause::CALLED_OFF;
use tidemill_common::nodes::step::{CallError, Chunk, StepData};
use tidemill_common::nodes::{NodeData, NodeResult};
use tidemill_common::value::{JsonMap, Segment, Stored};
use tidemill_common::wire::fact::report::JobName;

use crate::attempt::executor::AttemptName;
use crate::attempt::journal::Journal;
use crate::attempt::variables::JobVariables;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::JobPlace;
use crate::jobs::shared::Core;
use crate::outside::Outside;
use crate::outside::calls::prepare::{Around, with};
use crate::outside::calls::run::{INPUT, STEP_NODE, step};
use crate::outside::calls::{Call, CallContext, CallInfo, CallRef, ChunkSink, LibraryNode, Resolved, run};
use crate::tests::fake::{FakeJobs, core, execution, run_id, until};

/// A call that returns scripted pieces and records its inputs.
#[derive(Default)]
struct Script {
    chunks: Vec<Chunk>,
    fails: Option<CallError>,
    to_user: bool,
    given: Mutex<Vec<JsonMap>>,
}

#[async_trait::async_trait]
impl Call for Script {
    fn info(&self, _: Language) -> CallInfo {
        CallInfo { name: "Script".into(), description: "Does as it is told".into() }
    }
    fn input_schema(&self) -> Json {
        json!({"type": "object"})
    }
    fn output_schema(&self) -> Option<Json> {
        Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
    }
    fn to_user(&self) -> bool {
        self.to_user
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        self.given.lock().unwrap().push(input);
        self.chunks.iter().cloned().for_each(out);
        cx.keep("summary", json!("kept"));
        self.fails.clone().map_or(Ok(()), Err)
    }
}

fn text(text: &str) -> Chunk {
    Chunk::Text(text.into())
}
fn data(value: Json) -> Chunk {
    Chunk::Data(value.as_object().unwrap().clone())
}

/// The result of a step.
struct Came {
    result: NodeResult,
    /// Type and data of all events, in order.
    told: Vec<(String, Json)>,
    streamed: String,
    script: Arc<Script>,
}

impl Came {
    fn kinds(&self) -> Vec<&str> {
        self.told.iter().map(|(kind, _)| kind.as_str()).collect()
    }
    fn of(&self, kind: &str) -> &Json {
        &self.told.iter().find(|(known, _)| known == kind).unwrap_or_else(|| panic!("{:?}", self.told)).1
    }
    fn output(&self, name: &str) -> Option<Json> {
        self.result.outputs.iter().find(|(known, _)| known == name).map(|(_, value)| value.value.clone())
    }
    fn record(&self) -> &JsonMap {
        &self.result.effects.as_ref().unwrap().history[0]
    }
}

fn graph(node: &Json) -> Graph {
    let file = json!({"graph": {
        "nodes": [
            {"id": "start", "data": {"type": "start", "title": "S", "variables": []}},
            {"id": "t", "data": node},
            {"id": "end", "data": {"type": "end", "title": "E", "outputs": []}},
        ],
        "edges": [{"source": "start", "target": "t"}, {"source": "t", "target": "end"}],
    }});
    let imported = builder::import(file.to_string().as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
}

fn handle(core: &Arc<Core>) -> JobHandle {
    let entry = EntryId::new(5, 0);
    let holder = Delivery { consumer: "w".into(), number: 1 };
    let name =
        JobName { frame: FramePath::root(), node: "t".into(), attempt: 1, entry, holder, lost_at: None };
    let place = JobPlace { shard: ShardId(0), queue: "default".into(), entry };
    let started_at = Timestamp::from_micros(5);
    JobHandle { core: core.clone(), place, number: 1, run: run_id(), app: None, name, started_at }
}

fn library(known: Json) -> LibraryNode {
    LibraryNode {
        id: "n1".into(),
        call_id: "Script".into(),
        name: Default::default(),
        known_params: known.as_object().unwrap().clone(),
        override_input: JsonMap::new(),
        override_output: JsonMap::new(),
        service_id: None,
        version: 4,
    }
}

/// Runs a node with a scripted call; without a script, with the call it names.
async fn came(node: Json, script: Option<Script>, library: Option<LibraryNode>, inputs: Json) -> Came {
    came_to(&FakeJobs::new(), node, script, library, inputs).await
}

/// As [`came`], with this store.
async fn came_to(
    jobs: &Arc<FakeJobs>,
    node: Json,
    script: Option<Script>,
    library: Option<LibraryNode>,
    inputs: Json,
) -> Came {
    jobs.state().facts.clear();
    let graph = Arc::new(graph(&node));
    let core = core(jobs, 1);
    let journal = Journal::new(&handle(&core), execution(5));
    let mut values: Vec<(String, String, Stored)> = Vec::new();
    for (of, names) in inputs.as_object().unwrap() {
        for (name, value) in names.as_object().unwrap() {
            values.push((of.clone(), name.clone(), Stored::Inline(Segment::infer(value.clone()))));
        }
    }
    let variables = JobVariables::new(values, graph.clone());
    let node = graph.node(graph.find("t").unwrap());
    let NodeData::Step(data) = &node.data else { panic!("no step") };
    let data: &StepData = data;
    let Outside { providers, http, files, tools, calls, .. } = &core.outside;
    let (files, options) = (&**files, &RunOptions::default());
    let name = AttemptName { run: run_id(), execution: execution(5), number: 1 };
    let (journal, graph) = (&journal, &*graph);
    let variables = &variables;
    let around =
        Around { node, graph, variables, options, providers, http, files, tools, calls, journal, name };
    let mut streamed = String::new();
    let mut on_delta = |piece: &str| streamed.push_str(piece);
    let script = script.map(Arc::new);
    let result = match &script {
        Some(script) => {
            let call = CallRef::Registered(script.clone());
            let library = library.map(Arc::new);
            let found = Resolved { call, call_id: "Script".into(), library, version: Some(2) };
            let prepared = with(found, data, around).await.unwrap();
            Box::pin(step(prepared, data, around, &mut on_delta)).await
        }
        None => Box::pin(run::run(data, around, &mut on_delta)).await,
    };
    until("the end to be told", || {
        let is_end =
            |fact: &Json| ["step_output", "step_cancel"].iter().any(|end| fact.to_string().contains(end));
        jobs.state().facts.iter().any(|(_, fact)| is_end(fact))
    })
    .await;
    let state = jobs.state();
    let events =
        state.facts.iter().flat_map(|(_, fact)| fact["events"].as_array().cloned().unwrap_or_default());
    let told = events.map(|event| (event[0].as_str().unwrap().to_owned(), event[1].clone())).collect();
    Came { result, told, streamed, script: script.unwrap_or_default() }
}

async fn scripted(script: Script) -> Came {
    // It is large: no test needs it on its stack.
    Box::pin(came(json!({"type": "empty", "title": "T"}), Some(script), None, json!({}))).await
}

#[tokio::test(start_paused = true)]
async fn se_a09_what_is_for_the_user_is_told_piece_by_piece_and_kept() {
    let script =
        |to_user| Script { chunks: vec![text("He"), text(""), text("llo")], to_user, ..Script::default() };
    let shown = scripted(script(true)).await;
    assert_eq!(shown.kinds(), ["step_init", "step_input", "text_add", "text_add", "step_output"]);
    assert_eq!((shown.output("text"), shown.streamed.as_str()), (Some(json!("Hello")), "Hello"));
    let runtime = &shown.result.effects.as_ref().unwrap().runtime;
    assert_eq!(runtime["answers"], json!({execution(5).to_string(): "Hello"}));
    assert_eq!(runtime["summary"], "kept");
    assert!(runtime["durations"][execution(5).to_string()].as_f64().is_some());

    let hidden = scripted(script(false)).await;
    assert_eq!(hidden.kinds(), ["step_init", "step_input", "step_output"]);
    assert_eq!(hidden.output("text"), Some(json!("Hello")));
    assert!(!hidden.result.effects.as_ref().unwrap().runtime.contains_key("answers"));
}

#[tokio::test(start_paused = true)]
async fn se_a23_a_call_that_was_made_is_not_made_again_and_tells_and_makes_the_same() {
    let node = || json!({"type": "empty", "title": "T"});
    let many = "x".repeat(100_000);
    for chunks in [
        vec![text("He"), text("llo")],
        vec![text("abc"), data(json!({"a": [1], "b": null}))],
        vec![text(&many), data(json!({"n": 1})), text("rest")],
        vec![],
    ] {
        let jobs = FakeJobs::new();
        let script = || Some(Script { chunks: chunks.clone(), to_user: true, ..Script::default() });
        let first = came_to(&jobs, node(), script(), None, json!({})).await;
        assert!(jobs.state().journal.contains_key(&format!("{}/call", execution(5))), "it is kept");
        let again = came_to(&jobs, node(), script(), None, json!({})).await;
        assert_eq!(
            (first.script.given.lock().unwrap().len(), again.script.given.lock().unwrap().len()),
            (1, 0)
        );
        assert_eq!(again.result.outputs, first.result.outputs);
        assert_eq!(again.streamed, first.streamed);
        let said = |came: &Came| {
            let texts = came.told.iter().filter(|(kind, _)| kind == "text_add");
            texts.map(|(_, data)| data["text"].as_str().unwrap().to_owned()).collect::<String>()
        };
        assert_eq!(said(&again), said(&first));
        let kept = |came: &Came| {
            let mut runtime = came.result.effects.as_ref().unwrap().runtime.clone();
            runtime.shift_remove("time");
            runtime
        };
        assert_eq!(kept(&again), kept(&first), "what the run keeps, and how long it took");
        assert_eq!(again.record()["execution_time"], first.record()["execution_time"]);
    }
}

#[tokio::test(start_paused = true)]
async fn se_a23_a_call_that_has_failed_or_asks_models_alone_leaves_no_result() {
    let jobs = FakeJobs::new();
    let fails = Some(CallError::new("bad"));
    let script = Some(Script { fails, ..Script::default() });
    came_to(&jobs, json!({"type": "empty", "title": "T"}), script, None, json!({})).await;
    came_to(&jobs, json!({"type": "empty", "title": "T"}), None, None, json!({})).await;
    assert!(jobs.state().journal.is_empty(), "{:?}", jobs.state().journal);
}

#[tokio::test(start_paused = true)]
async fn se_a10_an_object_takes_the_place_of_all_before_it_but_not_of_what_was_told() {
    let chunks = vec![text("abc"), data(json!({"a": 1})), data(json!({"b": 2}))];
    let came = scripted(Script { chunks, to_user: true, ..Script::default() }).await;
    assert_eq!(came.output("b"), Some(json!(2)));
    assert_eq!(came.output("output"), Some(json!({"b": 2})));
    assert_eq!(came.output("a"), None);
    assert_eq!(
        came.kinds(),
        ["step_init", "step_input", "text_add", "step_data", "step_data", "step_output"]
    );
    assert_eq!(came.of("step_output")["content"], json!({"b": 2}));
    let answers = &came.result.effects.as_ref().unwrap().runtime["answers"];
    assert_eq!(answers, &json!({execution(5).to_string(): "abc"}));
}

#[tokio::test(start_paused = true)]
async fn se_a12_an_error_is_told_kept_out_of_the_steps_view_and_has_both_keys() {
    let fails = CallError::new("bad").with(json!({"k": 1}));
    let chunks = vec![text("never mind")];
    let came = scripted(Script { chunks, fails: Some(fails), ..Script::default() }).await;
    assert_eq!(came.kinds(), ["step_init", "step_input", "step_output", "step_error"]);
    assert_eq!(
        (&came.of("step_output")["content"], &came.of("step_output")["step_status"]),
        (&json!({}), &json!("error"))
    );
    assert_eq!(came.output("error_message"), Some(json!({"err_msg": "bad", "data": {"k": 1}})));
    assert_eq!(came.result.failure.as_ref().unwrap().error_type, "CallError");
    assert_eq!(came.record()["step_status"], "error");
    assert!(came.result.effects.as_ref().unwrap().runtime.is_empty());

    let other = scripted(Script { fails: Some(CallError::of("X", "why")), ..Script::default() }).await;
    assert_eq!(other.output("error_message"), Some(json!({"err_msg": "why", "data": {}})));
}

#[tokio::test(start_paused = true)]
async fn se_a05_a_step_that_is_called_off_in_its_call_is_told_as_cancelled_and_leaves_no_record() {
    let off = CallError::of(CALLED_OFF, "the user said no");
    let came = scripted(Script { fails: Some(off), ..Script::default() }).await;
    assert_eq!(came.kinds(), ["step_init", "step_input", "step_cancel"]);
    assert_eq!(came.of("step_cancel")["step_status"], "cancelled");
    assert_eq!(came.result.failure.as_ref().unwrap().error_type, CALLED_OFF);
    assert!(came.result.effects.is_none() && came.result.outputs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn se_a13_a_text_that_speaks_of_an_error_is_a_success() {
    let came = scripted(Script { chunks: vec![text("ERROR: not found")], ..Script::default() }).await;
    assert_eq!(came.result.failure, None);
    assert_eq!(
        (&came.record()["step_status"], &came.of("step_output")["step_status"]),
        (&json!("success"), &json!("success"))
    );
}

#[tokio::test(start_paused = true)]
async fn se_a14_the_history_holds_what_a_step_was_given_and_made() {
    let node = json!({"type": "empty", "title": "Weather", "node": "n1", "params": {"query": {"city": "{{#start.city#}}"}}, "enable_filling": false});
    let script = Script { chunks: vec![data(json!({"http_code": 200}))], ..Script::default() };
    let known = json!({"url": "u", "query": {"unit": "C"}});
    let came = came(node, Some(script), Some(library(known)), json!({"start": {"city": "Rome"}})).await;
    let given = json!({"url": "u", "query": {"city": "Rome"}});
    assert_eq!(came.script.given.lock().unwrap()[..], [given.as_object().unwrap().clone()]);
    let record = came.record();
    assert_eq!((&record["step_name"], &record["step_type"]), (&json!("Weather"), &json!("Script")));
    assert_eq!((&record["input_data"], &record["output_data"]), (&given, &json!({"http_code": 200})));
    assert_eq!(came.of("step_input")["content"], given);
    assert_eq!(came.result.process_data["library_node"], json!({"id": "n1", "version": 4}));
    let init = came.of("step_init");
    assert_eq!(
        (&init["step_status"], &init["content"]["library_node"]["id"]),
        (&json!("init"), &json!("n1"))
    );
}

#[tokio::test(start_paused = true)]
async fn se_a15_a_step_whose_call_is_not_there_fails_and_a_built_in_one_needs_no_library() {
    let nope =
        came(json!({"type": "empty", "node": "nope", "enable_filling": false}), None, None, json!({})).await;
    assert_eq!(nope.result.failure.as_ref().unwrap().error_type, "ValueError");
    assert!(nope.result.failure.unwrap().message.contains("nope"));
    let empty =
        came(json!({"type": "summary", "node": "EMPTY", "enable_filling": false}), None, None, json!({}))
            .await;
    assert_eq!((empty.result.failure, empty.result.outputs), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn se_a21_an_empty_step_has_an_empty_output_and_no_text() {
    let came = came(json!({"type": "empty", "title": "T"}), None, None, json!({})).await;
    assert_eq!(came.kinds(), ["step_init", "step_input", "step_output"]);
    assert_eq!(
        (&came.of("step_output")["content"], &came.of("step_output")["step_status"]),
        (&json!({}), &json!("success"))
    );
    assert_eq!((came.streamed.as_str(), came.result.outputs), ("", vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_the_stages_before_have_filled_in_is_the_input() {
    let node = json!({"type": "empty", "title": "T", "params": {"city": ""}});
    let inputs = json!({STEP_NODE: {INPUT: {"city": "Lyon"}}});
    let came = came(node, Some(Script::default()), None, inputs).await;
    assert_eq!(came.script.given.lock().unwrap()[0]["city"], "Lyon");
    assert_eq!(came.of("step_input")["content"], json!({"city": "Lyon"}));
    assert_eq!(came.output("text"), Some(json!("")), "a call that brings nothing brings an empty text");
}

#[tokio::test(start_paused = true)]
async fn output_that_must_fit_its_schema_is_checked() {
    let node = |strict: bool| {
        json!({
            "type": "empty", "title": "T", "strict_output": strict, "override_output": {"m": {"type": "string"}},
        })
    };
    let script = || Script { chunks: vec![data(json!({"n": "one", "m": "x"}))], ..Script::default() };
    let strict = came(node(true), Some(script()), None, json!({})).await;
    let failure = strict.result.failure.as_ref().unwrap();
    assert_eq!(failure.error_type, "OutputSchemaMismatch");
    assert!(failure.message.contains("/n"), "{}", failure.message);
    assert_eq!(came(node(false), Some(script()), None, json!({})).await.result.failure, None);
}

#[tokio::test(start_paused = true)]
async fn se_a09_a_thousand_pieces_are_told_in_a_few() {
    let pieces: Vec<String> = (0..1000).map(|n| format!("{n},")).collect();
    let mut chunks: Vec<Chunk> = pieces.iter().map(|piece| text(piece)).collect();
    chunks.push(data(json!({"a": 1})));
    let came = scripted(Script { chunks, to_user: true, ..Script::default() }).await;
    let texts: Vec<&Json> =
        came.told.iter().filter(|(kind, _)| kind == "text_add").map(|(_, data)| data).collect();
    let said: String = texts.iter().map(|data| data["text"].as_str().unwrap()).collect();
    assert_eq!(said, pieces.concat());
    assert!(texts.len() < 10, "{} events", texts.len());
    let kinds = came.kinds();
    let object = kinds.iter().position(|kind| *kind == "step_data");
    assert!(
        object > kinds.iter().rposition(|kind| *kind == "text_add"),
        "what came before an object is told before it"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_large_is_an_output_and_told_by_its_beginning() {
    let (large, many) = ("x".repeat(3 << 20), (0..40).map(|n| (format!("k{n}"), json!("y".repeat(60_000)))));
    let mut object = JsonMap::from_iter(many);
    object.insert("large".into(), json!(large));
    let came =
        scripted(Script { chunks: vec![Chunk::Data(object)], to_user: true, ..Script::default() }).await;
    assert_eq!(came.output("large"), Some(json!(large)));
    for shown in
        [&came.of("step_output")["content"], &came.of("step_data")["content"], &came.record()["output_data"]]
    {
        assert!(shown.to_string().len() < 1_200_000, "{}", shown.to_string().len());
        assert!(shown["passed_over"].as_u64().is_some_and(|count| count > 20), "{}", shown["passed_over"]);
    }
    let one = JsonMap::from_iter([("large".to_owned(), json!(large))]);
    let came = scripted(Script { chunks: vec![Chunk::Data(one)], ..Script::default() }).await;
    let shown = &came.record()["output_data"]["large"];
    assert_eq!(
        (&shown["bytes"], shown["beginning"].as_str().map(str::len)),
        (&json!((3 << 20) + 2), Some(1000))
    );
}
