//! Events in a few words, so that a whole run can be compared at a glance.

use crate::graph::Graph;
use crate::machine::changes::{About, ChunkText, Event, EventKind, Output};
use crate::value::Stored;

pub(super) fn words(graph: &Graph, event: &Event) -> String {
    let id = |about: &About| graph.node(about.node).id.to_string();
    match &event.kind {
        EventKind::GraphRunStarted => "begin".into(),
        EventKind::GraphRunSucceeded { outputs } => format!("succeeded {}", outputs_of(outputs)),
        EventKind::GraphRunPartialSucceeded { exceptions, outputs } => {
            format!("partial {exceptions} {}", outputs_of(outputs))
        }
        EventKind::GraphRunFailed { error, exceptions } => format!("run failed {exceptions}: {error}"),
        EventKind::GraphRunAborted { reason, outputs } => format!("{reason} {}", outputs_of(outputs)),
        EventKind::GraphEdgeSkipped(edge) => {
            let edge = graph.edge(*edge);
            format!("skip {}>{}", graph.node(edge.source).id, graph.node(edge.target).id)
        }
        EventKind::NodeRunStarted(about) => format!("{} starts", id(about)),
        EventKind::NodeRunStreamChunk { selector, chunk, last, .. } => {
            let text = match chunk {
                ChunkText::Inline(text) => format!("{text:?}"),
                ChunkText::Blob(blob, from) => format!("{}@{from}", blob.id),
            };
            format!("{} + {text}{}", selector.join("."), if *last { " last" } else { "" })
        }
        EventKind::NodeRunStreamReplaced { selector, text, .. } => {
            format!("{} = {text:?}", selector.join("."))
        }
        EventKind::NodeRunSucceeded(end) => format!("{} ok", id(&end.about)),
        EventKind::NodeRunFailed(end) => format!("{} failed: {}", id(&end.about), end.record.error),
        EventKind::NodeRunException(end) => format!("{} exception: {}", id(&end.about), end.record.error),
        EventKind::NodeRunRetry { end, index } => format!("{} retry {index}", id(&end.about)),
    }
}

fn outputs_of(outputs: &[(String, Output)]) -> String {
    let value = |stored: &Stored| match stored {
        Stored::Inline(segment) => segment.value.to_string(),
        Stored::Blob(blob) => format!("<{}>", blob.id),
        Stored::Secret(name) => format!("<secret {name}>"),
    };
    let output = |output: &Output| match output {
        Output::One(stored) => value(stored),
        Output::Joined(parts) => parts.iter().map(value).collect::<Vec<_>>().join("+"),
    };
    // The list of files of an answer says nothing here.
    let named = outputs.iter().filter(|(name, _)| name != "files");
    let named: Vec<String> = named.map(|(name, value)| format!("{name}={}", output(value))).collect();
    format!("[{}]", named.join(" "))
}
