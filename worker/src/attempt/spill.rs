//! Converts a node's result to a record: large values become blobs, secrets become references or masks, and a value
//! over the hard limit fails the node.

use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::machine::state::change::{Change, ChangeLog, LogEntry, Update};
use tidemill_common::machine::state::record::Record;
use tidemill_common::machine::state::run::json_size;
use tidemill_common::messages::Effects;
use tidemill_common::nodes::{NodeResult, VariableChange, VariableUpdate};
use tidemill_common::store::{Jobs, StoreError};
use tidemill_common::value::secrets::Secrets;
use tidemill_common::value::{BlobRef, Segment, SegmentType, Stored, blob_text};
use tidemill_common::warning::Warning;

use crate::attempt::variables::JobVariables;
use crate::jobs::backoff::Backoff;

/// Size limits of values, in bytes of JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Larger values are stored as blobs.
    pub(crate) inline_max: usize,
    /// Larger values fail the node.
    pub(crate) value_max: usize,
}

/// A record that can be sent once its blobs are stored.
#[derive(Debug)]
pub(crate) struct Spilled {
    pub(crate) record: Record,
    pub(crate) failed: bool,
    pub(crate) blobs: Vec<(BlobId, String)>,
}

/// Builds the record of a result. Without variables (the node could not start) there are no secrets to mask.
pub(crate) fn spill(result: NodeResult, variables: Option<&JobVariables>, sizes: Sizes) -> Spilled {
    let too_large = too_large(&result, sizes.value_max);
    let result = match too_large {
        Some(failure) => {
            NodeResult { inputs: result.inputs, warnings: result.warnings, ..NodeResult::failed(failure) }
        }
        None => result,
    };
    let secrets = variables.map(JobVariables::secrets).unwrap_or_default();
    let mut blobs = Vec::new();
    let mut keep = |segment: Segment| keep(segment, variables, sizes, &mut blobs);
    let inputs =
        result.inputs.into_iter().map(|(name, value)| (name, keep(shown(value, &secrets)))).collect();
    let process_data = result
        .process_data
        .into_iter()
        .map(|(name, value)| (name, keep(Segment::infer(secrets.hidden(value)))))
        .collect();
    let outputs = result
        .outputs
        .into_iter()
        .map(|(name, value)| match variables.and_then(|variables| variables.secret_name(&value)) {
            Some(secret) => (name, Stored::Secret(secret)),
            None => (name, keep(value)),
        })
        .collect();
    let written = |update: VariableUpdate| {
        let secret = variables.and_then(|variables| variables.secret_text(&update.value));
        let value = secret.map_or_else(|| keep(update.value), Stored::Secret);
        let mut change = |it: VariableChange| {
            let secret = variables.and_then(|variables| variables.secret_text(&it.operand));
            let operand = secret.map_or_else(|| keep(it.operand), Stored::Secret);
            LogEntry::One(Change { kind: it.kind, operand })
        };
        let changes = update.changes.map(|all| ChangeLog::new(all.into_iter().map(&mut change).collect()));
        Update { node: update.node, name: update.name, value, changes }
    };
    let updates = result.updates.into_iter().map(written).collect();
    let failed = result.failure.is_some();
    let failure = result.failure.unwrap_or_else(|| NodeFailure::new("", ""));
    let record = Record {
        inputs,
        process_data,
        outputs,
        metadata: secrets.hidden_in(result.metadata),
        handle: result.handle,
        usage: result.usage.map(Box::new),
        wasted: result.wasted,
        error: secrets.masked(failure.message),
        error_type: failure.error_type,
        worker: String::new(),
        passing: failed && failure.retryable,
        retry_hint: failure.retry_after_ms,
        updates,
        pause: result.pause.map(|asked| Box::new(asked.hiding(&secrets))),
        effects: result.effects.map(|effects| veiled(effects, &secrets)),
        warnings: veiled_warnings(result.warnings, &secrets),
        durations: None,
        rounds: Vec::new(),
    };
    Spilled { record, failed, blobs }
}

/// Stores the blobs of a result. Waits while the store does not answer.
///
/// # Errors
/// An error that a retry would not fix.
pub(crate) async fn store(
    jobs: &dyn Jobs,
    shard: ShardId,
    blobs: &[(BlobId, String)],
) -> Result<(), StoreError> {
    if !blobs.is_empty() {
        crash::pass(CrashPoint::BlobsBegun);
    }
    for (id, text) in blobs {
        let mut backoff = Backoff::default();
        while let Err(error) = jobs.store_blob(shard, id, text).await {
            if !error.is_passing() {
                return Err(error);
            }
            backoff.wait().await;
        }
        crash::pass(CrashPoint::BlobsDone);
    }
    Ok(())
}

fn keep(
    segment: Segment,
    variables: Option<&JobVariables>,
    sizes: Sizes,
    blobs: &mut Vec<(BlobId, String)>,
) -> Stored {
    if json_size(&segment.value) <= sizes.inline_max {
        return Stored::Inline(segment);
    }
    // A value that arrived as a blob is already in the store.
    if let Some(blob) = variables.and_then(|variables| variables.blob_of(&segment)) {
        return Stored::Blob(blob.clone());
    }
    let (id, text) = (BlobId::generate(), blob_text(&segment.value));
    let blob = BlobRef::to(id.clone(), &segment, &text);
    blobs.push((id, text));
    Stored::Blob(blob)
}

fn too_large(result: &NodeResult, value_max: usize) -> Option<NodeFailure> {
    let outputs = result.outputs.iter().map(|(name, value)| ("output", name, &value.value));
    let process = result.process_data.iter().map(|(name, value)| ("process data", name, value));
    let updates = result.updates.iter().map(|update| ("variable", &update.name, &update.value.value));
    outputs.chain(process).chain(updates).find_map(|(part, name, value)| {
        let size = json_size(value);
        (size > value_max).then(|| {
            let message = format!(
                "{part} {name:?} has {size} bytes, and a value may have {value_max} (run.value_bytes_max)"
            );
            NodeFailure::new(EngineErrorType::ValueTooLarge.name(), message)
        })
    })
}

/// A value with its secrets replaced by Dify's masks.
fn shown(segment: Segment, secrets: &Secrets) -> Segment {
    if segment.ty == SegmentType::Secret {
        return Segment::string(segment.log());
    }
    Segment { value: secrets.hidden(segment.value), ..segment }
}

/// The warnings with the node's secrets masked.
fn veiled_warnings(warnings: Vec<Warning>, secrets: &Secrets) -> Vec<Warning> {
    let veiled = |warning: Warning| warning.with_texts(|text| secrets.masked(text)).shortened();
    warnings.into_iter().map(veiled).collect()
}

/// The effects with the node's secrets masked, because a run's stored state is shown and sent unchanged.
fn veiled(effects: Box<Effects>, secrets: &Secrets) -> Box<Effects> {
    if secrets.are_none() {
        return effects;
    }
    Box::new(effects.with_texts(&|text| {
        let hidden = secrets.masked(text.to_string());
        (hidden != text).then_some(hidden)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use tidemill_common::graph::builder::import;
    use tidemill_common::value::JsonMap;

    const WORKFLOW: &str = r#"
app: {mode: workflow, name: x}
kind: app
version: "0.6.0"
workflow:
  environment_variables:
    - {id: "1", name: KEY, value_type: secret, value: sk-12345678901234567890}
  graph:
    nodes:
      - {id: start, data: {type: start, title: S, variables: []}}
      - {id: end, data: {type: end, title: E, outputs: []}}
    edges: [{source: start, target: end}]
"#;

    fn variables() -> JobVariables {
        let imported = import(WORKFLOW.as_bytes());
        let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
        let inputs = vec![("env".into(), "KEY".into(), Stored::Secret("KEY".into()))];
        JobVariables::new(inputs, Arc::new(graph))
    }
    fn secret() -> Segment {
        Segment::new(SegmentType::Secret, json!("sk-12345678901234567890"))
    }

    #[test]
    fn secrets_are_masked_where_they_are_shown_and_referred_to_where_they_are_kept() {
        let result = NodeResult {
            inputs: vec![
                ("key".into(), secret()),
                ("instruction".into(), Segment::string("use sk-12345678901234567890")),
                ("model".into(), Segment::infer(json!({"p": ["sk-12345678901234567890"]}))),
            ],
            metadata: JsonMap::from_iter([("log".to_string(), json!([{"data": "sk-12345678901234567890"}]))]),
            process_data: JsonMap::from_iter([("p".to_string(), json!(["use sk-12345678901234567890"]))]),
            outputs: vec![("out".into(), secret())],
            failure: Some(NodeFailure::new("X", "refused sk-12345678901234567890")),
            warnings: vec![
                Warning::new("x", "no sk-12345678901234567890").about("k", "sk-12345678901234567890"),
            ],
            ..NodeResult::default()
        };
        let spilled = spill(result, Some(&variables()), Sizes { inline_max: 1000, value_max: 1000 });
        let record = spilled.record;
        assert_eq!(record.outputs, [("out".to_string(), Stored::Secret("KEY".into()))]);
        assert!(!format!("{record:?}").contains("sk-1234567890"), "{record:?}");
        assert!(spilled.failed && record.error.starts_with("refused "));
    }

    #[test]
    fn a_value_over_the_hard_limit_fails_the_node_and_names_the_setting() {
        let outputs = vec![("big".into(), Segment::string("x".repeat(100)))];
        let spilled = spill(NodeResult::outputs(outputs), None, Sizes { inline_max: 10, value_max: 50 });
        assert_eq!((spilled.failed, spilled.record.error_type.as_str()), (true, "ValueTooLargeError"));
        assert!(
            spilled.record.error.contains("\"big\"") && spilled.record.error.contains("run.value_bytes_max")
        );
        assert!(spilled.record.outputs.is_empty() && spilled.blobs.is_empty());
    }
}
