//! Runs a node's job that has more than the node's own call: stages before and after the call, in a fixed order. A node
//! without [`Work`](tidemill_common::graph::Work) never comes here.
//!
//! A stage may add variables ([`WorkContext::variables`]) and record data, end the node without its call, or park the
//! job. A worker that takes the job up again runs all stages again. So a stage does what must not be repeated as a
//! journal entry ([`Journal`]) with its own key.
//!
//! To add a stage, add a file here and a row in [`STAGES`].

pub(crate) mod approval;
mod by_model;
mod children;
mod ended;
mod found_tool;
mod hooks;
mod slots;

use std::sync::Arc;

use tidemill_common::graph::{Graph, Node, NodeIx};
use tidemill_common::ids::FramePath;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::NodeResult;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::job::{EndedBefore, Job};
use tokio::time::{Instant, timeout_at};

use crate::attempt::execute::{Doing, execute, finish, limit_of, progress_of, timed_out};
use crate::attempt::executor::{AttemptName, executor_for};
use crate::attempt::journal::Journal;
use crate::attempt::own_files::OwnFiles;
use crate::attempt::progress::{SharedProgress, sending_pieces};
use crate::attempt::stages::hooks::EndedBy;
use crate::attempt::variables::JobVariables;
use crate::jobs::handle::JobHandle;
use crate::jobs::shared::now;
use crate::setup::pass_on;

/// The stages: before the call they run in this order, after it in reverse.
static STAGES: &[&dyn Stage] =
    &[&hooks::Hooks, &children::Children, &slots::SlotStage, &approval::ApprovalStage, &by_model::Answering];

/// A part of a job besides the node's own call.
#[async_trait::async_trait]
pub(crate) trait Stage: Sync {
    /// Runs before the call.
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let _ = cx;
        Flow::On
    }
    /// Runs after the call, also when it failed or when a stage ended the node without it.
    async fn after(&self, cx: &mut WorkContext<'_>, result: &mut NodeResult) {
        let _ = (cx, result);
    }
}

/// Tells the job to continue or to end.
pub(crate) enum Flow {
    /// Continue with the next stage.
    On,
    /// End the node with this result, without its call.
    End(Box<NodeResult>),
}

/// The context of the stages.
pub(crate) struct WorkContext<'a> {
    pub(crate) handle: &'a JobHandle,
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) ix: NodeIx,
    pub(crate) frame: &'a FramePath,
    pub(crate) options: &'a RunOptions,
    pub(crate) name: AttemptName,
    /// The variables the node will read; stages add to them.
    pub(crate) variables: JobVariables,
    /// The job's journal.
    pub(crate) journal: &'a Journal,
    /// The file storage, for this run.
    pub(crate) files: OwnFiles<'a>,
    /// Data the stages add to the node's record.
    pub(crate) process_data: JsonMap,
}

impl WorkContext<'_> {
    /// Returns the node of the job.
    pub(crate) fn node(&self) -> &Node {
        self.graph.node(self.ix)
    }
}

/// Runs one attempt of a node with stages.
pub(crate) async fn attempt(handle: JobHandle, job: Job, graph: Arc<Graph>, ix: NodeIx) {
    let node = graph.node(ix);
    let limit = limit_of(&handle, node);
    let ends_at = Instant::now() + limit;
    let name = AttemptName { run: job.run, execution: job.execution, number: job.attempt };
    let Job { inputs, options, phase, frame, streams, ended, .. } = job;
    let spare = if ended.is_none() { ended::needed(node, &inputs) } else { None };
    let variables = JobVariables::new(inputs, graph.clone());
    let journal = &Journal::new(&handle, name.execution).hiding(variables.secrets());
    let context = |variables| WorkContext {
        handle: &handle,
        graph: &graph,
        ix,
        frame: &frame,
        options: &options,
        name,
        variables,
        journal,
        files: OwnFiles::new(&*handle.core.outside.files, &*handle.core.jobs, name.run),
        process_data: JsonMap::new(),
    };
    let in_vain = async || {
        let result = timed_out(node, limit);
        if let Some(inputs) = spare {
            ended::out_of_time(context(JobVariables::new(inputs, graph.clone())), &result).await;
        }
        (result, None)
    };
    let mut cx = match timeout_at(ends_at, before(context(variables), ended)).await {
        Ok(Ok(cx)) => cx,
        Ok(Err(ended)) => {
            let (result, variables) = *ended;
            return finish(&handle, node, (result, Some(variables)), &options, None).await;
        }
        Err(_) => return finish(&handle, node, in_vain().await, &options, None).await,
    };
    // The stages before are reported; the node itself starts now.
    let own = JobHandle { started_at: now(), ..handle.clone() };
    let executor = executor_for(node, &handle.core.hosts);
    let progress = SharedProgress::new(progress_of(&own, (&graph, node), executor, streams));
    let doing = Doing {
        handle: &own,
        ix,
        executor,
        phase,
        options: &options,
        name,
        journal: None,
        progress: &progress,
    };
    journal.list_possible_duplicates(&mut cx.process_data);
    let ended = match timeout_at(ends_at, call(cx, doing)).await {
        Ok(ended) => ended,
        Err(_) => in_vain().await,
    };
    finish(&own, node, ended, &options, Some(&progress)).await;
}

/// Loads the values and runs the stages before the call. An error is the result of a node that ends without its call.
async fn before(
    mut cx: WorkContext<'_>,
    ended: Option<EndedBefore>,
) -> Result<WorkContext<'_>, Box<(NodeResult, JobVariables)>> {
    let core = &cx.handle.core;
    if let Err(failure) = cx.variables.load(&*core.jobs, &core.list_cache, cx.handle.place.shard).await {
        return Err(Box::new((NodeResult::failed(failure), cx.variables)));
    }
    if let Some(ended) = ended {
        let mut result = ended::after_end(&mut cx, ended, EndedBy::NoWorker).await;
        show(&mut result, std::mem::take(&mut cx.process_data));
        return Err(Box::new((result, cx.variables)));
    }
    for stage in STAGES {
        if let Flow::End(mut result) = stage.before(&mut cx).await {
            if pass_on::is_for_another(cx.handle, cx.graph.node(cx.ix), &mut result).await {
                return Err(Box::new((*result, cx.variables)));
            }
            after(&mut cx, &mut result).await;
            return Err(Box::new((*result, cx.variables)));
        }
    }
    Ok(cx)
}

/// Makes the node's own call, and runs the stages after it.
async fn call(mut cx: WorkContext<'_>, doing: Doing<'_>) -> (NodeResult, Option<JobVariables>) {
    let variables = cx.variables.take(cx.graph);
    let (mut result, variables) = sending_pieces(doing.progress, execute(doing, variables)).await;
    if let Some(variables) = variables {
        cx.variables = variables;
    }
    if pass_on::is_for_another(cx.handle, cx.graph.node(cx.ix), &mut result).await {
        // The node has not ended: another worker runs it with its stages.
        return (result, Some(cx.variables));
    }
    after(&mut cx, &mut result).await;
    (result, Some(cx.variables))
}

/// Runs the stages after the call, and adds their data to the record.
async fn after(cx: &mut WorkContext<'_>, result: &mut NodeResult) {
    for stage in STAGES.iter().rev() {
        stage.after(cx, result).await;
    }
    result.warnings.extend(cx.journal.take_warnings());
    show(result, std::mem::take(&mut cx.process_data));
}

/// Adds the stages' data to the record.
fn show(result: &mut NodeResult, process_data: JsonMap) {
    for (key, value) in process_data {
        result.process_data.entry(key).or_insert(value);
    }
}
