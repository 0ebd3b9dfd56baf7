//! The node `user-interaction`, which asks the user a question. Each change of the question emits an event, and the
//! step that applies the answer also processes it.

use crate::flow::pauses;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::flow::values::records;
use crate::flow::{end_of_run, hooks};
use crate::order::events::EventKind;
use crate::state::pause::Pause;
use crate::state::run::PendingEnd;
use crate::state::step_event::StepEvent;
use crate::step::Step;
use tidemill_base::failure::{EngineErrorType, NodeFailure};
use tidemill_base::ids::FramePath;
use tidemill_base::value::JsonMap;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::pause::input::check_input;
use tidemill_workflow::nodes::user_interaction::answer::{
    CANCELLED, OpenQuestion, PRESET, results, timed_out,
};
use tidemill_workflow::nodes::user_interaction::{InteractionType, UserInteractionData};
use tidemill_workflow::nodes::{NodeData, NodeResult, OnTimeout, PauseRequest, SOURCE_HANDLE};

/// Ends the node at once if its request has a preset answer. Otherwise returns the request.
pub(crate) fn goes_on(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    id: &Arc<str>,
    mut request: PauseRequest,
) -> Option<PauseRequest> {
    let preset = request.details.shift_remove(PRESET);
    let Some(answer) = preset else { return Some(request) };
    let graph = cx.run.graph.clone();
    if let Some(data) = data_of(&graph.node(node).data)
        && data.interaction == InteractionType::Message
    {
        emit_step(cx, frame, node, StepEvent::UserInteractionRequested, requested(data, id, &request));
        let text = JsonMap::from_iter([("text".to_string(), request.content.as_str().into())]);
        emit_step(cx, frame, node, StepEvent::TextAdd, text);
    }
    let asked = OpenQuestion { id, request: &request, waited_ms: 0 };
    match check_input(&request, answer) {
        Ok(answer) => process(cx, frame, node, asked, &answer),
        Err(wrong) => {
            let message = format!("`user_input` is not a valid answer: {wrong}");
            fail(cx, frame, node, id, NodeFailure::new("PauseInputInvalid", message));
        }
    }
    None
}

/// Emits that a question is open.
pub(crate) fn emit_requested(cx: &mut Step<'_>, id: &Arc<str>) {
    let Some(pause) = cx.run.pauses.get(id).cloned() else { return };
    let graph = cx.run.graph.clone();
    if let Some(data) = data_of(&graph.node(pause.node).data) {
        let fields = requested(data, id, &pause.request);
        emit_step(cx, &pause.frame, pause.node, StepEvent::UserInteractionRequested, fields);
        cx.close_entry();
    }
}

/// Applies an answer.
pub(crate) fn answered(cx: &mut Step<'_>, pause: &Pause, answer: &Json) {
    // The API has checked the answer, but one that was written into Redis by hand may be anything.
    match check_input(&pause.request, answer.clone()) {
        Ok(answer) => respond(cx, pause, &answer, false),
        Err(wrong) => {
            let failure = NodeFailure::new("PauseInputInvalid", wrong.to_string());
            fail(cx, &pause.frame, pause.node, &pause.id, failure);
        }
    }
}

/// Applies the expiry of a question: its default answer, its branch for that, or a failure.
pub(crate) fn expired(cx: &mut Step<'_>, pause: &Pause) {
    let reason = timed_out(pause.request.timeout_ms.unwrap_or_default());
    let graph = cx.run.graph.clone();
    let data = data_of(&graph.node(pause.node).data);
    match (pause.request.on_timeout, data) {
        (OnTimeout::Default, _) => match check_input(&pause.request, pause.request.defaults.clone()) {
            Ok(answer) => respond(cx, pause, &answer, true),
            Err(wrong) => {
                let failure = NodeFailure::new("PauseInputInvalid", wrong.to_string());
                fail(cx, &pause.frame, pause.node, &pause.id, failure);
            }
        },
        (OnTimeout::Branch, Some(data)) => {
            emit_failed(cx, &pause.frame, pause.node, &pause.id, &reason);
            let result = data.unanswered(asked_by(cx, pause));
            end_interaction(cx, &pause.frame, pause.node, result);
        }
        (OnTimeout::Fail | OnTimeout::Branch, _) => {
            let failure = NodeFailure::new(EngineErrorType::Timeout.name(), reason);
            fail(cx, &pause.frame, pause.node, &pause.id, failure);
        }
    }
}

/// Stops the run, because the question was cancelled.
pub(crate) fn called_off(cx: &mut Step<'_>, pause: &Pause) {
    emit_failed(cx, &pause.frame, pause.node, &pause.id, CANCELLED);
    end_of_run::abort(cx, CANCELLED);
}

fn respond(cx: &mut Step<'_>, pause: &Pause, answer: &Json, by_timeout: bool) {
    let mut fields = about(&pause.id);
    fields.insert("input_data".into(), answer.clone());
    if by_timeout {
        fields.insert("by_timeout".into(), true.into());
    }
    emit_step(cx, &pause.frame, pause.node, StepEvent::UserInteractionResponded, fields);
    let asked = asked_by(cx, pause);
    process(cx, &pause.frame, pause.node, asked, answer);
}

/// Processes an answer and ends the node.
fn process(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, asked: OpenQuestion<'_>, answer: &Json) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let Some(data) = data_of(&spec.data) else {
        let message = format!("node {} does not ask questions of this kind", spec.id);
        return fail(cx, frame, node, asked.id, NodeFailure::new(EngineErrorType::Engine.name(), message));
    };
    let loop_id = spec.loop_id.map(|at| graph.node(at).id.as_str());
    let effects = match data.on_answer.effects(&data.input(answer), &cx.run.pool(frame), loop_id) {
        Ok(effects) => effects,
        Err(failure) => return fail(cx, frame, node, asked.id, failure),
    };
    let mut fields = about(asked.id);
    fields.insert("operation_type".into(), data.operation().into());
    fields.insert("results".into(), results(&effects));
    emit_step(cx, frame, node, StepEvent::UserInteractionProcessed, fields);
    let result = data.answered(asked, answer, effects);
    end_interaction(cx, frame, node, result);
}

fn end_interaction(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, mut result: NodeResult) {
    let graph = cx.run.graph.clone();
    let is_carried = graph.node(node).outs.iter().any(|edge| *graph.edge(*edge).handle == *result.handle);
    if !is_carried {
        result.handle = SOURCE_HANDLE.into();
    }
    let (record, _) = records::of(cx, frame, node, result);
    hooks::end_node(cx, frame, node, PendingEnd { failed: false, record: record.into() });
}

fn fail(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, id: &str, failure: NodeFailure) {
    emit_failed(cx, frame, node, id, &failure.message);
    pauses::fail(cx, frame, node, failure);
}

fn emit_failed(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, id: &str, reason: &str) {
    let mut fields = about(id);
    fields.insert("reason".into(), reason.into());
    emit_step(cx, frame, node, StepEvent::UserInteractionFailed, fields);
}

fn emit_step(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, what: StepEvent, data: JsonMap) {
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeStep { about, what, data });
}

fn about(id: &str) -> JsonMap {
    JsonMap::from_iter([("interaction_id".to_string(), id.into())])
}

fn requested(data: &UserInteractionData, id: &str, request: &PauseRequest) -> JsonMap {
    let mut fields = about(id);
    fields.insert("operation_type".into(), data.operation().into());
    fields.insert("interaction_type".into(), data.interaction.name().into());
    fields.insert("prompt".into(), request.content.as_str().into());
    fields.insert("timeout".into(), request.timeout_ms.into());
    let context = json!({"options": request.options, "schema": request.schema, "defaults": request.defaults});
    fields.insert("context_data".into(), context);
    fields
}

fn asked_by<'a>(cx: &Step<'_>, pause: &'a Pause) -> OpenQuestion<'a> {
    let waited_ms = (cx.at.now.micros() - pause.opened_at.micros()).max(0).unsigned_abs() / 1000;
    OpenQuestion { id: &pause.id, request: &pause.request, waited_ms }
}

fn data_of(data: &NodeData) -> Option<&UserInteractionData> {
    match data {
        NodeData::UserInteraction(data) => Some(data),
        _ => None,
    }
}
