//! Asks a person for approval before the node's call, and shows the call's input. A refusal ends the node: it leaves by
//! its handle for refusals, or the run is stopped.

use serde_json::{Value as Json, json};
use tidemill_common::graph::{Approval, Node};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::run::json_size;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::pause::input::{approval_schema, is_approved};
use tidemill_common::nodes::pause::{called_off, not_interactive};
use tidemill_common::nodes::tool::{KnownParameters, parameters};
use tidemill_common::nodes::{NodeData, NodeResult, PauseKind, PauseRequest};
use tidemill_common::value::{JsonMap, Lookup, Segment, Stored, Variables};

use crate::attempt::journal::{EntryReport, EntryStart, Journal, PauseEnd};
use crate::attempt::stages::found_tool::found_tool;
use crate::attempt::stages::slots::{around, cannot_begin};
use crate::attempt::stages::{Flow, Stage, WorkContext};
use crate::outside::calls::prepare::{drafted, made};
use crate::outside::calls::resolve;
use crate::outside::calls::run::{INPUT, STEP_NODE, refused};
use crate::outside::calls::step_events::Status;

/// The journal key of the question and its answer.
const STEP: &str = "confirm";
/// Larger values are cut in the question, in bytes of JSON.
const SHOWN_BYTES_MAX: usize = 4096;
const SHOWN_CHARS: usize = 1000;

/// The stage that asks for approval.
pub(super) struct ApprovalStage;

#[async_trait::async_trait]
impl Stage for ApprovalStage {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        if cx.node().work.as_ref().is_none_or(|work| work.confirm.is_none()) {
            return Flow::On;
        }
        // Without a known input there is nothing to approve, so the node ends here.
        let input = match input_of(cx).await {
            Ok(input) => input,
            Err(end) => return Flow::End(end),
        };
        let node = cx.node();
        let Some(settings) = node.work.as_ref().and_then(|work| work.confirm.as_deref()) else {
            return Flow::On;
        };
        match ask(node, settings, shown(input, cx.journal), cx.options, cx.journal, cx.name.number).await {
            Ok(()) => Flow::On,
            Err(end) => Flow::End(end),
        }
    }
}

/// Returns when a person has approved. An error is the node's result without approval. `input` is the call's input with
/// secrets masked.
pub(crate) async fn ask(
    node: &Node,
    settings: &Approval,
    input: JsonMap,
    options: &RunOptions,
    journal: &Journal,
    attempt: u32,
) -> Result<(), Box<NodeResult>> {
    if !options.choices().interactive {
        return Err(Box::new(NodeResult::failed(not_interactive(PauseKind::Confirm))));
    }
    let content = json!({"risk": settings.risk, "reason": settings.reason, "input": input});
    let waiting = event(node, attempt, "waiting", content.clone());
    emit_once(journal, "confirm:asked", StepEvent::StepWaitingForStart, waiting).await;
    let title = if node.title.is_empty() { node.id.as_str() } else { &node.title };
    let prompt = match settings.reason.as_str() {
        "" => format!("May {title} begin?"),
        reason => format!("May {title} begin? {reason}"),
    };
    let request = PauseRequest {
        details: content.as_object().cloned().unwrap_or_default(),
        ..PauseRequest::asking(PauseKind::Confirm, prompt, approval_schema())
    };
    let reason = match journal.pause(STEP, request).await {
        PauseEnd::Answered(answer) if is_approved(&answer) => return Ok(()),
        PauseEnd::Answered(answer) => {
            let comment = answer.get("comment").and_then(Json::as_str).unwrap_or_default();
            format!("node {} was not approved{}", node.id, suffix(comment))
        }
        PauseEnd::Expired | PauseEnd::Cancelled => format!("node {} was cancelled before it began", node.id),
    };
    let report = event(node, attempt, "cancelled", json!({"reason": reason}));
    emit_once(journal, "confirm:cancelled", StepEvent::StepCancel, report).await;
    Err(Box::new(called_off(reason)))
}

fn suffix(comment: &str) -> String {
    if comment.is_empty() { String::new() } else { format!(": {comment}") }
}

async fn emit_once(journal: &Journal, step: &str, what: StepEvent, data: JsonMap) {
    if let EntryStart::Try(the_try) = journal.begin(step).await {
        let report = EntryReport { events: vec![(what, data)], charge: None };
        journal.record(step, the_try.number, &Json::Null, report).await;
    }
}

/// The common fields of a step's events.
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

/// Returns the input of the call: of a step or tool its parameters with missing values filled in, of any other node the
/// variables it will read. An error is the result of a step that cannot start.
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
            let init =
                prepared.step_events.event(StepEvent::StepInit, Status::Init, json!(prepared.record()));
            let input = prepared.input;
            emit_once(cx.journal, "confirm:init", init.0, init.1).await;
            // Run exactly the input that was shown.
            let whole = Stored::Inline(Segment::infer(Json::Object(input.clone())));
            cx.variables.put(STEP_NODE, INPUT, whole, None);
            Ok(input)
        }
        NodeData::Tool(data) => {
            let core = &cx.handle.core;
            let found = found_tool(core, data).await?;
            if found.is_none() && !core.hosts.takes(graph.node(cx.ix)) {
                return Ok(read(cx));
            }
            let noted = data.declared.as_deref().map(KnownParameters::just);
            let known = found.as_ref().and_then(|tool| tool.known());
            let declared = known.or(noted).unwrap_or(KnownParameters::NOTHING);
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

/// The variables the node will read, without the run's own ones such as the conversation.
fn read(cx: &WorkContext<'_>) -> JsonMap {
    let mentions = cx.node().mentions.iter().filter(|(node, _)| !node.starts_with('#'));
    let found = mentions.filter_map(|(node, name)| match cx.variables.variable(node, name) {
        Lookup::Found(segment) => Some((format!("{node}.{name}"), segment.value.clone())),
        Lookup::Missing | Lookup::Blob(_) => None,
    });
    found.collect()
}

/// Prepares the input for display: secrets masked, large values cut.
fn shown(input: JsonMap, journal: &Journal) -> JsonMap {
    let cut = |value: Json| match json_size(&value) {
        0..=SHOWN_BYTES_MAX => value,
        _ => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}…", text.chars().take(SHOWN_CHARS).collect::<String>()).into()
        }
    };
    // Mask before cutting: half a secret would not be found.
    journal.secrets().hidden_in(input).into_iter().map(|(name, value)| (name, cut(value))).collect()
}
