//! Leave to begin: somebody is asked before the node's own call is made, with what it would be made of. Whoever refuses ends
//! the node: it leaves by its handle for that, or the run is stopped.

use serde_json::{Value as Json, json};
use tidemill_common::graph::{Confirm, Node};
use tidemill_common::machine::events::StepEvent;
use tidemill_common::machine::run::{RunOptions, json_size};
use tidemill_common::nodes::pause::input::{approval_schema, is_approved};
use tidemill_common::nodes::pause::{called_off, not_interactive};
use tidemill_common::nodes::tool::{Known, parameters};
use tidemill_common::nodes::{NodeData, NodeResult, PauseKind, PauseRequest};
use tidemill_common::value::{JsonMap, Lookup, Segment, Stored, Variables};

use super::slot::{around, cannot_begin, name_of};
use super::{Flow, Stage, WorkContext};
use crate::calls::prepare::{drafted, made};
use crate::calls::resolve;
use crate::calls::run::{INPUT, STEP_NODE, refused};
use crate::calls::tell::Status;
use crate::steps::{Begun, PauseEnd, Steps, Told};

/// The step that asks; its answer is found under it.
const STEP: &str = "confirm";
/// A value above this size is cut where it is shown, in bytes of JSON.
const SHOWN_BYTES_MAX: usize = 4096;
const SHOWN_CHARS: usize = 1000;

/// The stage.
pub(super) struct Confirming;

#[async_trait::async_trait]
impl Stage for Confirming {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        if cx.node().work.as_ref().is_none_or(|work| work.confirm.is_none()) {
            return Flow::On;
        }
        // Who cannot say what would be done is given no leave to do it.
        let input = match input_of(cx).await {
            Ok(input) => input,
            Err(end) => return Flow::End(end),
        };
        let node = cx.node();
        let Some(confirm) = node.work.as_ref().and_then(|work| work.confirm.as_deref()) else {
            return Flow::On;
        };
        match leave(node, confirm, shown(input, cx.steps), cx.options, cx.steps, cx.name.number).await {
            Ok(()) => Flow::On,
            Err(end) => Flow::End(end),
        }
    }
}

/// Returns when somebody has given leave; an error is how the node ends without it. `input` is what the call would be made
/// of, fit to be seen.
pub(crate) async fn leave(
    node: &Node,
    confirm: &Confirm,
    input: JsonMap,
    options: &RunOptions,
    steps: &Steps,
    attempt: u32,
) -> Result<(), Box<NodeResult>> {
    if !options.choices().interactive {
        return Err(Box::new(NodeResult::failed(not_interactive(PauseKind::Confirm))));
    }
    let content = json!({"risk": confirm.risk, "reason": confirm.reason, "input": input});
    let waiting = event(node, attempt, "waiting", content.clone());
    tell_once(steps, "confirm:asked", StepEvent::StepWaitingForStart, waiting).await;
    let title = if node.title.is_empty() { node.id.as_str() } else { &node.title };
    let prompt = match confirm.reason.as_str() {
        "" => format!("May {title} begin?"),
        reason => format!("May {title} begin? {reason}"),
    };
    let request = PauseRequest {
        details: content.as_object().cloned().unwrap_or_default(),
        ..PauseRequest::asking(PauseKind::Confirm, prompt, approval_schema())
    };
    let reason = match steps.pause(STEP, request).await {
        PauseEnd::Answered(answer) if is_approved(&answer) => return Ok(()),
        PauseEnd::Answered(answer) => {
            let comment = answer.get("comment").and_then(Json::as_str).unwrap_or_default();
            format!("node {} was not given leave to begin{}", node.id, behind(comment))
        }
        PauseEnd::Expired | PauseEnd::Cancelled => format!("node {} was called off before it began", node.id),
    };
    let told = event(node, attempt, "cancelled", json!({"reason": reason}));
    tell_once(steps, "confirm:cancelled", StepEvent::StepCancel, told).await;
    Err(Box::new(called_off(reason)))
}

fn behind(comment: &str) -> String {
    if comment.is_empty() { String::new() } else { format!(": {comment}") }
}

async fn tell_once(steps: &Steps, step: &str, what: StepEvent, data: JsonMap) {
    if let Begun::Try(the_try) = steps.begin(step).await {
        let told = Told { events: vec![(what, data)], charge: None };
        steps.record(step, the_try.number, &Json::Null, told).await;
    }
}

/// The envelope that events of a step have.
fn event(node: &Node, attempt: u32, status: &str, content: Json) -> JsonMap {
    let fields = [
        ("step_id", json!(node.id)),
        ("step_name", json!(node.title)),
        ("step_description", json!("")),
        ("step_type", json!(node.kind.wire())),
        ("step_status", json!(status)),
        ("attempt", json!(attempt)),
        ("content", content),
    ];
    fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// What the call would be made of: the input of a step and the parameters of a tool, missing values filled in; of any other
/// node what it will read. An error is how a step ends that cannot begin.
async fn input_of(cx: &mut WorkContext<'_>) -> Result<JsonMap, Box<NodeResult>> {
    let graph = cx.graph.clone();
    if let Some(input) = made(&cx.variables) {
        return Ok(input);
    }
    match &graph.node(cx.ix).data {
        NodeData::Step(data) => {
            let around = around(cx, &graph);
            let mut prepared = match resolve(data.id(), around.calls).await {
                Ok(found) => drafted(found, data, around),
                Err(error) => return Err(Box::new(refused(data, around, &error))),
            };
            if let Err(error) = prepared.init().await {
                return Err(cannot_begin(&prepared, data, around, error));
            }
            let init = prepared.teller.event(StepEvent::StepInit, Status::Init, json!(prepared.record()));
            let input = prepared.input;
            tell_once(cx.steps, "confirm:init", init.0, init.1).await;
            // What was seen is what is done.
            let whole = Stored::Inline(Segment::infer(Json::Object(input.clone())));
            cx.variables.put(STEP_NODE, INPUT, whole, None);
            Ok(input)
        }
        NodeData::Tool(data) => {
            let Ok(tool) = cx.hand.core.outside.tools.find(name_of(data)).await else { return Ok(read(cx)) };
            let noted = data.declared.as_deref().map(Known::just);
            let declared = tool.known().or(noted).unwrap_or(Known::NOTHING);
            Ok(parameters::known(data, declared, &cx.variables))
        }
        NodeData::HttpRequest(data) => {
            let mut input = read(cx);
            let url = data.url.render_text(&cx.variables);
            input.insert("method".into(), json!(data.method));
            input.insert("url".into(), json!(url));
            Ok(input)
        }
        _ => Ok(read(cx)),
    }
}

/// What the node will read, but for what the run keeps of its own: the conversation and what was done before.
fn read(cx: &WorkContext<'_>) -> JsonMap {
    let mentions = cx.node().mentions.iter().filter(|(node, _)| !node.starts_with('#'));
    let found = mentions.filter_map(|(node, name)| match cx.variables.variable(node, name) {
        Lookup::Found(segment) => Some((format!("{node}.{name}"), segment.value.clone())),
        Lookup::Missing | Lookup::Blob(_) => None,
    });
    found.collect()
}

/// The same, fit to be seen: secrets masked, large values cut.
fn shown(input: JsonMap, steps: &Steps) -> JsonMap {
    let cut = |value: Json| match json_size(&value) {
        0..=SHOWN_BYTES_MAX => value,
        _ => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}…", text.chars().take(SHOWN_CHARS).collect::<String>()).into()
        }
    };
    // Masked first: of a secret that is cut nothing would be found.
    steps.secrets().hidden_in(input).into_iter().map(|(name, value)| (name, cut(value))).collect()
}
