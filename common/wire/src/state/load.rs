//! Builds a run from its stored parts.

use std::collections::HashMap;
use std::sync::Arc;

use super::WHAT;
use super::head::{head_from_fields, time};
use super::names::unescape;
use super::node::{HIDDEN, node_from_json};
use super::response::{RESPONSE_FIELD, load_held, load_response, stream_from_json};
use crate::WireError;
use crate::codec::value::{named_from_json, stored_from_json};
use crate::state::frames;
use crate::state::messages;
use crate::state::messages::MessagesAtRest;
use tidemill_base::ids::{FramePath, RunId};
use tidemill_engine::state::clock::Clock;
use tidemill_engine::state::run::{Frame, NodeState, NodeStatus, RunState, RunStatus};
use tidemill_workflow::graph::{Graph, NodeIx};

/// The stored parts of a run.
#[derive(Debug, Clone, Default)]
pub struct AtRest {
    /// Fields of the run hash.
    pub run: HashMap<String, String>,
    /// Fields of the state hash.
    pub state: Vec<(String, String)>,
    /// The list of held chunks.
    pub held: Vec<String>,
    /// The number of the last event; 0 when there is none.
    pub seq: u64,
    /// The results of closed frames, for open containers.
    pub collected: Vec<(String, String)>,
    /// Pauses and their answers.
    pub pauses: Vec<(String, String)>,
    /// Messages, runtime values and history.
    pub messages: MessagesAtRest,
}

/// Builds a run from its stored parts.
///
/// # Errors
/// A newer version, or invalid fields.
pub fn load(id: RunId, graph: Arc<Graph>, rest: AtRest) -> Result<RunState, WireError> {
    let head = head_from_fields(&rest.run)?;
    let mut run = RunState::new(id, graph, head);
    let status = rest.run.get("status").map_or("", String::as_str);
    run.status = RunStatus::from_name(status)
        .ok_or_else(|| WireError::Unknown { what: "a run's status", kind: status.to_string() })?;
    run.started_at = time(&rest.run, "started_at");
    run.finished_at = time(&rest.run, "finished_at");
    run.error = rest.run.get("error").map(|e| e.as_str().into());
    run.seq = rest.seq;
    // The response cursor reorders the other parts, so they are loaded first.
    let (cursor, parts): (Vec<_>, Vec<_>) = rest.state.iter().partition(|(field, _)| field == RESPONSE_FIELD);
    for (field, text) in parts {
        load_field(&mut run, field, text)?;
    }
    for (_, text) in cursor {
        load_response(&mut run, text)?;
    }
    for text in &rest.held {
        load_held(&mut run, text)?;
    }
    let graph = run.graph.clone();
    for (field, text) in &rest.collected {
        let (frame, node, index) = frames::placed(&FramePath::from(field.as_str()), &graph)?;
        // A result for a container that has ended will be deleted soon; it is skipped.
        if let Some(container) = run.containers.get_mut(&(frame, node)) {
            container.keep(index, frames::read_collected(text)?);
        }
    }
    for (_, text) in rest.pauses.iter().filter(|(field, _)| !field.contains(':')) {
        if let Some(pause) = frames::read_pause(text, &graph)? {
            run.pauses.insert(pause.id.clone(), pause);
        }
    }
    messages::load(&mut run, rest.messages)?;
    run.derive();
    if run.clock == Clock::default() {
        // An older version has stored none.
        run.clock = run.clock_at_last_begin();
    }
    let ready = |(path, frame): (&FramePath, &Frame)| {
        let at = |(at, _): (usize, &NodeState)| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX)));
        let is_ready = |(_, node): &(usize, &NodeState)| node.status == NodeStatus::Ready;
        frame.nodes.iter().enumerate().filter(is_ready).map(at).collect::<Vec<_>>()
    };
    run.ready = run.frames.iter().flat_map(ready).collect();
    Ok(run)
}

fn load_field(run: &mut RunState, field: &str, text: &str) -> Result<(), WireError> {
    let graph = run.graph.clone();
    let unknown = |node: &str| WireError::UnknownNode { what: WHAT, node: node.to_string() };
    let placed = |rest: &str| -> Option<(FramePath, String)> {
        let (frame, name) = rest.rsplit_once('/')?;
        Some((FramePath::from(frame), name.to_string()))
    };
    match field.split_once(':') {
        Some(("n", rest)) => {
            let (frame, node) = placed(rest).ok_or_else(|| unknown(rest))?;
            let node = unescape(&node);
            let ix = graph.find(&node).ok_or_else(|| unknown(&node))?;
            let open = run.frames.get_or_insert_with(frame, || Frame::new(&graph));
            open.nodes[ix.at()] = node_from_json(text)?;
        }
        Some(("v", rest)) => {
            let (frame, name) = placed(rest).ok_or_else(|| unknown(rest))?;
            let (node, name) = name.split_once('.').ok_or_else(|| unknown(&name))?;
            let value = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
            let open = run.frames.get_or_insert_with(frame, || Frame::new(&graph));
            if text == HIDDEN {
                open.hidden.insert((unescape(node).into(), unescape(name)));
            } else {
                open.set(&unescape(node).into(), &unescape(name), stored_from_json(value)?);
            }
        }
        Some(("f", path)) => {
            let frame = run.frames.get_or_insert_with(FramePath::from(path), || Frame::new(&graph));
            frames::read_frame(frame, text)?;
        }
        Some(("c", rest)) => {
            let (frame, node) = placed(rest).ok_or_else(|| unknown(rest))?;
            let node = unescape(&node);
            let ix = graph.find(&node).ok_or_else(|| unknown(&node))?;
            run.containers.insert((frame, ix), frames::read_container(text)?);
        }
        Some(("r", key)) => {
            let values = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
            run.nested.insert(key.into(), named_from_json(Some(values))?);
        }
        None if field == frames::CONTROL_FIELD => (run.control, run.clock) = frames::read_control(text)?,
        Some(("m", name)) => messages::load_index(run, name, text)?,
        Some(("s", key)) => {
            run.response.streams.insert(key.to_string(), stream_from_json(text)?);
        }
        _ => return Err(WireError::Unknown { what: "a field of a run's state", kind: field.to_string() }),
    }
    Ok(())
}
