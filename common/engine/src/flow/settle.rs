//! Applies the end of an execution in Dify's order: first variables, edges and streamed text, then the event of the
//! end.

use crate::flow::budget;
use std::sync::Arc;

use crate::cost::ledger;
use crate::flow::subruns::parent;
use crate::flow::values::{messages, variables};
use crate::flow::{breakpoints, children, containers, edges, end_of_run, response, retry, subruns, timeouts};
use crate::order::events::{EventKind, NodeEnd};
use crate::state::cost::Cost;
use crate::state::record::Record;
use crate::state::run::{NodeStatus, Responder};
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Segment, SegmentType, Stored};
use tidemill_workflow::graph::{ErrorStrategy, Node, NodeIx};
use tidemill_workflow::messages::MessageError;
use tidemill_workflow::nodes::pause::{CALLED_OFF, as_form::REJECT};
use tidemill_workflow::nodes::{ExecutionType, FAIL_BRANCH_HANDLE, NodeKind, SOURCE_HANDLE};

/// Applies the success of a node.
pub(crate) fn succeeded(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    mut record: Box<Record>,
) {
    let effects = record.effects.take();
    if let Some(effects) = &effects {
        if parent::is_asked(cx, frame, effects) {
            return match parent::ask(cx, frame, node, effects) {
                Ok(()) => {}
                Err(error) => failed(cx, frame, node, finished_at, Box::new(refused(*record, &error))),
            };
        }
        match messages::apply(cx, frame, node, effects, record.usage.as_deref()) {
            Ok(Some(outcome)) if cx.run.graph.node(node).kind == NodeKind::ContextProcessor => {
                record.outputs = messages::outputs(cx, frame, node, effects, &outcome);
            }
            Ok(_) => {}
            Err(error) => return failed(cx, frame, node, finished_at, Box::new(refused(*record, &error))),
        }
    }
    let updates = std::mem::take(&mut record.updates);
    let end = close_node(cx, frame, node, finished_at, record, NodeStatus::Succeeded);
    messages::record(cx, frame, &end, effects);
    for update in updates {
        let (variable, value) = ((update.node.clone(), update.name.clone()), update.value.clone());
        variables::assign(cx, frame, update);
        let about = cx.about(frame, node);
        cx.emit(EventKind::NodeRunVariableUpdated { about, variable, value });
    }
    if cx.run.graph.node(node).kind == NodeKind::LoopEnd {
        containers::loop_end(cx, frame, node);
    }
    let handle = if end.record.handle.is_empty() { SOURCE_HANDLE } else { &end.record.handle };
    follow_edges(cx, frame, node, handle, &end);
    cx.emit(EventKind::NodeRunSucceeded(end));
    cx.close_entry();
    end_of_run::check_limits(cx);
    after(cx, frame, node);
}

/// Makes a failed record of a node that succeeded, but whose change of messages, `rt` or history was refused.
fn refused(record: Record, error: &MessageError) -> Record {
    Record {
        inputs: record.inputs,
        process_data: record.process_data,
        usage: record.usage,
        wasted: record.wasted,
        error: error.to_string(),
        error_type: error.name().to_string(),
        ..Record::default()
    }
}

/// Does what follows an end after its events: checks the budget, fires breakpoints, and closes the frame if it is done.
fn after(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    budget::check(cx);
    if !cx.run.status.is_over() {
        breakpoints::ended(cx, node);
    }
    containers::settled(cx, frame);
}

/// Emits the start of a node for which no worker has reported one.
pub(crate) fn told_started(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    if cx.run.node(frame, node).is_none_or(|state| state.started_at.is_some()) {
        return;
    }
    let now = cx.at.now;
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Running;
        state.started_at = Some(now);
    });
    let began = edges::started(cx, frame, node);
    cx.emit(began);
}

/// Applies a failed attempt: a retry, the node's error strategy, or the end of the run.
pub(crate) fn failed(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    mut record: Box<Record>,
) {
    record.updates.clear();
    if record.error_type == CALLED_OFF {
        return called_off(cx, frame, node, finished_at, record);
    }
    let again = retry::is_due(cx, frame, node, &record);
    let counts = !again || cx.run.head.options.dify_ways.retries_count_as_exceptions;
    cx.update(frame, node, |state| state.failures += u32::from(counts));
    let effects = record.effects.take();
    let graph = cx.run.graph.clone();
    let error: Arc<str> = record.error.as_str().into();
    let strategy = graph.node(node).error_strategy.clone();
    children::abandoned(cx, frame, node, &record, again);
    let (status, handle, outputs) = match strategy {
        _ if again => {
            let end = close_node(cx, frame, node, finished_at, record, NodeStatus::Failed);
            messages::record(cx, frame, &end, effects);
            retry::again(cx, frame, node, &end);
            budget::check(cx);
            return;
        }
        None => {
            let end = close_node(cx, frame, node, finished_at, record, NodeStatus::Failed);
            messages::record(cx, frame, &end, effects);
            response::streams::close_of_node(cx, frame, node);
            cx.emit(EventKind::NodeRunFailed(end));
            cx.close_entry();
            end_of_run::check_limits(cx);
            if frame.is_root() {
                end_of_run::fail(cx, &error);
            } else if let Some(open) = cx.frame_mut(frame) {
                // The frame continues as far as it can. Its container then decides what the failure means.
                open.error.get_or_insert(error);
            }
            after(cx, frame, node);
            return;
        }
        Some(ErrorStrategy::FailBranch) => (NodeStatus::Exception, FAIL_BRANCH_HANDLE, Vec::new()),
        Some(ErrorStrategy::DefaultValue(values)) => (NodeStatus::Exception, SOURCE_HANDLE, values),
    };
    let strategy_name = if handle == FAIL_BRANCH_HANDLE { "fail-branch" } else { "default-value" };
    let text = |text: &str| Stored::Inline(Segment::string(text));
    // A workflow step may describe its error as an object, which replaces the text.
    let details = record.outputs.iter().find(|(name, value)| name == "error_message" && is_object(value));
    let details = details.map(|(_, value)| value.clone());
    let message = details.unwrap_or_else(|| text(&record.error));
    let own = [("error_message", message), ("error_type", text(&record.error_type))];
    record.outputs = outputs.into_iter().map(|(name, value)| (name, Stored::Inline(value))).collect();
    for (name, value) in own {
        record.outputs.retain(|(known, _)| known != name);
        record.outputs.push((name.to_string(), value));
    }
    record.metadata =
        tidemill_base::value::JsonMap::from_iter([("error_strategy".into(), strategy_name.into())]);
    record.durations = None;
    record.handle = handle.to_string();
    let end = close_node(cx, frame, node, finished_at, record, status);
    messages::record(cx, frame, &end, effects);
    if graph.node(node).kind.spec().execution == ExecutionType::Branch && handle == SOURCE_HANDLE {
        // Dify finds no branch for it and fails the run; so do we.
        let id = &graph.node(node).id;
        let reason = format!("Branch node {id} completed without selecting a branch");
        cx.emit(EventKind::NodeRunException(end));
        cx.close_entry();
        end_of_run::fail(cx, &reason);
        return;
    }
    follow_edges(cx, frame, node, handle, &end);
    cx.emit(EventKind::NodeRunException(end));
    cx.close_entry();
    after(cx, frame, node);
}

/// Applies a refusal by a person. If the node has an edge for it (`REJECT`), the edge is taken; otherwise the run is
/// stopped.
fn called_off(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    mut record: Box<Record>,
) {
    let graph = cx.run.graph.clone();
    let has_edge = graph.node(node).outs.iter().any(|edge| &*graph.edge(*edge).handle == REJECT);
    if !has_edge {
        return end_of_run::called_off(cx, &record.error, frame, node);
    }
    (record.error, record.error_type) = (String::new(), String::new());
    record.handle = REJECT.into();
    succeeded(cx, frame, node, finished_at, record);
}

fn is_object(value: &Stored) -> bool {
    match value {
        Stored::Inline(segment) => segment.ty == SegmentType::Object,
        Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => false,
    }
}

/// Writes the end of an attempt into the node's state.
fn close_node(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    record: Box<Record>,
    status: NodeStatus,
) -> NodeEnd {
    let about = cx.about(frame, node);
    let (attempt, has_ended) =
        cx.run.node(frame, node).map_or((1, false), |state| (state.attempt, state.ended.is_some()));
    timeouts::attempt_over(cx, frame, node, attempt, has_ended);
    subruns::over(cx, frame, node);
    ledger::note_attempt(cx, frame, node, &record);
    let mut started_at = finished_at;
    let is_container = cx.run.graph.node(node).kind.spec().execution == ExecutionType::Container;
    cx.update(frame, node, |state| {
        started_at = state.started_at.unwrap_or(finished_at);
        state.status = status;
        state.job = None;
        state.ended = None;
        state.body = None;
        state.finished_at = Some(finished_at);
        if !is_container {
            // Not for a container, whose cost is counted in its frames. The usage includes what journal entries have
            // charged already. A next attempt finds those entries recorded, so `charged` is kept.
            let usage = Cost::of(record.usage.as_deref());
            state.cost = state.cost.plus(&usage.without(&state.charged));
        }
        state.handle = (!record.handle.is_empty() && record.handle != SOURCE_HANDLE)
            .then(|| record.handle.as_str().into());
        state.error = (!record.error.is_empty()).then(|| record.error.as_str().into());
        state.worker = (!record.worker.is_empty()).then(|| record.worker.as_str().into());
    });
    NodeEnd { about, started_at, finished_at, record }
}

/// True for outputs that a start node only copies from the run's inputs and other namespaces: they need no write. A
/// webhook derives its outputs from the request, and a datasource from the client's input.
fn is_in_the_pool(spec: &Node, name: &str) -> bool {
    match spec.kind.spec().execution {
        ExecutionType::Root if spec.kind == NodeKind::Datasource => false,
        ExecutionType::Root => spec.kind != NodeKind::TriggerWebhook || name.starts_with("sys."),
        ExecutionType::Executable
        | ExecutionType::Branch
        | ExecutionType::Container
        | ExecutionType::Response => false,
    }
}

/// Applies outputs, edges, run outputs and streamed text of an end: everything but its event.
fn follow_edges(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, handle: &str, end: &NodeEnd) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    for (name, value) in &end.record.outputs {
        if is_in_the_pool(spec, name) {
            continue;
        }
        variables::write(cx, frame, &spec.id, name, value.clone());
    }
    // A node that has failed has no whole text. As on Dify, an answer that shows its pieces waits for the rest, which does
    // not come; the run's outputs have what follows.
    if cx.run.node(frame, node).is_none_or(|it| it.status != NodeStatus::Exception) {
        response::streams::close_of_node(cx, frame, node);
    }
    edges::decide(cx, frame, node, handle);
    if spec.kind.spec().execution == ExecutionType::Response {
        if frame.is_root() {
            cx.frame_mut(frame).into_iter().for_each(|root| root.responded.push(Responder::Root(node)));
            cx.out.response = true;
        } else {
            response::nested::ended(cx, frame, node, &end.record);
        }
    }
    response::flush(cx);
}
