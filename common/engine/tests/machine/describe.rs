//! Events in a few words, so that a test can compare a whole run.

use tidemill_base::ids::FramePath;
use tidemill_base::value::Stored;
use tidemill_engine::order::events::{About, ChunkText, Event, EventKind, Output, ShownIn};
use tidemill_workflow::graph::{Graph, NodeIx};

pub(super) fn words(graph: &Graph, event: &Event) -> String {
    let id = |about: &About| place(graph, &about.frame, about.node);
    match &event.kind {
        EventKind::GraphRunStarted { resumed: false, .. } => "begin".into(),
        EventKind::GraphRunStarted { resumed: true, .. } => "resume".into(),
        EventKind::GraphRunPaused { commands, pauses, outputs } => {
            let mut reasons: Vec<String> = commands.iter().map(|reason| format!("{reason:?}")).collect();
            reasons.extend(pauses.iter().map(|pause| place(graph, &pause.frame, pause.node)));
            format!("paused {} {}", reasons.join(" "), outputs_of(outputs))
        }
        EventKind::GraphRunVariablesUpdated { selectors, .. } => {
            let names: Vec<String> = selectors.iter().map(|(node, name)| format!("{node}.{name}")).collect();
            format!("set {}", names.join(" "))
        }
        EventKind::RunWarning(noted) => match &noted.node {
            Some(node) => format!("{node} warns {}", noted.warning.code),
            None => format!("warns {}", noted.warning.code),
        },
        EventKind::NodeStep { about, what, .. } => format!("{} {}", id(about), what.name()),
        EventKind::NodeRunPauseRequested { about, .. } => format!("{} waits", id(about)),
        EventKind::NodeRunHumanInputFormFilled { about, action, .. } => {
            format!("{} filled {action}", id(about))
        }
        EventKind::NodeRunHumanInputFormTimeout { about, .. } => format!("{} expired", id(about)),
        EventKind::NodeRunVariableUpdated { variable: (node, name), value, .. } => {
            format!("{node}.{name} := {}", value_of(value))
        }
        EventKind::NodeRunBodyStarted { about, count, .. } => format!("{} of {count}", id(about)),
        EventKind::NodeRunBodyNext { about, index, .. } => format!("{} next {index}", id(about)),
        EventKind::NodeRunBodyEnded { end, steps, reason } => {
            let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
            let ended = if end.record.error.is_empty() { "through" } else { "broken" };
            let outputs: Vec<String> = end
                .record
                .outputs
                .iter()
                .map(|(name, value)| format!("{name}={}", value_of(value)))
                .collect();
            format!("{} {ended} {steps}{reason} [{}]", id(&end.about), outputs.join(" "))
        }
        EventKind::GraphRunSucceeded { outputs, .. } => format!("succeeded {}", outputs_of(outputs)),
        EventKind::GraphRunPartialSucceeded { exceptions, outputs, .. } => {
            format!("partial {exceptions} {}", outputs_of(outputs))
        }
        EventKind::GraphRunFailed { error, exceptions, .. } => format!("run failed {exceptions}: {error}"),
        EventKind::GraphRunAborted { reason, outputs, .. } => format!("{reason} {}", outputs_of(outputs)),
        EventKind::GraphEdgeSkipped(edge) => {
            let edge = graph.edge(*edge);
            format!("skip {}>{}", graph.node(edge.source).id, graph.node(edge.target).id)
        }
        EventKind::NodeRunStarted { about, .. } => format!("{} starts", id(about)),
        EventKind::NodeRunStreamChunk { selector, chunk, last, shown, .. } => {
            let text = match chunk {
                ChunkText::Inline(text) => format!("{text:?}"),
                ChunkText::Blob(blob, from) => format!("{}@{from}", blob.id),
            };
            let last = if *last { " last" } else { "" };
            format!("{} + {text}{last}{}", selector.join("."), only_at_node(*shown))
        }
        EventKind::NodeRunStreamReplaced { selector, text, shown, .. } => {
            format!("{} = {text:?}{}", selector.join("."), only_at_node(*shown))
        }
        EventKind::NodeRunSucceeded(end) => format!("{} ok", id(&end.about)),
        EventKind::NodeRunFailed(end) => format!("{} failed: {}", id(&end.about), end.record.error),
        EventKind::NodeRunException(end) => format!("{} exception: {}", id(&end.about), end.record.error),
        EventKind::NodeRunRetry { end, index } => format!("{} retry {index}", id(&end.about)),
    }
}

/// The mark of a text that no answer shows.
fn only_at_node(shown: ShownIn) -> &'static str {
    match shown {
        ShownIn::Answer => "",
        ShownIn::Node => " (live)",
    }
}

/// The place of a node: `a`, or `it#0/a` in a frame.
pub(super) fn place(graph: &Graph, frame: &FramePath, node: NodeIx) -> String {
    let id = &graph.node(node).id;
    if frame.is_root() { id.to_string() } else { format!("{frame}/{id}") }
}

fn value_of(stored: &Stored) -> String {
    match stored {
        Stored::Inline(segment) => segment.value.to_string(),
        Stored::Blob(blob) => format!("<{}>", blob.id),
        Stored::Item { list, at } => format!("<{} {at}>", list.id),
        Stored::Secret(name) => format!("<secret {name}>"),
    }
}

fn outputs_of(outputs: &[(String, Output)]) -> String {
    let output = |output: &Output| match output {
        Output::One(stored) => value_of(stored),
        Output::Joined(parts) => parts.iter().map(value_of).collect::<Vec<_>>().join("+"),
    };
    // The list of files of an answer is left out.
    let named = outputs.iter().filter(|(name, _)| name != "files");
    let named: Vec<String> = named.map(|(name, value)| format!("{name}={}", output(value))).collect();
    format!("[{}]", named.join(" "))
}
