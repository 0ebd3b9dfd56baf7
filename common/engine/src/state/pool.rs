//! The variables that a node in one frame sees.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::state::NamedValues;
use crate::state::run::RunState;
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_base::value::{Lookup, Segment, SegmentType, Stored, Variables};
use tidemill_workflow::graph::Graph;
use tidemill_workflow::messages;
use tidemill_workflow::nodes::NodeKind;
use tidemill_workflow::nodes::llm::history;

/// The variables that a node in one frame sees.
#[derive(Debug, Clone, Copy)]
pub struct Pool<'a> {
    run: &'a RunState,
    frame: &'a FramePath,
}

impl<'a> Pool<'a> {
    /// The variables as seen from `frame`.
    pub(crate) const fn new(run: &'a RunState, frame: &'a FramePath) -> Self {
        Self { run, frame }
    }

    /// Returns a variable as it is stored: blobs are not loaded, secrets are not opened. A value that was written in a
    /// frame shadows those in outer frames, and these shadow the initial values of the run.
    pub fn stored(&self, node: &str, name: &str) -> Option<Cow<'a, Stored>> {
        let run = self.run;
        for path in self.frame.outwards() {
            let Some(frame) = run.frames.get(&path) else { continue };
            if let Some(value) = frame.get(node, name) {
                return Some(Cow::Borrowed(value));
            }
            if !frame.hidden.is_empty() && frame.hidden.contains(&(NodeId::from(node), name.to_string())) {
                return None;
            }
        }
        if let Some(value) = run.frames.root().get(node, name) {
            return Some(Cow::Borrowed(value));
        }
        match node {
            "sys" | "env" | "conversation" => initial(run, node, name),
            history::NODE if name == history::NAME => run.head.history.as_ref().map(Cow::Borrowed),
            messages::MESSAGES | messages::RUNTIME | messages::HISTORY => object_value(run, node, name),
            _ if node == run.graph.node(run.root()).id.as_str() => {
                among(&run.head.inputs, name).or_else(|| shown_by_root(run, name))
            }
            _ => None,
        }
    }
}

fn among<'a>(values: &'a NamedValues, name: &str) -> Option<Cow<'a, Stored>> {
    values.iter().find(|(known, _)| known == name).map(|(_, value)| Cow::Borrowed(value))
}

/// The value of a variable outside the nodes when the run began.
fn initial<'a>(run: &'a RunState, namespace: &str, name: &str) -> Option<Cow<'a, Stored>> {
    match namespace {
        "sys" => among(&run.head.sys, name),
        "env" => run.graph.environment_variable(name).map(|v| Cow::Owned(environment(v))),
        "conversation" => among(&run.head.conversation, name).or_else(|| {
            let defined = run.graph.0.conversation.iter().find(|v| &*v.name == name)?;
            Some(Cow::Owned(Stored::Inline(defined.value.clone())))
        }),
        _ => None,
    }
}

/// A variable that the first node shows under its namespace, such as `sys.query`. Editors write `[<start>, sys.query]`.
/// Nothing is stored for it: it is looked up only when no input has this name. A trigger shows system variables only.
fn shown_by_root<'a>(run: &'a RunState, name: &str) -> Option<Cow<'a, Stored>> {
    let (namespace, name) = name.split_once('.')?;
    let is_start = run.graph.node(run.root()).kind == NodeKind::Start;
    (is_start || namespace == "sys").then(|| initial(run, namespace, name))?
}

/// Returns messages, `rt` or history as a variable. They are empty, not missing, before anything is written.
fn object_value(run: &RunState, node: &str, name: &str) -> Option<Cow<'static, Stored>> {
    let messages = run.messages.as_deref();
    let list = |items: Json| Segment::new(SegmentType::ArrayAny, items);
    let segment = match node {
        messages::MESSAGES => {
            let found = messages.and_then(|messages| messages.lists.get(name));
            list(found.map_or_else(|| Json::Array(Vec::new()), messages::MessageList::to_json))
        }
        messages::RUNTIME if name == messages::RUNTIME_NAME => {
            let runtime = messages.into_iter().flat_map(|messages| &messages.runtime);
            let runtime = runtime.filter(|(key, _)| !messages::PARTS.contains(&key.as_str()));
            let runtime = runtime.map(|(key, value)| (key.clone(), value.clone())).collect();
            Segment::new(SegmentType::Object, Json::Object(runtime))
        }
        messages::HISTORY => {
            let wanted: usize = name.parse().ok()?;
            let records = messages.map(|messages| &messages.history);
            let skipped = records.map_or(0, |records| records.len().saturating_sub(wanted));
            list(records.into_iter().flatten().skip(skipped).cloned().map(Json::Object).collect())
        }
        _ => return None,
    };
    Some(Cow::Owned(Stored::Inline(segment)))
}

fn environment(variable: &tidemill_workflow::graph::DocumentVariable) -> Stored {
    if variable.value.ty == tidemill_base::value::SegmentType::Secret {
        Stored::Secret(variable.name.clone())
    } else {
        Stored::Inline(variable.value.clone())
    }
}

impl Variables for Pool<'_> {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match self.stored(node, name) {
            None => Lookup::Missing,
            Some(Cow::Borrowed(Stored::Inline(segment))) => Lookup::Found(Cow::Borrowed(segment)),
            Some(Cow::Owned(Stored::Inline(segment))) => Lookup::Found(Cow::Owned(segment)),
            Some(Cow::Borrowed(Stored::Blob(blob) | Stored::Item { list: blob, .. })) => Lookup::Blob(blob),
            // Owned values come from the document, and those are never blobs.
            Some(Cow::Owned(Stored::Blob(_) | Stored::Item { .. })) => Lookup::Missing,
            Some(stored) => match stored.as_ref() {
                Stored::Secret(secret) => open_secret(&self.run.graph, secret),
                Stored::Inline(_) | Stored::Blob(_) | Stored::Item { .. } => Lookup::Missing,
            },
        }
    }

    fn names(&self) -> Vec<(String, String)> {
        let run = self.run;
        let root = run.graph.node(run.root()).id.as_str().to_string();
        let mut names: Vec<(String, String)> = Vec::new();
        let mut add = |node: &str, name: &str| {
            let pair = (node.to_string(), name.to_string());
            if !names.contains(&pair) {
                names.push(pair);
            }
        };
        run.head.inputs.iter().for_each(|(name, _)| add(&root, name));
        run.head.sys.iter().for_each(|(name, _)| add("sys", name));
        run.graph.0.environment.iter().for_each(|v| add("env", &v.name));
        run.graph.0.conversation.iter().for_each(|v| add("conversation", &v.name));
        run.head.conversation.iter().for_each(|(name, _)| add("conversation", name));
        for frame in self.frame.outwards().chain([FramePath::root()]).filter_map(|path| run.frames.get(&path))
        {
            let mut written: Vec<_> = frame.variables.iter().collect();
            written.sort_by_key(|(node, _)| node.as_str());
            for (node, values) in written {
                values.iter().for_each(|(name, _)| add(node.as_str(), name));
            }
        }
        names
    }
}

/// Looks up the value of a secret of the workflow's environment.
fn open_secret<'a>(graph: &'a Graph, name: &str) -> Lookup<'a> {
    graph
        .environment_variable(name)
        .map_or(Lookup::Missing, |variable| Lookup::Found(Cow::Borrowed::<Segment>(&variable.value)))
}
