//! Applies what happens to a child node within a job: its events are emitted, its cost is counted, and its outputs
//! become variables. No edge follows; only the end of the parent continues the run.

use crate::cost::{charges, ledger};
use crate::fact::{ChildEnd, ChildEvent, ChildFact, JobChunk, JobDone, JobRef};
use crate::flow::budget;
use crate::flow::response;
use crate::flow::values::{messages, variables};
use crate::flow::warnings;
use crate::on::job_started;
use crate::on::job_stepped::numbered;
use crate::order::events::{EventKind, NodeEnd};
use crate::state::cost::Cost;
use crate::state::record::Record;
use crate::state::run::NodeStatus;
use crate::state::step_event::StepEvent;
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::value::{Segment, Stored};

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: ChildFact) {
    let is_inside = |child: &tidemill_workflow::graph::Child| child.of == it.job.node;
    if !cx.run.graph.node(it.child).child.as_deref().is_some_and(is_inside) {
        return;
    }
    let is_current = job_started::is_current(cx, &it.job);
    if is_current {
        job_started::note_holder(cx, &it.job, it.started_at);
    }
    let job = of_child(&it);
    let started_at = it.started_at;
    match it.what {
        ChildEvent::Started if is_current => began(cx, &job, started_at),
        ChildEvent::Chunk { selector, offset, text } if is_current => {
            began(cx, &job, started_at);
            if is_open(cx, &job) {
                response::live::chunk(cx, (&job, started_at), &selector, offset, &text);
            }
            if job.frame.is_root() {
                response::streams::take_chunk(cx, JobChunk { job, started_at, selector, offset, text });
                response::flush(cx);
            }
        }
        ChildEvent::Step { events, charge } => {
            if let Some(charge) = &charge {
                // The charge is in the journal, so it counts even if another worker holds the job now.
                began(cx, &job, started_at);
                charges::count(cx, &job, charge);
            }
            if is_current {
                began(cx, &job, started_at);
                emit_events(cx, &job, events);
            }
            if charge.is_some() {
                budget::check(cx);
            }
        }
        ChildEvent::Retry { at, record } if is_open(cx, &job) => {
            began(cx, &job, started_at);
            failed_once(cx, &job, it.number, at, *record);
        }
        ChildEvent::Ended { at, end, record, streamed } if is_open(cx, &job) => {
            began(cx, &job, started_at);
            ended(cx, it.number, end, JobDone { job, started_at, finished_at: at, record, streamed });
        }
        ChildEvent::Started
        | ChildEvent::Chunk { .. }
        | ChildEvent::Retry { .. }
        | ChildEvent::Ended { .. } => {}
    }
}

/// Makes the reference by which the child's texts are numbered. Parent attempt and child try make one number, so that
/// no later try, and no later attempt of the parent, has the number of an earlier one.
pub(crate) fn of_child(it: &ChildFact) -> JobRef {
    let attempt = it.job.attempt.saturating_sub(1).saturating_add(it.number);
    JobRef { node: it.child, attempt, ..it.job.clone() }
}

/// True while an end or retry of the child counts: the parent is open and the child has not ended. The worker that
/// holds the job does not matter, because the next one finds the entry in the journal.
fn is_open(cx: &Step<'_>, job: &JobRef) -> bool {
    let graph = &cx.run.graph;
    let parent = graph.node(job.node).child.as_ref().map(|child| child.of);
    let parent = parent.and_then(|parent| cx.run.node(&job.frame, parent));
    let state = cx.run.node(&job.frame, job.node);
    parent.is_some_and(|parent| parent.status.is_open())
        && state.is_some_and(|state| state.status == NodeStatus::Unknown || state.status.is_open())
}

/// Emits the start of the child, once for all tries.
fn began(cx: &mut Step<'_>, job: &JobRef, at: Timestamp) {
    if !is_open(cx, job) || cx.run.node(&job.frame, job.node).is_some_and(|state| state.started_at.is_some())
    {
        return;
    }
    let now = cx.at.now;
    cx.update(&job.frame, job.node, |state| {
        state.status = NodeStatus::Running;
        state.started_at = Some(at.min(now));
    });
    let about = cx.about(&job.frame, job.node);
    cx.emit(EventKind::NodeRunStarted { about, after: None });
}

fn emit_events(cx: &mut Step<'_>, job: &JobRef, events: Vec<(StepEvent, tidemill_base::value::JsonMap)>) {
    for (what, data) in events {
        if what == StepEvent::ReasoningChunk {
            if !response::is_reached_for(cx, &job.frame, job.node) {
                continue;
            }
            response::streams::thinks(cx, job);
        }
        let about = cx.about(&job.frame, job.node);
        let data = numbered(data, job);
        cx.emit(EventKind::NodeStep { about, what, data });
    }
}

/// Applies a failed try that another follows.
fn failed_once(cx: &mut Step<'_>, job: &JobRef, number: u32, at: Timestamp, mut record: Record) {
    warnings::note_all(cx, job.node, &mut record.warnings);
    cost(cx, job, number, &record);
    let end = node_end(cx, job, at, record.into());
    cx.emit(EventKind::NodeRunRetry { end, index: number });
    cx.close_entry();
    budget::check(cx);
}

fn ended(cx: &mut Step<'_>, number: u32, how: ChildEnd, mut done: JobDone) {
    cost(cx, &done.job, number, &done.record);
    warnings::note_all(cx, done.job.node, &mut done.record.warnings);
    if how == ChildEnd::Succeeded {
        response::live::finish(cx, &done);
        response::streams::finish(cx, &done);
    }
    response::live::close(cx, &done.job.frame, done.job.node);
    let updates = std::mem::take(&mut done.record.updates);
    let effects = done.record.effects.take();
    let JobDone { job, finished_at, mut record, .. } = done;
    if let Some(effects) = effects.as_ref().filter(|_| how == ChildEnd::Succeeded)
        && let Err(error) = messages::apply(cx, &job.frame, job.node, effects, record.usage.as_deref())
    {
        // The parent has continued with the child's outputs already, so the child cannot fail any more. A note in its
        // record says that the change was refused.
        let note = Stored::Inline(Segment::string(format!("{}: {error}", error.name())));
        record.process_data.push(("not_changed".into(), note));
    }
    let end = node_end(cx, &job, finished_at, record);
    messages::record(cx, &job.frame, &end, effects);
    let status = match how {
        ChildEnd::Succeeded => NodeStatus::Succeeded,
        ChildEnd::Failed => NodeStatus::Failed,
        ChildEnd::Replaced => NodeStatus::Exception,
    };
    let error = (how != ChildEnd::Succeeded).then(|| end.record.error.as_str().into());
    cx.update(&job.frame, job.node, |state| {
        state.status = status;
        state.finished_at = Some(end.finished_at);
        state.error = error;
        // A failure that fails the parent too is counted there.
        state.failures += u32::from(how == ChildEnd::Replaced);
    });
    if how != ChildEnd::Failed {
        let id = cx.run.graph.node(job.node).id.clone();
        for (name, value) in &end.record.outputs {
            variables::write(cx, &job.frame, &id, name, value.clone());
        }
    }
    if how == ChildEnd::Succeeded {
        for update in updates {
            variables::assign(cx, &job.frame, update);
        }
    }
    response::streams::close_of_node(cx, &job.frame, job.node);
    response::flush(cx);
    cx.emit(match how {
        ChildEnd::Succeeded => EventKind::NodeRunSucceeded(end),
        ChildEnd::Failed | ChildEnd::Replaced => EventKind::NodeRunFailed(end),
    });
    cx.close_entry();
    budget::check(cx);
}

/// Counts the cost of a try, without what its journal entries have charged already.
pub(crate) fn cost(cx: &mut Step<'_>, job: &JobRef, number: u32, record: &Record) {
    ledger::note_wasted(cx, &job.frame, job.node, number, record);
    let Some(usage) = record.usage.as_deref().filter(|usage| usage.is_any()) else { return };
    let charged = cx.run.node(&job.frame, job.node).map(|state| state.charged.clone()).unwrap_or_default();
    if charged.tokens == 0 {
        ledger::note_whole(cx, &job.frame, job.node, number, record, usage);
    }
    let cost = Cost::of(Some(usage)).without(&charged);
    cx.update(&job.frame, job.node, |state| state.cost = state.cost.plus(&cost));
}

fn node_end(cx: &mut Step<'_>, job: &JobRef, at: Timestamp, record: Box<Record>) -> NodeEnd {
    let about = cx.about(&job.frame, job.node);
    let finished_at = at.min(cx.at.now);
    let started_at = cx.run.node(&job.frame, job.node).and_then(|state| state.started_at);
    let started_at = started_at.unwrap_or(finished_at);
    NodeEnd { about, started_at, finished_at: finished_at.max(started_at), record }
}
