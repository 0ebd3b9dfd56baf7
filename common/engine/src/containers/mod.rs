//! Containers: a node whose body is run again and again, each time as a frame of its own.
//!
//! A container is opened, its frames open and close, and when the last is closed it ends like any node. What reads
//! values (the list, loop variables, conditions, the collected outputs) is evaluated here when they are at hand, else by
//! a worker, as one of three parts ([`Phase`]); what follows is the same.

mod frames;
mod iteration;
mod loop_;
mod metadata;

pub(super) use frames::settled;

use super::events::{EventKind, NodeEnd};
use super::records::Record;
use super::run::{NodeStatus, RunState};
use super::{Step, drive, edges, records, timeouts};
use crate::body::BodyState;
use tidemill_base::ids::FramePath;
use tidemill_base::value::Stored;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::{NodeKind, Phase, SOURCE_HANDLE, evaluate_phase};

/// Begins a container that is ready, or goes on with the part that a pause took back from a worker.
pub(super) fn begin(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    let phase = cx.run.node(frame, node).and_then(|state| state.body.as_ref()?.phase);
    match phase {
        Some(Phase::Check | Phase::Collect) => return drive::order_job(cx, frame, node),
        Some(Phase::Open) | None => {}
    }
    if let Some(record) = iteration::shortcut(cx.run, frame, node) {
        drive::begun(cx, frame, node);
        iteration::opened(cx, frame, node, record);
        return 300;
    }
    if !drive::is_at_hand(cx, frame, cx.run.graph.node(node)) {
        cx.update(frame, node, |state| state.body = Some(Box::new(BodyState::to_open())));
        return drive::enqueue(cx, frame, node);
    }
    drive::begun(cx, frame, node);
    let (record, bytes) = evaluated(cx, frame, node, Phase::Open);
    part_known(cx, frame, node, Phase::Open, record);
    bytes + 300
}

/// The start node of a body: nobody is told of it, and it is no step.
pub(super) fn begin_body(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    cx.update(frame, node, |state| state.status = NodeStatus::Succeeded);
    edges::decide(cx, frame, node, SOURCE_HANDLE);
    cx.close_entry();
    super::breakpoints::ended(cx, node);
    settled(cx, frame);
    80
}

/// Whether a worker is at a part of this container.
pub(super) fn is_part(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    cx.run.node(frame, node).is_some_and(|state| state.body.as_ref().is_some_and(|body| body.phase.is_some()))
}

/// A worker has evaluated a part.
pub(super) fn part_done(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: Record) {
    let Some(state) = cx.run.node(frame, node) else { return };
    let (attempt, Some(phase)) = (state.attempt, state.body.as_ref().and_then(|body| body.phase)) else {
        return;
    };
    cx.close_entry();
    // The next part of the same attempt has time limits of its own.
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

/// Evaluates a part here.
fn evaluated(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, phase: Phase) -> (Record, usize) {
    let graph = cx.run.graph.clone();
    let result = evaluate_phase(graph.node(node), phase, &cx.run.pool(frame));
    records::of(cx, frame, node, result)
}

/// Gives a part to a worker.
fn order_part(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, phase: Phase) {
    cx.update(frame, node, |state| {
        state.delivery = 0;
        if let Some(body) = &mut state.body {
            body.phase = Some(phase);
        }
    });
    // Behind the bound on jobs it waits like any other node.
    if cx.run.jobs_in_flight() < tidemill_base::limits::RUN_JOBS_MAX && cx.run.control.pausing.is_empty() {
        drive::order_job(cx, frame, node);
    } else {
        drive::make_ready(cx, frame, node);
    }
}

/// Why a container of so many items or rounds is refused, if it is.
fn too_many(run: &RunState, count: u32, what: &str) -> Option<String> {
    let max = run.head.options.container_rounds_max;
    (u64::from(count) > max).then(|| format!("{count} {what} are more than run.container_rounds_max ({max})"))
}

/// A `loop-end` was reached: its loop ends with this round, also from an iteration within it.
pub(super) fn loop_end(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let Some(target) = cx.run.graph.node(node).loop_id else { return };
    let id = cx.run.graph.node(target).id.clone();
    let round = frame.outwards().find(|path| path.last().is_some_and(|(of, _)| of == id.as_str()));
    if let Some(round) = round
        && let Some(open) = cx.frame_mut(&round)
    {
        open.loop_end = true;
    }
}

/// Tells how a container ended; its own end follows.
fn tell_end(
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
    cx.tell(EventKind::NodeRunBodyEnded { end, steps, reason });
}

/// Lets go of what is known of an open container; answers what it was given.
fn let_go(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> super::fact::NamedValues {
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

/// What a worker needs to put the collected outputs of an iteration together.
pub(super) fn pages(run: &RunState, frame: &FramePath, node: NodeIx) -> Vec<(String, String, Stored)> {
    iteration::pages(run, frame, node)
}
