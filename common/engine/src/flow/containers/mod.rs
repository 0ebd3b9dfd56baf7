//! Containers: nodes whose body is executed repeatedly, each time in a separate frame.
//!
//! A container opens, its frames open and close, and after the last it ends like any node. The parts that read values
//! (the list, loop variables, conditions, the collected outputs) are three phases ([`Phase`]). A step evaluates a phase
//! if no value is a blob, otherwise a worker does; the result is handled in the same way.

mod frames;
mod iteration;
mod loop_;
mod metadata;

pub(crate) use crate::flow::containers::frames::settled;

use crate::flow::values::records;
use crate::flow::{edges, ready, timeouts};
use crate::order::events::{EventKind, NodeEnd};
use crate::state::container::BodyState;
use crate::state::record::Record;
use crate::state::run::{NodeStatus, RunState};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::value::Stored;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::{NodeKind, Phase, SOURCE_HANDLE, evaluate_phase};

/// Begins a ready container, or orders the job of its phase again that a pause command took back.
pub(crate) fn begin(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    let phase = cx.run.node(frame, node).and_then(|state| state.body.as_ref()?.phase);
    match phase {
        Some(Phase::Check | Phase::Collect) => return ready::order_job(cx, frame, node),
        Some(Phase::Open) | None => {}
    }
    if let Some(record) = iteration::shortcut(cx.run, frame, node) {
        ready::mark_begun(cx, frame, node);
        iteration::opened(cx, frame, node, record);
        return 300;
    }
    if !ready::can_evaluate_here(cx, frame, cx.run.graph.node(node)) {
        cx.update(frame, node, |state| state.body = Some(Box::new(BodyState::to_open())));
        return ready::enqueue(cx, frame, node);
    }
    ready::mark_begun(cx, frame, node);
    let (record, bytes) = evaluated(cx, frame, node, Phase::Open);
    part_known(cx, frame, node, Phase::Open, record);
    bytes + 300
}

/// Passes the start node of a body. It emits no event and is not counted as a step.
pub(crate) fn begin_body(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    cx.update(frame, node, |state| state.status = NodeStatus::Succeeded);
    edges::decide(cx, frame, node, SOURCE_HANDLE);
    cx.close_entry();
    crate::flow::breakpoints::ended(cx, node);
    settled(cx, frame);
    80
}

/// True while a worker has to evaluate a phase of this container.
pub(crate) fn is_part(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    cx.run.node(frame, node).is_some_and(|state| state.body.as_ref().is_some_and(|body| body.phase.is_some()))
}

/// Applies the result of a phase that a worker has evaluated.
pub(crate) fn part_done(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: Record) {
    let Some(state) = cx.run.node(frame, node) else { return };
    let (attempt, Some(phase)) = (state.attempt, state.body.as_ref().and_then(|body| body.phase)) else {
        return;
    };
    cx.close_entry();
    // Each phase of the attempt has its own time limits.
    timeouts::over(cx, frame, node, attempt);
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Body;
        state.job = None;
        state.delivery = 0;
        if let Some(body) = &mut state.body {
            body.phase = None;
        }
    });
    part_known(cx, frame, node, phase, record);
}

fn part_known(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, phase: Phase, record: Record) {
    let is_loop = cx.run.graph.node(node).kind == NodeKind::Loop;
    match (phase, is_loop) {
        (Phase::Open, false) => iteration::opened(cx, frame, node, record),
        (Phase::Open, true) => loop_::opened(cx, frame, node, record),
        (Phase::Check, _) => loop_::checked(cx, frame, node, record),
        (Phase::Collect, _) => iteration::collected(cx, frame, node, record),
    }
}

/// Evaluates a phase in this step.
fn evaluated(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, phase: Phase) -> (Record, usize) {
    let graph = cx.run.graph.clone();
    let result = evaluate_phase(graph.node(node), phase, &cx.run.pool(frame));
    records::of(cx, frame, node, result)
}

/// Orders a job for a phase.
fn order_part(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, phase: Phase) {
    cx.update(frame, node, |state| {
        state.delivery = 0;
        if let Some(body) = &mut state.body {
            body.phase = Some(phase);
        }
    });
    // With too many jobs in the run, it waits like any other node.
    if cx.run.jobs_in_flight() < tidemill_base::limits::RUN_JOBS_MAX && cx.run.control.pausing.is_empty() {
        ready::order_job(cx, frame, node);
    } else {
        ready::make_ready(cx, frame, node);
    }
}

/// Returns an error if a container has too many items or rounds.
fn too_many(run: &RunState, count: u32, what: &str) -> Option<String> {
    let max = run.head.options.container_rounds_max;
    (u64::from(count) > max).then(|| format!("{count} {what} are more than run.container_rounds_max ({max})"))
}

/// Marks the loop of a `loop-end` as ending with this round, also from an iteration inside it.
pub(crate) fn loop_end(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let Some(target) = cx.run.graph.node(node).loop_id else { return };
    let id = cx.run.graph.node(target).id.clone();
    let round = frame.outwards().find(|path| path.last().is_some_and(|(of, _)| of == id.as_str()));
    if let Some(round) = round
        && let Some(open) = cx.frame_mut(&round)
    {
        open.loop_end = true;
    }
}

/// Emits the end of a container's body. The end of the node follows.
fn emit_end(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    record: &Record,
    steps: u32,
    reason: Option<&'static str>,
) {
    let about = cx.about(frame, node);
    let now = cx.at.now;
    let started_at = cx.run.node(frame, node).and_then(|state| state.started_at).unwrap_or(now);
    let end = NodeEnd { about, started_at, finished_at: now, record: Box::new(record.clone()) };
    cx.emit(EventKind::NodeRunBodyEnded { end, steps, reason });
}

/// Removes the state of an open container, and returns its inputs.
fn let_go(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> crate::state::NamedValues {
    let key = (frame.clone(), node);
    let Some(open) = cx.run.containers.remove(&key) else { return Vec::new() };
    cx.out.containers.insert(key);
    if cx.run.containers.values().all(|other| other.collected.is_empty()) {
        cx.out.collected.clear();
        cx.out.collected_cleared = true;
    } else {
        let used = open.collected.keys().map(|at| (frame.clone(), node, *at));
        cx.out.collected.extend(used);
    }
    open.inputs
}

/// The size of a page of operations that items leave, in bytes.
pub(crate) fn page_bytes(run: &RunState) -> usize {
    iteration::page_bytes(run)
}

/// Makes the inputs of the job that collects the outputs of an iteration.
pub(crate) fn pages(run: &RunState, frame: &FramePath, node: NodeIx) -> Vec<(String, String, Stored)> {
    iteration::pages(run, frame, node)
}
