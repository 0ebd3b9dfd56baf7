//! Writes and reads the facts that one run sends another on the same shard: `call_ended`, `parent_asked` and
//! `parent_answered`.

use serde_json::json;

use crate::WireError;
use crate::codec::fields::Fields;
use crate::codec::text::ObjectText;
use crate::codec::value::named_from_field;
use crate::fact::{WHAT, read_node};
use crate::state::messages::{change_json, read_change};
use tidemill_base::ids::{FramePath, NodeId, RunId};
use tidemill_engine::Fact;
use tidemill_engine::fact::{CallEnded, ParentAnswered, ParentAsked};
use tidemill_engine::state::run::Caller;
use tidemill_workflow::graph::Graph;

/// The body of a `call_ended` fact: tells the caller's node which sub-workflow run has ended.
pub fn call_ended_body(caller: &Caller, called: RunId) -> String {
    let mut body = json!({"node": caller.node, "called": called});
    if !caller.frame.is_root() {
        body["frame"] = json!(caller.frame);
    }
    body.to_string()
}

pub(crate) fn call_ended(map: &Fields<'_>, graph: &Graph) -> Result<Fact, WireError> {
    let run = map.text("called").ok_or_else(|| WireError::malformed(WHAT, "called is missing"))?;
    Ok(Fact::CallEnded(CallEnded {
        frame: map.text("frame").map(FramePath::from).unwrap_or_default(),
        node: read_node(map, graph)?,
        run: run.parse().map_err(|e| WireError::malformed(WHAT, e))?,
    }))
}

/// The body of a `parent_asked` fact.
pub fn parent_asked_body(asked: &ParentAsked) -> String {
    let mut body = json!({
        "node": asked.node, "child": asked.child, "execution": asked.execution, "child_node": asked.child_node,
        "change": change_json(&asked.change),
    });
    for (key, frame) in [("frame", &asked.frame), ("child_frame", &asked.child_frame)] {
        if !frame.is_root() {
            body[key] = json!(frame);
        }
    }
    body.to_string()
}

pub(crate) fn parent_asked(map: &mut Fields<'_>) -> Result<Fact, WireError> {
    let change = map.take_json("change").unwrap_or_default();
    let text = |key: &str| map.text(key);
    let missing = |key: &str| WireError::malformed(WHAT, format!("{key} is missing"));
    let child = text("child").ok_or_else(|| missing("child"))?;
    let execution = text("execution").ok_or_else(|| missing("execution"))?;
    let frame = |key: &str| text(key).map(FramePath::from).unwrap_or_default();
    let node = |key: &str| text(key).map(NodeId::from).ok_or_else(|| missing(key));
    Ok(Fact::ParentAsked(Box::new(ParentAsked {
        frame: frame("frame"),
        node: node("node")?,
        child: child.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        execution: execution.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        child_frame: frame("child_frame"),
        child_node: node("child_node")?,
        change: read_change(&change)?,
    })))
}

/// The body of a `parent_answered` fact.
pub fn parent_answered_body(answered: &ParentAnswered) -> String {
    let mut object = ObjectText::with_capacity(256);
    object.text("node", answered.node.as_str());
    if !answered.frame.is_root() {
        object.text("frame", answered.frame.as_str());
    }
    match &answered.answer {
        Ok(outputs) => object.named("outputs", outputs),
        Err((error_type, error)) => {
            object.text("error_type", error_type);
            object.text("error", error);
        }
    }
    object.end()
}

pub(crate) fn parent_answered(map: &mut Fields<'_>) -> Result<Fact, WireError> {
    let missing = || WireError::malformed(WHAT, "node is missing");
    let (node, frame) = (map.text("node").map(NodeId::from), map.text("frame").map(FramePath::from));
    let error = map.take_text("error");
    let error_type = map.take_text("error_type").unwrap_or_default();
    let answer = match error {
        Some(error) => Err((error_type, error)),
        None => Ok(named_from_field(map.take("outputs"))?),
    };
    let (node, frame) = (node.ok_or_else(missing)?, frame.unwrap_or_default());
    Ok(Fact::ParentAnswered(Box::new(ParentAnswered { frame, node, answer })))
}
