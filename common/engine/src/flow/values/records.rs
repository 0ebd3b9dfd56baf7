//! Makes records of executions. The record of a pure node is made in the step: secrets are masked where values are only
//! shown, and large values become blobs.

use uuid::Uuid;

use crate::flow::warnings;
use crate::state::change::{Change, ChangeLog, LogEntry, Update};
use crate::state::record::Record;
use crate::state::run::json_size;
use crate::step::Step;
use tidemill_base::ids::{BlobId, FramePath};
use tidemill_base::value::{BlobRef, Segment, SegmentType, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::messages::Effects;
use tidemill_workflow::nodes::{NodeResult, VariableChange};

/// Makes the record of a result, and returns about how many bytes its values have. Secrets are masked where values are
/// only shown, and large values become blobs.
pub(crate) fn of(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    mut result: NodeResult,
) -> (Record, usize) {
    warnings::note_all(cx, node, &mut result.warnings);
    let inline_max = cx.run.head.options.inline_bytes_max;
    let execution = cx.execution(frame, node);
    let graph = cx.run.graph.clone();
    // Only an item hands operations over.
    let in_item = !result.updates.is_empty() && !cx.run.pool_frame(frame).is_root();
    let mut bytes = 0;
    let mut blobs = Vec::new();
    let (commit, seq) = (cx.at.commit, cx.run.seq);
    let mut keep = |part: &str, name: &str, segment: Segment| -> Stored {
        let size = json_size(&segment.value);
        bytes += size;
        if size <= inline_max {
            return Stored::Inline(segment);
        }
        let (blob, text) = as_blob(&format!("{execution}/{commit}.{seq}/{part}/{name}"), &segment);
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
        let mut change = |(at, change): (usize, VariableChange)| {
            let operand = match secret_text(&graph, &change.operand) {
                Some(secret) => Stored::Secret(secret),
                None => keep("change", &format!("{at}/{name}"), change.operand),
            };
            LogEntry::One(Change { kind: change.kind, operand })
        };
        // Outside items it only counts that the value was not written whole, so the log stays empty.
        let changes = update.changes.map(|all| match in_item {
            true => ChangeLog::new(all.into_iter().enumerate().map(&mut change).collect()),
            false => ChangeLog::default(),
        });
        Update { node: update.node, name: update.name, value, changes }
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
        worker: String::new(),
        updates,
        pause: result.pause.map(|asked| Box::new(asked.hiding(&graph.hidden))),
        effects: result.effects.map(|effects| without_secrets(&graph, effects)),
        warnings: Vec::new(),
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
pub(crate) fn stored(
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
    let (blob, text) = as_blob(&format!("{execution}/{commit}.{seq}/late/{name}"), &value);
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
pub(crate) fn as_blob(name: &str, segment: &Segment) -> (BlobRef, String) {
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
    let id = BlobId::from(id.simple().to_string().as_str());
    let text = tidemill_base::value::blob_text(&segment.value);
    (BlobRef::to(id, segment, &text), text)
}
