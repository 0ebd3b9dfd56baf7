//! Reads commands in requests: for a run that exists, or in a submission to wait for a node. Each error names the place
//! of the mistake.

use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::machine::state::options::breakpoint::{Breakpoint, BreakpointCommand};
use tidemill_common::value::{JsonMap, Segment, Stored};
use tidemill_common::wire::state::breakpoint::command;

use super::{SubmitError, inputs};
use crate::submit::blobs::BlobWriter;

/// The command that continues a paused run. It cannot be a breakpoint, because nothing could wait for it.
pub const RESUME: &str = "resume";
/// Dify's name of a stop.
const ABORT: &str = "abort";
/// Dify's default reason for a stop.
const STOP_REASON: &str = "User requested abort";
/// Dify's default reason for a pause.
const PAUSE_REASON: &str = "User requested pause";

/// A command to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// End the run.
    Stop { reason: String },
    /// Pause the run.
    Pause { reason: String },
    /// Continue the run.
    Resume,
    /// Write variables.
    Update(Vec<Update>),
}

/// A variable to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The id of a node, `conversation` or `sys`.
    pub node: String,
    pub name: String,
    /// The value, with its files restored.
    pub value: Segment,
}

/// Takes a command out of an object: `command`, and the fields of that command. `place` is put before the names in
/// errors.
///
/// # Errors
/// [`SubmitError::Command`] with the place of the mistake.
pub fn take(map: &mut JsonMap, place: &str, graph: &Graph) -> Result<Order, SubmitError> {
    let word = take_text(map, place, "command")?;
    match word.as_deref() {
        Some(command::STOP | ABORT) => Ok(Order::Stop { reason: reason(map, place, STOP_REASON)? }),
        Some(command::PAUSE) => Ok(Order::Pause { reason: reason(map, place, PAUSE_REASON)? }),
        Some(RESUME) => Ok(Order::Resume),
        Some(command::UPDATE) => Ok(Order::Update(updates(map, place, graph)?)),
        Some(_) | None => {
            Err(wrong(format!("{place}command"), "must be stop, pause, resume or update_variables"))
        }
    }
}

/// Stores the values of breakpoints and returns the breakpoints.
pub(super) async fn stored_breakpoints(
    read: Vec<(String, Order)>,
    blobs: &mut BlobWriter,
) -> Result<Vec<Breakpoint>, SubmitError> {
    let mut breakpoints = Vec::with_capacity(read.len());
    for (after, order) in read {
        let command = match order {
            Order::Stop { reason } => BreakpointCommand::Stop { reason: reason.into() },
            Order::Pause { reason } => BreakpointCommand::Pause { reason: reason.into() },
            Order::Update(updates) => BreakpointCommand::Update { updates: stored(updates, blobs).await? },
            // `read_breakpoints` has refused it.
            Order::Resume => continue,
        };
        breakpoints.push(Breakpoint { after, command });
    }
    Ok(breakpoints)
}

/// Reads breakpoints. Each comes with the id of the node that it waits for.
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

/// Stores the values of updates and returns node, name and stored value of each.
///
/// # Errors
/// A value is too large, or the store failed.
pub async fn stored(
    updates: Vec<Update>,
    blobs: &mut BlobWriter,
) -> Result<Vec<(String, String, Stored)>, SubmitError> {
    let mut stored = Vec::with_capacity(updates.len());
    for update in updates {
        let name = format!("{}.{}", update.node, update.name);
        let value = blobs.value(&name, update.value).await?;
        stored.push((update.node, update.name, value));
    }
    Ok(stored)
}

/// Reads `updates` or `variables`: a list of `{selector, value}`, or an object that maps `node.name` to a value.
fn updates(map: &mut JsonMap, place: &str, graph: &Graph) -> Result<Vec<Update>, SubmitError> {
    let key =
        if map.contains_key("updates") || !map.contains_key("variables") { "updates" } else { "variables" };
    let place = format!("{place}{key}");
    let updates = match map.remove(key) {
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
