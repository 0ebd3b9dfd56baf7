//! Writes variables. Rounds of a loop share the variables around the loop; an item of an iteration sees the variables
//! around it as they were when it opened.
//!
//! Nothing is copied when an item opens. When a variable changes later, its old value is saved into the open items
//! whose body mentions it.

use crate::fact::UpdateVariables;
use crate::flow::values::changes;
use crate::order::events::EventKind;
use crate::state::change::Update;
use crate::state::run::{Frame, RunStatus};
use crate::step::Step;
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_base::value::Stored;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::user_interaction::on_answer::RUN;

/// The namespace of the variables that are stored beyond the run.
pub(crate) const CONVERSATION: &str = "conversation";

/// Writes a variable on behalf of a node in `frame`.
pub(crate) fn write(cx: &mut Step<'_>, frame: &FramePath, node: &NodeId, name: &str, value: Stored) {
    let pool = cx.run.pool_frame(frame);
    preserve(cx, &pool, node.as_str(), name);
    put(cx, pool, node, name, value);
}

/// Writes a variable into a frame. Open items below that have no value of their own see it.
fn put(cx: &mut Step<'_>, pool: FramePath, node: &NodeId, name: &str, value: Stored) {
    let Some(open) = cx.run.frames.get_mut(&pool) else { return };
    if !open.hidden.is_empty() {
        open.hidden.remove(&(node.clone(), name.to_string()));
    }
    open.set(node, name, value);
    cx.out.variables.insert((pool, node.clone(), name.to_string()));
}

/// Writes a variable that may belong to another node or namespace. Conversation variables are stored beyond the run.
pub(crate) fn assign(cx: &mut Step<'_>, frame: &FramePath, update: Update) {
    if update.node == CONVERSATION {
        changes::note(cx, frame, &update);
    }
    let Update { node, name, value, .. } = update;
    let of = NodeId::from(node.as_str());
    // A variable of the run is visible in all frames, except in items that opened earlier.
    if node == RUN && !cx.run.pool_frame(frame).is_root() {
        write(cx, &FramePath::root(), &of, &name, value.clone());
    }
    write(cx, frame, &of, &name, value);
}

/// Removes all variables of a node that a node in `frame` sees.
pub(crate) fn clear_node(cx: &mut Step<'_>, frame: &FramePath, node: &str) {
    let pool = cx.run.pool_frame(frame);
    let Some(open) = cx.run.frames.get(&pool) else { return };
    let names: Vec<String> =
        open.variables.get(node).into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for name in names {
        preserve(cx, &pool, node, &name);
        if let Some(open) = cx.run.frames.get_mut(&pool) {
            open.unset(node, &name);
        }
        cx.out.variables.insert((pool.clone(), node.into(), name));
    }
}

/// Saves the old value of a variable of `pool` into the open items directly below, before it changes.
fn preserve(cx: &mut Step<'_>, pool: &FramePath, node: &str, name: &str) {
    if cx.run.frames.len() == 1 {
        return;
    }
    let below: Vec<FramePath> = cx
        .run
        .frames
        .keys()
        .filter(|path| {
            pool.encloses(path) && cx.run.is_item(path) && cx.run.pool_frame(&path.parent()) == *pool
        })
        .cloned()
        .collect();
    if below.is_empty() {
        return;
    }
    let seen = cx.run.pool(pool).stored(node, name).map(std::borrow::Cow::into_owned);
    for path in below {
        if is_mentioned(cx, &path, node, name) {
            save(cx, path, node, name, seen.clone());
        }
    }
}

fn is_mentioned(cx: &Step<'_>, item: &FramePath, node: &str, name: &str) -> bool {
    let container = item.last().and_then(|(id, _)| cx.run.graph.find(&id));
    let mentioned =
        |ix: NodeIx| cx.run.graph.body(ix).mentions.contains(&(node.to_string(), name.to_string()));
    container.is_some_and(mentioned)
}

fn save(cx: &mut Step<'_>, item: FramePath, node: &str, name: &str, seen: Option<Stored>) {
    let Some(frame) = cx.run.frames.get_mut(&item) else { return };
    let key = (NodeId::from(node), name.to_string());
    if frame.get(node, name).is_some() || frame.hidden.contains(&key) {
        return;
    }
    match seen {
        Some(value) => frame.set(&key.0, name, value),
        None => _ = frame.hidden.insert(key.clone()),
    }
    cx.out.variables.insert((item, key.0, key.1));
}

/// Sets variables from outside the run. As on Dify, open items see the new value too, if they see the variable at all:
/// one that did not exist when an item opened stays missing there.
pub(crate) fn update(cx: &mut Step<'_>, it: UpdateVariables) {
    let root = FramePath::root();
    let mut selectors = Vec::with_capacity(it.updates.len());
    for (node, name, value) in it.updates {
        selectors.push((node.clone(), name.clone()));
        set_everywhere(cx, &root, Update::whole(node, name, value));
    }
    // A run that has not begun emits no events.
    if cx.run.status != RunStatus::Scheduled {
        cx.emit(EventKind::GraphRunVariablesUpdated { selectors, key: it.key });
        cx.close_entry();
    }
}

fn set_everywhere(cx: &mut Step<'_>, root: &FramePath, update: Update) {
    if update.node == CONVERSATION {
        changes::note(cx, root, &update);
    }
    let Update { node, name, value, .. } = update;
    let of = NodeId::from(node.as_str());
    let has_own = |(_, frame): &(&FramePath, &Frame)| frame.get(&node, &name).is_some();
    let own: Vec<FramePath> = cx.run.frames.iter().filter(has_own).map(|(path, _)| path.clone()).collect();
    if cx.run.pool(root).stored(&node, &name).is_none() {
        preserve(cx, root, &node, &name);
    }
    for pool in own.into_iter().filter(|path| !path.is_root()) {
        put(cx, pool, &of, &name, value.clone());
    }
    put(cx, root.clone(), &of, &name, value);
}
