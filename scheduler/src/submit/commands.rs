//! Commands as requests tell them: at once to a run, or with its submission to wait for a node. Each mistake is told with
//! its place.

use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::machine::breakpoint::{Breakpoint, BreakpointCommand};
use tidemill_common::value::{JsonMap, Segment, Stored};
use tidemill_common::wire::breakpoint::command;

use super::{SubmitError, inputs};
use crate::submit::blobs::Apart;

/// The command that goes on with a paused run; no breakpoint, since nothing could wait for it.
pub const RESUME: &str = "resume";
/// Dify's reason for a stop when nobody gives one.
const STOP_REASON: &str = "User requested abort";
/// Dify's reason for a pause when nobody gives one.
const PAUSE_REASON: &str = "User requested pause";

/// What somebody wants of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// The run is to end.
    Stop {
        /// Why.
        reason: String,
    },
    /// The run is to wait.
    Pause {
        /// Why.
        reason: String,
    },
    /// The run is to go on.
    Resume,
    /// Variables are to be written.
    Update(Vec<Update>),
}

/// A variable to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The id of a node, `conversation` or `sys`.
    pub node: String,
    /// Its name.
    pub name: String,
    /// The value; files are restored.
    pub value: Segment,
}

/// Takes a command out of an object: `command`, and what belongs to it. `place` stands in front of the names in errors.
///
/// # Errors
/// [`SubmitError::Command`] with the place of what does not fit.
pub fn take(map: &mut JsonMap, place: &str, graph: &Graph) -> Result<Order, SubmitError> {
    let word = take_text(map, place, "command")?;
    match word.as_deref() {
        Some(command::STOP) => Ok(Order::Stop { reason: reason(map, place, STOP_REASON)? }),
        Some(command::PAUSE) => Ok(Order::Pause { reason: reason(map, place, PAUSE_REASON)? }),
        Some(RESUME) => Ok(Order::Resume),
        Some(command::UPDATE) => Ok(Order::Update(updates(map.remove("updates"), place, graph)?)),
        Some(_) | None => {
            Err(wrong(format!("{place}command"), "must be stop, pause, resume or update_variables"))
        }
    }
}

/// Breakpoints of a submission with their values as they are stored.
pub(super) async fn stored_breakpoints(
    read: Vec<(String, Order)>,
    apart: &mut Apart,
) -> Result<Vec<Breakpoint>, SubmitError> {
    let mut breakpoints = Vec::with_capacity(read.len());
    for (after, order) in read {
        let command = match order {
            Order::Stop { reason } => BreakpointCommand::Stop { reason: reason.into() },
            Order::Pause { reason } => BreakpointCommand::Pause { reason: reason.into() },
            Order::Update(updates) => BreakpointCommand::Update { updates: stored(updates, apart).await? },
            // Refused where breakpoints are read.
            Order::Resume => continue,
        };
        breakpoints.push(Breakpoint { after, command });
    }
    Ok(breakpoints)
}

/// Reads breakpoints: each with the node it waits for.
pub(super) fn read_breakpoints(items: Vec<Json>, graph: &Graph) -> Result<Vec<(String, Order)>, SubmitError> {
    let mut read = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let Json::Object(mut map) = item else {
            return Err(wrong(format!("commands[{at}]"), "must be an object"));
        };
        let place = format!("commands[{at}].");
        let after = take_text(&mut map, &place, "after")?;
        let after = after.ok_or_else(|| wrong(format!("{place}after"), "must name a node"))?;
        if graph.find(&after).is_none() {
            return Err(wrong(format!("{place}after"), format!("names no node of the workflow: {after}")));
        }
        let order = take(&mut map, &place, graph)?;
        if order == Order::Resume {
            return Err(wrong(format!("{place}command"), "must be stop, pause or update_variables"));
        }
        if let Some(unknown) = map.keys().next() {
            return Err(wrong(format!("{place}{unknown}"), "is not known here"));
        }
        read.push((after, order));
    }
    Ok(read)
}

/// Updates with their values as they are kept.
///
/// # Errors
/// A value over the bound, or the store's.
pub async fn stored(
    updates: Vec<Update>,
    apart: &mut Apart,
) -> Result<Vec<(String, String, Stored)>, SubmitError> {
    let mut kept = Vec::with_capacity(updates.len());
    for update in updates {
        let name = format!("{}.{}", update.node, update.name);
        let value = apart.value(&name, update.value).await?;
        kept.push((update.node, update.name, value));
    }
    Ok(kept)
}

/// Updates as a list of `{selector, value}`, or as an object with a value a `node.name`.
fn updates(value: Option<Json>, place: &str, graph: &Graph) -> Result<Vec<Update>, SubmitError> {
    let place = format!("{place}updates");
    let updates = match value {
        Some(Json::Array(items)) if !items.is_empty() => items
            .into_iter()
            .enumerate()
            .map(|(at, item)| update_of_list(item, &format!("{place}[{at}]"), graph))
            .collect::<Result<_, _>>()?,
        Some(Json::Object(map)) if !map.is_empty() => map
            .into_iter()
            .map(|(key, value)| update_of_map(&key, value, &place, graph))
            .collect::<Result<_, _>>()?,
        Some(_) | None => {
            let expected = "must be a list of {selector, value}, or an object with a value a \"node.name\"";
            return Err(wrong(place, expected));
        }
    };
    Ok(updates)
}

fn update_of_list(item: Json, place: &str, graph: &Graph) -> Result<Update, SubmitError> {
    let Json::Object(mut map) = item else { return Err(wrong(place, "must be an object")) };
    let selector = map.remove("selector");
    let parts = selector.as_ref().and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let [Json::String(node), Json::String(name)] = parts else {
        return Err(wrong(format!("{place}.selector"), "must be two texts: a node's id and a name"));
    };
    let value = map.remove("value").ok_or_else(|| wrong(format!("{place}.value"), "is missing"))?;
    if let Some(unknown) = map.keys().next() {
        return Err(wrong(format!("{place}.{unknown}"), "is not known here"));
    }
    update(node, name, value, place, graph)
}

fn update_of_map(key: &str, value: Json, place: &str, graph: &Graph) -> Result<Update, SubmitError> {
    let place = format!("{place}[{key:?}]");
    match key.split_once('.') {
        Some((node, name)) if !name.contains('.') => update(node, name, value, &place, graph),
        Some(_) | None => Err(wrong(place, "must be a node's id and a name, with a dot in between")),
    }
}

fn update(node: &str, name: &str, value: Json, place: &str, graph: &Graph) -> Result<Update, SubmitError> {
    if name.is_empty() {
        return Err(wrong(place, "names no variable"));
    }
    let defined = graph.conversation.iter().find(|variable| *variable.name == *name);
    let value = match (node, defined) {
        ("conversation", Some(variable)) => inputs::typed(name, variable.value.ty, &value)?,
        ("conversation" | "sys", _) => Segment::restore_files(value),
        _ if graph.find(node).is_some() => Segment::restore_files(value),
        _ => return Err(wrong(place, format!("names no node of the workflow: {node}"))),
    };
    Ok(Update { node: node.to_string(), name: name.to_string(), value })
}

fn reason(map: &mut JsonMap, place: &str, default: &str) -> Result<String, SubmitError> {
    Ok(take_text(map, place, "reason")?.unwrap_or_else(|| default.to_string()))
}

fn take_text(map: &mut JsonMap, place: &str, key: &str) -> Result<Option<String>, SubmitError> {
    match map.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
            Err(wrong(format!("{place}{key}"), "must be a string"))
        }
    }
}

fn wrong(place: impl Into<String>, reason: impl Into<String>) -> SubmitError {
    SubmitError::Command { place: place.into(), reason: reason.into() }
}
