//! Iterations: each item has a frame, at most a window of items is open at a time, and outputs are in the order of
//! items.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::flow::containers::{emit_end, frames, let_go, metadata, order_part};
use crate::flow::settle;
use crate::flow::values::{changes, records};
use crate::order::events::EventKind;
use crate::state::container::{BodyState, Collected, OpenContainer, Page};
use crate::state::record::Record;
use crate::state::run::{NodeStatus, RunState, json_size};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::limits;
use tidemill_base::value::{Lookup, Segment, SegmentType, Stored, Variables};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::iteration::{
    BLOB_PREFIX, ErrorMode, IterationData, Outcome, PAGE_PREFIX, empty_output, item,
};
use tidemill_workflow::nodes::{NodeData, NodeResult, Phase};

/// The size of a page of outputs, as a multiple of the limit for inline values: 64 KiB by default.
const PAGE_INLINES: usize = 8;

fn data_of(run: &RunState, node: NodeIx) -> Option<&IterationData> {
    match &run.graph.0.nodes.get(node.at())?.data {
        NodeData::Iteration(data) => Some(data),
        _ => None,
    }
}

/// Opens an iteration over a blob with a known length, without loading the blob. Returns `None` for any other list.
pub(super) fn shortcut(run: &RunState, frame: &FramePath, node: NodeIx) -> Option<Record> {
    let [of, name] = data_of(run, node)?.iterator.as_slice() else { return None };
    let stored = run.pool(frame).stored(of, name)?.into_owned();
    let Stored::Blob(list) = &stored else { return None };
    if !list.ty.is_array() || list.len.is_none() || run.graph.node(node).settings.on_worker {
        return None;
    }
    let inputs = vec![("iterator_selector".to_string(), stored.clone())];
    Some(Record { inputs, outputs: vec![("items".to_string(), stored)], ..Record::default() })
}

/// Opens an iteration whose list was evaluated.
pub(super) fn opened(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, mut record: Record) {
    if !record.error.is_empty() || !record.error_type.is_empty() {
        let now = cx.at.now;
        return settle::failed(cx, frame, node, now, record.into());
    }
    let items = record
        .outputs
        .pop()
        .map_or_else(|| Stored::Inline(Segment::new(SegmentType::ArrayAny, json!([]))), |(_, items)| items);
    let count = u32::try_from(len_of(&items)).unwrap_or(u32::MAX);
    if let Some(error) = crate::flow::containers::too_many(cx.run, count, "items") {
        let (now, record) = (
            cx.at.now,
            Record { inputs: record.inputs, ..crate::flow::containers::frames::failure(error, "") },
        );
        return settle::failed(cx, frame, node, now, record.into());
    }
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeRunBodyStarted { about, inputs: record.inputs.clone(), count });
    if count == 0 {
        let list = empty_output(items.ty());
        let record = Record {
            inputs: record.inputs,
            outputs: vec![("output".into(), Stored::Inline(list))],
            ..Record::default()
        };
        emit_end(cx, frame, node, &record, 0, None);
        let now = cx.at.now;
        return settle::succeeded(cx, frame, node, now, record.into());
    }
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Body;
        state.body = Some(Box::new(BodyState::new(count)));
    });
    let key = (frame.clone(), node);
    let container = OpenContainer { inputs: record.inputs, items: Some(items), ..OpenContainer::default() };
    cx.run.containers.insert(key.clone(), container);
    cx.out.containers.insert(key);
    open_more(cx, frame, node);
    cx.close_entry();
}

fn len_of(items: &Stored) -> u64 {
    match items {
        Stored::Inline(list) => list.value.as_array().map_or(0, |items| items.len() as u64),
        Stored::Blob(list) => list.len.unwrap_or(0),
        Stored::Item { .. } | Stored::Secret(_) => 0,
    }
}

/// Opens items until the window is full.
fn open_more(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let Some((window, errors)) = data_of(cx.run, node).map(|data| (data.window, data.errors)) else { return };
    let window = window.min(limits::FRAMES_OPEN_MAX);
    while let Some(body) = cx.run.node(frame, node).and_then(|state| state.body.clone()) {
        let given_up = errors == ErrorMode::Terminated && body.error.is_some();
        let crowded = body.open() > 0 && cx.run.frames.len() >= limits::FRAMES_OF_RUN_MAX;
        if body.next >= body.count || body.open() >= window || given_up || crowded {
            return;
        }
        let item = item_of(cx.run, frame, node, body.next);
        cx.update(frame, node, |state| {
            if let Some(body) = &mut state.body {
                body.next += 1;
            }
        });
        let about = cx.about(frame, node);
        cx.emit(EventKind::NodeRunBodyNext { about, index: body.next, outputs: Vec::new() });
        let path = frame.child(&cx.run.graph.node(node).id.clone(), body.next);
        let index = Stored::Inline(Segment::new(SegmentType::Integer, body.next.into()));
        frames::open(cx, &path, node, vec![("index".into(), index), ("item".into(), item)]);
    }
}

fn item_of(run: &RunState, frame: &FramePath, node: NodeIx, at: u32) -> Stored {
    let items = run.containers.get(&(frame.clone(), node)).and_then(|container| container.items.as_ref());
    match items {
        Some(Stored::Inline(list)) => {
            let value = list.value.get(at as usize).cloned().unwrap_or(Json::Null);
            Stored::Inline(item(list.ty, value))
        }
        Some(Stored::Blob(list)) => Stored::Item { list: list.clone(), at: u64::from(at) },
        Some(Stored::Item { .. } | Stored::Secret(_)) | None => Stored::Inline(Segment::none()),
    }
}

/// Closes an item: takes its output and opens the next. After the last, collects the outputs.
pub(super) fn item_closes(cx: &mut Step<'_>, path: &FramePath, frame: &FramePath, node: NodeIx, index: u32) {
    let output = output_of(cx.run, path, node);
    let body = cx.run.node(frame, node).and_then(|state| state.body.clone());
    let is_last = body.is_some_and(|body| index + 1 == body.count);
    let error = cx.run.frames.get(path).and_then(|open| open.error.clone());
    let Some(closed) = frames::close_frame(cx, path, node, is_last && error.is_none()) else { return };
    changes::hand_over(cx, path, node, &closed);
    let seconds = cx.at.now.seconds_since(closed.opened_at);
    let left = Collected { output: error.is_none().then_some(output), seconds, ..Collected::default() };
    if let Some(container) = cx.run.containers.get_mut(&(frame.clone(), node)) {
        container.keep(index, left);
        cx.out.collected.insert((frame.clone(), node, index));
    }
    store_as_blob(cx, frame, node);
    cx.update(frame, node, |state| {
        if let Some(body) = &mut state.body {
            body.closed += 1;
            if body.error.is_none() {
                body.error = error;
            }
        }
    });
    open_more(cx, frame, node);
    cx.close_entry();
    let is_through =
        cx.run.node(frame, node).and_then(|state| state.body.as_ref()).is_some_and(|b| b.open() == 0);
    if is_through {
        collect(cx, frame, node);
    }
}

/// The size of a page of outputs or operations, in bytes.
pub(super) fn page_bytes(run: &RunState) -> usize {
    run.head.options.inline_bytes_max.saturating_mul(PAGE_INLINES)
}

/// Turns the outputs of adjacent items into a blob as soon as they fill a page. So the memory of an iteration does not
/// grow with its number of items.
fn store_as_blob(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let page_bytes = page_bytes(cx.run);
    let key = (frame.clone(), node);
    let Some(container) = cx.run.containers.get_mut(&key) else { return };
    let Some(items) = container.next_page(page_bytes) else { return };
    let taken = container.take(items.clone());
    let seconds = taken.iter().map(|left| left.seconds).collect();
    let entries = taken.into_iter().map(|left| outcome(left).entry()).collect();
    let list = Segment::new(SegmentType::ArrayAny, Json::Array(entries));
    let execution = cx.execution(frame, node);
    let name = format!("{execution}/{}.{}/page/{}", cx.at.commit, cx.run.seq, items.start);
    let (outputs, text) = records::as_blob(&name, &list);
    cx.out.blobs.push((outputs.id.clone(), text));
    cx.out.collected.extend(items.clone().map(|index| (frame.clone(), node, index)));
    let page = Collected { page: Some(Box::new(Page { outputs, seconds })), ..Collected::default() };
    if let Some(container) = cx.run.containers.get_mut(&key) {
        container.keep(items.start, page);
    }
}

/// Returns the outcome of an item that failed or has an inline output.
fn outcome(left: Collected) -> Outcome {
    match left.output {
        Some((Stored::Inline(segment), _)) => Outcome::Done(segment),
        Some((Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_), _)) | None => Outcome::Failed,
    }
}

/// Returns the output of an item, and the path into it if the value is a blob. Null when its variable is missing.
fn output_of(run: &RunState, path: &FramePath, node: NodeIx) -> (Stored, Vec<String>) {
    let none = || (Stored::Inline(Segment::none()), Vec::new());
    let Some(data) = data_of(run, node) else { return none() };
    let pool = run.pool(path);
    match pool.get(&data.output) {
        Lookup::Missing => none(),
        Lookup::Found(segment) => {
            let [of, name, rest @ ..] = data.output.as_slice() else { return none() };
            // A secret stays a reference.
            match pool.stored(of, name).map(std::borrow::Cow::into_owned) {
                Some(secret @ Stored::Secret(_)) if rest.is_empty() => (secret, Vec::new()),
                _ => (Stored::Inline(segment.into_owned()), Vec::new()),
            }
        }
        Lookup::Blob(_) => {
            let [of, name, rest @ ..] = data.output.as_slice() else { return none() };
            let stored = pool.stored(of, name).map(std::borrow::Cow::into_owned);
            stored.map_or_else(none, |stored| (stored, rest.to_vec()))
        }
    }
}

/// Collects the outputs after the last item: in this step if none is a blob, otherwise on a worker. Inline outputs are
/// few, because pages of them become blobs.
fn collect(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let Some(container) = cx.run.containers.get_mut(&(frame.clone(), node)) else { return };
    let is_blob = |left: &Collected| {
        left.page.is_some()
            || left.output.as_ref().is_some_and(|(value, _)| !matches!(value, Stored::Inline(_)))
    };
    if container.collected.values().any(is_blob) || !container.pending.is_empty() {
        return order_part(cx, frame, node, Phase::Collect);
    }
    // Taken, not copied, because the container is removed below.
    let taken = |left: &mut Collected| Collected { output: left.output.take(), ..Collected::default() };
    let outcomes = container.collected.values_mut().map(taken).map(outcome).collect();
    let Some(data) = data_of(cx.run, node) else { return };
    let result = NodeResult::outputs(vec![("output".into(), data.collect(outcomes))]);
    let (record, _) = records::of(cx, frame, node, result);
    collected(cx, frame, node, record);
}

/// Ends an iteration whose outputs were collected.
pub(super) fn collected(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, mut record: Record) {
    if changes::are_stale(cx, frame, node) {
        return order_part(cx, frame, node, Phase::Collect);
    }
    changes::take_merged(cx, frame, node, &mut record);
    let Some(state) = cx.run.node(frame, node) else { return };
    let Some(container) = cx.run.containers.get(&(frame.clone(), node)) else { return };
    let body = state.body.clone();
    let terminated = data_of(cx.run, node).is_some_and(|data| data.errors == ErrorMode::Terminated);
    let error: Option<Arc<str>> = body.as_ref().and_then(|b| b.error.clone()).filter(|_| terminated);
    metadata::put(&mut record, state, container, "iteration_duration_map");
    record.inputs = let_go(cx, frame, node);
    record.usage = None;
    let steps = body.map_or(0, |body| body.count);
    let now = cx.at.now;
    // If a worker could not collect the list, its own error is kept.
    if let (true, Some(error)) = (record.error.is_empty(), error) {
        record.error = error.to_string();
    }
    emit_end(cx, frame, node, &record, steps, None);
    if record.error.is_empty() {
        settle::succeeded(cx, frame, node, now, record.into());
    } else {
        settle::failed(cx, frame, node, now, record.into());
    }
}

/// Makes the inputs of the job that collects the outputs: inline outputs in pages, blobs one by one.
pub(super) fn pages(run: &RunState, frame: &FramePath, node: NodeIx) -> Vec<(String, String, Stored)> {
    let id = run.graph.node(node).id.to_string();
    let mut inputs: Vec<(String, String, Stored)> = Vec::new();
    let (mut page, mut bytes) = (Vec::new(), 0);
    let flush = |page: &mut Vec<Json>, inputs: &mut Vec<(String, String, Stored)>| {
        if !page.is_empty() {
            let list = Segment::new(SegmentType::ArrayAny, Json::Array(std::mem::take(page)));
            inputs.push((id.clone(), format!("{PAGE_PREFIX}{}", inputs.len()), Stored::Inline(list)));
        }
    };
    let Some(container) = run.containers.get(&(frame.clone(), node)) else { return inputs };
    for left in container.collected.values() {
        if let Some(stored) = &left.page {
            flush(&mut page, &mut inputs);
            bytes = 0;
            let name = format!("{PAGE_PREFIX}{}", inputs.len());
            inputs.push((id.clone(), name, Stored::Blob(stored.outputs.clone())));
            continue;
        }
        match &left.output {
            None => page.push(Outcome::Failed.entry()),
            Some((Stored::Inline(segment), _)) => {
                bytes += json_size(&segment.value);
                page.push(Outcome::Done(segment.clone()).entry());
            }
            Some((stored @ (Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_)), way)) => {
                flush(&mut page, &mut inputs);
                // The path into the value follows its number in the name.
                let way: String = way.iter().map(|key| format!("\n{key}")).collect();
                inputs.push((id.clone(), format!("{BLOB_PREFIX}{}{way}", inputs.len()), stored.clone()));
                bytes = 0;
            }
        }
        if bytes > page_bytes(run) {
            flush(&mut page, &mut inputs);
            bytes = 0;
        }
    }
    flush(&mut page, &mut inputs);
    inputs.extend(changes::inputs(run, frame, node));
    inputs
}
