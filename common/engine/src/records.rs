//! What an execution leaves for the record, and how a step makes one of what it has evaluated itself: secrets masked where
//! they are only shown, large values stored apart.

use uuid::Uuid;

use super::Step;
use super::fact::NamedValues;
use super::run::json_size;
use tidemill_base::ids::{BlobId, FramePath};
use tidemill_base::value::{BlobRef, JsonMap, Segment, SegmentType, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::{NodeResult, PauseRequest, Usage, Wasted};
use tidemill_workflow::objects::Effects;

/// What a run's execution of one node left for the record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// What the node was given.
    pub inputs: NamedValues,
    /// What it did.
    pub process_data: NamedValues,
    /// What it made.
    pub outputs: NamedValues,
    /// Tokens, prices and such.
    pub metadata: JsonMap,
    /// The handle it left by; empty means `source`.
    pub handle: String,
    /// What its model calls cost.
    pub usage: Option<Box<Usage>>,
    /// What was paid for a reply that is no part of that, since it was of no use.
    pub wasted: Option<Box<Wasted>>,
    /// The failure's text, empty for none.
    pub error: String,
    /// The failure's class.
    pub error_type: String,
    /// Whether another try could help, and after how many milliseconds at least.
    pub retry_hint: Option<u64>,
    /// Whether the failure may pass; said only of nodes that ask it (`passing_only`).
    pub passing: bool,
    /// Variables it wrote beside its outputs: (node, name, value). Applied with its success.
    pub updates: Vec<(String, String, Stored)>,
    /// What it waits for, instead of an end.
    pub pause: Option<Box<PauseRequest>>,
    /// What it changes of what the run keeps beside its variables. Applied with its end, and not told with it.
    pub effects: Option<Box<Effects>>,
    /// Of a container: how long each of its frames was open. Part of the metadata; apart from them because an iteration
    /// may have ten thousand.
    pub durations: Option<Durations>,
    /// Of a loop: its variables after each round, by the round's number (Dify: `loop_variable_map`).
    pub rounds: Vec<(u32, NamedValues)>,
}

/// How long the frames of a container were open.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    /// The name under which metadata tell them (Dify: `iteration_duration_map`, `loop_duration_map`).
    pub name: &'static str,
    /// Seconds, by the number of the item or round.
    pub seconds: Vec<(u32, f64)>,
}

/// The record of a result: secrets masked where they are only shown, large values stored apart.
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
        effects: result.effects.map(|effects| veiled(&graph, effects)),
        durations: None,
        rounds: Vec::new(),
    };
    cx.out.blobs.extend(blobs);
    (record, bytes)
}

/// Effects without the secrets of the environment: what a run keeps is shown and sent as it stands.
fn veiled(graph: &tidemill_workflow::graph::Graph, effects: Box<Effects>) -> Box<Effects> {
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

/// A value of a node's record, as it is kept: here, or apart when it is large.
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

/// A secret as it is shown: Dify's masked form.
fn masked(segment: Segment) -> Segment {
    if segment.ty == SegmentType::Secret { Segment::string(segment.log()) } else { segment }
}

/// The environment's secret that a value is, so that the pool holds a reference and not the value.
fn secret_name(graph: &tidemill_workflow::graph::Graph, segment: &Segment) -> Option<std::sync::Arc<str>> {
    if segment.ty != SegmentType::Secret {
        return None;
    }
    let same = |v: &&tidemill_workflow::graph::DocumentVariable| {
        v.value.ty == SegmentType::Secret && v.value.value == segment.value
    };
    graph.environment.iter().find(same).map(|v| v.name.clone())
}

/// The environment's secret whose text a written value is: assigned to a text variable it still must not lie in the clear.
fn secret_text(graph: &tidemill_workflow::graph::Graph, segment: &Segment) -> Option<std::sync::Arc<str>> {
    let text = segment.value.as_str().filter(|text| !text.is_empty())?;
    let same = |v: &&tidemill_workflow::graph::DocumentVariable| {
        v.value.ty == SegmentType::Secret && v.value.value.as_str() == Some(text)
    };
    graph.environment.iter().find(same).map(|v| v.name.clone())
}

/// A value that is stored apart. The name follows from where and in which commit it was made: a commit that is computed
/// again has another number, and a name is never used for two contents.
pub(super) fn apart(name: &str, segment: &Segment) -> (BlobRef, String) {
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
    let id = BlobId::from(id.simple().to_string().as_str());
    let text = tidemill_base::value::blob_text(&segment.value);
    (BlobRef::to(id, segment, &text), text)
}
