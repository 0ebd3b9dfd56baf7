//! Runs the nodes inside a node, one after the other, before the node itself. Each has its own record, text and costs.
//! The journal keeps failed tries and ends. So a job that is delivered again repeats no child that has ended, and
//! continues the count of tries.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::{ChildKind, ErrorStrategy, Extraction, INPUTS, Node, NodeIx, NodeSettings};
use tidemill_common::ids::ExecutionId;
use tidemill_common::machine::backoff::wait_ms;
use tidemill_common::machine::fact::{ChildEnd, ChildEvent};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::options::choices::Choices;
use tidemill_common::nodes::{NodeResult, extraction};
use tidemill_common::value::{Segment, Selector, Stored, Variables};
use tidemill_common::wire::codec::value::{NamedJson, named_from_json};

use crate::attempt::execute::{Doing, execute, progress_of, sizes, streamed};
use crate::attempt::executor::{AttemptName, Executor, executor_for};
use crate::attempt::journal::{ChildTry, EntryStart, Try};
use crate::attempt::progress::{SharedProgress, sending_pieces};
use crate::attempt::spill::{Spilled, spill};
use crate::attempt::stages::{Flow, Stage, WorkContext};
use crate::jobs::shared::now;

/// The stage that runs the inner nodes.
pub(super) struct Children;

#[async_trait::async_trait]
impl Stage for Children {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let children = cx.node().children.clone();
        note_extractions(cx, &children);
        for child in children {
            let is_other = matches!(kind_of(cx, child), Some(ChildKind::Slot) | None);
            if is_other {
                continue;
            }
            if let Err(failure) = run(cx, child).await {
                return Flow::End(Box::new(NodeResult::failed(failure)));
            }
        }
        match feed(cx) {
            Ok(()) => Flow::On,
            Err(failure) => Flow::End(Box::new(NodeResult::failed(failure))),
        }
    }
}

/// Lists the extractions among the children in the node's record.
fn note_extractions(cx: &mut WorkContext<'_>, children: &[NodeIx]) {
    let is_extraction = |ix: &&NodeIx| matches!(kind_of(cx, **ix), Some(ChildKind::Extraction(_)));
    let ids = children.iter().filter(is_extraction).map(|ix| json!(cx.graph.node(*ix).id.as_str()));
    let ids: Vec<Json> = ids.collect();
    if !ids.is_empty() {
        cx.process_data.insert("extraction_nodes".into(), ids.into());
    }
}

/// Sets the node's inputs; an input with a null variable gets its default, or fails the node.
fn feed(cx: &mut WorkContext<'_>) -> Result<(), NodeFailure> {
    let inputs = cx.node().work.as_ref().map(|work| work.inputs.clone()).unwrap_or_default();
    for input in inputs {
        let found = cx.variables.found(&input.selector).map(|value| value.into_owned());
        let value = match (found.filter(|value| !value.value.is_null()), input.default) {
            (Some(value), _) => value,
            (None, Some(default)) => Segment::infer(default),
            (None, None) => {
                let message = format!(
                    "Variable {} is null, and input {} needs a value",
                    input.selector.join("."),
                    input.name
                );
                return Err(NodeFailure::new("ExtractionError", message));
            }
        };
        cx.variables.put(INPUTS, &input.name, Stored::Inline(value), None);
    }
    Ok(())
}

fn kind_of<'a>(cx: &'a WorkContext<'_>, child: NodeIx) -> Option<&'a ChildKind> {
    cx.graph.node(child).child.as_deref().map(|child| &child.kind)
}

/// Runs a child to its end, or takes its recorded end. An error is the failure of the parent.
async fn run(cx: &mut WorkContext<'_>, child: NodeIx) -> Result<(), NodeFailure> {
    let graph = cx.graph.clone();
    let id = &graph.node(child).id;
    let key = format!("child:{id}");
    let mut begun = cx.journal.begin(&key).await;
    loop {
        let the_try = match begun {
            EntryStart::Known(kept) => return known(cx, child, kept).await,
            EntryStart::Try(the_try) => the_try,
        };
        let failed_before = match the_try.was_begun {
            true => failed_once(cx, &key, the_try.number).await,
            false => None,
        };
        let wait = match failed_before {
            Some(rest) => rest,
            None => match one_try(cx, child, &key, &the_try).await? {
                Some(wait) => wait,
                None => return Ok(()),
            },
        };
        cx.journal.wait_for_child(wait, &format!("the next try of {id}")).await;
        begun = cx.journal.retry(&key).await;
    }
}

/// Returns the rest of the wait after a try that is recorded as failed.
async fn failed_once(cx: &WorkContext<'_>, key: &str, number: u32) -> Option<Duration> {
    let EntryStart::Known(kept) = cx.journal.begin(&failure_key(key, number)).await else { return None };
    let due = kept.get("due").and_then(Json::as_i64).map(Timestamp::from_micros);
    let wait = Duration::from_millis(kept.get("wait_ms").and_then(Json::as_u64).unwrap_or(0));
    // A clock difference must not make the wait longer than planned.
    Some(due.map_or(wait, |due| wait.min(Duration::from_secs_f64(due.seconds_since(now()).max(0.0)))))
}

fn failure_key(key: &str, number: u32) -> String {
    format!("{key}:failed:{number}")
}

/// Takes the recorded outputs of a child that has ended before.
async fn known(cx: &mut WorkContext<'_>, child: NodeIx, mut kept: Json) -> Result<(), NodeFailure> {
    let graph = cx.graph.clone();
    let id = graph.node(child).id.as_str();
    let text = |key: &str| kept.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    if text("end") == ChildEnd::Failed.name() {
        return Err(NodeFailure::new(text("error_type"), text("error")));
    }
    if text("end") == ChildEnd::Replaced.name() {
        note_error(cx, id, &text("error_type"), &text("error"));
    }
    let unreadable = |error| NodeFailure::escaped(format!("what node {id} has left cannot be read: {error}"));
    let outputs = named_from_json(kept.get_mut("outputs").map(Json::take)).map_err(unreadable)?;
    let (jobs, shard) = (cx.handle.core.jobs.clone(), cx.handle.place.shard);
    cx.variables.put_kept(id, outputs, &*jobs, shard).await
}

/// A try of a child, with what is known about it before it runs.
struct TriedChild<'a> {
    node: &'a Node,
    ix: NodeIx,
    /// The journal key of the child.
    key: &'a str,
    the_try: &'a Try,
    child_try: ChildTry,
    execution: ExecutionId,
    executor: Option<Executor>,
    /// The extraction that the child is, if it is one.
    extraction: Option<&'a Extraction>,
}

/// The result of a try, as it is recorded.
struct Outcome {
    at: Timestamp,
    spilled: Spilled,
    failure: Option<NodeFailure>,
    streamed: Vec<(Selector, u64)>,
    /// The outputs as they were before the large ones were stored.
    made: Vec<(String, Segment)>,
}

/// Runs one try. Returns `None` when the child has ended, else the wait before the next try.
async fn one_try(
    cx: &mut WorkContext<'_>,
    child: NodeIx,
    key: &str,
    the_try: &Try,
) -> Result<Option<Duration>, NodeFailure> {
    let graph = cx.graph.clone();
    let node = graph.node(child);
    let tried = TriedChild {
        node,
        ix: child,
        key,
        the_try,
        child_try: ChildTry { child: node.id.clone(), number: the_try.number, began: now() },
        execution: ExecutionId::derive(&cx.handle.run, cx.frame, &node.id),
        executor: executor_for(node, &cx.handle.core.hosts),
        extraction: node.child.as_ref().and_then(|child| match &child.kind {
            ChildKind::Extraction(extraction) => Some(&**extraction),
            ChildKind::Virtual | ChildKind::Slot => None,
        }),
    };
    let outcome = tried.outcome(cx).await;
    let failure = outcome.failure.as_ref();
    match failure.and_then(|failure| next_try(cx, &tried.execution, the_try.number, failure)) {
        Some(wait) => {
            tried.record_retry(cx, outcome, wait).await;
            Ok(Some(wait))
        }
        None => tried.record_end(cx, outcome).await.map(|()| None),
    }
}

impl TriedChild<'_> {
    /// Runs the child and prepares the record of its result.
    async fn outcome(&self, cx: &mut WorkContext<'_>) -> Outcome {
        // Its text is sent while it is made, also when no answer shows it.
        let progress = progress_of(cx.handle, (cx.graph, self.node), self.executor, true);
        let progress = SharedProgress::new(progress.of_child(self.child_try.clone()));
        let result = self.execute(cx, &progress).await;
        let result = self.checked(result);
        let failure = result.failure.clone();
        let made = if failure.is_none() { result.outputs.clone() } else { Vec::new() };
        let is_in_outputs = progress.lock().is_in(&result);
        let spilled = spill(result, Some(&cx.variables), sizes(cx.handle, cx.options));
        let failure = failure.or_else(|| failure_of(&spilled));
        let streamed = streamed(&progress, &spilled, is_in_outputs);
        Outcome { at: now().max(self.child_try.began), spilled, failure, streamed, made }
    }

    /// Makes the child's own call, unless it is an extraction whose source is missing.
    async fn execute(&self, cx: &mut WorkContext<'_>, progress: &SharedProgress) -> NodeResult {
        // Count over all attempts of the parent, so that no two tries have the same name.
        let number = cx.name.number.saturating_sub(1).saturating_add(self.the_try.number);
        let journal = cx.journal.of_child(self.execution, number, self.child_try.clone());
        let name = AttemptName { run: cx.name.run, execution: self.execution, number };
        let variables = cx.variables.take(cx.graph);
        let options = unattended(cx.options);
        let doing = Doing {
            handle: cx.handle,
            ix: self.ix,
            executor: self.executor,
            phase: None,
            options: &options,
            name,
            journal: Some(&journal),
            progress,
        };
        let has_source = |of: &Extraction| cx.graph.find(&of.source.0).is_some();
        let refused = self.extraction.and_then(|of| extraction::check(of, has_source(of), &variables).err());
        let (result, variables) = match refused {
            Some(failure) => (NodeResult::failed(failure), Some(variables)),
            None => sending_pieces(progress, execute(doing, variables)).await,
        };
        if let Some(variables) = variables {
            cx.variables = variables;
        }
        result
    }

    /// Adapts the result to a child: it shows the extracted value, waits for no answer, and says when its call may have
    /// been made twice.
    fn checked(&self, mut result: NodeResult) -> NodeResult {
        if let Some(of) = self.extraction {
            result = extraction::shown(of, result);
        }
        if result.pause.take().is_some() {
            let message = format!("node {} runs inside another and cannot wait for an answer", self.node.id);
            result = NodeResult::failed(NodeFailure::new("VirtualNodeExecutionError", message));
        }
        if self.the_try.possible_duplicate && self.executor.is_some_and(Executor::goes_outside) {
            // A child with a journal of calls has already noted which. Any other child has only one call.
            let doubled = || json!(["call"]);
            result.process_data.entry("possible_duplicates").or_insert_with(doubled);
        }
        result
    }

    /// Records a failed try that another follows.
    async fn record_retry(&self, cx: &WorkContext<'_>, outcome: Outcome, wait: Duration) {
        let Outcome { at, spilled: Spilled { record, blobs, .. }, .. } = outcome;
        let due = at.plus(wait);
        let kept =
            json!({"due": due.micros(), "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)});
        let report = self.child_try.report(ChildEvent::Retry { at, record: Box::new(record) });
        cx.journal.record_report(&failure_key(self.key, self.the_try.number), &kept, report, &blobs).await;
    }

    /// Records the end of the child, and sets its outputs. An error is the failure of the parent.
    async fn record_end(&self, cx: &mut WorkContext<'_>, outcome: Outcome) -> Result<(), NodeFailure> {
        let Outcome { at, spilled, failure, streamed, made } = outcome;
        let Spilled { mut record, failed, blobs } = spilled;
        let default = self.extraction.filter(|_| failed && is_replaced(cx)).map(default_of);
        let end = match (failed, &default) {
            (false, _) => ChildEnd::Succeeded,
            (true, Some(_)) => ChildEnd::Replaced,
            (true, None) => ChildEnd::Failed,
        };
        if let Some(default) = default {
            record.outputs = vec![("text".to_owned(), Stored::Inline(default))];
        }
        let of_parent = failure.map(|failure| match self.extraction {
            Some(_) => NodeFailure { message: record.error.clone(), retryable: false, ..failure },
            None => failure_of_parent(self.node.id.as_str(), &record.error),
        });
        let outputs = record.outputs.clone();
        let mut kept = json!({"end": end.name(), "outputs": NamedJson(&outputs)});
        if let Some(failure) = &of_parent {
            kept["error"] = json!(failure.message);
            kept["error_type"] = json!(failure.error_type);
        }
        let report = self.child_try.report(ChildEvent::Ended { at, end, record: Box::new(record), streamed });
        cx.journal.record_report(self.key, &kept, report, &blobs).await;
        if let Some(failure) = of_parent {
            if end == ChildEnd::Failed {
                return Err(failure);
            }
            note_error(cx, self.node.id.as_str(), &failure.error_type, &failure.message);
        }
        for (name, stored) in outputs {
            let loaded = made.iter().find(|(known, _)| *known == name).map(|(_, segment)| segment.clone());
            let loaded = loaded.filter(|_| matches!(stored, Stored::Blob(_)));
            cx.variables.put(self.node.id.as_str(), &name, stored, loaded);
        }
        Ok(())
    }
}

/// The failure of a child whose result was refused when it was prepared: a value was larger than the limit.
fn failure_of(spilled: &Spilled) -> Option<NodeFailure> {
    let Spilled { record, failed, .. } = spilled;
    failed.then(|| NodeFailure::new(record.error_type.as_str(), record.error.as_str()))
}

/// Returns true if the node continues with default values when an extraction has failed.
fn is_replaced(cx: &WorkContext<'_>) -> bool {
    matches!(cx.node().error_strategy, Some(ErrorStrategy::DefaultValue(_)))
}

fn default_of(of: &Extraction) -> Segment {
    of.default_value.clone().map_or_else(|| Segment::string(""), Segment::infer)
}

/// Notes a failed extraction in the node's record.
fn note_error(cx: &mut WorkContext<'_>, id: &str, error_type: &str, message: &str) {
    let error = json!({"child_id": id, "error_type": error_type, "message": message});
    match cx.process_data.entry("extraction_errors").or_insert_with(|| json!([])) {
        Json::Array(errors) => errors.push(error),
        other => *other = json!([error]),
    }
}

/// The run's options with `interactive` off, because a node inside another never waits for a person.
fn unattended(options: &RunOptions) -> RunOptions {
    let choices = Choices { interactive: false, ..options.choices().into_owned() };
    RunOptions { choices: Some(Box::new(choices)), ..options.clone() }
}

/// Converts the failure of a child to the failure of its parent.
fn failure_of_parent(id: &str, error: &str) -> NodeFailure {
    NodeFailure::new("VirtualNodeExecutionError", format!("Virtual node {id} execution failed: {error}"))
}

/// Returns the wait before the next try, or `None` if there is no further try.
fn next_try(
    cx: &WorkContext<'_>,
    execution: &ExecutionId,
    number: u32,
    failure: &NodeFailure,
) -> Option<Duration> {
    let node = cx.node();
    let retry = node.work.as_ref()?.child_retry;
    let is_named = node.settings.not_retryable.contains(&failure.error_type);
    if !retry.enabled || number > retry.retries_max || !failure.retryable || is_named {
        return None;
    }
    let settings = NodeSettings { honour_retry_after: true, ..node.settings.clone() };
    Some(Duration::from_millis(wait_ms(&retry, &settings, execution, number, failure.retry_after_ms)))
}
