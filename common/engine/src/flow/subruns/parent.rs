//! Changes of a list of messages of the caller, by a node of its sub-workflow run. The list is part of the caller's
//! state, so the node sends the fact `parent_asked`, waits without a worker, and ends with the fact `parent_answered`.
//! Commits write both facts, and both runs are on one shard, so none of them can be lost.

use crate::fact::{ParentAnswered, ParentAsked};
use crate::flow::values::messages;
use crate::flow::{ready, settle, timeouts};
use crate::order::changes::RunFact;
use crate::state::record::Record;
use crate::state::run::NodeStatus;
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::messages::{Effects, MessageError, Target};
use tidemill_workflow::nodes::{NodeData, NodeKind};

/// The reason of the wait. It is stored and compared, so it must not change.
const WAITS: &str = "a list of messages of the run that has called this one";

/// True when these effects are for the caller of this run.
pub(crate) fn is_asked(cx: &Step<'_>, frame: &FramePath, effects: &Effects) -> bool {
    let is_parents = |target: Target| target == Target::Parent;
    frame.is_root()
        && cx.run.head.caller.is_some()
        && effects.messages.iter().any(|change| is_parents(change.target))
}

/// Asks the caller for a change, and lets the node wait for the answer.
///
/// # Errors
/// There is more than one change, or the node is not a context processor: only its result can wait for the answer.
pub(crate) fn ask(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    effects: &Effects,
) -> Result<(), MessageError> {
    let is_simple = cx.run.graph.node(node).kind == NodeKind::ContextProcessor;
    let ([change], true, Some(caller)) = (&effects.messages[..], is_simple, cx.run.head.caller.as_deref())
    else {
        return Err(MessageError::ParentConversationNotFound);
    };
    let (caller, change) = (caller.clone(), change.clone());
    let attempt = cx.run.node(frame, node).map_or(1, |state| state.attempt);
    timeouts::over(cx, frame, node, attempt);
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Retrying;
        state.job = None;
        state.parked = Some(WAITS.into());
    });
    let execution = cx.execution(frame, node);
    let asked = ParentAsked {
        frame: caller.frame,
        node: caller.node,
        child: cx.run.id,
        execution,
        child_frame: frame.clone(),
        child_node: cx.run.graph.node(node).id.clone(),
        change,
    };
    cx.out.calls.get_or_insert_default().facts.push(RunFact::ParentAsked(caller.run, Box::new(asked)));
    Ok(())
}

/// Applies a change that a sub-workflow run asks for, and answers.
pub(crate) fn on_asked(cx: &mut Step<'_>, it: &ParentAsked) {
    let Some(node) = cx.run.find(&it.node) else { return };
    let frame = &it.frame;
    let mut change = it.change.clone();
    change.target = Target::Own;
    let effects = Effects { messages: vec![change], ..Effects::default() };
    let by = messages::Author { frame, node, execution: it.execution };
    let answer = match messages::apply_by(cx, by, &effects, None) {
        Ok(outcome) => {
            let outputs = outcome.map(|outcome| messages::outputs(cx, frame, node, &effects, &outcome));
            Ok(outputs.unwrap_or_default())
        }
        Err(error) => Err((error.name().to_string(), error.to_string())),
    };
    cx.close_entry();
    let answered = ParentAnswered { frame: it.child_frame.clone(), node: it.child_node.clone(), answer };
    cx.out.calls.get_or_insert_default().facts.push(RunFact::ParentAnswered(it.child, Box::new(answered)));
}

/// Ends the node that asked, with the answer of the caller.
pub(crate) fn answered(cx: &mut Step<'_>, it: ParentAnswered) {
    let Some(node) = cx.run.find(&it.node) else { return };
    let frame = it.frame;
    let graph = cx.run.graph.clone();
    let NodeData::ContextProcessor(data) = &graph.node(node).data else { return };
    let waits = |state: &crate::state::run::NodeState| {
        state.status == NodeStatus::Retrying && state.parked.as_deref() == Some(WAITS)
    };
    if !cx.run.node(&frame, node).is_some_and(waits) {
        return;
    }
    cx.update(&frame, node, |state| state.parked = None);
    let inputs = data.shown_inputs();
    let inputs =
        inputs.into_iter().map(|(name, value)| (name, tidemill_base::value::Stored::Inline(value))).collect();
    let record = Record { inputs, ..Record::default() };
    let now = cx.at.now;
    match it.answer {
        Ok(outputs) => settle::succeeded(cx, &frame, node, now, Record { outputs, ..record }.into()),
        Err((error_type, error)) => {
            settle::failed(cx, &frame, node, now, Record { error_type, error, ..record }.into());
        }
    }
    ready::advance(cx);
}
