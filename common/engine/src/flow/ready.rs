//! Starts nodes that are ready: pure nodes are evaluated in the step, all others get a job. A step that reaches its
//! limits stops here and orders a `continue` fact.

use crate::flow::pauses;
use crate::flow::values::records;
use crate::flow::{containers, edges, end_of_run, hooks, response, settle, time_limit, timeouts};
use crate::order::changes::JobOrder;
use crate::state::run::{NodeState, NodeStatus, Pool, RunStatus, json_size};
use crate::step::{Step, step_limits};
use tidemill_base::ids::{EntryId, FramePath};
use tidemill_base::limits;
use tidemill_base::value::{Lookup, Stored, Variables};
use tidemill_workflow::graph::{Node, NodeIx};
use tidemill_workflow::nodes::{ExecutionType, NodeKind, NodeResult, Phase, evaluate};

/// Makes a node ready and appends it to the ready queue.
pub(crate) fn make_ready(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    cx.update(frame, node, |state| state.status = NodeStatus::Ready);
    cx.run.ready.push_back((frame.clone(), node));
}

/// Starts ready nodes until the queue is empty, the step's limits are reached, a pause command is in effect or the run
/// has ended. Then ends or pauses the run if nothing can continue.
pub(crate) fn advance(cx: &mut Step<'_>) {
    if cx.run.status != RunStatus::Running {
        return;
    }
    let mut transitions = 0;
    let mut bytes = 0;
    // Nodes that have to wait until a job of this run has ended.
    let mut waiting = Vec::new();
    while cx.run.control.pausing.is_empty()
        && let Some((frame, node)) = cx.run.ready.pop_front()
    {
        if transitions >= limits::STEP_TRANSITIONS_MAX || bytes >= limits::STEP_BYTES_MAX {
            cx.run.ready.push_front((frame, node));
            cx.out.continue_due = true;
            break;
        }
        if cx.run.jobs_in_flight() >= limits::RUN_JOBS_MAX && !is_evaluated_here(cx, &frame, node) {
            waiting.push((frame, node));
            // The rest of the queue has its turn later: to look at all of it in each step would take too long.
            if waiting.len() >= limits::STEP_TRANSITIONS_MAX {
                break;
            }
            continue;
        }
        transitions += 1;
        bytes += begin(cx, &frame, node);
        if cx.run.status.is_over() {
            return;
        }
    }
    for it in waiting.into_iter().rev() {
        cx.run.ready.push_front(it);
    }
    end_of_run::check(cx);
}

/// True when a step can evaluate the node: no variable that it mentions is a blob, and its settings do not ask for a
/// worker (`on_worker`).
pub(crate) fn can_evaluate_here(cx: &Step<'_>, frame: &FramePath, spec: &Node) -> bool {
    let pool = cx.run.pool(frame);
    !spec.settings.on_worker
        && !spec.mentions.iter().any(|(node, name)| matches!(pool.variable(node, name), Lookup::Blob(_)))
}

fn is_evaluated_here(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    let spec = cx.run.graph.node(node);
    let state = cx.run.node(frame, node);
    let part = state.and_then(|state| state.body.as_ref()?.phase);
    if matches!(part, Some(Phase::Check | Phase::Collect)) || state.is_some_and(|it| it.ended.is_some()) {
        return false;
    }
    spec.kind.spec().pure && can_evaluate_here(cx, frame, spec) && !reads_everything_large(cx, frame, node)
}

/// True for a start node when any variable is a blob: a start node outputs all variables, so it needs a worker then.
fn reads_everything_large(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    if !begins_runs(cx.run.graph.node(node)) {
        return false;
    }
    let pool = cx.run.pool(frame);
    pool.names().iter().any(|(node, name)| matches!(pool.variable(node, name), Lookup::Blob(_)))
}

/// True for start nodes that output all variables. A datasource mentions those that it needs.
fn begins_runs(node: &Node) -> bool {
    node.kind.spec().execution == ExecutionType::Root && node.kind != NodeKind::Datasource
}

/// Begins a ready node. Returns about how many bytes of changes this adds.
fn begin(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    match spec.kind {
        NodeKind::IterationStart | NodeKind::LoopStart => return containers::begin_body(cx, frame, node),
        _ if spec.kind.spec().execution == ExecutionType::Container => {
            return containers::begin(cx, frame, node);
        }
        _ => {}
    }
    if is_evaluated_here(cx, frame, node) {
        let limits = step_limits(&cx.run.head.options);
        if let Ok(result) = evaluate(spec, &cx.run.pool(frame), &limits) {
            return ended_here(cx, frame, node, result);
        }
    }
    enqueue(cx, frame, node)
}

/// Applies the result of a pure node, which begins in this moment and ends or waits. Returns its bytes.
fn ended_here(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, result: NodeResult) -> usize {
    mark_begun(cx, frame, node);
    let failed = result.failure.is_some();
    let (mut record, bytes) = records::of(cx, frame, node, result);
    let now = cx.at.now;
    if failed {
        settle::failed(cx, frame, node, now, record.into());
    } else if let Some(request) = pauses::requested(&mut record) {
        pauses::open(cx, frame, node, request);
    } else {
        settle::succeeded(cx, frame, node, now, record.into());
    }
    bytes
}

/// Notes that a node begins in this step, and emits the event.
pub(crate) fn mark_begun(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let now = cx.at.now;
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Running;
        state.attempt += 1;
        state.started_at.get_or_insert(now);
    });
    let began = edges::started(cx, frame, node);
    cx.emit(began);
}

/// Orders the job of the next attempt, or of the same attempt when its job was parked or only its hooks are left.
/// Delivery numbers continue from the last known one: the attempt may have streamed text under an earlier job that was
/// lost or taken back.
pub(crate) fn enqueue(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    order(cx, frame, node, |state| {
        let continues = state.parked.take().is_some() || state.ended.is_some();
        state.attempt += u32::from(!continues);
    })
}

/// Orders a job for the present attempt of a node, under a new entry.
pub(crate) fn order_job(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    order(cx, frame, node, |_| {})
}

/// Orders a job; `begin` changes the node in the same update, which saves time.
fn order(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, begin: fn(&mut NodeState)) -> usize {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let entry = EntryId::new(cx.at.commit, cx.at.jobs);
    cx.at.jobs += 1;
    let state = cx.run.node(frame, node);
    let phase = state.and_then(|state| state.body.as_ref()?.phase);
    let ended = state.and_then(|state| state.ended.clone());
    let mut inputs = match phase {
        _ if ended.is_some() => hooks::inputs(&cx.run.pool(frame), spec),
        Some(Phase::Collect) => containers::pages(cx.run, frame, node),
        Some(Phase::Open | Phase::Check) | None => job_inputs(&cx.run.pool(frame), spec),
    };
    let outputs = ended.iter().flat_map(|ended| &ended.record.outputs).map(|(_, value)| size(value));
    let bytes = outputs.sum::<usize>() + shrink(cx, frame, node, &mut inputs);
    let (mut attempt, mut delivered) = (1, 0);
    cx.update(frame, node, |state| {
        begin(state);
        state.status = NodeStatus::Queued;
        state.job = Some(entry);
        (attempt, delivered) = (state.attempt, state.delivery);
    });
    timeouts::queued(cx, frame, node, attempt, ended.is_some());
    let execution = cx.execution(frame, node);
    let left_ms = time_limit::left_ms(cx);
    cx.out.jobs.push(JobOrder {
        queue: spec.settings.queue.clone(),
        entry,
        frame: frame.clone(),
        node,
        execution,
        attempt,
        queued_at: cx.at.now,
        delivered,
        inputs,
        streams: ended.is_none() && frame.is_root() && response::is_awaited(&graph, spec),
        phase,
        left_ms,
        ended,
    });
    bytes + 300
}

/// Collects the values that a job carries: each variable that the node's configuration mentions.
fn job_inputs(pool: &Pool<'_>, spec: &Node) -> Vec<(String, String, Stored)> {
    let carried = |(node, name): &(String, String)| {
        let stored = pool.stored(node, name)?.into_owned();
        Some((node.clone(), name.clone(), stored))
    };
    if begins_runs(spec) {
        return pool.names().iter().filter_map(carried).collect();
    }
    // Nearly all mentioned variables exist, and they are few, so exact room saves memory.
    let mut inputs = Vec::with_capacity(spec.mentions.len());
    inputs.extend(spec.mentions.iter().filter_map(carried));
    inputs
}

/// Estimates the bytes of a value in a message.
fn size(stored: &Stored) -> usize {
    match stored {
        Stored::Inline(segment) => json_size(&segment.value),
        Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => 80,
    }
}

/// Keeps a job within its size limit: turns the largest inline values into blobs. Returns the bytes that remain.
fn shrink(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    inputs: &mut [(String, String, Stored)],
) -> usize {
    let mut total: usize = inputs.iter().map(|(_, _, stored)| size(stored)).sum();
    while total > limits::JOB_BYTES_MAX {
        let Some((of, name, largest)) = inputs.iter_mut().max_by_key(|(_, _, stored)| size(stored)) else {
            break;
        };
        let Stored::Inline(segment) = largest else { break };
        let execution = cx.execution(frame, node);
        let (blob, text) =
            records::as_blob(&format!("{execution}/{}/job/{of}.{name}", cx.at.commit), segment);
        total = total - json_size(&segment.value) + 80;
        cx.out.blobs.push((blob.id.clone(), text));
        *largest = Stored::Blob(blob);
    }
    total
}
