//! Fills missing input of a node before its call: first from the schema's defaults, then by a model, then, in an
//! interactive run, by asking a person. The node starts only when nothing is missing.
//!
//! The filling is reported as a separate node inside the job, which also carries its cost. A step or a tool takes the
//! values as its input; any other node reads them as variables of that inner node.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value as Json, json};
use tidemill_common::graph::{ChildKind, Graph, NodeIx};
use tidemill_common::ids::ExecutionId;
use tidemill_common::language::Language;
use tidemill_common::machine::fact::{ChildEnd, ChildEvent};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::pause::CALLED_OFF;
use tidemill_common::nodes::step::background::{self, Background};
use tidemill_common::nodes::step::texts::{FILLING, FILLING_DESCRIPTION};
use tidemill_common::nodes::step::{CallError, HISTORY_SIZE, Secrets, StepData, params};
use tidemill_common::nodes::tool::{KnownParameters, ToolData, parameters};
use tidemill_common::nodes::{NodeData, NodeResult};
use tidemill_common::slots::{Filled, Schema, SlotOutput};
use tidemill_common::value::{JsonMap, Segment, Stored};
use uuid::Uuid;

use crate::attempt::execute::sizes;
use crate::attempt::journal::{ChildTry, EntryStart, Try};
use crate::attempt::spill::spill;
use crate::attempt::stages::found_tool::found_tool;
use crate::attempt::stages::{Flow, Stage, WorkContext};
use crate::jobs::shared::now;
use crate::outside::calls::explain::Explaining;
use crate::outside::calls::params::{Asking, sources};
use crate::outside::calls::prepare::{Around, Prepared, drafted};
use crate::outside::calls::resolve;
use crate::outside::calls::run::{INPUT, STEP_NODE, begun, failed, refused};
use crate::outside::calls::search::{Search, Searched};
use crate::outside::calls::step_events::{Status, StepEvents, Took, emit};

/// The stage that fills missing input.
pub(super) struct SlotStage;

#[async_trait::async_trait]
impl Stage for SlotStage {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let graph = cx.graph.clone();
        let is_slot = |ix: &&NodeIx| {
            graph.node(**ix).child.as_deref().is_some_and(|child| child.kind == ChildKind::Slot)
        };
        let Some(child) = graph.node(cx.ix).children.iter().find(is_slot).copied() else { return Flow::On };
        match fill(cx, &graph, child).await {
            Ok(()) => Flow::On,
            Err(mut result) => {
                let (providers, profile) = (&cx.handle.core.outside.providers, None);
                let (node, options, journal, name) = (graph.node(cx.ix), cx.options, cx.journal, cx.name);
                Explaining { node, options, providers, journal, name, profile }.explain(&mut result).await;
                Flow::End(result)
            }
        }
    }
}

/// The input to fill and its context.
struct SlotInput {
    schema: Schema,
    input: JsonMap,
    background: Background,
    secrets: Secrets,
    language: Language,
    profile: Option<String>,
    /// Reports events of the node whose input it is.
    step_events: StepEvents,
}

async fn fill(cx: &mut WorkContext<'_>, graph: &Arc<Graph>, child: NodeIx) -> Result<(), Box<NodeResult>> {
    let NodeData::Step(own) = &graph.node(child).data else { return Ok(()) };
    let slot_input = match &graph.node(cx.ix).data {
        NodeData::Step(data) => of_step(cx, graph, data).await,
        NodeData::Tool(data) => of_tool(cx, graph, data, own).await,
        _ => of_any(cx, graph, own),
    };
    let Some(slot_input) = slot_input? else { return Ok(()) };
    let mut filled = Filled::begin(&slot_input.schema, slot_input.input.clone());
    if !filled.is_complete() {
        let error = search(cx, graph, child, &slot_input, &mut filled).await;
        ask(cx, &slot_input, &mut filled, error.as_deref()).await?;
    }
    let Json::Object(input) = filled.data else { return Ok(()) };
    match &graph.node(cx.ix).data {
        NodeData::Step(_) | NodeData::Tool(_) => {
            let whole = Stored::Inline(Segment::infer(Json::Object(input)));
            cx.variables.put(STEP_NODE, INPUT, whole, None);
        }
        _ => {
            for (name, value) in input {
                cx.variables.put(
                    graph.node(child).id.as_str(),
                    &name,
                    Stored::Inline(Segment::infer(value)),
                    None,
                );
            }
        }
    }
    Ok(())
}

/// The environment of a step's call.
pub(super) fn around<'a>(cx: &'a WorkContext<'_>, graph: &'a Graph) -> Around<'a> {
    let outside = &cx.handle.core.outside;
    Around {
        node: graph.node(cx.ix),
        graph,
        variables: &cx.variables,
        options: cx.options,
        providers: &outside.providers,
        http: &outside.http,
        files: &cx.files,
        tools: &outside.tools,
        calls: &outside.calls,
        journal: cx.journal,
        name: cx.name,
    }
}

/// Builds the input of a step from its call. If the call is not found, the step itself reports that when it runs.
async fn of_step(
    cx: &WorkContext<'_>,
    graph: &Arc<Graph>,
    data: &StepData,
) -> Result<Option<SlotInput>, Box<NodeResult>> {
    let around = around(cx, graph);
    let Ok(found) = resolve(data.id(), around.calls).await else { return Ok(None) };
    let mut prepared = drafted(found, data, around);
    if !prepared.fills() {
        return Ok(None);
    }
    if let Err(error) = prepared.init().await {
        return Err(cannot_begin(&prepared, data, around, error));
    }
    begun(cx.journal, &prepared);
    let schema = compiled(cx, &prepared.step_events, prepared.input_schema())?;
    let profile = data.filling.profile_id.clone();
    Ok(Some(SlotInput {
        schema,
        input: prepared.input,
        background: prepared.background,
        secrets: prepared.secrets,
        language: prepared.language,
        profile,
        step_events: prepared.step_events,
    }))
}

/// The result of a step whose parameters give no valid input.
pub(super) fn cannot_begin(
    prepared: &Prepared<'_>,
    data: &StepData,
    around: Around<'_>,
    error: CallError,
) -> Box<NodeResult> {
    let message = prepared.secrets.masked(&error.message);
    let data_shown = prepared.secrets.masked_map(&error.data);
    Box::new(refused(data, around, &CallError { message, data: data_shown, ..error }))
}

/// Builds the input of a tool from its declared parameters.
async fn of_tool(
    cx: &WorkContext<'_>,
    graph: &Arc<Graph>,
    data: &ToolData,
    own: &StepData,
) -> Result<Option<SlotInput>, Box<NodeResult>> {
    let core = &cx.handle.core;
    let found = found_tool(core, data).await?;
    if found.is_none() && !core.hosts.takes(graph.node(cx.ix)) {
        return Ok(None);
    }
    let noted = data.declared.as_deref().map(KnownParameters::just);
    let declared = found.as_ref().and_then(|tool| tool.known()).or(noted).unwrap_or(KnownParameters::NOTHING);
    let (source, declared) = match own.filling.input_schema.clone() {
        Some(schema) => (schema, declared),
        None => (parameters::schema(declared), declared),
    };
    let given = parameters::known(data, declared, &cx.variables);
    let mut slot_input = plain(cx, graph, own, source, given)?;
    cx.variables.given_secrets().for_each(|(_, secret)| slot_input.secrets.note(secret));
    Ok(Some(slot_input))
}

/// Builds the input of any other node from its input schema and parameters.
fn of_any(
    cx: &WorkContext<'_>,
    graph: &Arc<Graph>,
    own: &StepData,
) -> Result<Option<SlotInput>, Box<NodeResult>> {
    let Some(source) = own.filling.input_schema.clone() else { return Ok(None) };
    let mut secrets = Secrets::default();
    let mut given = params::resolve(&own.params, &cx.variables, &mut secrets, &[]);
    given.shift_remove("target_node");
    let slot_input = plain(cx, graph, own, source, given)?;
    Ok(Some(SlotInput { secrets, ..slot_input }))
}

fn plain(
    cx: &WorkContext<'_>,
    graph: &Arc<Graph>,
    own: &StepData,
    source: Json,
    input: JsonMap,
) -> Result<SlotInput, Box<NodeResult>> {
    let node = graph.node(cx.ix);
    let step_events = StepEvents {
        id: node.id.as_str().to_owned(),
        name: node.title.clone(),
        description: String::new(),
        ty: node.kind.wire().to_owned(),
        attempt: cx.name.number,
    };
    let mut secrets = Secrets::default();
    let question = own.filling.question.as_deref();
    Ok(SlotInput {
        schema: compiled(cx, &step_events, source)?,
        input,
        background: background::read(&cx.variables, question, HISTORY_SIZE, &mut secrets),
        secrets,
        language: own.language.unwrap_or_else(|| cx.options.choices().language),
        profile: own.filling.profile_id.clone(),
        step_events,
    })
}

fn compiled(cx: &WorkContext<'_>, step_events: &StepEvents, source: Json) -> Result<Schema, Box<NodeResult>> {
    Schema::new(source).map_err(|error| {
        let error = CallError::of("ValueError", error.to_string());
        Box::new(failed(NodeResult::default(), step_events, cx.journal, &error, json!({}), Took::default()))
    })
}

/// Asks a model for missing values, or takes the recorded answer. Returns the reason if no model helped.
async fn search(
    cx: &mut WorkContext<'_>,
    graph: &Arc<Graph>,
    child: NodeIx,
    slot_input: &SlotInput,
    filled: &mut Filled,
) -> Option<String> {
    let the_try = match cx.journal.begin("slot").await {
        EntryStart::Known(kept) => {
            let found = kept.as_object().map(SlotOutput::read).unwrap_or_default();
            filled.take_all(&slot_input.schema, Json::Object(found.slot_data));
            return kept.get("slot_error").and_then(Json::as_str).map(str::to_owned);
        }
        EntryStart::Try(the_try) => the_try,
    };
    filled.take_defaults(&slot_input.schema);
    let (searched, result, child_try, output) =
        one_search(cx, graph, child, slot_input, filled, &the_try).await;
    let spilled = spill(result, Some(&cx.variables), sizes(cx.handle, cx.options));
    let record = Box::new(spilled.record);
    let ended = ChildEvent::Ended {
        at: now().max(child_try.began),
        end: ChildEnd::Succeeded,
        record,
        streamed: Vec::new(),
    };
    cx.journal.record_report("slot", &output, child_try.report(ended), &spilled.blobs).await;
    searched.error
}

async fn one_search(
    cx: &WorkContext<'_>,
    graph: &Arc<Graph>,
    child: NodeIx,
    slot_input: &SlotInput,
    filled: &mut Filled,
    the_try: &Try,
) -> (Searched, NodeResult, ChildTry, Json) {
    let (node, clock) = (graph.node(child), Instant::now());
    let child_try = ChildTry { child: node.id.clone(), number: the_try.number, began: now() };
    let execution = ExecutionId::derive(&cx.handle.run, cx.frame, &node.id);
    let number = cx.name.number.saturating_sub(1).saturating_add(the_try.number);
    let journal = cx.journal.of_child(execution, number, child_try.clone()).repeating_calls();
    let step_events = StepEvents {
        // It is not a step of the workflow, so it gets its own id. The id stays the same when the job is repeated.
        id: Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{execution}/slot").as_bytes()).to_string(),
        name: FILLING.of(slot_input.language).to_owned(),
        description: FILLING_DESCRIPTION.of(slot_input.language).to_owned(),
        ty: "slot".to_owned(),
        attempt: number,
    };
    let shown = slot_input.secrets.masked_map(&slot_input.input);
    let asked = json!({"data": shown, "current_schema": slot_input.schema.source()});
    emit(&journal, step_events.event(StepEvent::StepInput, Status::Running, asked.clone()));
    let sources = sources(&slot_input.background);
    let search = searching(cx, slot_input, &sources, &journal);
    let searched = search.run(filled).await;
    let mut output = slot_input.secrets.masked_map(&filled.output().object());
    let took = Took {
        seconds: clock.elapsed().as_secs_f64(),
        input_tokens: searched.tokens.0,
        output_tokens: searched.tokens.1,
    };
    if let Some(error) = &searched.error {
        output.insert("slot_error".into(), json!(error));
    }
    let status = if filled.is_complete() { Status::Success } else { Status::Param };
    emit(&journal, step_events.output(status, Json::Object(output.clone()), took));
    let mut kept = filled.output().object();
    if let Some(error) = &searched.error {
        kept.insert("slot_error".into(), json!(error));
    }
    let segments = |map: &JsonMap| -> Vec<(String, Segment)> {
        map.iter().map(|(name, value)| (name.clone(), Segment::infer(value.clone()))).collect()
    };
    let inputs = asked.as_object().map(segments).unwrap_or_default();
    let mut result = NodeResult { inputs, outputs: segments(&output), ..NodeResult::default() };
    journal.list_possible_duplicates(&mut result.process_data);
    result.wasted = journal.take_wasted();
    (searched, result, child_try, Json::Object(kept))
}

fn searching<'a>(
    cx: &'a WorkContext<'_>,
    slot_input: &'a SlotInput,
    sources: &'a tidemill_common::slots::prompt::Sources,
    journal: &'a crate::attempt::journal::Journal,
) -> Search<'a> {
    Search {
        schema: &slot_input.schema,
        sources,
        language: slot_input.language,
        providers: &cx.handle.core.outside.providers,
        profile: slot_input.profile.as_deref(),
        secrets: &slot_input.secrets,
        journal,
        key: "slot",
    }
}

/// Asks a person for the remaining values.
async fn ask(
    cx: &WorkContext<'_>,
    slot_input: &SlotInput,
    filled: &mut Filled,
    error: Option<&str>,
) -> Result<(), Box<NodeResult>> {
    let sources = sources(&slot_input.background);
    let search = searching(cx, slot_input, &sources, cx.journal);
    let asking = Asking {
        search: &search,
        journal: cx.journal,
        is_interactive: cx.options.choices().interactive,
        step_events: &slot_input.step_events,
        secrets: &slot_input.secrets,
    };
    let Err(error) = asking.run(filled, error).await else { return Ok(()) };
    if error.error_type == CALLED_OFF {
        let content = Json::Object(slot_input.secrets.masked_map(&filled.current()));
        emit(cx.journal, slot_input.step_events.event(StepEvent::StepCancel, Status::Cancelled, content));
        return Err(Box::new(NodeResult::failed(error.failure())));
    }
    let shown = json!(slot_input.secrets.masked_map(&filled.current()));
    Err(Box::new(failed(
        NodeResult::default(),
        &slot_input.step_events,
        cx.journal,
        &error,
        shown,
        Took::default(),
    )))
}
