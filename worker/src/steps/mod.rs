//! Steps of a job: what must not be done twice when the job is handed out again. A step begins with a mark in the run's
//! journal and ends with its result there; the fact that tells of it is written with the result, or neither is.
//!
//! A job without steps pays nothing for this. A job that was taken away meanwhile learns it at its next step and ends
//! there: none of these calls return then, the job's task is stopped.

mod calls;
mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, Place};
use tidemill_common::ids::{BlobId, ExecutionId, NodeId, RunId};
use tidemill_common::limits::STEP_INLINE_BYTES_MAX;
use tidemill_common::machine::events::StepEvent;
use tidemill_common::machine::fact::{Charge, ChildEvent};
use tidemill_common::machine::run::json_size;
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::{Usage, Wasted};
use tidemill_common::store::{Jobs, JournalOf, StepBegin, StepKept, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::wire::report::Report;

use crate::backoff::Backoff;
use crate::hand::Hand;
use crate::metrics;
use crate::spill;

pub(crate) use calls::ToolSteps;
pub use waiting::{CallEnd, PauseEnd};

/// The one field of what stands in the journal for a result that lies apart: the blob. No result of ours has it.
const APART: &str = "$apart";

/// What tells of a call that it may have been made twice.
pub(crate) const DOUBLED: &str = "possible_duplicate";
/// The step in which a call makes its input.
pub(crate) const INIT: &str = "init";

/// How often the journal is asked that answers with nonsense.
const NONSENSE_MAX: u32 = 3;

/// What is known of a step when it is its turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// It was done before; this came of it, and it is told and charged already.
    Known(Json),
    /// It is to be done now.
    Try(Try),
}

/// A try of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// Its number, from 1. A job that is handed out again goes on with the try that was under way.
    pub number: u32,
    /// Somebody has begun this very try and not told what came of it.
    pub possible_duplicate: bool,
    /// Somebody has begun this very try, and perhaps put it down on purpose.
    pub was_begun: bool,
    /// What its calls carry as `Idempotency-Key`, where the other side takes one.
    pub idempotency_key: String,
}

impl Try {
    /// The one try of what has no journal.
    pub fn alone(key: &str) -> Self {
        Self { number: 1, possible_duplicate: false, was_begun: false, idempotency_key: key.to_owned() }
    }
}

/// What a step tells.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Events, in order.
    pub events: Vec<(StepEvent, JsonMap)>,
    /// What it cost, and who spent it.
    pub charge: Option<(Usage, Spender)>,
}

/// Who spent what a step cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spender {
    /// A model: the provider as the workflow names it, the model's name.
    Model(String, String),
    /// A run that was called.
    Run(RunId),
    /// Whatever a tool had done.
    Tool,
}

impl Spender {
    /// Who has spent what a call of a tool cost: the run that it called, if it called one.
    pub fn of_tool(run: Option<RunId>) -> Self {
        run.map_or(Self::Tool, Self::Run)
    }
}

/// The steps of one job. A node is given this with its attempt.
pub struct Steps {
    hand: Hand,
    of: JournalOf,
    wait_max: Duration,
    /// Set for the steps of a node that runs inside the job.
    inside: Option<Inside>,
    /// Steps of the job that were under way when the node inside it began: it waits when that does.
    around: Vec<(JournalOf, String)>,
    /// What neither the journal nor events have in the clear.
    secrets: Secrets,
    begun: Mutex<Tries>,
    /// What was paid for replies that broke off.
    wasted: Mutex<Option<Box<Wasted>>>,
}

/// Tries of steps that this has begun.
#[derive(Default)]
struct Tries {
    /// Those without a result yet.
    open: Vec<String>,
    /// Those whose call may have been made twice.
    doubled: Vec<String>,
}

/// A try of a node that runs inside a job: what is told of it is told as the child's.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    /// The node.
    pub(crate) child: NodeId,
    /// Which try of it.
    pub(crate) number: u32,
    /// When it began.
    pub(crate) began: Timestamp,
}

impl Inside {
    /// What happened to the child, as its job tells it.
    pub(crate) fn report(&self, what: ChildEvent) -> Report {
        Report::Child { started_at: self.began, child: self.child.clone(), number: self.number, what }
    }
}

impl Steps {
    pub(crate) fn new(hand: &Hand, execution: ExecutionId) -> Self {
        let of = JournalOf {
            shard: hand.place.shard,
            queue: hand.place.queue.clone(),
            entry: hand.place.entry,
            number: hand.number,
            consumer: hand.core.consumer.clone(),
            run: hand.run,
            execution,
            attempt: hand.name.attempt,
        };
        let wait_max = hand.core.settings.job_wait_max;
        let (begun, wasted) = (Mutex::default(), Mutex::default());
        let (secrets, around) = (Secrets::default(), Vec::new());
        Self { hand: hand.clone(), of, wait_max, inside: None, around, secrets, begun, wasted }
    }

    /// Of a job that was given these secrets.
    pub(crate) fn hiding(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// The secrets that the job was given.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The steps of a node that runs inside this job. `attempt` counts its tries over all attempts of its parent.
    pub(crate) fn inside(&self, execution: ExecutionId, attempt: u32, inside: Inside) -> Self {
        let open = self.tries().open.clone();
        let around = open.into_iter().map(|step| (self.of.clone(), step)).collect();
        let of = JournalOf { execution, attempt, ..self.of.clone() };
        let (hand, secrets, wait_max) = (self.hand.clone(), self.secrets.clone(), self.wait_max);
        let (begun, wasted) = (Mutex::default(), Mutex::default());
        Self { hand, of, wait_max, inside: Some(inside), around, secrets, begun, wasted }
    }

    /// Begins a step. `step` is unique within the node: `llm:1`, `tool:<call>`, ….
    pub async fn begin(&self, step: &str) -> Begun {
        match self.ask(step, false).await {
            StepBegin::Begin { attempt, possible_duplicate, was_begun } => {
                let the_try = self.the_try(step, attempt, possible_duplicate);
                Begun::Try(Try { was_begun, ..the_try })
            }
            StepBegin::Known { result, possible_duplicate } => {
                if possible_duplicate {
                    self.note_doubled(step);
                }
                match serde_json::from_str(&result) {
                    Ok(kept) => Begun::Known(self.secrets.opened(self.brought(step, kept).await)),
                    Err(error) => {
                        // Written by nobody of ours.
                        tracing::error!(run = %self.of.run, step, %error, "the journal has no result but something else");
                        self.lost().await
                    }
                }
            }
            StepBegin::NotYours => self.lost().await,
        }
    }

    /// Begins another try of a step whose try has failed.
    pub async fn again(&self, step: &str) -> Begun {
        match self.ask(step, true).await {
            StepBegin::Begin { attempt, .. } => Begun::Try(self.the_try(step, attempt, false)),
            StepBegin::Known { .. } | StepBegin::NotYours => self.begin(step).await,
        }
    }

    /// What the journal has, with a result that lies apart in place of what stands for it.
    async fn brought(&self, step: &str, kept: Json) -> Json {
        let only = kept.as_object().filter(|map| map.len() == 1);
        // For one step it had another name before.
        let of_call = |map: &JsonMap| map.get("apart").filter(|_| step == "call").cloned();
        let apart = only.and_then(|map| map.get(APART).cloned().or_else(|| of_call(map)));
        let apart = apart.as_ref().and_then(Json::as_str);
        let Some(id) = apart.map(BlobId::from) else { return kept };
        let text = self.blob(&id).await;
        match text.as_deref().map(serde_json::from_str) {
            Some(Ok(result)) => result,
            // It goes with its run, and whoever holds a job of a run that is gone learns it here.
            Some(Err(_)) | None => {
                tracing::error!(run = %self.of.run, step, blob = %id, "a result that lies apart from the journal is gone");
                self.lost().await
            }
        }
    }

    /// Keeps the result of a step; when this returns it will not be done again, and it is told and charged once.
    /// `number` is that of the try that succeeded.
    pub async fn record(&self, step: &str, number: u32, result: &Json, told: Told) {
        let report = self.told(step, number, told);
        self.keep(step, result, report, &[]).await;
    }

    fn told(&self, step: &str, number: u32, told: Told) -> Report {
        let Told { mut events, charge } = told;
        if self.is_doubled(step) {
            for (_, data) in events.iter_mut().filter(|(what, _)| ends_a_call(*what)) {
                data.insert(DOUBLED.into(), true.into());
            }
        }
        let charge = charge.map(|(usage, by)| {
            let (model, run) = match by {
                Spender::Model(provider, model) => ((provider, model), None),
                Spender::Run(run) => (Default::default(), Some(run)),
                Spender::Tool => Default::default(),
            };
            Box::new(Charge { key: format!("{step}/{number}"), usage, model, run })
        });
        self.report(events, charge)
    }

    /// As [`Self::record`], of a result that may be large: then it lies apart.
    pub async fn record_large(&self, step: &str, number: u32, result: Json, told: Told) {
        if json_size(&result) <= STEP_INLINE_BYTES_MAX {
            return self.record(step, number, &result, told).await;
        }
        let text = match self.secrets.are_none() {
            true => result.to_string(),
            false => self.secrets.sealed(result).to_string(),
        };
        let id = BlobId::generate();
        let kept = json!({APART: id.as_str()});
        let report = self.told(step, number, told);
        self.keep(step, &kept, report, &[(id, text)]).await;
    }

    /// As [`Self::record`], with whatever tells of it, and with large values that lie apart.
    pub(crate) async fn keep(&self, step: &str, result: &Json, report: Report, blobs: &[(BlobId, String)]) {
        let (kind, fact) = (report.kind(), report.to_json(&self.hand.name));
        let result = match self.secrets.are_none() {
            true => result.to_string(),
            false => self.secrets.sealed(result.clone()).to_string(),
        };
        let sizes: Vec<(BlobId, u64)> =
            blobs.iter().map(|(id, text)| (id.clone(), text.len() as u64)).collect();
        // What was told of its beginning stands before its end.
        self.hand.core.lanes.of(self.of.shard).passed().await;
        crash::pass(Place::StepMade);
        let record = || self.jobs().record_step(&self.of, step, &result, (kind, &fact), &sizes);
        loop {
            if let Err(error) = spill::store(self.jobs(), self.of.shard, blobs).await {
                tracing::error!(run = %self.of.run, step, %error, "a large value of a step cannot be stored; the job is left to others");
                return self.lost().await;
            }
            match self.until_answered(record).await {
                StepKept::Kept => {
                    self.tries().open.retain(|open| open != step);
                    metrics::STEPS.count();
                    crash::pass(Place::StepKept);
                    return;
                }
                StepKept::BlobGone => {}
                StepKept::NotYours => return self.lost().await,
            }
        }
    }

    fn report(&self, events: Vec<(StepEvent, JsonMap)>, charge: Option<Box<Charge>>) -> Report {
        let events = self.hidden(events);
        match &self.inside {
            None => Report::Step { started_at: self.hand.started_at, events, charge },
            Some(inside) => inside.report(ChildEvent::Step { events, charge }),
        }
    }

    /// Tells something that needs no memory, before whatever is recorded later: it may be told again when the job is handed out again.
    pub fn tell(&self, events: Vec<(StepEvent, JsonMap)>) {
        let report = self.report(events, None);
        let lane = self.hand.core.lanes.of(self.of.shard);
        lane.report(self.of.run, report.kind(), report.to_json(&self.hand.name));
    }

    /// How often a person is asked for what the input of a step lacks.
    pub(crate) fn parameter_rounds_max(&self) -> u32 {
        self.hand.core.settings.parameter_rounds_max
    }

    /// How long pieces of text are gathered.
    pub(crate) fn chunk_gather(&self) -> Duration {
        self.hand.core.settings.chunk_gather
    }

    /// Whether what is told now would have to wait.
    pub(crate) fn lane_is_busy(&self) -> bool {
        self.hand.core.lanes.of(self.of.shard).is_busy()
    }

    /// Longest prompt of a step, in bytes.
    pub(crate) fn prompt_bytes_max(&self) -> usize {
        self.hand.core.settings.prompt_bytes_max
    }

    /// The text of a blob of the shard; none when it is gone.
    pub(crate) async fn blob(&self, id: &BlobId) -> Option<String> {
        self.until_answered(|| self.jobs().load_blob(self.of.shard, id)).await
    }

    fn hidden(&self, events: Vec<(StepEvent, JsonMap)>) -> Vec<(StepEvent, JsonMap)> {
        if self.secrets.are_none() {
            return events;
        }
        events.into_iter().map(|(what, data)| (what, self.secrets.hidden_in(data))).collect()
    }

    fn the_try(&self, step: &str, number: u32, possible_duplicate: bool) -> Try {
        if possible_duplicate {
            tracing::info!(run = %self.of.run, node = %self.hand.name.node, step, number, "a try goes on that was begun before; its call may be made twice");
        }
        let mut tries = self.tries();
        if !tries.open.iter().any(|open| open == step) {
            tries.open.push(step.to_owned());
        }
        drop(tries);
        if possible_duplicate {
            self.note_doubled(step);
        }
        let idempotency_key = format!("{}:{step}:{number}", self.of.execution);
        Try { number, possible_duplicate, was_begun: possible_duplicate, idempotency_key }
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was paid for a reply that broke off: the end of the node tells it.
    pub(crate) fn waste(&self, provider: &str, model: &str, usage: Usage) {
        let mut wasted = self.wasted.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = wasted.take().map_or_else(|| usage.clone(), |so_far| usage::sum(&so_far.usage, &usage));
        *wasted = Some(Box::new(Wasted { provider: provider.to_owned(), model: model.to_owned(), usage }));
    }

    /// All of that, once.
    pub(crate) fn take_wasted(&self) -> Option<Box<Wasted>> {
        self.wasted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes of a step that its call may have been made twice.
    fn note_doubled(&self, step: &str) {
        if goes_outside(step) && !self.is_doubled(step) {
            self.tries().doubled.push(step.to_owned());
        }
    }

    /// Whether the call of a step that was begun here, or found recorded, may have been made twice.
    pub(crate) fn is_doubled(&self, step: &str) -> bool {
        self.tries().doubled.iter().any(|known| known == step)
    }

    /// Shows in a record which calls may have been made twice.
    pub(crate) fn show_doubled(&self, process_data: &mut JsonMap) {
        let doubled = std::mem::take(&mut self.tries().doubled);
        if !doubled.is_empty() {
            process_data.entry("possible_duplicates").or_insert_with(|| doubled.into());
        }
    }

    async fn ask(&self, step: &str, another: bool) -> StepBegin {
        let begun = self.until_answered(|| self.jobs().begin_step(&self.of, step, another)).await;
        crash::pass(Place::StepBegun);
        begun
    }

    fn jobs(&self) -> &dyn Jobs {
        &*self.hand.core.jobs
    }

    /// Repeats a request until it is answered; all of them bear that.
    async fn until_answered<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        request: impl Fn() -> F,
    ) -> T {
        let (mut backoff, mut nonsense) = (Backoff::default(), 0);
        loop {
            match request().await {
                Ok(answer) => return answer,
                Err(error) => {
                    nonsense += u32::from(!error.is_passing());
                    if nonsense >= NONSENSE_MAX {
                        tracing::error!(run = %self.of.run, %error, "the journal cannot be used; the job is left to others");
                        return self.lost().await;
                    }
                    tracing::warn!(run = %self.of.run, %error, "the journal does not answer");
                    backoff.wait().await;
                }
            }
        }
    }

    /// The job is not ours any more: its task is stopped here.
    async fn lost<T>(&self) -> T {
        self.hand.core.held.lose(&self.hand.place, self.hand.number);
        std::future::pending().await
    }
}

/// Whether a step is a call to the outside, and no mark of what was told or asked.
fn goes_outside(step: &str) -> bool {
    let beginnings = ["tool:", "explain:", "embed:", "rerank:"];
    step == "call"
        || step == INIT
        || step.contains("llm:")
        || beginnings.iter().any(|of| step.starts_with(of))
}

/// Whether an event tells what came of a call.
fn ends_a_call(what: StepEvent) -> bool {
    what == StepEvent::ToolCallCompleted || what == StepEvent::ToolCallFailed
}

#[cfg(test)]
mod tests;
