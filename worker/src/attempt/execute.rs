//! Runs one attempt of a node: loads the graph and values, applies the time limit, and catches panics. Every attempt
//! sends a result, unless the job was dropped.
//!
//! A pure node with small inputs runs directly in the read loop, without task or timer. Every other node gets a task,
//! which is aborted when the job is lost.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::{Graph, Node, NodeIx};
use tidemill_common::limits;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::{
    Deferred, EvaluationLimits, NodeData, NodeResult, Phase, evaluate, evaluate_phase,
};
use tidemill_common::telemetry;
use tidemill_common::value::{Selector, Stored};
use tidemill_common::wire::job::Job;
use tracing::Instrument;

use crate::attempt::executor::{Attempt, AttemptName, Executor, NodeExecutor, executor_for};
use crate::attempt::journal::Journal;
use crate::attempt::own_files::OwnFiles;
use crate::attempt::progress::{Progress, SharedProgress, sending_pieces};
use crate::attempt::spill::{Sizes, Spilled, spill, store};
use crate::attempt::stages;
use crate::attempt::time_left;
use crate::attempt::variables::JobVariables;
use crate::host;
use crate::jobs::handle::JobHandle;
use crate::jobs::shared::now;
use crate::metrics;
use crate::nodes::code;
use crate::outside::Outside;
use crate::setup::pass_on;

/// Largest job body, in bytes, that the read loop evaluates directly. Larger ones would block the loop.
const ON_THE_SPOT_BYTES_MAX: usize = 16 * 1024;
/// Fuel of a pure node in the read loop, about one unit per instruction: some ten seconds. A time limit cannot
/// interrupt a computation.
const FUEL: u64 = 1_000_000_000;
/// Error type of a failure by timeout.
const TIMEOUT: &str = EngineErrorType::Timeout.name();

/// Starts a job: evaluates a small one at once, any other in a task.
pub(crate) fn start(handle: JobHandle, job: Job, body_bytes: usize) {
    let graph = handle.core.workflows.find(&job.graph);
    let (spilled, kind) = match graph {
        Some(graph) if body_bytes <= ON_THE_SPOT_BYTES_MAX => match on_the_spot(&handle, job, graph) {
            Ok(done) => done,
            Err(job) => return in_a_task(handle, *job),
        },
        Some(_) | None => return in_a_task(handle, job),
    };
    note_end(&handle, kind, spilled.failed);
    if spilled.blobs.is_empty() {
        return handle.report_result(spilled, Vec::new());
    }
    spawn(handle.clone(), async move { store_and_bring(&handle, spilled, Vec::new()).await });
}

fn in_a_task(handle: JobHandle, job: Job) {
    spawn(handle.clone(), time_left::attempt(handle, job));
}

/// Spawns an abortable task that reports a failure when it panics.
fn spawn(handle: JobHandle, work: impl Future<Output = ()> + Send + 'static) {
    let guarded = handle.clone();
    // The run and the node are in every line that the job writes.
    let span = tracing::info_span!("job", run = %handle.run, node = %handle.name.node);
    let guarded = async move {
        if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
            note_end(&guarded, "unknown", true);
            guarded.report_result(panicked(&guarded, &*panic), Vec::new());
        }
    };
    let task = tokio::spawn(guarded.instrument(span));
    handle.core.in_flight.attach(&handle.place, handle.number, task.abort_handle());
}

/// Evaluates a pure node directly. Returns the job when it must run in a task.
fn on_the_spot(
    handle: &JobHandle,
    mut job: Job,
    graph: Arc<Graph>,
) -> Result<(Spilled, &'static str), Box<Job>> {
    let has_blobs =
        job.inputs.iter().any(|(_, _, value)| matches!(value, Stored::Blob(_) | Stored::Item { .. }));
    let node = graph.find(job.node.as_str());
    let (Some(ix), false) = (node, has_blobs) else { return Err(Box::new(job)) };
    let executor = executor_for(graph.node(ix), &handle.core.hosts);
    if graph.node(ix).work.is_some() || !matches!(executor, Some(Executor::Pure)) {
        return Err(Box::new(job));
    }
    let variables = JobVariables::new(std::mem::take(&mut job.inputs), graph.clone());
    let node = graph.node(ix);
    let work = || {
        let result = at_once(node, &variables, job.phase, &job.options)?;
        Ok(spill(result, Some(&variables), sizes(handle, &job.options)))
    };
    let spilled = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(spilled)) => spilled,
        Ok(Err(Deferred)) => {
            job.inputs = variables.into_inputs();
            return Err(Box::new(job));
        }
        Err(panic) => panicked(handle, &*panic),
    };
    Ok((spilled, node.kind.wire()))
}

/// Evaluates a pure node with small values, within limits that keep the read loop moving.
fn at_once(
    node: &Node,
    variables: &JobVariables,
    phase: Option<Phase>,
    options: &RunOptions,
) -> Result<NodeResult, Deferred> {
    let limits = EvaluationLimits {
        output_bytes: Some(limits::PURE_OUTPUT_BYTES_MAX),
        ..limits_of(options, limits::PURE_FUEL)
    };
    match phase {
        Some(phase) => Ok(evaluate_phase(node, phase, variables)),
        None => evaluate(node, variables, &limits),
    }
}

/// Runs one attempt in its own task.
pub(super) async fn attempt(handle: JobHandle, job: Job) {
    let core = handle.core.clone();
    let (options, streams) = (job.options.clone(), job.streams);
    let known = core.workflows.find(&job.graph);
    let graph = match known {
        Some(graph) => Ok(graph),
        None => core.workflows.get(handle.place.shard, &job.graph).await,
    };
    let found = graph.and_then(|graph| match graph.find(job.node.as_str()) {
        Some(ix) => Ok((graph, ix)),
        None => Err(unknown_node(&job)),
    });
    let (graph, ix) = match found {
        Ok(found) => found,
        Err(mut failure) => {
            if pass_on::failure_is_for_another(&handle, None, &mut failure).await {
                return pass_on::pass(&handle, None, Some(&failure)).await;
            }
            note_end(&handle, "unknown", true);
            return handle.report_result(failed(failure), Vec::new());
        }
    };
    if graph.node(ix).work.is_some() {
        return stages::attempt(handle, job, graph, ix).await;
    }
    let node = graph.node(ix);
    let executor = executor_for(node, &handle.core.hosts);
    let progress = progress(&handle, (&graph, node), executor, streams);
    let work = sending_pieces(&progress, run(&handle, job, graph.clone(), ix, executor, &progress));
    let limit = limit_of(&handle, node);
    let (result, variables) = match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => (timed_out(node, limit), None),
    };
    finish(&handle, node, (result, variables), &options, Some(&progress)).await;
}

/// The time limit for one attempt of a node.
pub(crate) fn limit_of(handle: &JobHandle, node: &Node) -> Duration {
    let own = node.settings.execution_timeout_ms;
    own.map_or(handle.core.settings.execution_max, Duration::from_millis)
}

/// Sends the result of an attempt.
pub(crate) async fn finish(
    handle: &JobHandle,
    node: &Node,
    (mut result, variables): (NodeResult, Option<JobVariables>),
    options: &RunOptions,
    progress: Option<&SharedProgress>,
) {
    if pass_on::is_for_another(handle, node, &mut result).await {
        return pass_on::pass(handle, Some(node), result.failure.as_ref()).await;
    }
    let is_in_outputs = progress.is_some_and(|progress| progress.lock().is_in(&result));
    let mut spilled = spill(result, variables.as_ref(), sizes(handle, options));
    spilled.record.passing &= node.settings.passing_only;
    drop(variables);
    let streamed = progress.map(|progress| streamed(progress, &spilled, is_in_outputs)).unwrap_or_default();
    note_end(handle, node.kind.wire(), spilled.failed);
    store_and_bring(handle, spilled, streamed).await;
}

/// Returns the byte count of each streamed text. Text that was not sent yet is left to the outputs, if the attempt
/// succeeded and the outputs are inline.
pub(crate) fn streamed(
    progress: &SharedProgress,
    spilled: &Spilled,
    is_in_outputs: bool,
) -> Vec<(Selector, u64)> {
    let mut progress = progress.lock();
    if spilled.failed || !spilled.blobs.is_empty() || !is_in_outputs {
        progress.flush();
    }
    progress.streamed()
}

fn progress(
    handle: &JobHandle,
    of: (&Graph, &Node),
    executor: Option<Executor>,
    streams: bool,
) -> SharedProgress {
    SharedProgress::new(progress_of(handle, of, executor, streams))
}

/// The progress reporter of a running node.
pub(crate) fn progress_of(
    handle: &JobHandle,
    (graph, node): (&Graph, &Node),
    executor: Option<Executor>,
    streams: bool,
) -> Progress {
    let output = match executor {
        Some(Executor::Outside(executor)) if streams && node.data.streams() => executor.streamed_output(),
        Some(Executor::Outside(_) | Executor::Pure | Executor::Hosted) | None => None,
    };
    let selector: Option<Selector> = output.map(|output| vec![node.id.as_str().into(), output.into()]);
    let reports = handle.core.reporter.of(handle.place.shard);
    let gather = handle.core.settings.chunk_gather;
    let progress =
        Progress::new(reports, handle.run, handle.name.clone(), handle.started_at, selector, gather);
    let progress = match executor {
        Some(Executor::Hosted) if streams && node.data.streams() => progress.of_host(node.id.as_str()),
        _ => progress,
    };
    progress.cutting_none_of(graph.hidden.clone())
}

/// Loads the values, then runs the node.
async fn run(
    handle: &JobHandle,
    job: Job,
    graph: Arc<Graph>,
    ix: NodeIx,
    executor: Option<Executor>,
    progress: &SharedProgress,
) -> (NodeResult, Option<JobVariables>) {
    let name = AttemptName { run: job.run, execution: job.execution, number: job.attempt };
    let Job { inputs, options, phase, .. } = job;
    let mut variables = JobVariables::new(inputs, graph.clone());
    if let Err(failure) =
        variables.load(&*handle.core.jobs, &handle.core.list_cache, handle.place.shard).await
    {
        return (NodeResult::failed(failure), Some(variables));
    }
    let doing = Doing { handle, ix, executor, phase, options: &options, name, journal: None, progress };
    execute(doing, variables).await
}

/// Everything needed to run a node whose values are loaded.
#[derive(Clone, Copy)]
pub(crate) struct Doing<'a> {
    pub(crate) handle: &'a JobHandle,
    pub(crate) ix: NodeIx,
    pub(crate) executor: Option<Executor>,
    pub(crate) phase: Option<Phase>,
    pub(crate) options: &'a RunOptions,
    pub(crate) name: AttemptName,
    /// Set when the journal is not the job's own.
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) progress: &'a SharedProgress,
}

/// Runs the node's own call.
pub(crate) async fn execute(doing: Doing<'_>, variables: JobVariables) -> (NodeResult, Option<JobVariables>) {
    let Doing { ix, executor, phase, options, .. } = doing;
    let graph = variables.graph().clone();
    match executor {
        Some(Executor::Pure) => {
            // Items of a large list are mostly small. Starting a thread would cost more than evaluating them.
            if variables.fits(ON_THE_SPOT_BYTES_MAX)
                && let Ok(result) = at_once(graph.node(ix), &variables, phase, options)
            {
                return (result, Some(variables));
            }
            aside(variables, ix, phase, options.clone()).await
        }
        Some(Executor::Outside(executor)) => {
            let node = graph.node(ix);
            let result = outside(doing, executor, node, &variables).await;
            (result, Some(variables))
        }
        Some(Executor::Hosted) => {
            let node = graph.node(ix);
            let Some(executor) = doing.handle.core.hosts.find(node) else {
                return (
                    NodeResult::failed(NodeFailure::escaped("the host has no executor")),
                    Some(variables),
                );
            };
            let result = host::dispatch::run(doing, &**executor, node, &variables).await;
            (result, Some(variables))
        }
        None => {
            let kind = graph.node(ix).kind.wire();
            let message = format!("this worker cannot run nodes of type {kind}; use a newer version");
            let failure = NodeFailure::new(EngineErrorType::Engine.name(), message);
            (NodeResult::failed(failure), Some(variables))
        }
    }
}

async fn outside(
    doing: Doing<'_>,
    executor: &dyn NodeExecutor,
    node: &Node,
    variables: &JobVariables,
) -> NodeResult {
    let Doing { handle, options, name, progress, .. } = doing;
    let own;
    let journal = match doing.journal {
        Some(journal) => journal,
        None => {
            own = Journal::new(handle, name.execution).hiding(variables.secrets());
            &own
        }
    };
    let mut on_delta = |text: &str| progress.lock().push(text);
    let mut on_thought = |text: &str, last: bool| progress.lock().think(text, last);
    let on_piece = &|output: &str, text: &str| progress.lock().push_to(output, text);
    let flush = &|| progress.lock().send_pending();
    let Outside { providers, http, files, tools, plugins: _, knowledge, calls, extensions } =
        &handle.core.outside;
    let (code, documents) = (&handle.core.code, &handle.core.documents);
    let (on_delta, on_thought) = (&mut on_delta, &mut on_thought);
    let files = &OwnFiles::new(&**files, &*handle.core.jobs, name.run);
    let attempt = Attempt {
        node,
        graph: variables.graph(),
        variables,
        options,
        providers,
        http,
        files,
        code,
        documents,
        journal,
        name,
        app: handle.app.as_deref().unwrap_or(&variables.graph().hash.0),
        on_delta,
        on_thought,
        tools,
        knowledge,
        calls,
        extensions,
        on_piece,
        flush,
        prompt_bytes_max: handle.core.settings.prompt_bytes_max,
        answers: handle.core.settings.answers,
    };
    let mut result = executor.run(attempt).await;
    if let NodeData::Code(data) = &node.data
        && let Some(need) = code::met(data, &result)
    {
        handle.core.setup.met(&need);
    }
    journal.list_possible_duplicates(&mut result.process_data);
    result.wasted = result.wasted.or_else(|| journal.take_wasted());
    result.warnings.extend(journal.take_warnings());
    result
}

/// Evaluates a pure node on a blocking thread, because it may take long.
async fn aside(
    variables: JobVariables,
    ix: NodeIx,
    phase: Option<Phase>,
    options: RunOptions,
) -> (NodeResult, Option<JobVariables>) {
    let work = move || {
        let graph = variables.graph().clone();
        let result = match phase {
            Some(phase) => Ok(evaluate_phase(graph.node(ix), phase, &variables)),
            None => evaluate(graph.node(ix), &variables, &limits_of(&options, FUEL)),
        };
        (result.unwrap_or_else(|Deferred| out_of_fuel(graph.node(ix))), Some(variables))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down, so nothing could send the result.
            Err(_) => std::future::pending().await,
        },
    }
}

async fn store_and_bring(handle: &JobHandle, spilled: Spilled, streamed: Vec<(Selector, u64)>) {
    match store(&*handle.core.jobs, handle.place.shard, &spilled.blobs).await {
        Ok(()) => handle.report_result(spilled, streamed),
        Err(error) => {
            let message = format!("a large value of the node cannot be stored: {error}");
            handle.report_result(failed(NodeFailure::new(EngineErrorType::Engine.name(), message)), streamed);
        }
    }
}

pub(crate) fn sizes(handle: &JobHandle, options: &RunOptions) -> Sizes {
    Sizes { inline_max: options.inline_bytes_max, value_max: handle.core.settings.value_bytes_max }
}

fn limits_of(options: &RunOptions, fuel: u64) -> EvaluationLimits {
    EvaluationLimits {
        undefined: options.template_undefined,
        missing_file_is_all: options.dify_ways.webhook_missing_file_is_all,
        template_chars_max: options.template_chars_max,
        fuel: Some(fuel),
        output_bytes: None,
    }
}

pub(super) fn note_end(handle: &JobHandle, kind: &'static str, failed: bool) {
    metrics::JOBS_ENDED.count_for(if failed { "failed" } else { "succeeded" });
    metrics::JOB_SECONDS.record_for(kind, now().seconds_since(handle.started_at));
}

fn unknown_node(job: &Job) -> NodeFailure {
    let message = format!("workflow version {} has no node {:?}", job.graph, job.node.as_str());
    NodeFailure::new(EngineErrorType::Engine.name(), message)
}

pub(crate) fn timed_out(node: &Node, limit: Duration) -> NodeResult {
    let setting = match node.settings.execution_timeout_ms {
        Some(_) => "execution_timeout_ms of the node",
        None => "worker.execution_seconds_max",
    };
    let message = format!("node {} did not end within {} ms ({setting})", node.id, limit.as_millis());
    NodeResult::failed(NodeFailure::passing(TIMEOUT, message))
}

fn out_of_fuel(node: &Node) -> NodeResult {
    let message = format!("node {} needs more than {FUEL} steps of computation", node.id);
    NodeResult::failed(NodeFailure::new(TIMEOUT, message))
}

/// A failure without any other content.
pub(super) fn failed(failure: NodeFailure) -> Spilled {
    let sizes = Sizes { inline_max: usize::MAX, value_max: usize::MAX };
    spill(NodeResult::failed(failure), None, sizes)
}

fn panicked(handle: &JobHandle, panic: &(dyn Any + Send)) -> Spilled {
    metrics::PANICS.count();
    let (node, said) = (&handle.name.node, telemetry::panic_message(panic));
    tracing::error!(run = %handle.run, %node, said, "the worker panicked while running a node");
    let message =
        format!("the worker panicked while running node {node}, which is a bug; its log has details");
    failed(NodeFailure::new(EngineErrorType::WorkerPanic.name(), message))
}
