//! Loops: one round after the other with shared variables, until a condition holds (or, with the setting
//! `loop_conditions_break = false`, no longer holds), a `loop-end` is reached or the rounds are used up.

use crate::flow::containers::{emit_end, evaluated, frames, let_go, metadata, order_part};
use crate::flow::values::variables;
use crate::flow::{ready, settle};
use crate::order::events::EventKind;
use crate::state::NamedValues;
use crate::state::container::{BodyState, Collected, OpenContainer};
use crate::state::record::Record;
use crate::state::run::{NodeStatus, RunState};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Segment, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::{NodeData, Phase};

/// The handle with which a phase of a loop says that the conditions hold.
const BREAK: &str = "break";
/// Dify's class of the error for a condition that cannot be applied to its value.
const TYPE_ERROR: &str = "TypeError";

/// What differs with the setting `loop_conditions_break`.
struct Ways {
    /// The reason of an end by the conditions.
    left: &'static str,
    /// The reason of an end because all rounds are used up.
    used_up: &'static str,
    /// True when an event for a next round follows every round.
    next_always: bool,
}

fn ways(run: &RunState) -> Ways {
    match run.head.options.dify_ways.loop_conditions_break {
        true => Ways { left: "loop_break", used_up: "loop_completed", next_always: false },
        false => Ways { left: "loop_completed", used_up: "max_iterations", next_always: true },
    }
}

/// True when the conditions end the loop. A loop without conditions has all its rounds.
fn leaves(run: &RunState, node: NodeIx, record: &Record) -> bool {
    let hold = record.handle == BREAK;
    let NodeData::Loop(data) = &run.graph.node(node).data else { return hold };
    let ends_when = run.head.options.dify_ways.loop_conditions_break;
    hold == ends_when && !data.breaks.conditions.is_empty()
}

fn labels(run: &RunState, node: NodeIx) -> Vec<String> {
    match &run.graph.node(node).data {
        NodeData::Loop(data) => data.variables.iter().map(|variable| variable.label().to_string()).collect(),
        _ => Vec::new(),
    }
}

fn rounds_max(run: &RunState, node: NodeIx) -> u32 {
    match &run.graph.node(node).data {
        NodeData::Loop(data) => data.count,
        _ => 0,
    }
}

/// Opens a loop whose initial values and break conditions were evaluated.
pub(super) fn opened(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: Record) {
    let count = rounds_max(cx.run, node);
    let now = cx.at.now;
    if let Some(error) = crate::flow::containers::too_many(cx.run, count, "rounds") {
        return settle::failed(
            cx,
            frame,
            node,
            now,
            Box::new(Record { inputs: record.inputs, ..frames::failure(error, "") }),
        );
    }
    let failed = !record.error.is_empty() || !record.error_type.is_empty();
    if failed && record.error_type != TYPE_ERROR {
        return settle::failed(cx, frame, node, now, record.into());
    }
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeRunBodyStarted { about, inputs: record.inputs.clone(), count });
    if failed {
        // A condition that cannot be applied fails the loop now, without inputs, as on Dify.
        let record = frames::failure(record.error, TYPE_ERROR);
        emit_end(cx, frame, node, &record, 0, Some("error"));
        return settle::failed(cx, frame, node, now, record.into());
    }
    let id = cx.run.graph.node(node).id.clone();
    for (name, value) in &record.outputs {
        variables::write(cx, frame, &id, name, value.clone());
    }
    if leaves(cx.run, node, &record) {
        let (record, reason) = (Record { inputs: record.inputs, ..Record::default() }, ways(cx.run).left);
        emit_end(cx, frame, node, &record, 0, Some(reason));
        return settle::succeeded(cx, frame, node, now, record.into());
    }
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Body;
        state.body = Some(Box::new(BodyState::new(count)));
    });
    let key = (frame.clone(), node);
    cx.run
        .containers
        .insert(key.clone(), OpenContainer { inputs: record.inputs, ..OpenContainer::default() });
    cx.out.containers.insert(key);
    cx.close_entry();
    open_round(cx, frame, node, 0);
}

/// Removes the variables of the nodes of a round. Only loop variables are visible in other rounds and after the loop.
fn clear_body(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let graph = cx.run.graph.clone();
    for inner in graph.nodes.iter().filter(|inner| inner.loop_id == Some(node)) {
        variables::clear_node(cx, frame, inner.id.as_str());
    }
}

/// Opens a round, without the variables of the nodes of the last one.
fn open_round(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, index: u32) {
    clear_body(cx, frame, node);
    let graph = cx.run.graph.clone();
    cx.update(frame, node, |state| {
        if let Some(body) = &mut state.body {
            body.next = index + 1;
        }
    });
    let path = frame.child(&graph.node(node).id, index);
    frames::open(cx, &path, node, Vec::new());
}

/// Makes the outputs of a loop: its variables and the number of rounds. The error is the label of a variable that is
/// missing.
fn outputs(run: &RunState, frame: &FramePath, node: NodeIx, rounds: u32) -> Result<NamedValues, String> {
    let id = run.graph.node(node).id.as_str();
    let pool = run.pool(frame);
    let mut values = NamedValues::new();
    for label in labels(run, node) {
        let Some(value) = pool.stored(id, &label) else { return Err(label) };
        values.push((label, value.into_owned()));
    }
    values.retain(|(name, _)| name != "loop_round");
    values.push(("loop_round".into(), Stored::Inline(Segment::infer(rounds.into()))));
    Ok(values)
}

/// Closes a round, and ends the loop or checks its break conditions.
pub(super) fn round_closes(cx: &mut Step<'_>, path: &FramePath, frame: &FramePath, node: NodeIx, index: u32) {
    let error = cx.run.frames.get(path).and_then(|open| open.error.clone());
    let Some(closed) = frames::close_frame(cx, path, node, error.is_none()) else { return };
    cx.update(frame, node, |state| {
        if let Some(body) = &mut state.body {
            body.closed += 1;
            body.error = error.clone();
        }
    });
    let after = outputs(cx.run, frame, node, index + 1);
    let mut left = Collected { seconds: cx.at.now.seconds_since(closed.opened_at), ..Collected::default() };
    if let Ok(values) = &after {
        left.variables = values.iter().filter(|(name, _)| name != "loop_round").cloned().collect();
    }
    if let Some(container) = cx.run.containers.get_mut(&(frame.clone(), node)) {
        container.keep(index, left);
        cx.out.collected.insert((frame.clone(), node, index));
    }
    cx.close_entry();
    if let Some(error) = error {
        return fail(cx, frame, node, error.to_string());
    }
    if let Err(label) = after {
        return fail(cx, frame, node, format!("loop variable {label} is missing"));
    }
    if closed.loop_end {
        return finish(cx, frame, node, "loop_break");
    }
    if ready::can_evaluate_here(cx, frame, cx.run.graph.node(node)) {
        let (record, _) = evaluated(cx, frame, node, Phase::Check);
        checked(cx, frame, node, record);
    } else {
        order_part(cx, frame, node, Phase::Check);
    }
}

/// Ends the loop or opens the next round, when the break conditions were evaluated.
pub(super) fn checked(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: Record) {
    let rounds = cx.run.node(frame, node).and_then(|state| state.body.as_ref()).map_or(0, |body| body.next);
    if !record.error.is_empty() || !record.error_type.is_empty() {
        return fail(cx, frame, node, record.error);
    }
    let (leaves, is_last) = (leaves(cx.run, node, &record), rounds >= rounds_max(cx.run, node));
    let ways = ways(cx.run);
    if ways.next_always || !leaves && (!is_last || cx.run.head.options.loop_next_after_last) {
        emit_next(cx, frame, node, rounds);
    }
    if leaves || is_last {
        return finish(cx, frame, node, if leaves { ways.left } else { ways.used_up });
    }
    open_round(cx, frame, node, rounds);
}

fn emit_next(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, rounds: u32) {
    let outputs = outputs(cx.run, frame, node, rounds).unwrap_or_default();
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeRunBodyNext { about, index: rounds, outputs });
    cx.close_entry();
}

/// Makes the part of a loop's record that all ends have in common, and removes what its rounds left.
fn record(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> Record {
    clear_body(cx, frame, node);
    let mut record = Record::default();
    if let (Some(state), Some(container)) =
        (cx.run.node(frame, node), cx.run.containers.get(&(frame.clone(), node)))
    {
        metadata::put(&mut record, state, container, "loop_duration_map");
        record.rounds = container.collected.iter().map(|(at, left)| (*at, left.variables.clone())).collect();
    }
    record.inputs = let_go(cx, frame, node);
    record
}

fn finish(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, reason: &'static str) {
    let rounds = cx.run.node(frame, node).and_then(|state| state.body.as_ref()).map_or(0, |body| body.next);
    let mut record = record(cx, frame, node);
    record.outputs = outputs(cx.run, frame, node, rounds).unwrap_or_default();
    let (now, steps) = (cx.at.now, rounds_max(cx.run, node));
    emit_end(cx, frame, node, &record, steps, Some(reason));
    settle::succeeded(cx, frame, node, now, record.into());
}

fn fail(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, error: String) {
    let mut record = record(cx, frame, node);
    record.error = error;
    let (now, steps) = (cx.at.now, rounds_max(cx.run, node));
    emit_end(cx, frame, node, &record, steps, Some("error"));
    settle::failed(cx, frame, node, now, record.into());
}
