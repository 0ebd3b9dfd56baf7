//! Conversation variables that items of an iteration write. An item sees what it read plus what it did. When it closes,
//! its operations are applied, in order, to the value that the frame around it has then, so that items in parallel lose
//! nothing; a value that it wrote whole replaces that one.
//!
//! A step loads no blobs. Operations that need one wait in the iteration and are applied by the job that collects its
//! outputs. Nothing has to be loaded while the value is still the one that the item began with, so items one after the
//! other never wait.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value as Json;

use crate::flow::containers;
use crate::flow::values::records;
use crate::flow::values::variables::{self, CONVERSATION};
use crate::flow::warnings;
use crate::state::change::{Change, ChangeLog, LogEntry, Pending, Update, Written, fingerprint};
use crate::state::options::compat::ConversationWrites;
use crate::state::record::Record;
use crate::state::run::{Frame, RunState};
use crate::state::warnings::dropped;
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Segment, Stored};
use tidemill_workflow::graph::{Graph, NodeIx};
use tidemill_workflow::nodes::iteration::{CHANGE_PREFIX, DROPPED_OUTPUT};
use tidemill_workflow::nodes::{ChangeKind, Phase, VariableChange};

/// Notes a write to a conversation variable, before the value is written to the pool of `frame`. A write that reaches
/// the root frame is stored beyond the run, also if the run fails.
pub(crate) fn note(cx: &mut Step<'_>, frame: &FramePath, update: &Update) {
    let pool = cx.run.pool_frame(frame);
    if pool.is_root() {
        cx.out.conversation.insert(update.name.clone(), update.value.clone());
    } else if is_local(cx.run) {
        cx.out.conversation.insert(update.name.clone(), update.value.clone());
        if let Some(item) = cx.frame_mut(&pool) {
            item.conversation_written.insert(update.name.clone(), Written::Whole);
        }
    } else {
        note_in_item(cx, &pool, update);
    }
    note_in_waiting(cx, &pool, update);
}

fn is_local(run: &RunState) -> bool {
    run.head.options.iteration_conversation_writes == ConversationWrites::Local
}

fn note_in_item(cx: &mut Step<'_>, pool: &FramePath, update: &Update) {
    let seen = cx.run.pool(pool).stored(CONVERSATION, &update.name).map(|value| fingerprint(&value));
    let max = containers::page_bytes(cx.run);
    let Some(item) = cx.frame_mut(pool) else { return };
    let mut overflow = Vec::new();
    match (item.conversation_written.entry(update.name.clone()), &update.changes) {
        (Entry::Vacant(entry), Some(changes)) => match seen {
            Some(base) => _ = entry.insert(Written::Changed { log: changes.clone(), base }),
            None => _ = entry.insert(Written::Whole),
        },
        (Entry::Vacant(entry), None) => _ = entry.insert(Written::Whole),
        (Entry::Occupied(mut entry), None) => _ = entry.insert(Written::Whole),
        // After a write of the whole value, the operations are part of it.
        (Entry::Occupied(mut entry), Some(changes)) => {
            if let Written::Changed { log, .. } = entry.get_mut() {
                log.append(changes);
                overflow = log.overflow(max);
            }
        }
    }
    if overflow.is_empty() {
        return;
    }
    let page = page(cx, &format!("{pool}/{}", update.name), &overflow);
    if let Some(Written::Changed { log, .. }) =
        cx.frame_mut(pool).and_then(|item| item.conversation_written.get_mut(&update.name))
    {
        log.push_page(page);
    }
}

/// Stores operations as a blob. `place` distinguishes it from others of the same step.
fn page(cx: &mut Step<'_>, place: &str, changes: &[Change]) -> tidemill_base::value::BlobRef {
    let inline = |change| match change {
        &Change { kind, operand: Stored::Inline(ref operand) } => Some((kind, operand)),
        Change { .. } => None,
    };
    let list = VariableChange::list(changes.iter().filter_map(inline));
    let (run, commit, seq) = (cx.run.id, cx.at.commit, cx.run.seq);
    let (blob, text) = records::as_blob(&format!("{run}/{commit}.{seq}/changes/{place}"), &list);
    cx.out.blobs.push((blob.id.clone(), text));
    blob
}

/// Marks operations that wait on the variable, because it is written: a whole value replaces them, and a job that applies
/// them has read an old value.
fn note_in_waiting(cx: &mut Step<'_>, pool: &FramePath, update: &Update) {
    if cx.run.containers.values().all(|container| container.pending.is_empty()) {
        return;
    }
    let waits: Vec<_> = cx
        .run
        .containers
        .iter()
        .filter(|((frame, _), it)| it.pending.contains_key(&update.name) && cx.run.pool_frame(frame) == *pool)
        .map(|(key, _)| key.clone())
        .collect();
    for key in waits {
        let phase = cx.run.node(&key.0, key.1).and_then(|state| state.body.as_ref()?.phase);
        let Some(container) = cx.run.containers.get_mut(&key) else { continue };
        if update.changes.is_none() {
            container.pending.remove(&update.name);
        } else if let Some(pending) = container.pending.get_mut(&update.name) {
            pending.stale |= phase == Some(Phase::Collect);
        }
        cx.out.containers.insert(key);
    }
}

/// Hands the conversation variables of a closed item over to the frame around it, so that nodes after the iteration see
/// them, unless the run's option is [`ConversationWrites::Local`].
pub(crate) fn hand_over(cx: &mut Step<'_>, path: &FramePath, node: NodeIx, item: &Frame) {
    if is_local(cx.run) {
        return;
    }
    let parent = path.parent();
    for (name, written) in &item.conversation_written {
        let Some(own) = item.get(CONVERSATION, name).cloned() else { continue };
        let Written::Changed { log, base } = written else {
            write(cx, &parent, Update::whole(CONVERSATION.into(), name.clone(), own));
            continue;
        };
        let key = (parent.clone(), node);
        let waits = cx.run.containers.get(&key).is_some_and(|it| it.pending.contains_key(name));
        let current = cx.run.pool(&parent).stored(CONVERSATION, name).map(std::borrow::Cow::into_owned);
        let arrived = if waits { None } else { arrived(&cx.run.graph, current, log, base) };
        let value = match arrived {
            None => {
                wait(cx, key, name, log, own);
                continue;
            }
            Some(Arrived::Same) => own,
            Some(Arrived::Merged(value, dropped)) => {
                dropped.iter().for_each(|kind| note_dropped(cx, node, name, kind.name()));
                records::stored(cx, &parent, node, &format!("{path}/{name}"), value)
            }
        };
        let changes = Some(log.clone());
        write(cx, &parent, Update { node: CONVERSATION.into(), name: name.clone(), value, changes });
    }
}

fn write(cx: &mut Step<'_>, frame: &FramePath, update: Update) {
    variables::assign(cx, frame, update);
}

/// The value of a variable after operations of an item.
#[derive(Debug, PartialEq)]
enum Arrived {
    /// The item's own value: nothing else has changed the variable.
    Same,
    /// The operations applied to the present value, and those that did not fit it.
    Merged(Segment, Vec<ChangeKind>),
}

/// Applies operations to the present value; `None` when a value must be loaded first.
fn arrived(graph: &Graph, current: Option<Stored>, log: &ChangeLog, base: &str) -> Option<Arrived> {
    let Some(current) = current else { return Some(Arrived::Same) };
    if fingerprint(&current) == base {
        return Some(Arrived::Same);
    }
    let mut value = inline(graph, &current)?;
    let mut dropped = Vec::new();
    for entry in log.entries() {
        let LogEntry::One(Change { kind, operand }) = entry else { return None };
        match kind.apply(&value, &inline(graph, operand)?) {
            Some(changed) => value = changed,
            None => dropped.push(*kind),
        }
    }
    Some(Arrived::Merged(value, dropped))
}

/// The content of a value, if it is in the state.
fn inline(graph: &Graph, stored: &Stored) -> Option<Segment> {
    match stored {
        Stored::Inline(segment) => Some(segment.clone()),
        Stored::Secret(name) => graph.environment_variable(name).map(|secret| secret.value.clone()),
        Stored::Blob(_) | Stored::Item { .. } => None,
    }
}

/// Lets operations wait until the iteration ends.
fn wait(cx: &mut Step<'_>, key: (FramePath, NodeIx), name: &str, log: &ChangeLog, view: Stored) {
    let max = containers::page_bytes(cx.run);
    let Some(container) = cx.run.containers.get_mut(&key) else { return };
    let pending = container.pending.entry(name.to_string()).or_insert_with(|| Pending {
        log: ChangeLog::default(),
        view: view.clone(),
        stale: false,
    });
    pending.log.append(log);
    pending.view = view;
    let overflow = pending.log.overflow(max);
    if !overflow.is_empty() {
        let execution = cx.execution(&key.0, key.1);
        let page = page(cx, &format!("{execution}/{name}"), &overflow);
        let pending = cx.run.containers.get_mut(&key).and_then(|it| it.pending.get_mut(name));
        pending.into_iter().for_each(|it| it.log.push_page(page.clone()));
    }
    cx.out.containers.insert(key);
}

/// Makes the inputs of the job that applies waiting operations, as [`tidemill_workflow::nodes::iteration`] reads them.
pub(crate) fn inputs(run: &RunState, frame: &FramePath, node: NodeIx) -> Vec<(String, String, Stored)> {
    let id = run.graph.node(node).id.to_string();
    let Some(container) = run.containers.get(&(frame.clone(), node)) else { return Vec::new() };
    let (mut inputs, mut number) = (Vec::new(), 0);
    for (name, pending) in &container.pending {
        let Some(current) = run.pool(frame).stored(CONVERSATION, name) else { continue };
        inputs.push((CONVERSATION.to_string(), name.clone(), current.into_owned()));
        let mut push = |kind: &str, value: Stored| {
            inputs.push((id.clone(), format!("{CHANGE_PREFIX}{number}\n{name}{kind}"), value));
            number += 1;
        };
        let mut run_of: Vec<(ChangeKind, &Segment)> = Vec::new();
        for entry in pending.log.entries() {
            if let LogEntry::One(Change { kind, operand: Stored::Inline(operand) }) = entry {
                run_of.push((*kind, operand));
                continue;
            }
            if !run_of.is_empty() {
                push("", Stored::Inline(VariableChange::list(run_of.drain(..))));
            }
            match entry {
                LogEntry::One(Change { kind, operand }) => {
                    push(&format!("\n{}", kind.name()), operand.clone());
                }
                LogEntry::Page(page) => push("", Stored::Blob(page.clone())),
            }
        }
        if !run_of.is_empty() {
            push("", Stored::Inline(VariableChange::list(run_of)));
        }
    }
    inputs
}

/// True when waiting operations were applied to values that have changed since. The job must be ordered again.
pub(crate) fn are_stale(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    let key = (frame.clone(), node);
    let Some(container) = cx.run.containers.get_mut(&key) else { return false };
    let mut stale = false;
    for pending in container.pending.values_mut() {
        stale |= std::mem::take(&mut pending.stale);
    }
    if stale {
        cx.out.containers.insert(key);
    }
    stale
}

/// Takes the new values of variables out of the record of a collect phase and writes them. A variable that the job could
/// not change gets the value that its last item saw, as on Dify.
pub(crate) fn take_merged(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: &mut Record) {
    let key = (frame.clone(), node);
    let Some(container) = cx.run.containers.get_mut(&key).filter(|it| !it.pending.is_empty()) else { return };
    let pending = std::mem::take(&mut container.pending);
    cx.out.containers.insert(key);
    let (mut values, mut dropped) = (BTreeMap::new(), Vec::new());
    record.outputs.retain(|(name, value)| {
        if name == DROPPED_OUTPUT {
            dropped.extend(pairs(value));
        } else if let Some(variable) = name.strip_prefix(CHANGE_PREFIX) {
            values.insert(variable.to_string(), value.clone());
        } else {
            return true;
        }
        false
    });
    for (name, pending) in pending {
        let value = values.remove(&name).unwrap_or_else(|| {
            note_dropped(cx, node, &name, LOST);
            pending.view
        });
        let (of, changes) = (CONVERSATION.into(), Some(pending.log));
        write(cx, frame, Update { node: of, name, value, changes });
    }
    for (name, operation) in dropped {
        note_dropped(cx, node, &name, &operation);
    }
}

/// The operation in a warning about operations of several items that could not be applied at all.
const LOST: &str = "";

fn pairs(stored: &Stored) -> Vec<(String, String)> {
    let Stored::Inline(list) = stored else { return Vec::new() };
    let text = |pair: &Json, at: usize| Some(pair.get(at)?.as_str()?.to_string());
    let pair = |pair: &Json| Some((text(pair, 0)?, text(pair, 1)?));
    list.value.as_array().into_iter().flatten().filter_map(pair).collect()
}

/// Notes for the warnings of the run that an operation of an item did not fit its variable.
fn note_dropped(cx: &mut Step<'_>, node: NodeIx, variable: &str, operation: &str) {
    warnings::note(cx, Some(node), dropped(variable, operation));
}

/// Stores what open items have written, when the run ends. The frames stay as they are, because a new run may begin in
/// them; only the conversation gets the values.
pub(crate) fn leave(cx: &mut Step<'_>) {
    if is_local(cx.run) || cx.run.frames.len() == 1 && cx.run.containers.is_empty() {
        return;
    }
    let graph = cx.run.graph.clone();
    let mut left: BTreeMap<String, Stored> = BTreeMap::new();
    let mut lost = Vec::new();
    for ((_, node), container) in &cx.run.containers {
        for (name, pending) in &container.pending {
            left.insert(name.clone(), pending.view.clone());
            lost.push((*node, name.clone(), LOST));
        }
    }
    let mut merged = Vec::new();
    for (path, item) in &cx.run.frames {
        let Some(node) = path.last().and_then(|(id, _)| graph.find(&id)) else { continue };
        for (name, written) in &item.conversation_written {
            let Some(own) = item.get(CONVERSATION, name) else { continue };
            let root = FramePath::root();
            let current = left.get(name).cloned();
            let current = current
                .or_else(|| cx.run.pool(&root).stored(CONVERSATION, name).map(std::borrow::Cow::into_owned));
            let arrived = match written {
                Written::Whole => Some(Arrived::Same),
                Written::Changed { log, base } => arrived(&graph, current, log, base),
            };
            let value = match arrived {
                Some(Arrived::Same) => own.clone(),
                Some(Arrived::Merged(value, dropped)) => {
                    lost.extend(dropped.into_iter().map(|kind| (node, name.clone(), kind.name())));
                    Stored::Inline(value)
                }
                None => {
                    lost.push((node, name.clone(), LOST));
                    own.clone()
                }
            };
            merged.retain(|(known, _)| known != name);
            merged.push((name.clone(), node));
            left.insert(name.clone(), value);
        }
    }
    for (name, node) in merged {
        if let Some(Stored::Inline(value)) = left.get(&name).cloned() {
            let stored = records::stored(cx, &FramePath::root(), node, &format!("left/{name}"), value);
            left.insert(name, stored);
        }
    }
    lost.into_iter().for_each(|(node, name, operation)| note_dropped(cx, node, &name, operation));
    cx.out.conversation.extend(left);
}
