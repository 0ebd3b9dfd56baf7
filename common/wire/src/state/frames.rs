//! The open parts of a run in the store, other than nodes and variables: frames, containers, results of
//! closed frames, answers below the root, pauses, and commands in effect.
//!
//! | hash | field | holds |
//! | --- | --- | --- |
//! | state | `f:<frame>` | an open frame below the root |
//! | state | `c:<frame>/<node>` | the input of an open container; operations of items that wait for its end |
//! | state | `r:<frame>/<node>` | outputs of a response node below the root that may count for the run |
//! | state | `control` | commands in effect; the clock; wasted cost; warnings |
//! | collected | `<frame>` | the result of a closed frame for its container |
//! | pauses | `<pause>` | a pause; the accepted answer is under `<pause>:answer` |

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};

use crate::WireError;
use crate::codec::text::ObjectText;
use crate::codec::value::{named_from_json, stored_from_json};
use crate::state::changes;
use crate::warnings;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_base::value::{JsonMap, Stored};
use tidemill_engine::state::clock::Clock;
use tidemill_engine::state::container::{BodyState, Collected, OpenContainer, Page};
use tidemill_engine::state::control::Control;
use tidemill_engine::state::cost::{Cost, Price};
use tidemill_engine::state::pause::{Pause, PauseStatus};
use tidemill_engine::state::run::{Frame, Responder};
use tidemill_engine::state::totals::Tally;
use tidemill_workflow::graph::{Graph, NodeIx};
use tidemill_workflow::nodes::Phase;

const WHAT: &str = "the state of a run";

/// The field of the commands in effect.
pub const CONTROL_FIELD: &str = "control";

// ---- frames

/// The field of a frame.
pub fn frame_field(path: &FramePath) -> String {
    format!("f:{path}")
}

/// Writes a frame below the root, without its nodes and variables.
pub fn frame_json(frame: &Frame) -> String {
    let mut object = ObjectText::with_capacity(64);
    object.number("opened_at", frame.opened_at.micros());
    if let Some(error) = &frame.error {
        object.text("error", error);
    }
    if frame.loop_end {
        object.value("loop_end", &true);
    }
    if !frame.responded.is_empty() {
        let responded = frame.responded.iter().filter_map(|responder| match responder {
            Responder::Nested(key) => Some(&**key),
            Responder::Root(_) => None,
        });
        object.value("responded", &responded.collect::<Vec<&str>>());
    }
    if !frame.conversation_written.is_empty() {
        object.value("conversation", &frame.conversation_written.keys().collect::<Vec<_>>());
        if let Some(logs) = changes::item_json(&frame.conversation_written) {
            object.value("changes", &logs);
        }
    }
    object.end()
}

/// Reads into a frame what [`frame_json`] wrote.
pub(crate) fn read_frame(frame: &mut Frame, text: &str) -> Result<(), WireError> {
    let mut map = object(text)?;
    let logs = map.remove("changes");
    let texts =
        |key: &str| map.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    frame.opened_at = Timestamp::from_micros(map.get("opened_at").and_then(Json::as_i64).unwrap_or(0));
    frame.error = map.get("error").and_then(Json::as_str).map(Arc::from);
    frame.loop_end = map.get("loop_end").and_then(Json::as_bool).unwrap_or(false);
    frame.responded = texts("responded").map(|key| Responder::Nested(key.into())).collect();
    frame.conversation_written = changes::read_item(texts("conversation").map(str::to_string), logs)?;
    Ok(())
}

/// Writes the root frame's response nodes as ids, and those below it as keys.
pub(crate) fn responded_json(responded: &[Responder], graph: &Graph) -> Json {
    let one = |responder: &Responder| match responder {
        Responder::Root(node) => Json::from(graph.node(*node).id.as_str()),
        Responder::Nested(key) => json!({ "nested": &**key }),
    };
    responded.iter().map(one).collect()
}

/// Reads what [`responded_json`] wrote.
pub(crate) fn read_responded(value: Option<&Json>, graph: &Graph) -> Result<Vec<Responder>, WireError> {
    let one = |item: &Json| {
        if let Some(key) = item.get("nested").and_then(Json::as_str) {
            return Ok(Responder::Nested(key.into()));
        }
        let id = item.as_str().unwrap_or("");
        let unknown = || WireError::UnknownNode { what: WHAT, node: id.to_string() };
        graph.find(id).map(Responder::Root).ok_or_else(unknown)
    };
    value.and_then(Json::as_array).into_iter().flatten().map(one).collect()
}

// ---- parts of a node's state

/// Writes the progress of a container.
pub(crate) fn write_body(object: &mut ObjectText, body: &BodyState) {
    object.open("body");
    object.number("count", body.count);
    object.number("next", body.next);
    object.number("closed", body.closed);
    if let Some(error) = &body.error {
        object.text("error", error);
    }
    if let Some(phase) = body.phase {
        object.text("phase", phase.name());
    }
    object.close();
}

/// Reads the progress of a container.
pub(crate) fn read_body(value: Option<&Json>) -> Result<Option<Box<BodyState>>, WireError> {
    let Some(map) = value.and_then(Json::as_object) else { return Ok(None) };
    let number = |key: &str| small(map.get(key));
    let phase = map.get("phase").and_then(Json::as_str);
    let unknown = |name: &str| WireError::Unknown { what: "a part of a container", kind: name.to_string() };
    Ok(Some(Box::new(BodyState {
        count: number("count"),
        next: number("next"),
        closed: number("closed"),
        error: map.get("error").and_then(Json::as_str).map(Arc::from),
        phase: phase.map(|name| Phase::from_name(name).ok_or_else(|| unknown(name))).transpose()?,
    })))
}

/// Writes the cost among other fields.
pub(crate) fn write_spent(object: &mut ObjectText, cost: &Cost) {
    if cost.tokens > 0 {
        object.number("tokens", cost.tokens);
    }
    if let Some(price) = &cost.price {
        object.text("price", &price.amount.fixed());
        object.text("currency", &price.currency);
    }
}

/// Reads the cost.
pub(crate) fn read_spent(map: &JsonMap) -> Cost {
    let amount = map.get("price").and_then(Json::as_str).and_then(|text| text.parse().ok());
    let currency = map.get("currency").and_then(Json::as_str).unwrap_or("USD");
    Cost {
        tokens: map.get("tokens").and_then(Json::as_u64).unwrap_or(0),
        price: amount.map(|amount| Box::new(Price { amount, currency: currency.into() })),
    }
}

/// Writes the sums over a container's closed frames.
pub(crate) fn write_tally(object: &mut ObjectText, tally: &Tally) {
    if *tally == Tally::default() {
        return;
    }
    object.open("inside");
    object.number("steps", tally.steps);
    if tally.failures > 0 {
        object.number("failures", tally.failures);
    }
    write_spent(object, &tally.cost);
    object.close();
}

/// Reads the sums over a container's closed frames.
pub(crate) fn read_tally(value: Option<&Json>) -> Tally {
    let Some(map) = value.and_then(Json::as_object) else { return Tally::default() };
    let number = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    Tally { steps: number("steps"), failures: number("failures"), cost: read_spent(map) }
}

// ---- containers

/// Writes the input of an open container.
pub fn container_json(container: &OpenContainer) -> String {
    let mut object = ObjectText::with_capacity(256);
    object.named("inputs", &container.inputs);
    if let Some(items) = &container.items {
        object.stored("items", items);
    }
    if !container.pending.is_empty() {
        object.value("pending", &changes::pending_json(&container.pending));
    }
    object.end()
}

/// Reads the input of an open container.
pub(crate) fn read_container(text: &str) -> Result<OpenContainer, WireError> {
    let mut map = object(text)?;
    Ok(OpenContainer {
        inputs: named_from_json(map.remove("inputs"))?,
        items: map.remove("items").map(stored_from_json).transpose()?,
        pending: changes::read_pending(map.remove("pending"))?,
        ..OpenContainer::default()
    })
}

/// The field for the result of a closed frame.
pub fn collected_field(frame: &FramePath, container: &NodeId, index: u32) -> String {
    frame.child(container, index).to_string()
}

/// Writes the result of a closed frame.
pub fn collected_json(left: &Collected) -> String {
    let mut object = ObjectText::with_capacity(128);
    if let Some(page) = &left.page {
        object.stored("page", &Stored::Blob(page.outputs.clone()));
        object.value("seconds", &page.seconds);
        return object.end();
    }
    match &left.output {
        Some((output, way)) => {
            object.stored("output", output);
            if !way.is_empty() {
                object.value("way", way);
            }
        }
        None if left.variables.is_empty() => object.value("failed", &true),
        None => {}
    }
    if !left.variables.is_empty() {
        object.named("variables", &left.variables);
    }
    object.value("seconds", &left.seconds);
    object.end()
}

/// Reads the result of a closed frame.
pub(crate) fn read_collected(text: &str) -> Result<Collected, WireError> {
    let mut map = object(text)?;
    if let Some(outputs) = map.remove("page") {
        return Ok(Collected { page: Some(Box::new(read_page(outputs, &map)?)), ..Collected::default() });
    }
    let way = map.get("way").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    let way = way.map(str::to_string).collect();
    let output = map.remove("output").map(stored_from_json).transpose()?;
    Ok(Collected {
        output: output.map(|output| (output, way)),
        variables: named_from_json(map.remove("variables"))?,
        seconds: map.get("seconds").and_then(Json::as_f64).unwrap_or(0.0),
        page: None,
    })
}

fn read_page(outputs: Json, map: &JsonMap) -> Result<Page, WireError> {
    let seconds = map.get("seconds").and_then(Json::as_array).into_iter().flatten();
    match stored_from_json(outputs)? {
        Stored::Blob(outputs) => {
            Ok(Page { outputs, seconds: seconds.map(|seconds| seconds.as_f64().unwrap_or(0.0)).collect() })
        }
        other => Err(WireError::malformed(WHAT, format!("a page of outputs is {other:?}"))),
    }
}

/// The parent frame, container and number of a frame path.
pub(crate) fn placed(path: &FramePath, graph: &Graph) -> Result<(FramePath, NodeIx, u32), WireError> {
    let malformed = || WireError::malformed(WHAT, format!("{path:?} is not a frame of a container"));
    let (id, index) = path.last().ok_or_else(malformed)?;
    let unknown = || WireError::UnknownNode { what: WHAT, node: id.to_string() };
    let node = graph.find(&id).ok_or_else(unknown)?;
    Ok((path.parent(), node, index))
}

// ---- pauses

/// Writes a pause, for its hash and for events.
pub fn pause_json(pause: &Pause, graph: &Graph) -> Json {
    let node = graph.node(pause.node);
    let mut map = JsonMap::new();
    map.insert("pause_id".into(), (*pause.id).into());
    map.insert("kind".into(), pause.request.kind.name().into());
    map.insert("status".into(), pause.status.name().into());
    map.insert("node_id".into(), node.id.as_str().into());
    map.insert("node_title".into(), node.title.as_str().into());
    map.insert("node_execution_id".into(), pause.execution.to_string().into());
    if !pause.frame.is_root() {
        map.insert("frame".into(), pause.frame.as_str().into());
    }
    if let Some(step) = &pause.step {
        map.insert("step".into(), (**step).into());
    }
    map.insert("opened_at".into(), pause.opened_at.micros().to_string().into());
    if let Some(at) = pause.expires_at {
        map.insert("expires_at".into(), at.micros().to_string().into());
    }
    if let Json::Object(request) = crate::state::pause::to_json(&pause.request) {
        map.extend(request);
    }
    Json::Object(map)
}

/// Reads a pending pause; `None` for one that has ended.
pub(crate) fn read_pause(text: &str, graph: &Graph) -> Result<Option<Pause>, WireError> {
    let map = object(text)?;
    let words = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or("");
    let time = |key: &str| words(key).parse().ok().map(Timestamp::from_micros);
    if words("status") != PauseStatus::Pending.name() {
        return Ok(None);
    }
    let node = words("node_id");
    let unknown = || WireError::UnknownNode { what: WHAT, node: node.to_string() };
    Ok(Some(Pause {
        id: words("pause_id").into(),
        frame: FramePath::from(words("frame")),
        node: graph.find(node).ok_or_else(unknown)?,
        execution: words("node_execution_id").parse().map_err(|e| WireError::malformed(WHAT, e))?,
        opened_at: time("opened_at").unwrap_or_default(),
        expires_at: time("expires_at"),
        status: PauseStatus::Pending,
        step: map.get("step").and_then(Json::as_str).map(Arc::from),
        request: Box::new(crate::state::pause::from_json(&Json::Object(map.clone()))?),
    }))
}

// ---- commands

/// Writes the commands in effect, and the clock of the run: how far it is counted, and how much was idle.
pub(crate) fn write_control(text: &mut String, control: &Control, clock: Clock) {
    static DEFAULT: LazyLock<Control> = LazyLock::new(Control::default);
    if *control == *DEFAULT {
        // Nearly all runs have only the clock, which is written with the end of each job.
        let mut digits = itoa::Buffer::new();
        text.push_str("{\"clock\":[");
        text.push_str(digits.format(clock.at.micros()));
        text.push(',');
        text.push_str(digits.format(clock.idle));
        text.push_str("]}");
        return;
    }
    let mut map = JsonMap::new();
    map.insert("clock".into(), json!([clock.at.micros(), clock.idle]));
    if !control.pausing.is_empty() {
        map.insert("pausing".into(), control.pausing.iter().map(|reason| &**reason).collect());
    }
    if let Some(at) = control.resumed_at {
        map.insert("resumed_at".into(), at.micros().into());
        map.insert("steps_before".into(), control.steps_before.into());
        map.insert("worked_before".into(), control.worked_before.into());
    }
    if !control.fired.is_empty() {
        map.insert("fired".into(), control.fired.iter().copied().collect());
    }
    if let Some(wasted) = &control.wasted {
        let mut object = ObjectText::with_capacity(64);
        write_spent(&mut object, wasted);
        map.insert("wasted".into(), serde_json::from_str(&object.end()).unwrap_or_default());
    }
    warnings::store(&control.warnings, &mut map);
    text.push_str(&Json::Object(map).to_string());
}

/// Reads the commands in effect, and the clock; an older version has stored none.
pub(crate) fn read_control(text: &str) -> Result<(Control, Clock), WireError> {
    let map = object(text)?;
    let list = |key: &str| map.get(key).and_then(Json::as_array).into_iter().flatten();
    let fired: BTreeSet<usize> =
        list("fired").filter_map(Json::as_u64).filter_map(|at| usize::try_from(at).ok()).collect();
    let mut clock = list("clock").filter_map(Json::as_i64);
    let clock = Clock {
        at: Timestamp::from_micros(clock.next().unwrap_or_default()),
        idle: clock.next().unwrap_or_default(),
    };
    let control = Control {
        pausing: list("pausing").filter_map(Json::as_str).map(Arc::from).collect(),
        resumed_at: map.get("resumed_at").and_then(Json::as_i64).map(Timestamp::from_micros),
        worked_before: map.get("worked_before").and_then(Json::as_i64).unwrap_or(0),
        steps_before: map.get("steps_before").and_then(Json::as_u64).unwrap_or(0),
        fired,
        wasted: map.get("wasted").and_then(Json::as_object).map(|map| Box::new(read_spent(map))),
        warnings: warnings::read(&map),
    };
    Ok((control, clock))
}

fn small(value: Option<&Json>) -> u32 {
    value.and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

fn object(text: &str) -> Result<JsonMap, WireError> {
    serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))
}
