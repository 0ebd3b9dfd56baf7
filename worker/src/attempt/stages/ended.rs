//! Sends the after-hooks of a node whose end did not pass its stages: it was answered or cancelled while no worker held
//! it, or its time limit passed. The result is already known; only the hooks remain.

use std::time::Duration;

use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::hooks::HookType;
use tidemill_common::value::{Lookup, Segment, SegmentType, Stored, Variables};
use tidemill_common::wire::job::EndedBefore;
use tokio::time::timeout;

use crate::attempt::stages::WorkContext;
use crate::attempt::stages::hooks;
use crate::attempt::stages::hooks::EndedBy;
use crate::attempt::variables::JobVariables;

/// Sends the hook events. The result says only whether that succeeded; the node's end is stored elsewhere.
pub(super) async fn after_end(cx: &mut WorkContext<'_>, ended: EndedBefore, ended_by: EndedBy) -> NodeResult {
    let EndedBefore { failed, error, outputs } = ended;
    let outputs = match values(cx, outputs).await {
        Ok(outputs) => outputs,
        Err(failure) => return NodeResult::failed(failure),
    };
    // Hooks do not see the failure's type.
    let failure = failed.then(|| NodeFailure::new("", error));
    let mut result = NodeResult { outputs, failure, ..NodeResult::default() };
    hooks::ended(cx, &mut result, ended_by).await;
    cx.journal.list_possible_duplicates(&mut cx.process_data);
    match result.failure {
        Some(failure) if !failed => NodeResult::failed(failure),
        Some(_) | None => NodeResult::default(),
    }
}

/// Longest time for hooks after the attempt's own time limit. Soon after that the engine ends the attempt.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Sends the after-hooks of a timed-out attempt. Their result is ignored, because the attempt has already failed.
pub(super) async fn out_of_time(mut cx: WorkContext<'_>, result: &NodeResult) {
    let error = result.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let core = &cx.handle.core;
    let emitting = async {
        cx.variables.load(&*core.jobs, &core.list_cache, cx.handle.place.shard).await?;
        let ended = EndedBefore { failed: true, error, outputs: Vec::new() };
        Ok::<_, NodeFailure>(after_end(&mut cx, ended, EndedBy::TimeLimit).await)
    };
    if !matches!(timeout(LATE_MAX, emitting).await, Ok(Ok(_))) {
        let node = &cx.handle.name.node;
        tracing::warn!(run = %cx.handle.run, %node, "hooks of a node that timed out could not be sent");
    }
}

/// Returns the inputs the after-hooks mention, and all secrets. `None` without such hooks.
pub(super) fn needed(
    node: &Node,
    inputs: &[(String, String, Stored)],
) -> Option<Vec<(String, String, Stored)>> {
    let hooks = &node.work.as_deref()?.hooks;
    let wanted = hooks.late_mentions();
    let is_needed = |(of, name, stored): &&(String, String, Stored)| {
        matches!(stored, Stored::Secret(_)) || wanted.iter().any(|(node, known)| node == of && known == name)
    };
    hooks.has(HookType::After).then(|| inputs.iter().filter(is_needed).cloned().collect())
}

/// Loads the values of outputs. Secrets are masked.
async fn values(
    cx: &WorkContext<'_>,
    outputs: Vec<(String, Stored)>,
) -> Result<Vec<(String, Segment)>, NodeFailure> {
    let core = &cx.handle.core;
    let node = cx.node().id.as_str();
    let names: Vec<String> = outputs.iter().map(|(name, _)| name.clone()).collect();
    let inputs = outputs.into_iter().map(|(name, value)| (node.to_owned(), name, value)).collect();
    let mut made = JobVariables::new(inputs, cx.graph.clone());
    made.load(&*core.jobs, &core.list_cache, cx.handle.place.shard).await?;
    let value = |name: String| match made.variable(node, &name) {
        Lookup::Found(segment) if segment.ty == SegmentType::Secret => {
            Some((name, Segment::string(segment.log())))
        }
        Lookup::Found(segment) => Some((name, segment.into_owned())),
        Lookup::Missing | Lookup::Blob(_) => None,
    };
    Ok(names.into_iter().filter_map(value).collect())
}
