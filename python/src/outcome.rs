//! The end of a run or its next pause, for Python to wait for: on a thread in short pieces, so that Ctrl-C works, or on an
//! event loop without a thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::Value as Json;
use tidemill_common::value::JsonMap;
use tidemill_embed::{EmbedError, Outcome, Run};
use tokio::task::AbortHandle;

use crate::convert::{map_to_python, to_python};
use crate::errors::raised;
use crate::mailbox::{self, Letter};
use crate::runtime::runtime;

#[derive(Default)]
struct State {
    outcome: Option<Result<Outcome, EmbedError>>,
    /// Called on the thread of the mailbox when the outcome is there.
    watcher: Option<Py<PyAny>>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    filled: Condvar,
}

impl Slot {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, outcome: Result<Outcome, EmbedError>) {
        let mut state = self.locked();
        state.outcome = Some(outcome);
        if let Some(function) = state.watcher.take() {
            mailbox::post(Letter::Wake(function));
        }
        self.filled.notify_all();
    }
}

/// What comes of a run.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeOutcome {
    slot: Arc<Slot>,
    task: AbortHandle,
}

impl NativeOutcome {
    pub(crate) fn of(run: Run) -> PyResult<Self> {
        let slot = Arc::new(Slot::default());
        let filled = slot.clone();
        let task = runtime()?.spawn(async move { filled.fill(run.result().await) });
        Ok(Self { slot, task: task.abort_handle() })
    }
}

/// Status, outputs, number of exceptions, error or reason, pauses.
type Told<'py> = (&'static str, Bound<'py, PyAny>, u64, String, Bound<'py, PyAny>);

#[pymethods]
impl NativeOutcome {
    /// Waits for it, at most so many milliseconds; returns true if it is there.
    fn wait(&self, py: Python<'_>, milliseconds: u64) -> bool {
        let slot = &self.slot;
        py.detach(|| {
            let state = slot.locked();
            let is_missing = |state: &mut State| state.outcome.is_none();
            let waited =
                slot.filled.wait_timeout_while(state, Duration::from_millis(milliseconds), is_missing);
            waited.unwrap_or_else(PoisonError::into_inner).0.outcome.is_some()
        })
    }

    /// Has a function called on the thread of the mailbox when it is there.
    fn when_ready(&self, function: Py<PyAny>) {
        let mut state = self.slot.locked();
        if state.outcome.is_some() {
            mailbox::post(Letter::Wake(function));
        } else {
            state.watcher = Some(function);
        }
    }

    /// It, once it is there.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Told<'py>>> {
        let outcome = self.slot.locked().outcome.take();
        outcome.map(|outcome| told(py, outcome)).transpose()
    }
}

impl Drop for NativeOutcome {
    fn drop(&mut self) {
        if runtime().is_ok() {
            self.task.abort();
        }
    }
}

fn told(py: Python<'_>, outcome: Result<Outcome, EmbedError>) -> PyResult<Told<'_>> {
    let outcome = outcome.map_err(|error| raised(py, &error))?;
    let (none, no_pauses) = (JsonMap::new(), Vec::new());
    let (status, outputs, exceptions, text, pauses) = match outcome {
        Outcome::Succeeded { outputs, exceptions } => {
            ("succeeded", outputs, exceptions, String::new(), no_pauses)
        }
        Outcome::Failed { error } => ("failed", none, 0, error, no_pauses),
        Outcome::Stopped { reason, outputs } => ("stopped", outputs, 0, reason, no_pauses),
        Outcome::Paused { pauses, outputs } => ("paused", outputs, 0, String::new(), pauses),
    };
    let outputs = map_to_python(py, &outputs)?.into_any();
    Ok((status, outputs, exceptions, text, to_python(py, &Json::Array(pauses))?))
}
