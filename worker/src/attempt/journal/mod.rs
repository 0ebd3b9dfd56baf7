//! The journal of a job: it records calls that must not be repeated when the job is delivered again. An entry starts
//! with a mark in the run's journal and ends with its result there. The result and the fact that reports it are written
//! together or not at all.
//!
//! A job without entries has no extra cost. A job that the worker has lost learns that at its next entry: the call does
//! not return, and the job's task is stopped.

mod beside;
mod entry_keys;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::ids::{BlobId, ExecutionId, NodeId, RunId};
use tidemill_common::limits::{RUN_WARNINGS_MAX, STEP_INLINE_BYTES_MAX};
use tidemill_common::machine::fact::{Charge, ChildEvent};
use tidemill_common::machine::state::run::json_size;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::{Usage, Wasted};
use tidemill_common::store::{EntryBegin, EntryStored, Jobs, JournalKey, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::warning::{self, Warning};
use tidemill_common::wire::fact::report::Report;

use crate::attempt::journal::beside::SideCalls;
use crate::attempt::spill;
use crate::jobs::backoff::Backoff;
use crate::jobs::handle::JobHandle;
use crate::metrics;

pub(crate) use crate::attempt::journal::beside::SideCall;
pub(crate) use crate::attempt::journal::entry_keys::ToolEntryKeys;
pub use crate::attempt::journal::waiting::{CallEnd, PauseEnd};
use crate::attempt::own_files::Allowed;

/// The only field of a journal value that refers to a blob with the result. No result of the engine has this field.
const RESULT_BLOB: &str = "$apart";

/// The field that marks a call that may have been made twice.
pub(crate) const POSSIBLE_DUPLICATE: &str = "possible_duplicate";
/// The journal key of the entry in which a call builds its input.
pub(crate) const INIT: &str = "init";

/// Most tries when the journal returns unusable answers.
const NONSENSE_MAX: u32 = 3;

/// The state of a journal entry when it is begun.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryStart {
    /// It was done before, with this result. Its events and cost are already reported.
    Known(Json),
    /// It must be done now.
    Try(Try),
}

/// A try of a journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// From 1. A job that is delivered again continues the open try.
    pub number: u32,
    /// True when an earlier worker began this try and recorded no result.
    pub possible_duplicate: bool,
    /// True when an earlier worker began this try, also if it was parked on purpose.
    pub was_begun: bool,
    /// The `Idempotency-Key` for its calls, where the other side accepts one.
    pub idempotency_key: String,
}

impl Try {
    /// The only try of a call without a journal.
    pub fn alone(key: &str) -> Self {
        Self { number: 1, possible_duplicate: false, was_begun: false, idempotency_key: key.to_owned() }
    }
}

/// The events and cost reported with a journal entry.
#[derive(Debug, Clone, Default)]
pub struct EntryReport {
    pub events: Vec<(StepEvent, JsonMap)>,
    /// The cost and the spender.
    pub charge: Option<(Usage, ChargeSource)>,
}

/// The spender of an entry's cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChargeSource {
    /// A model: the provider's name in the workflow and the model's name.
    Model(String, String),
    /// A sub-workflow run.
    Run(RunId),
    /// Any other tool.
    Tool,
}

impl ChargeSource {
    /// The spender of a tool call's cost: the run it called, if any.
    pub fn of_tool(run: Option<RunId>) -> Self {
        run.map_or(Self::Tool, Self::Run)
    }

    fn charge(self, key: String, usage: Usage) -> Charge {
        let (model, run) = match self {
            Self::Model(provider, model) => ((provider, model), None),
            Self::Run(run) => (Default::default(), Some(run)),
            Self::Tool => Default::default(),
        };
        Charge { key, usage, model, run }
    }
}

/// The journal of one job. A node receives it with its attempt.
pub struct Journal {
    handle: JobHandle,
    of: JournalKey,
    wait_max: Duration,
    /// Set for a node that runs inside the job.
    child_try: Option<ChildTry>,
    /// False when failed calls are tries of a node inside another, which are counted and reported.
    repeats_calls: bool,
    /// Open entries of the job around an inner node; they wait when the inner node waits.
    enclosing: Vec<(JournalKey, String)>,
    /// Secrets to mask in the journal and in events.
    secrets: Secrets,
    entries: Mutex<Entries>,
    /// The cost of replies that broke off.
    wasted: Mutex<Option<Box<Wasted>>>,
    /// Warnings so far.
    warnings: Mutex<Vec<Warning>>,
    /// Runs whose files were shown to a model.
    allowed: Allowed,
    /// The places of the job for sub-workflow runs beside it.
    side_calls: Arc<SideCalls>,
}

/// The entries this journal has begun.
#[derive(Default)]
struct Entries {
    /// Entries without a result.
    open: Vec<String>,
    /// Entries whose call may have been made twice.
    possible_duplicates: Vec<String>,
}

/// A try of a node that runs inside a job. Its reports carry the child's name.
#[derive(Debug, Clone)]
pub(crate) struct ChildTry {
    pub(crate) child: NodeId,
    pub(crate) number: u32,
    pub(crate) began: Timestamp,
}

impl ChildTry {
    /// Builds a report of the child.
    pub(crate) fn report(&self, what: ChildEvent) -> Report {
        Report::Child { started_at: self.began, child: self.child.clone(), number: self.number, what }
    }
}

impl Journal {
    pub(crate) fn new(handle: &JobHandle, execution: ExecutionId) -> Self {
        let of = JournalKey {
            shard: handle.place.shard,
            queue: handle.place.queue.clone(),
            entry: handle.place.entry,
            number: handle.number,
            consumer: handle.core.consumer.clone(),
            run: handle.run,
            execution,
            attempt: handle.name.attempt,
        };
        let wait_max = handle.core.settings.job_wait_max;
        let (secrets, enclosing) = (Secrets::default(), Vec::new());
        let side_calls = SideCalls::new(handle.core.settings.app_calls_max);
        Self {
            handle: handle.clone(),
            of,
            wait_max,
            child_try: None,
            repeats_calls: true,
            enclosing,
            secrets,
            entries: Mutex::default(),
            wasted: Mutex::default(),
            warnings: Mutex::default(),
            allowed: Allowed::default(),
            side_calls,
        }
    }

    /// Returns the node of the job.
    pub(crate) fn node(&self) -> &NodeId {
        match &self.child_try {
            Some(child_try) => &child_try.child,
            None => &self.handle.name.node,
        }
    }

    /// Sets the secrets that the job was given.
    pub(crate) fn hiding(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Returns the secrets that the job was given.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the journal of a node inside this job. `attempt` counts its tries over all attempts of the parent.
    pub(crate) fn of_child(&self, execution: ExecutionId, attempt: u32, child_try: ChildTry) -> Self {
        let open = self.entries().open.clone();
        let enclosing = open.into_iter().map(|step| (self.of.clone(), step)).collect();
        let of = JournalKey { execution, attempt, ..self.of.clone() };
        let (handle, secrets, wait_max) = (self.handle.clone(), self.secrets.clone(), self.wait_max);
        let side_calls = self.side_calls.clone();
        Self {
            handle,
            of,
            wait_max,
            child_try: Some(child_try),
            repeats_calls: false,
            enclosing,
            secrets,
            entries: Mutex::default(),
            wasted: Mutex::default(),
            warnings: Mutex::default(),
            allowed: Allowed::default(),
            side_calls,
        }
    }

    /// Lets calls repeat themselves, for a node inside another whose tries are not counted.
    pub(crate) fn repeating_calls(self) -> Self {
        Self { repeats_calls: true, ..self }
    }

    /// Begins a journal entry. `step` is unique within the node: `llm:1`, `tool:<call>`, ….
    pub async fn begin(&self, step: &str) -> EntryStart {
        match self.begin_entry(step, false).await {
            EntryBegin::Begin { attempt, possible_duplicate, was_begun } => {
                let new_try = self.new_try(step, attempt, possible_duplicate);
                EntryStart::Try(Try { was_begun, ..new_try })
            }
            EntryBegin::Known { result, possible_duplicate } => {
                if possible_duplicate {
                    self.note_possible_duplicate(step);
                }
                match serde_json::from_str(&result) {
                    Ok(kept) => EntryStart::Known(self.secrets.opened(self.load_result(step, kept).await)),
                    Err(error) => {
                        // The engine never writes such a value.
                        tracing::error!(run = %self.of.run, step, %error, "the journal has no result but something else");
                        self.lost().await
                    }
                }
            }
            EntryBegin::NotYours => self.lost().await,
        }
    }

    /// Begins another try after a failed one.
    pub async fn retry(&self, step: &str) -> EntryStart {
        match self.begin_entry(step, true).await {
            EntryBegin::Begin { attempt, .. } => EntryStart::Try(self.new_try(step, attempt, false)),
            EntryBegin::Known { .. } | EntryBegin::NotYours => self.begin(step).await,
        }
    }

    /// Loads a result that is stored as a blob.
    async fn load_result(&self, step: &str, kept: Json) -> Json {
        let only = kept.as_object().filter(|map| map.len() == 1);
        // The entry `call` used this older field name.
        let of_call = |map: &JsonMap| map.get("apart").filter(|_| step == "call").cloned();
        let blob = only.and_then(|map| map.get(RESULT_BLOB).cloned().or_else(|| of_call(map)));
        let blob = blob.as_ref().and_then(Json::as_str);
        let Some(id) = blob.map(BlobId::from) else { return kept };
        let text = self.blob(&id).await;
        match text.as_deref().map(serde_json::from_str) {
            Some(Ok(result)) => result,
            // The blob is deleted with its run, so the job's run no longer exists.
            Some(Err(_)) | None => {
                tracing::error!(run = %self.of.run, step, blob = %id, "the blob of a journal entry is gone");
                self.lost().await
            }
        }
    }

    /// Records the result of an entry with its events and cost. After this returns the entry is never repeated.
    /// `number` is the number of the successful try.
    pub async fn record(&self, step: &str, number: u32, result: &Json, entry_report: EntryReport) {
        let report = self.entry_report(step, number, entry_report);
        self.record_report(step, result, report, &[]).await;
    }

    fn entry_report(&self, step: &str, number: u32, entry_report: EntryReport) -> Report {
        let EntryReport { mut events, charge } = entry_report;
        if self.is_possible_duplicate(step) {
            for (_, data) in events.iter_mut().filter(|(what, _)| is_call_end(*what)) {
                data.insert(POSSIBLE_DUPLICATE.into(), true.into());
            }
        }
        let charge = charge.map(|(usage, by)| Box::new(by.charge(format!("{step}/{number}"), usage)));
        self.report(events, charge)
    }

    /// Reports the cost of a call without an entry, at once. `key` is unique among all calls of the node's execution, also
    /// among those of a worker that had the job before.
    pub(crate) fn charge(&self, key: &str, usage: Usage, by: ChargeSource) {
        let report = self.report(Vec::new(), Some(Box::new(by.charge(key.to_owned(), usage))));
        let reports = self.handle.core.reporter.of(self.of.shard);
        reports.report(self.of.run, report.kind(), report.to_json(&self.handle.name));
    }

    /// As [`Self::record`]; a large result is stored as a blob.
    pub async fn record_large(&self, step: &str, number: u32, result: Json, entry_report: EntryReport) {
        if json_size(&result) <= STEP_INLINE_BYTES_MAX {
            return self.record(step, number, &result, entry_report).await;
        }
        let text = match self.secrets.are_none() {
            true => result.to_string(),
            false => self.secrets.sealed(result).to_string(),
        };
        let id = BlobId::generate();
        let kept = json!({RESULT_BLOB: id.as_str()});
        let report = self.entry_report(step, number, entry_report);
        self.record_report(step, &kept, report, &[(id, text)]).await;
    }

    /// As [`Self::record`], with any report and with blobs.
    pub(crate) async fn record_report(
        &self,
        step: &str,
        result: &Json,
        report: Report,
        blobs: &[(BlobId, String)],
    ) {
        let (kind, fact) = (report.kind(), report.to_json(&self.handle.name));
        let result = match self.secrets.are_none() {
            true => result.to_string(),
            false => self.secrets.sealed(result.clone()).to_string(),
        };
        let sizes: Vec<(BlobId, u64)> =
            blobs.iter().map(|(id, text)| (id.clone(), text.len() as u64)).collect();
        // The report of an entry's start must come before its end.
        self.handle.core.reporter.of(self.of.shard).passed().await;
        crash::pass(CrashPoint::StepMade);
        let record = || self.jobs().record_step(&self.of, step, &result, (kind, &fact), &sizes);
        loop {
            if let Err(error) = spill::store(self.jobs(), self.of.shard, blobs).await {
                tracing::error!(run = %self.of.run, step, %error, "a blob of a journal entry cannot be stored; another worker runs the job");
                return self.lost().await;
            }
            match self.until_answered(record).await {
                EntryStored::Stored => {
                    self.entries().open.retain(|open| open != step);
                    metrics::STEPS.count();
                    crash::pass(CrashPoint::StepKept);
                    return;
                }
                EntryStored::BlobGone => {}
                EntryStored::NotYours => return self.lost().await,
            }
        }
    }

    fn report(&self, events: Vec<(StepEvent, JsonMap)>, charge: Option<Box<Charge>>) -> Report {
        let events = self.hidden(events);
        match &self.child_try {
            None => Report::Step { started_at: self.handle.started_at, events, charge },
            Some(child_try) => child_try.report(ChildEvent::Step { events, charge }),
        }
    }

    /// Returns true if an earlier attempt or delivery may have made entries.
    pub(crate) fn may_have_entries(&self) -> bool {
        self.of.attempt > 1 || self.handle.name.attempt > 1 || self.handle.name.holder.number > 1
    }

    /// Sends events without a journal entry, before later entries are recorded. They are sent again when the job is
    /// delivered again.
    pub fn emit(&self, events: Vec<(StepEvent, JsonMap)>) {
        let report = self.report(events, None);
        let reports = self.handle.core.reporter.of(self.of.shard);
        reports.report(self.of.run, report.kind(), report.to_json(&self.handle.name));
    }

    /// Most times a person is asked for missing input of one step.
    pub(crate) fn parameter_rounds_max(&self) -> u32 {
        self.handle.core.settings.parameter_rounds_max
    }

    /// Longest time for gathering pieces of text.
    pub(crate) fn chunk_gather(&self) -> Duration {
        self.handle.core.settings.chunk_gather
    }

    /// Returns true if the report queue is long, so that a report would wait.
    pub(crate) fn reports_are_delayed(&self) -> bool {
        self.handle.core.reporter.of(self.of.shard).is_busy()
    }

    /// Longest prompt of a step, in bytes.
    pub(crate) fn prompt_bytes_max(&self) -> usize {
        self.handle.core.settings.prompt_bytes_max
    }

    /// The text of a blob of this shard, or `None` when it is gone.
    pub(crate) async fn blob(&self, id: &BlobId) -> Option<String> {
        self.until_answered(|| self.jobs().load_blob(self.of.shard, id)).await
    }

    fn hidden(&self, events: Vec<(StepEvent, JsonMap)>) -> Vec<(StepEvent, JsonMap)> {
        if self.secrets.are_none() {
            return events;
        }
        // Only the outermost names are fixed; those inside may contain a secret.
        let below = |value| self.secrets.hidden_below(value, 0);
        let hidden = |data: JsonMap| data.into_iter().map(|(name, value)| (name, below(value))).collect();
        events.into_iter().map(|(what, data)| (what, hidden(data))).collect()
    }

    fn new_try(&self, step: &str, number: u32, possible_duplicate: bool) -> Try {
        if possible_duplicate {
            tracing::info!(run = %self.of.run, node = %self.handle.name.node, step, number, "continuing a try of an earlier worker; its call may be made twice");
        }
        let mut entries = self.entries();
        if !entries.open.iter().any(|open| open == step) {
            entries.open.push(step.to_owned());
        }
        drop(entries);
        if possible_duplicate {
            self.note_possible_duplicate(step);
        }
        let idempotency_key = format!("{}:{step}:{number}", self.of.execution);
        Try { number, possible_duplicate, was_begun: possible_duplicate, idempotency_key }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the cost of a reply that broke off. It is reported with the node's end.
    pub(crate) fn add_wasted(&self, provider: &str, model: &str, usage: Usage) {
        let mut wasted = self.wasted.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = wasted.take().map_or_else(|| usage.clone(), |so_far| usage::sum(&so_far.usage, &usage));
        *wasted = Some(Box::new(Wasted { provider: provider.to_owned(), model: model.to_owned(), usage }));
    }

    /// Takes that cost.
    pub(crate) fn take_wasted(&self) -> Option<Box<Wasted>> {
        self.wasted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Warns the author of the workflow. The warning is reported with the node's end, and the run keeps it; a warning
    /// about the same thing counts once. Secrets are masked when it is reported.
    pub fn warn(&self, warning: Warning) {
        let (code, message) = (&*warning.code, &warning.message);
        tracing::debug!(run = %self.of.run, node = %self.handle.name.node, code, message, "the run is warned");
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warning::add(&mut warnings, warning, RUN_WARNINGS_MAX);
    }

    /// Takes the warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that an entry's call may have been made twice.
    fn note_possible_duplicate(&self, step: &str) {
        if is_outside_call(step) && !self.is_possible_duplicate(step) {
            self.entries().possible_duplicates.push(step.to_owned());
        }
    }

    /// Returns true if the call of this entry may have been made twice.
    pub(crate) fn is_possible_duplicate(&self, step: &str) -> bool {
        self.entries().possible_duplicates.iter().any(|known| known == step)
    }

    /// Lists calls that may have been made twice in a record.
    pub(crate) fn list_possible_duplicates(&self, process_data: &mut JsonMap) {
        let possible_duplicates = std::mem::take(&mut self.entries().possible_duplicates);
        if !possible_duplicates.is_empty() {
            process_data.entry("possible_duplicates").or_insert_with(|| possible_duplicates.into());
        }
    }

    async fn begin_entry(&self, step: &str, another: bool) -> EntryBegin {
        let begun = self.until_answered(|| self.jobs().begin_step(&self.of, step, another)).await;
        crash::pass(CrashPoint::StepBegun);
        begun
    }

    fn jobs(&self) -> &dyn Jobs {
        &*self.handle.core.jobs
    }

    /// Repeats a request until it is answered. All requests here can be repeated safely.
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
                        tracing::error!(run = %self.of.run, %error, "the journal cannot be used; another worker runs the job");
                        return self.lost().await;
                    }
                    tracing::warn!(run = %self.of.run, %error, "the journal does not answer");
                    backoff.wait().await;
                }
            }
        }
    }

    /// Stops the job's task, because this worker no longer owns the job.
    async fn lost<T>(&self) -> T {
        self.handle.core.in_flight.lose(&self.handle.place, self.handle.number);
        std::future::pending().await
    }
}

/// Returns true if the entry is an outside call, not just a mark of a sent event or a question.
fn is_outside_call(step: &str) -> bool {
    let beginnings = ["tool:", "explain:", "embed:", "rerank:"];
    step == "call"
        || step == INIT
        || step.contains("llm:")
        || beginnings.iter().any(|of| step.starts_with(of))
}

/// Returns true if the event reports the result of a tool call.
fn is_call_end(what: StepEvent) -> bool {
    what == StepEvent::ToolCallCompleted || what == StepEvent::ToolCallFailed
}

#[cfg(test)]
mod tests;
