//! Begins a run with the state of an exported run. Nodes that had a job there are ready here. The two runs share
//! nothing afterwards.

use crate::fact::Timer;
use crate::flow::pauses;
use crate::flow::{children, ready, time_limit};
use crate::on::start;
use crate::order::changes::{Held, TimerChange};
use crate::order::events::EventKind;
use crate::state::clock::Clock;
use crate::state::cost::Cost;
use crate::state::run::{NodeState, NodeStatus, RunState, RunStatus};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, other: RunState) {
    if cx.run.status != RunStatus::Scheduled || other.status.is_over() {
        return;
    }
    if other.status == RunStatus::Scheduled {
        // The exported run had not begun either.
        return start::step(cx, Some(other.head));
    }
    take(cx, other);
    cx.emit(EventKind::GraphRunStarted { resumed: true, caller: None });
    cx.close_entry();
    write_all(cx);
    for (frame, node) in nodes(cx.run, |node| node.status.is_open()) {
        children::reset(cx, &frame, node);
    }
    for (frame, node) in nodes(cx.run, |node| node.status.has_job() || node.status == NodeStatus::Retrying) {
        if cx.run.graph.node(node).child.is_some() {
            continue;
        }
        reopen(cx, &frame, node);
    }
    let waits: Vec<_> = std::mem::take(&mut cx.run.pauses).into_values().collect();
    for it in waits {
        match it.step {
            None => pauses::reopen(cx, it),
            // The job has a new journal in this run, so it asks again.
            Some(_) => reopen(cx, &it.frame, it.node),
        }
    }
    ready::advance(cx);
}

/// Moves the state of the other run into this one. Time and steps are counted from zero, as after a pause.
fn take(cx: &mut Step<'_>, other: RunState) {
    let now = cx.at.now;
    let worked_before = other.worked_micros(now);
    cx.set_run_status(RunStatus::Running);
    let run = &mut *cx.run;
    run.started_at = Some(other.started_at.unwrap_or(now));
    run.frames = other.frames;
    run.ready = other.ready;
    run.response = other.response;
    run.nested = other.nested;
    run.containers = other.containers;
    run.pauses = other.pauses;
    run.control = other.control;
    run.control.worked_before = worked_before;
    run.messages = other.messages;
    run.frames.values_mut().flat_map(|frame| &mut frame.nodes).for_each(|node| node.clock = Clock::default());
    run.control.resumed_at = Some(now);
    run.derive();
    run.clock = run.clock_at_last_begin();
    run.control.steps_before = run.steps();
    // A text that was not complete is produced again, and no client of this run has seen any of it.
    run.response.streams.retain(|_, stream| stream.closed);
    time_limit::set(cx);
}

/// Notes every part of the state as to be written, because nothing is stored for this run yet.
fn write_all(cx: &mut Step<'_>) {
    let (run, out) = (&*cx.run, &mut *cx.out);
    for (path, frame) in &run.frames {
        if !path.is_root() {
            out.frames.insert(path.clone());
        }
        for (node, values) in &frame.variables {
            out.variables.extend(values.iter().map(|(name, _)| (path.clone(), node.clone(), name.clone())));
        }
        out.variables
            .extend(frame.hidden.iter().map(|(node, name)| (path.clone(), node.clone(), name.clone())));
    }
    out.nodes.extend(nodes(run, |node| node.status != NodeStatus::Unknown));
    for (key, container) in &run.containers {
        out.containers.insert(key.clone());
        out.collected.extend(container.collected.keys().map(|at| (key.0.clone(), key.1, *at)));
    }
    out.nested.extend(run.nested.keys().cloned());
    out.streams.extend(run.response.streams.keys().cloned());
    out.held.extend(run.response.streams.iter().flat_map(|(key, stream)| {
        stream.held.iter().map(|text| Held {
            stream: key.clone(),
            attempt: stream.attempt,
            delivery: stream.delivery,
            began: stream.began,
            text: text.clone(),
        })
    }));
    if let Some(messages) = &run.messages {
        let written = out.messages.get_or_insert_default();
        written.lists.extend(messages.lists.keys().map(|name| (name.clone(), 0)));
        written.runtime.extend(messages.runtime.keys().cloned());
        written.recorded.extend(messages.history.iter().cloned());
    }
    out.response = true;
    out.control = true;
    out.clock = true;
}

fn nodes(run: &RunState, is_wanted: impl Fn(&NodeState) -> bool) -> Vec<(FramePath, NodeIx)> {
    let mut found = Vec::new();
    for (path, frame) in &run.frames {
        for (at, node) in frame.nodes.iter().enumerate() {
            if is_wanted(node) {
                found.push((path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX))));
            }
        }
    }
    found
}

/// Makes a node ready whose job belongs to the exported run, or lets its next attempt begin at once.
fn reopen(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let Some(state) = cx.run.node(frame, node) else { return };
    if state.status == NodeStatus::Retrying && state.parked.is_none() {
        let timer = Timer::Retry { frame: frame.clone(), node, attempt: state.attempt + 1 };
        let now = cx.at.now;
        return cx.out.timers.push(TimerChange::Set(now, timer));
    }
    cx.update(frame, node, |state| {
        state.job = None;
        state.parked = None;
        // A sub-workflow run belongs to the exported run. This run orders its own.
        state.call = None;
        state.side_calls.clear();
        state.charged = Cost::default();
        state.delivery = 0;
        if !state.is_between() {
            state.attempt = state.attempt.saturating_sub(1);
            if state.attempt == 0 {
                // This run has not emitted the start of the node.
                state.started_at = None;
            }
        }
    });
    ready::make_ready(cx, frame, node);
}
