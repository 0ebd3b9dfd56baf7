//! From ready to running: pure nodes are evaluated on the spot, the others become jobs, within the step's bounds.

use uuid::Uuid;

use super::changes::{JobOrder, Record};
use super::run::{NodeStatus, Pool, json_size};
use super::{Step, end_of_run, response, settle};
use crate::graph::NodeIx;
use crate::ids::{BlobId, EntryId, FramePath};
use crate::limits;
use crate::nodes::{EvaluationLimits, NodeResult, evaluate};
use crate::value::{BlobRef, Lookup, Segment, SegmentType, Stored, Variables};

use super::changes::EventKind;

/// Puts a node at the end of the ready queue.
pub(super) fn make_ready(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    if let Some(state) = cx.node_mut(frame, node) {
        state.status = NodeStatus::Ready;
        cx.run.ready.push_back((frame.clone(), node));
    }
}

/// Works the ready queue off until it is empty, the step's bounds are reached or the run is over; then ends the run
/// if nothing is left of it.
pub(super) fn drive(cx: &mut Step<'_>) {
    let mut transitions = 0;
    let mut bytes = 0;
    let mut in_flight = cx.run.jobs_in_flight();
    // Nodes whose turn comes when a job of this run has ended.
    let mut waiting = Vec::new();
    while let Some((frame, node)) = cx.run.ready.pop_front() {
        if transitions >= limits::STEP_TRANSITIONS_MAX || bytes >= limits::STEP_BYTES_MAX {
            cx.run.ready.push_front((frame, node));
            cx.out.go_on = true;
            break;
        }
        if in_flight >= limits::RUN_JOBS_MAX && !is_evaluated_here(cx, &frame, node) {
            waiting.push((frame, node));
            continue;
        }
        transitions += 1;
        match begin(cx, &frame, node) {
            Begun::Ended(size) => bytes += size,
            Begun::Queued(size) => {
                bytes += size;
                in_flight += 1;
            }
        }
        if cx.run.status.is_over() {
            return;
        }
    }
    for it in waiting.into_iter().rev() {
        cx.run.ready.push_front(it);
    }
    end_of_run::check(cx);
}

enum Begun {
    Ended(usize),
    Queued(usize),
}

fn is_evaluated_here(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    let spec = cx.run.graph.node(node);
    let pool = cx.run.pool(frame);
    spec.kind.spec().pure
        && !spec.settings.on_worker
        && !spec.mentions.iter().any(|(node, name)| matches!(pool.variable(node, name), Lookup::Blob(_)))
        && !reads_everything_large(cx, frame, node)
}

/// The start node shows the whole pool; with a large input it goes to a worker like any other.
fn reads_everything_large(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    if cx.run.graph.node(node).kind != crate::nodes::NodeKind::Start {
        return false;
    }
    let pool = cx.run.pool(frame);
    pool.names().iter().any(|(node, name)| matches!(pool.variable(node, name), Lookup::Blob(_)))
}

fn begin(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> Begun {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    if is_evaluated_here(cx, frame, node) {
        let options = &cx.run.head.options;
        let limits = EvaluationLimits {
            undefined: options.template_undefined,
            template_chars_max: options.template_chars_max,
            fuel: Some(limits::PURE_FUEL),
            output_bytes: Some(limits::PURE_OUTPUT_BYTES_MAX),
        };
        if let Ok(result) = evaluate(spec, &cx.run.pool(frame), &limits) {
            return Begun::Ended(ended_here(cx, frame, node, result));
        }
    }
    Begun::Queued(enqueue(cx, frame, node))
}

/// A pure node was evaluated: it began and ended in this moment.
fn ended_here(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, result: NodeResult) -> usize {
    let now = cx.at.now;
    if let Some(state) = cx.node_mut(frame, node) {
        state.status = NodeStatus::Running;
        state.attempt += 1;
        state.started_at.get_or_insert(now);
    }
    let about = cx.about(frame, node);
    cx.tell(EventKind::NodeRunStarted(about));
    let failed = result.failure.is_some();
    let (record, bytes) = record_of(cx, frame, node, result);
    if failed {
        settle::failed(cx, frame, node, now, record);
    } else {
        settle::succeeded(cx, frame, node, now, record);
    }
    bytes
}

/// The record of a result: secrets masked where they are only shown, large values stored apart.
fn record_of(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, result: NodeResult) -> (Record, usize) {
    let inline_max = cx.run.head.options.inline_bytes_max;
    let execution = cx.run.execution(frame, node);
    let graph = cx.run.graph.clone();
    let mut bytes = 0;
    let mut blobs = Vec::new();
    let mut keep = |part: &str, name: &str, segment: Segment| -> Stored {
        let size = json_size(&segment.value);
        bytes += size;
        if size <= inline_max {
            return Stored::Inline(segment);
        }
        // The name follows from what it holds, so a step computed again stores the same blob.
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{execution}/{part}/{name}").as_bytes());
        let id = BlobId::from(id.simple().to_string().as_str());
        let text = crate::value::blob_text(&segment.value);
        let blob = BlobRef { id: id.clone(), ty: segment.ty, size: text.len() as u64 };
        blobs.push((id, text));
        Stored::Blob(blob)
    };
    let inputs =
        result.inputs.into_iter().map(|(name, v)| (name.clone(), keep("in", &name, masked(v)))).collect();
    let process_data = result
        .process_data
        .into_iter()
        .map(|(name, v)| (name.clone(), keep("process", &name, Segment::infer(v))))
        .collect();
    let outputs = result
        .outputs
        .into_iter()
        .map(|(name, value)| {
            let stored = match secret_name(&graph, &value) {
                Some(secret) => Stored::Secret(secret),
                None => keep("out", &name, value),
            };
            (name, stored)
        })
        .collect();
    let failure = result.failure;
    let record = Record {
        inputs,
        process_data,
        outputs,
        metadata: result.metadata,
        handle: result.handle,
        usage: result.usage,
        retry_hint: failure.as_ref().and_then(|f| f.retry_after_ms),
        error: failure.as_ref().map(|f| f.message.clone()).unwrap_or_default(),
        error_type: failure.map(|f| f.error_type).unwrap_or_default(),
    };
    cx.out.blobs.extend(blobs);
    (record, bytes)
}

/// A secret as it is shown: Dify's masked form.
fn masked(segment: Segment) -> Segment {
    if segment.ty == SegmentType::Secret { Segment::string(segment.log()) } else { segment }
}

/// The environment's secret that a value is, so that the pool holds a reference and not the value.
fn secret_name(graph: &crate::graph::Graph, segment: &Segment) -> Option<std::sync::Arc<str>> {
    if segment.ty != SegmentType::Secret {
        return None;
    }
    let same = |v: &&crate::graph::DocumentVariable| {
        v.value.ty == SegmentType::Secret && v.value.value == segment.value
    };
    graph.environment.iter().find(same).map(|v| v.name.clone())
}

/// Makes the job of a node's next attempt.
fn enqueue(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    if let Some(state) = cx.node_mut(frame, node) {
        state.attempt += 1;
        state.delivery = 0;
    }
    order_job(cx, frame, node)
}

/// Orders the job of a node's present attempt, under a new entry.
pub(super) fn order_job(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> usize {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let entry = EntryId::new(cx.at.commit, cx.at.jobs);
    cx.at.jobs += 1;
    let mut inputs = job_inputs(&cx.run.pool(frame), spec);
    let bytes = shrink(cx, frame, node, &mut inputs);
    let (mut attempt, mut delivered) = (1, 0);
    if let Some(state) = cx.node_mut(frame, node) {
        state.status = NodeStatus::Queued;
        state.job = Some(entry);
        (attempt, delivered) = (state.attempt, state.delivery);
    }
    cx.out.jobs.push(JobOrder {
        queue: spec.settings.queue.clone(),
        entry,
        frame: frame.clone(),
        node,
        execution: cx.run.execution(frame, node),
        attempt,
        delivered,
        inputs,
        streams: frame.is_root() && response::is_awaited(&graph, spec),
    });
    bytes + 300
}

/// The values a job carries: what its node's configuration mentions, each once.
fn job_inputs(pool: &Pool<'_>, spec: &crate::graph::Node) -> Vec<(String, String, Stored)> {
    let names = if spec.kind == crate::nodes::NodeKind::Start { pool.names() } else { spec.mentions.clone() };
    names
        .into_iter()
        .filter_map(|(node, name)| {
            let stored = pool.stored(&node, &name)?.into_owned();
            Some((node, name, stored))
        })
        .collect()
}

/// Keeps a job within its bound: the largest inline values become blobs.
fn shrink(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    inputs: &mut [(String, String, Stored)],
) -> usize {
    let size = |stored: &Stored| match stored {
        Stored::Inline(segment) => json_size(&segment.value),
        Stored::Blob(_) | Stored::Secret(_) => 80,
    };
    let mut total: usize = inputs.iter().map(|(_, _, stored)| size(stored)).sum();
    let execution = cx.run.execution(frame, node);
    while total > limits::JOB_BYTES_MAX {
        let Some((of, name, largest)) = inputs.iter_mut().max_by_key(|(_, _, stored)| size(stored)) else {
            break;
        };
        let Stored::Inline(segment) = largest else { break };
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{execution}/job/{of}.{name}").as_bytes());
        let id = BlobId::from(id.simple().to_string().as_str());
        let text = crate::value::blob_text(&segment.value);
        total = total - json_size(&segment.value) + 80;
        let blob = BlobRef { id: id.clone(), ty: segment.ty, size: text.len() as u64 };
        cx.out.blobs.push((id, text));
        *largest = Stored::Blob(blob);
    }
    total
}

/// Writes a variable of a frame.
pub(super) fn write(cx: &mut Step<'_>, frame: &FramePath, node: &str, name: &str, value: Stored) {
    if let Some(open) = cx.run.frames.get_mut(frame) {
        open.set(node, name, value);
        cx.out.variables.insert((frame.clone(), node.to_string(), name.to_string()));
    }
}
