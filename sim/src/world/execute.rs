//! Runs a job on a simulated worker: follows the script, evaluates a pure node with the engine, or gives up.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::failure::EngineErrorType;
use tidemill_common::graph::Graph;
use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::limits;
use tidemill_common::machine::state::change::{Change, ChangeLog, LogEntry, Update};
use tidemill_common::machine::state::record::Record;
use tidemill_common::machine::state::run::json_size;
use tidemill_common::nodes::iteration::item;
use tidemill_common::nodes::{
    EvaluationLimits, NodeKind, NodeResult, VariableChange, evaluate, evaluate_phase,
};
use tidemill_common::store::{Completion, Dead, Delivered, Jobs};
use tidemill_common::value::{BlobRef, Lookup, Segment, Selector, Stored, Variables, blob_text};
use tidemill_common::wire::fact::report::{JobName, Report};
use tidemill_common::wire::job::Job;
use tidemill_scheduler::shards::run_cache;

use super::shared::{Shared, at_once};
use crate::script::{AttemptName, Ending, marked};

/// The result of a job.
pub(crate) struct Result {
    /// The record that is sent.
    record: Record,
    /// Large values of the record; they must be stored before it.
    pub(crate) blobs: Vec<(BlobId, String)>,
    /// The text to stream, if a client reads it.
    pub(crate) streams: Option<(Selector, String)>,
    /// The attempt, if it was given up.
    pub(crate) gives_up: Option<AttemptName>,
}

/// Runs a job.
pub(crate) fn run(job: &Job, name: &JobName, shard: ShardId, handing_out: u64, shared: &Shared) -> Result {
    let attempt: AttemptName = (job.frame.to_string(), job.node.to_string(), job.attempt);
    if name.holder.counted() > limits::DELIVERIES_MAX {
        let record = failure("no worker sent a result", EngineErrorType::WorkerLost.name());
        return Result { record, blobs: Vec::new(), streams: None, gives_up: Some(attempt) };
    }
    let graph = at_once(run_cache::graph_of(&shared.store, &shared.workflows, job.run, &job.graph));
    let Ok(graph) = graph else { return failed("its graph is gone") };
    let Some(node) = graph.find(job.node.as_str()).map(|ix| graph.node(ix)) else {
        return failed("its node is unknown");
    };
    let mut blobs = Vec::new();
    if node.kind == NodeKind::Llm {
        let Some(plan) = shared.plans.get(&job.run) else { return failed("its run is unknown") };
        return match plan.script.ending(&attempt.0, &attempt.1, attempt.2) {
            Ending::Error(error) => failed(&error),
            Ending::Text(text) => {
                let text = marked(&text, handing_out);
                let result = NodeResult::outputs(vec![("text".into(), Segment::string(text.clone()))]);
                let record = spill(result, job, handing_out, &mut blobs);
                let selector = vec![job.node.to_string(), "text".to_string()];
                let streams = job.streams.then_some((selector, text));
                Result { record, blobs, streams, gives_up: None }
            }
        };
    }
    let Some(variables) = Loaded::new(job, shard, &graph, shared) else {
        return failed("the content of a variable is gone");
    };
    let limits = EvaluationLimits {
        undefined: job.options.template_undefined,
        missing_file_is_all: job.options.dify_ways.webhook_missing_file_is_all,
        template_chars_max: job.options.template_chars_max,
        fuel: None,
        output_bytes: None,
    };
    let result = match job.phase {
        Some(phase) => Ok(evaluate_phase(node, phase, &variables)),
        None => evaluate(node, &variables, &limits),
    };
    match result {
        Ok(NodeResult { failure: Some(failure), .. }) => failed(&failure.message),
        Ok(result) => {
            let record = spill(result, job, handing_out, &mut blobs);
            Result { record, blobs, streams: None, gives_up: None }
        }
        Err(_) => failed("it was deferred once more"),
    }
}

fn failure(error: &str, class: &str) -> Record {
    Record { error: error.to_string(), error_type: class.to_string(), ..Record::default() }
}

fn failed(error: &str) -> Result {
    Result { record: failure(error, "SimulatedError"), blobs: Vec::new(), streams: None, gives_up: None }
}

/// Builds the record of a result; large values become blobs.
fn spill(result: NodeResult, job: &Job, handing_out: u64, blobs: &mut Vec<(BlobId, String)>) -> Record {
    let mut keep = |name: &str, segment: Segment| {
        if json_size(&segment.value) <= job.options.inline_bytes_max {
            return Stored::Inline(segment);
        }
        // Each delivery has its own names, so that no blob is written twice.
        let id = BlobId::from(format!("b{handing_out}-{name}").as_str());
        let text = blob_text(&segment.value);
        let blob = BlobRef::to(id.clone(), &segment, &text);
        blobs.push((id, text));
        Stored::Blob(blob)
    };
    let outputs = result.outputs.into_iter().map(|(name, it)| (name.clone(), keep(&name, it))).collect();
    let updates = result.updates.into_iter().map(|it| {
        let name = format!("{}-{}", it.node, it.name);
        let value = keep(&name, it.value);
        let change = |(at, change): (usize, VariableChange)| {
            let operand = keep(&format!("{name}-{at}"), change.operand);
            LogEntry::One(Change { kind: change.kind, operand })
        };
        let changes = it.changes.map(|all| ChangeLog::new(all.into_iter().enumerate().map(change).collect()));
        Update { node: it.node, name: it.name, value, changes }
    });
    let updates = updates.collect();
    Record { outputs, updates, handle: result.handle, pause: result.pause, ..Record::default() }
}

impl Result {
    /// Builds the completion for the store. All text counts as streamed: the part that was not sent is in the outputs.
    pub(crate) fn completion(
        &self,
        delivered: &Delivered,
        job: &Job,
        name: &JobName,
        started_at: Timestamp,
    ) -> Completion {
        let streamed =
            self.streams.iter().map(|(selector, text)| (selector.clone(), text.len() as u64)).collect();
        let report = Report::Ended {
            started_at,
            finished_at: started_at,
            failed: !self.record.error.is_empty(),
            record: Box::new(self.record.clone()),
            streamed,
        };
        let dead = self.gives_up.as_ref().map(|_| {
            let (run, reason) = (job.run.to_string(), self.record.error.clone());
            Dead::new("job", run, reason, delivered.body.clone()).at(job.frame.clone(), job.node.clone())
        });
        Completion {
            entry: delivered.entry,
            number: delivered.number,
            run: job.run,
            kind: report.kind(),
            body: report.to_json(name),
            blobs: self.blobs.iter().map(|(id, text)| (id.clone(), text.len() as u64)).collect(),
            dead,
        }
    }
}

/// The values that a job carries, with large ones loaded.
struct Loaded<'a> {
    job: &'a Job,
    graph: &'a Graph,
    blobs: HashMap<BlobId, Segment>,
    items: HashMap<(BlobId, u64), Segment>,
}

impl<'a> Loaded<'a> {
    /// `None` when the content of a variable is gone.
    fn new(job: &'a Job, shard: ShardId, graph: &'a Graph, shared: &Shared) -> Option<Self> {
        let (mut blobs, mut items) = (HashMap::new(), HashMap::new());
        let load = |blob: &BlobRef| -> Option<Json> {
            let text = at_once(shared.store.load_blob(shard, &blob.id)).ok().flatten()?;
            serde_json::from_str(&text).ok()
        };
        for (_, _, value) in &job.inputs {
            match value {
                Stored::Blob(blob) => {
                    blobs.insert(blob.id.clone(), Segment::new(blob.ty, load(blob)?));
                }
                Stored::Item { list, at } => {
                    let list_value = load(list)?;
                    let value = usize::try_from(*at).ok().and_then(|at| list_value.get(at).cloned());
                    items.insert((list.id.clone(), *at), item(list.ty, value.unwrap_or_default()));
                }
                Stored::Inline(_) | Stored::Secret(_) => {}
            }
        }
        Some(Self { job, graph, blobs, items })
    }
}

impl Variables for Loaded<'_> {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        let found = self.job.inputs.iter().find(|(of, known, _)| of == node && known == name);
        match found {
            Some((_, _, Stored::Inline(segment))) => Lookup::Found(Cow::Borrowed(segment)),
            Some((_, _, Stored::Blob(blob))) => match self.blobs.get(&blob.id) {
                Some(segment) => Lookup::Found(Cow::Borrowed(segment)),
                None => Lookup::Missing,
            },
            Some((_, _, Stored::Item { list, at })) => match self.items.get(&(list.id.clone(), *at)) {
                Some(segment) => Lookup::Found(Cow::Borrowed(segment)),
                None => Lookup::Missing,
            },
            Some((_, _, Stored::Secret(secret))) => match self.graph.environment_variable(secret) {
                Some(variable) => Lookup::Found(Cow::Borrowed(&variable.value)),
                None => Lookup::Missing,
            },
            None => Lookup::Missing,
        }
    }

    fn names(&self) -> Vec<(String, String)> {
        self.job.inputs.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
    }
}
