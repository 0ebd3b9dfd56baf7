//! Records of executions, and how a step makes one from the result of a pure node: it masks secrets where values are
//! only shown, and turns large values into blobs.

use uuid::Uuid;

use super::Step;
use super::fact::NamedValues;
use super::run::json_size;
use tidemill_base::ids::{BlobId, FramePath};
use tidemill_base::value::{BlobRef, JsonMap, Segment, SegmentType, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::messages::Effects;
use tidemill_workflow::nodes::{NodeResult, PauseRequest, Usage, Wasted};

/// The result of an execution: everything that its end leaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// The inputs of the node, for people.
    pub inputs: NamedValues,
    /// Details of the work, for people.
    pub process_data: NamedValues,
    /// The outputs, which become variables.
    pub outputs: NamedValues,
    /// Tokens, prices and so on.
    pub metadata: JsonMap,
    /// The handle of the end; empty means `source`.
    pub handle: String,
    /// The cost of its model calls.
    pub usage: Option<Box<Usage>>,
    /// The cost of a wasted reply, which is not part of `usage`.
    pub wasted: Option<Box<Wasted>>,
    /// The text of the failure; empty for a success.
    pub error: String,
    /// The class of the failure; empty for a success.
    pub error_type: String,
    /// The least wait before a retry, in milliseconds, if the failure names one.
    pub retry_hint: Option<u64>,
    /// Whether the failure may be temporary. Set only for nodes with the setting `passing_only`.
    pub passing: bool,
    /// Variables that it writes besides its outputs, as (node, name, value). Applied only with its success.
    pub updates: Vec<(String, String, Stored)>,
    /// The question that the node waits for, instead of an end.
    pub pause: Option<Box<PauseRequest>>,
    /// Changes of messages, `rt` and history. Applied with the end, and not part of its event.
    pub effects: Option<Box<Effects>>,
    /// The times that a container's frames were open. They are part of the metadata, but have their own field because
    /// an iteration may have ten thousand.
    pub durations: Option<Durations>,
    /// The variables of a loop after each round, by the number of the round (Dify: `loop_variable_map`).
    pub rounds: Vec<(u32, NamedValues)>,
}

/// The times that the frames of a container were open.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    /// The name in the metadata (Dify: `iteration_duration_map`, `loop_duration_map`).
    pub name: &'static str,
    /// Seconds, by the number of the item or round.
    pub seconds: Vec<(u32, f64)>,
}

/// Makes the record of a result, and returns about how many bytes its values have. Secrets are masked where values are
/// only shown, and large values become blobs.
pub(super) fn of(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, result: NodeResult) -> (Record, usize) {
    let inline_max = cx.run.head.options.inline_bytes_max;
    let execution = cx.execution(frame, node);
    let graph = cx.run.graph.clone();
    let mut bytes = 0;
    let mut blobs = Vec::new();
    let (commit, seq) = (cx.at.commit, cx.run.seq);
    let mut keep = |part: &str, name: &str, segment: Segment| -> Stored {
        let size = json_size(&segment.value);
        bytes += size;
        if size <= inline_max {
            return Stored::Inline(segment);
        }
        let (blob, text) = apart(&format!("{execution}/{commit}.{seq}/{part}/{name}"), &segment);
        blobs.push((blob.id.clone(), text));
        Stored::Blob(blob)
    };
    let inputs =
        result.inputs.into_iter().map(|(name, v)| (name.clone(), keep("in", &name, masked(v)))).collect();
    let process_data = result
        .process_data
        .into_iter()
        .map(|(name, v)| (name.clone(), keep("process", &name, Segment::infer(v))))
        .collect();
    let outputs = result
        .outputs
        .into_iter()
        .map(|(name, value)| {
            let stored = match secret_name(&graph, &value) {
                Some(secret) => Stored::Secret(secret),
                None => keep("out", &name, value),
            };
            (name, stored)
        })
        .collect();
    let updates = result.updates.into_iter().map(|update| {
        let name = format!("{}.{}", update.node, update.name);
        let value = match secret_text(&graph, &update.value) {
            Some(secret) => Stored::Secret(secret),
            None => keep("set", &name, update.value),
        };
        (update.node, update.name, value)
    });
    let updates = updates.collect();
    let failure = result.failure;
    let record = Record {
        inputs,
        process_data,
        outputs,
        metadata: result.metadata,
        handle: result.handle,
        usage: result.usage.map(Box::new),
        wasted: result.wasted,
        passing: graph.node(node).settings.passing_only && failure.as_ref().is_some_and(|f| f.retryable),
        retry_hint: failure.as_ref().and_then(|f| f.retry_after_ms),
        error: failure.as_ref().map(|f| graph.hidden.masked(f.message.clone())).unwrap_or_default(),
        error_type: failure.map(|f| f.error_type).unwrap_or_default(),
        updates,
        pause: result.pause.map(|asked| Box::new(asked.hiding(&graph.hidden))),
        effects: result.effects.map(|effects| without_secrets(&graph, effects)),
        durations: None,
        rounds: Vec::new(),
    };
    cx.out.blobs.extend(blobs);
    (record, bytes)
}

/// Masks secrets of the environment in effects, because messages, `rt` and history are shown and sent unmasked.
fn without_secrets(graph: &tidemill_workflow::graph::Graph, effects: Box<Effects>) -> Box<Effects> {
    let is_secret = |v: &&tidemill_workflow::graph::DocumentVariable| v.value.ty == SegmentType::Secret;
    let secrets: Vec<&Segment> = graph.environment.iter().filter(is_secret).map(|v| &v.value).collect();
    if secrets.is_empty() {
        return effects;
    }
    Box::new(effects.with_texts(&|text| {
        let plain = |secret: &&&Segment| {
            secret.value.as_str().is_some_and(|plain| !plain.is_empty() && text.contains(plain))
        };
        let found: Vec<_> = secrets.iter().filter(plain).collect();
        let masked = |text: String, secret: &&&Segment| {
            text.replace(secret.value.as_str().unwrap_or_default(), &secret.log())
        };
        let text = found.iter().fold(text.to_string(), masked);
        let hidden = graph.hidden.masked(text.clone());
        (!found.is_empty() || hidden != text).then_some(hidden)
    }))
}

/// Makes a stored value: inline, or a blob when it is large.
pub(super) fn stored(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    name: &str,
    value: Segment,
) -> Stored {
    if json_size(&value.value) <= cx.run.head.options.inline_bytes_max {
        return Stored::Inline(value);
    }
    let (execution, commit, seq) = (cx.execution(frame, node), cx.at.commit, cx.run.seq);
    let (blob, text) = apart(&format!("{execution}/{commit}.{seq}/late/{name}"), &value);
    cx.out.blobs.push((blob.id.clone(), text));
    Stored::Blob(blob)
}

/// Replaces a secret by Dify's masked form.
fn masked(segment: Segment) -> Segment {
    if segment.ty == SegmentType::Secret { Segment::string(segment.log()) } else { segment }
}

/// Finds the secret of the environment that a value is, so that a reference is stored and not the value.
fn secret_name(graph: &tidemill_workflow::graph::Graph, segment: &Segment) -> Option<std::sync::Arc<str>> {
    if segment.ty != SegmentType::Secret {
        return None;
    }
    let same = |v: &&tidemill_workflow::graph::DocumentVariable| {
        v.value.ty == SegmentType::Secret && v.value.value == segment.value
    };
    graph.environment.iter().find(same).map(|v| v.name.clone())
}

/// Finds the secret of the environment whose text a value is. A secret that is assigned to a text variable must not be
/// stored in the clear either.
fn secret_text(graph: &tidemill_workflow::graph::Graph, segment: &Segment) -> Option<std::sync::Arc<str>> {
    let text = segment.value.as_str().filter(|text| !text.is_empty())?;
    let same = |v: &&tidemill_workflow::graph::DocumentVariable| {
        v.value.ty == SegmentType::Secret && v.value.value.as_str() == Some(text)
    };
    graph.environment.iter().find(same).map(|v| v.name.clone())
}

/// Makes a blob. Its id is derived from `name`, which contains the number of the commit: a commit that is computed
/// again has another number, so an id is never used for two contents.
pub(super) fn apart(name: &str, segment: &Segment) -> (BlobRef, String) {
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
    let id = BlobId::from(id.simple().to_string().as_str());
    let text = tidemill_base::value::blob_text(&segment.value);
    (BlobRef::to(id, segment, &text), text)
}
