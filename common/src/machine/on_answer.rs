//! Somebody has answered what a node waits for: its branch goes on.

use super::changes::EventKind;
use super::fact::Answer;
use super::pause::{self, Pause, PauseStatus};
use super::{Step, drive, end_of_run, records, settle};
use crate::failure::NodeFailure;
use crate::nodes::human_input::{answered, check_answer, expired};
use crate::nodes::{NodeResult, PauseKind};
use crate::value::JsonMap;

pub(super) fn step(cx: &mut Step<'_>, it: &Answer) {
    let Some(pause) = pause::close(cx, &it.pause, PauseStatus::Answered) else { return };
    end_of_run::go_on(cx);
    let result = match check_answer(&pause.request, &it.action, &it.inputs) {
        Ok(submitted) => taken(cx, &pause, it, submitted),
        // It was checked when it was taken; only an answer that was put there by hand comes here.
        Err(error) => {
            tell_again(cx, &pause);
            NodeResult::failed(NodeFailure::new("ValueError", error.to_string()))
        }
    };
    end(cx, &pause, result);
    drive::drive(cx);
}

fn taken(cx: &mut Step<'_>, pause: &Pause, it: &Answer, submitted: JsonMap) -> NodeResult {
    let result = answered(&pause.request, &it.action, &submitted);
    tell_again(cx, pause);
    if pause.request.kind == PauseKind::Simple {
        return result;
    }
    let text = |name: &str| {
        let found = result.outputs.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.value.as_str()).unwrap_or("").to_string()
    };
    let (rendered_content, action_text) = (text("__rendered_content"), text("__action_value"));
    let about = cx.about(&pause.frame, pause.node);
    let action = it.action.clone();
    cx.tell(EventKind::NodeRunHumanInputFormFilled {
        about,
        rendered_content,
        action,
        action_text,
        submitted,
    });
    result
}

/// Nobody has answered in time: the node leaves by its handle for that.
pub(super) fn time_is_over(cx: &mut Step<'_>, id: &str) {
    let Some(pause) = pause::close(cx, id, PauseStatus::Expired) else { return };
    end_of_run::go_on(cx);
    tell_again(cx, &pause);
    let about = cx.about(&pause.frame, pause.node);
    let expired_at = pause.expires_at.unwrap_or(cx.at.now);
    cx.tell(EventKind::NodeRunHumanInputFormTimeout { about, expired_at });
    let result = expired(&pause.request);
    end(cx, &pause, result);
    drive::drive(cx);
}

/// The longest time that any form of a run may wait is over: Dify ends the run.
pub(super) fn limit_is_over(cx: &mut Step<'_>, id: &str) {
    if let Some(pause) = cx.run.pauses.get(id) {
        let node = cx.run.graph.node(pause.node).id.clone();
        end_of_run::abort(cx, &format!("Human input global timeout at node {node}"));
    }
}

/// Dify runs a node that waited once more, and tells of it.
fn tell_again(cx: &mut Step<'_>, pause: &Pause) {
    let about = cx.about(&pause.frame, pause.node);
    cx.tell(EventKind::NodeRunStarted(about));
}

fn end(cx: &mut Step<'_>, pause: &Pause, result: NodeResult) {
    let failed = result.failure.is_some();
    let (record, _) = records::of(cx, &pause.frame, pause.node, result);
    let now = cx.at.now;
    if failed {
        settle::failed(cx, &pause.frame, pause.node, now, record);
    } else {
        settle::succeeded(cx, &pause.frame, pause.node, now, record);
    }
}
