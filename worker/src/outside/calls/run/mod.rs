//! Runs a step: sends its input as an event, makes the call, passes its pieces on, and builds outputs, record and
//! history. An error is also sent as an event and fails the node.

mod once;
pub(crate) mod step_text;
#[cfg(test)]
mod tests;
mod typed;

use std::time::Instant;

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::messages::Effects;
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::pause::CALLED_OFF;
use tidemill_common::nodes::step::{CallError, Chunk, Gathered, StepData};
use tidemill_common::nodes::{NodeResult, SOURCE_HANDLE};
use tidemill_common::value::{JsonMap, Segment};

use crate::attempt::journal::Journal;
use crate::jobs::shared::now;
use crate::outside::calls::explain::Explaining;
use crate::outside::calls::prepare::{Around, Prepared, made, prepare};
use crate::outside::calls::run::step_text::StepText;
use crate::outside::calls::step_events::{Status, StepEvents, Took, bounded, emit, seconds};
use crate::outside::providers::DeltaSink;

/// The namespace of input built by earlier stages; see [`INPUT`].
pub(crate) const STEP_NODE: &str = "#step";
/// The variable with the final input, missing values filled in.
pub(crate) const INPUT: &str = "input";
/// The output that names the branch of a call that chooses one.
const BRANCH_ID: &str = "branch_id";

/// Runs the node. A failure is part of the result. Dropping the future stops the call.
pub(crate) async fn run(data: &StepData, around: Around<'_>, on_delta: DeltaSink<'_>) -> NodeResult {
    let mut result = match prepare(data, around).await {
        Ok(prepared) => step(prepared, data, around, on_delta).await,
        Err(error) => refused(data, around, &error),
    };
    let Around { node, options, providers, journal, name, .. } = around;
    let profile = data.filling.profile_id.as_deref();
    Explaining { node, options, providers, journal, name, profile }.explain(&mut result).await;
    result
}

/// Runs a prepared step.
async fn step(
    mut prepared: Prepared<'_>,
    data: &StepData,
    around: Around<'_>,
    on_delta: DeltaSink<'_>,
) -> NodeResult {
    match made(around.variables) {
        Some(input) => prepared.input = input,
        None => begun(around.journal, &prepared),
    }
    let (step_events, began, clock) = (prepared.step_events.clone(), now(), Instant::now());
    let shown = prepared.secrets.masked_map(&prepared.input);
    let seen = bounded(shown.clone());
    emit(around.journal, step_events.event(StepEvent::StepInput, Status::Running, json!(seen)));
    // Calls that only ask models have recorded the models' replies.
    let called = match prepared.found.call.is_kept() {
        true => once::once(&mut prepared, around.journal, on_delta).await,
        false => call(&prepared, around.journal, on_delta).await,
    };
    let (usage, runtime, more) = prepared.made.take();
    let took = Took {
        seconds: called.as_ref().map_or_else(|_| clock.elapsed().as_secs_f64(), |called| called.seconds),
        input_tokens: usage.as_ref().map_or(0, |usage| usage.prompt_tokens),
        output_tokens: usage.as_ref().map_or(0, |usage| usage.completion_tokens),
    };
    let result = NodeResult {
        inputs: segments(shown),
        process_data: prepared.record(),
        metadata: usage.as_ref().map(usage::metadata).unwrap_or_default(),
        usage,
        ..NodeResult::default()
    };
    let called = called.and_then(|called| {
        let mut outputs = called.gathered.outputs();
        outputs.retain(|(name, _)| !more.contains_key(name));
        outputs.extend(more.into_iter().map(|(name, value)| (name, Segment::infer(value))));
        typed::typed(outputs, prepared.output_schema(), data.strict_output).map(|outputs| (called, outputs))
    });
    match called {
        Ok((called, outputs)) => {
            let output: JsonMap =
                outputs.iter().filter(|(name, _)| !is_whole(name, &called.gathered)).map(value_of).collect();
            let output = Json::Object(bounded(output));
            emit(around.journal, step_events.output(Status::Success, output.clone(), took));
            let mut record = step_events.record(Status::Success, json!(seen), output, took);
            if prepared.possible_duplicate {
                record.insert("extra_data".into(), json!({"possible_duplicate": true}));
            }
            let user_text = if prepared.to_user() { called.said.as_str() } else { "" };
            let runtime = kept(runtime, around, user_text, seconds(began), took);
            let effects = Effects { messages: Vec::new(), runtime, history: vec![record] };
            let handle = handle(&prepared, around, &outputs);
            NodeResult { outputs, handle, effects: Some(Box::new(effects)), ..result }
        }
        Err(error) => {
            let error = CallError { message: prepared.secrets.masked(&error.message), ..error };
            let error = CallError { data: prepared.secrets.masked_map(&error.data), ..error };
            if error.error_type == CALLED_OFF {
                emit(
                    around.journal,
                    step_events.event(StepEvent::StepCancel, Status::Cancelled, error.object()),
                );
                return NodeResult { failure: Some(error.failure()), ..result };
            }
            failed(result, &step_events, around.journal, &error, json!(seen), took)
        }
    }
}

/// Sends the event that a step starts and which call it is. The stage that fills missing input has already sent it.
pub(crate) fn begun(journal: &Journal, prepared: &Prepared<'_>) {
    emit(journal, prepared.step_events.event(StepEvent::StepInit, Status::Init, json!(prepared.record())));
}

/// The outgoing handle: the one in `branch_id` if the call chooses and an edge has it.
fn handle(prepared: &Prepared<'_>, around: Around<'_>, outputs: &[(String, Segment)]) -> String {
    let chosen = outputs.iter().find(|(name, _)| name == BRANCH_ID && prepared.found.call.chooses());
    let chosen = chosen.and_then(|(_, segment)| segment.value.as_str());
    let mut handles = around.node.outs.iter().map(|edge| &*around.graph.edge(*edge).handle);
    match chosen.filter(|chosen| handles.any(|handle| handle == *chosen)) {
        Some(chosen) => chosen.to_owned(),
        None => SOURCE_HANDLE.to_owned(),
    }
}

/// The result of a call.
struct CallOutput {
    gathered: Gathered,
    /// All text it returned, including text that an object replaced.
    said: String,
    /// Its duration.
    seconds: f64,
}

async fn call(
    prepared: &Prepared<'_>,
    journal: &Journal,
    on_delta: DeltaSink<'_>,
) -> Result<CallOutput, CallError> {
    let (to_user, step_events, clock) = (prepared.to_user(), &prepared.step_events, Instant::now());
    let mut called = CallOutput { gathered: Gathered::default(), said: String::new(), seconds: 0.0 };
    let said = StepText::new(journal, step_events);
    let mut out = |chunk: Chunk| {
        match &chunk {
            Chunk::Text(text) if text.is_empty() => {}
            Chunk::Text(text) => {
                on_delta(text);
                called.said.push_str(text);
                if to_user {
                    said.push(text);
                }
            }
            Chunk::Data(object) if to_user => {
                said.flush();
                emit(journal, step_events.object(object));
            }
            Chunk::Data(_) => {}
        }
        called.gathered.take(chunk);
    };
    said.of(prepared.found.call.exec(prepared.context(), prepared.input.clone(), &mut out)).await?;
    called.seconds = clock.elapsed().as_secs_f64();
    Ok(called)
}

fn value_of((name, segment): &(String, Segment)) -> (String, Json) {
    (name.clone(), segment.value.clone())
}

/// Returns true if an output repeats the whole object.
fn is_whole(name: &str, gathered: &Gathered) -> bool {
    name == "output" && matches!(gathered, Gathered::Data(map) if !map.contains_key("output"))
}

/// The values the run keeps of the step: the call's own values, the text sent to the user, and the duration. The last
/// two are stored under the execution, so that a repetition replaces them.
fn kept(mut runtime: JsonMap, around: Around<'_>, user_text: &str, began: f64, took: Took) -> JsonMap {
    let execution = around.name.execution.to_string();
    if !user_text.is_empty() {
        runtime.insert("answers".into(), json!({execution.clone(): user_text}));
    }
    runtime.insert("time".into(), json!(began));
    runtime.insert("durations".into(), json!({execution: took.seconds}));
    runtime.insert("language".into(), json!(around.options.choices().language.name()));
    runtime
}

/// The result of a step that did not start: its call does not exist or cannot be made.
pub(crate) fn refused(data: &StepData, around: Around<'_>, error: &CallError) -> NodeResult {
    let step_events = StepEvents {
        id: around.node.id.as_str().to_owned(),
        name: around.node.title.clone(),
        description: String::new(),
        ty: data.id().to_lowercase(),
        attempt: around.name.number,
    };
    failed(NodeResult::default(), &step_events, around.journal, error, json!({}), Took::default())
}

/// The result of a failed step: reported with an empty output and kept in the history, where the view of steps skips
/// it.
pub(crate) fn failed(
    result: NodeResult,
    step_events: &StepEvents,
    journal: &Journal,
    error: &CallError,
    input: Json,
    took: Took,
) -> NodeResult {
    emit(journal, step_events.output(Status::Error, json!({}), took));
    emit(journal, step_events.event(StepEvent::StepError, Status::Error, error.object()));
    let mut record = step_events.record(Status::Error, input, json!({}), took);
    record.insert("error_message".into(), error.object());
    let effects = Effects { history: vec![record], ..Effects::default() };
    NodeResult {
        outputs: vec![("error_message".into(), Segment::infer(error.object()))],
        failure: Some(error.failure()),
        effects: Some(Box::new(effects)),
        ..result
    }
}

fn segments(map: JsonMap) -> Vec<(String, Segment)> {
    map.into_iter().map(|(name, value)| (name, Segment::infer(value))).collect()
}
