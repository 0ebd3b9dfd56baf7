//! The stored form of streamed text: streams, the chunks they hold back, and the response cursor.

use serde_json::{Value as Json, json};

use super::WHAT;
use crate::WireError;
use crate::codec::text::ObjectText;
use crate::state::frames;
use tidemill_base::clock::Timestamp;
use tidemill_base::value::JsonMap;
use tidemill_engine::order::changes::Held;
use tidemill_engine::state::response::{ResponseState, Stream};
use tidemill_engine::state::run::{Responder, RunState};
use tidemill_workflow::graph::NodeIx;

/// The field of the response cursor.
pub const RESPONSE_FIELD: &str = "response";

/// Writes a stream without its held chunks, which have their own list.
pub fn stream_json(stream: &Stream) -> String {
    let mut object = ObjectText::with_capacity(128);
    object.number("attempt", stream.attempt);
    object.number("delivery", stream.delivery);
    if stream.began != Timestamp::default() {
        object.number("began", stream.began.micros());
    }
    object.number("length", stream.length);
    object.value("told", &stream.told);
    object.value("closed", &stream.closed);
    object.value("ended", &stream.ended);
    object.end()
}

pub(super) fn stream_from_json(text: &str) -> Result<Stream, WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let number = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    let truth = |key: &str| map.get(key).and_then(Json::as_bool).unwrap_or(false);
    Ok(Stream {
        attempt: u32::try_from(number("attempt")).unwrap_or(u32::MAX),
        delivery: u32::try_from(number("delivery")).unwrap_or(u32::MAX),
        began: moment(&map, "began"),
        length: number("length"),
        told: truth("told"),
        closed: truth("closed"),
        ended: truth("ended"),
        held: Vec::new(),
    })
}

/// Writes a held chunk.
pub fn held_json(held: &Held) -> String {
    let mut held_json =
        json!({"stream": held.stream, "attempt": held.attempt, "delivery": held.delivery, "text": held.text});
    if held.began != Timestamp::default() {
        held_json["began"] = held.began.micros().into();
    }
    held_json.to_string()
}

/// Writes the response cursor and the order of finished responses. Keeps the order of a response's names too:
/// the run's outputs show it, and a hash loses it.
pub fn response_json(run: &RunState) -> String {
    let graph = &run.graph;
    let id = |ix: NodeIx| graph.node(ix).id.as_str();
    let root = run.frames.root();
    let responded = &root.responded;
    let mut object = ObjectText::with_capacity(128);
    object.texts("reached", run.response.reached.iter().map(|at| id(graph.responses[*at].node)));
    object.number("done", run.response.done);
    object.number("at", run.response.at);
    object.value("responded", &frames::responded_json(responded, graph));
    let several = responded.iter().filter_map(|responder| {
        let Responder::Root(node) = responder else { return None };
        let node = id(*node);
        Some((node, root.variables.get(node).filter(|values| values.len() > 1)?))
    });
    let several: Vec<_> = several.collect();
    if !several.is_empty() {
        let names = several.into_iter().map(|(node, values)| {
            (node.to_string(), values.iter().map(|(name, _)| name.as_str()).collect::<Json>())
        });
        object.value("names", &names.collect::<JsonMap>());
    }
    object.end()
}

pub(super) fn load_response(run: &mut RunState, text: &str) -> Result<(), WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let graph = run.graph.clone();
    let nodes = |key: &str| -> Result<Vec<NodeIx>, WireError> {
        let ids = map.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let find = |id: &Json| {
            let id = id.as_str().unwrap_or("");
            graph.find(id).ok_or_else(|| WireError::UnknownNode { what: WHAT, node: id.to_string() })
        };
        ids.iter().map(find).collect()
    };
    let number =
        |key: &str| map.get(key).and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let reached = nodes("reached")?
        .into_iter()
        .filter_map(|ix| graph.responses.iter().position(|r| r.node == ix))
        .collect();
    let responded = frames::read_responded(map.get("responded"), &graph)?;
    run.frames.root_mut().responded = responded;
    let streams = std::mem::take(&mut run.response.streams);
    run.response = ResponseState { reached, done: number("done"), at: number("at"), streams };
    if let Some(Json::Object(names)) = map.get("names") {
        names.iter().for_each(|(node, names)| order_variables(run, node, names));
    }
    Ok(())
}

/// Sorts a node's variables by these names.
fn order_variables(run: &mut RunState, node: &str, names: &Json) {
    let names = names.as_array().map_or(&[][..], Vec::as_slice);
    // Names written later come last, as in memory.
    let place =
        |name: &String| names.iter().position(|known| known.as_str() == Some(name)).unwrap_or(usize::MAX);
    if let Some(values) = run.frames.root_mut().variables.get_mut(node) {
        values.sort_by_key(|(name, _)| place(name));
    }
}

/// Reads a time; the default if it is missing, as in what earlier versions wrote.
fn moment(map: &JsonMap, key: &str) -> Timestamp {
    map.get(key).and_then(Json::as_i64).map(Timestamp::from_micros).unwrap_or_default()
}

/// Loads a held chunk. It counts only while its stream still has the same attempt, delivery and worker, and nothing
/// of it has been sent.
pub(super) fn load_held(run: &mut RunState, text: &str) -> Result<(), WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let words = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or("");
    let number =
        |key: &str| map.get(key).and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    if let Some(stream) = run.response.streams.get_mut(words("stream"))
        && !stream.told
        && (stream.attempt, stream.delivery) == (number("attempt"), number("delivery"))
        && stream.began == moment(&map, "began")
    {
        stream.held.push(words("text").to_string());
    }
    Ok(())
}
