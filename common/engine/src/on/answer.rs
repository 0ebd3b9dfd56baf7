//! Applies the end of a pause: it was answered, cancelled, or not answered in time.

use crate::fact::{Answer, AnswerContent};
use crate::flow::pauses;
use crate::flow::pauses::interactions;
use crate::flow::values::records;
use crate::flow::{edges, end_of_run, hooks, ready};
use crate::order::events::EventKind;
use crate::state::pause::{Pause, PauseStatus};
use crate::state::run::PendingEnd;
use crate::step::Step;
use tidemill_base::failure::{EngineErrorType, NodeFailure};
use tidemill_base::value::JsonMap;
use tidemill_workflow::nodes::human_input::{answered, check_answer, expired};
use tidemill_workflow::nodes::{NodeResult, PauseKind};

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: &Answer) {
    let status =
        if it.content == AnswerContent::Cancel { PauseStatus::Cancelled } else { PauseStatus::Answered };
    let Some(pause) = pauses::close_pause(cx, &it.pause, status) else { return };
    if pause.step.is_some() {
        return queue_again(cx, &pause);
    }
    if it.content == AnswerContent::Cancel {
        return called_off(cx, &pause);
    }
    end_of_run::resume(cx);
    let result = match (&it.content, pause.request.kind.is_form()) {
        (AnswerContent::Form { action, inputs }, true) => of_form(cx, &pause, action, inputs),
        (AnswerContent::Input(input), false) if pause.request.kind == PauseKind::UserInteraction => {
            interactions::answered(cx, &pause, input);
            return ready::advance(cx);
        }
        (AnswerContent::Input(_), false) => misplaced(pause.request.kind),
        // The API has checked the answer. Only an answer that was written into Redis by hand gets here.
        (AnswerContent::Form { .. }, false)
        | (AnswerContent::Input(_), true)
        | (AnswerContent::Cancel, _) => {
            let message = format!("the answer does not fit a pause of kind {}", pause.request.kind.name());
            NodeResult::failed(NodeFailure::new("ValueError", message))
        }
    };
    end_wait(cx, &pause, result);
    ready::advance(cx);
}

/// Queues the job that waits for the answer again. Its worker reads the outcome of the pause.
fn queue_again(cx: &mut Step<'_>, pause: &Pause) {
    end_of_run::resume(cx);
    ready::make_ready(cx, &pause.frame, pause.node);
    ready::advance(cx);
}

/// Stops the run, because the question of a node was cancelled.
fn called_off(cx: &mut Step<'_>, pause: &Pause) {
    if pause.request.kind == PauseKind::UserInteraction {
        return interactions::called_off(cx, pause);
    }
    let node = cx.run.graph.node(pause.node).id.clone();
    end_of_run::abort(cx, &format!("the question of node {node} was cancelled"));
}

/// Makes a failure: only jobs ask questions of this kind, and read the answers.
fn misplaced(kind: PauseKind) -> NodeResult {
    let message = format!("only a job can ask for a pause of kind {}", kind.name());
    NodeResult::failed(NodeFailure::new(EngineErrorType::Engine.name(), message))
}

fn of_form(cx: &mut Step<'_>, pause: &Pause, action: &str, inputs: &JsonMap) -> NodeResult {
    match check_answer(&pause.request, action, inputs) {
        Ok(submitted) => answer_form(cx, pause, action, submitted),
        // The API has checked the answer, see `step`.
        Err(error) => {
            emit_start(cx, pause);
            NodeResult::failed(NodeFailure::new("ValueError", error.to_string()))
        }
    }
}

fn answer_form(cx: &mut Step<'_>, pause: &Pause, action: &str, submitted: JsonMap) -> NodeResult {
    let result = answered(&pause.request, action, &submitted);
    emit_start(cx, pause);
    if pause.request.kind == PauseKind::Simple {
        return result;
    }
    let text = |name: &str| {
        let found = result.outputs.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.value.as_str()).unwrap_or("").to_string()
    };
    let (rendered_content, action_text) = (text("__rendered_content"), text("__action_value"));
    let about = cx.about(&pause.frame, pause.node);
    cx.emit(EventKind::NodeRunHumanInputFormFilled {
        about,
        rendered_content,
        action: action.to_string(),
        action_text,
        submitted,
    });
    result
}

/// Applies the expiry of a pause. A form ends by the handle for that.
pub(crate) fn time_is_over(cx: &mut Step<'_>, id: &str) {
    let Some(pause) = pauses::close_pause(cx, id, PauseStatus::Expired) else { return };
    if pause.step.is_some() {
        return queue_again(cx, &pause);
    }
    end_of_run::resume(cx);
    if pause.request.kind == PauseKind::UserInteraction {
        interactions::expired(cx, &pause);
        return ready::advance(cx);
    }
    let result = if pause.request.kind.is_form() {
        emit_start(cx, &pause);
        let about = cx.about(&pause.frame, pause.node);
        let expired_at = pause.expires_at.unwrap_or(cx.at.now);
        cx.emit(EventKind::NodeRunHumanInputFormTimeout { about, expired_at });
        expired(&pause.request)
    } else {
        misplaced(pause.request.kind)
    };
    end_wait(cx, &pause, result);
    ready::advance(cx);
}

/// Stops the run, because a form has waited longer than `human_input_timeout_s`. Dify does so.
pub(crate) fn limit_is_over(cx: &mut Step<'_>, id: &str) {
    if let Some(pause) = cx.run.pauses.get(id) {
        let node = cx.run.graph.node(pause.node).id.clone();
        end_of_run::abort(cx, &format!("Human input global timeout at node {node}"));
    }
}

/// Emits the start of the node once more: Dify runs a node again after its pause.
fn emit_start(cx: &mut Step<'_>, pause: &Pause) {
    let began = edges::started(cx, &pause.frame, pause.node);
    cx.emit(began);
}

fn end_wait(cx: &mut Step<'_>, pause: &Pause, result: NodeResult) {
    let failed = result.failure.is_some();
    let (record, _) = records::of(cx, &pause.frame, pause.node, result);
    hooks::end_node(cx, &pause.frame, pause.node, PendingEnd { failed, record: record.into() });
}
