//! The compiled half of `tidemill.Run`. Each method waits without the interpreter's lock, so other threads of Python go on.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tidemill_embed::{Command, EmbedError, Run};

use crate::convert::{from_python, map_from_python, to_python};
use crate::errors::raised;
use crate::events::NativeEvents;
use crate::outcome::NativeOutcome;
use crate::runtime::runtime;
use crate::waiting::wait;

/// A run of an engine.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeRun {
    /// `None` only while it is dropped.
    run: Option<Run>,
}

impl NativeRun {
    pub(crate) fn new(run: Run) -> Self {
        Self { run: Some(run) }
    }

    fn run(&self) -> PyResult<&Run> {
        self.run.as_ref().ok_or_else(|| crate::errors::closed("run"))
    }

    fn send(&self, py: Python<'_>, command: Command) -> PyResult<()> {
        ask(py, self.run()?.send(command))
    }
}

/// Waits for an answer of the engine.
fn ask<T: Send>(py: Python<'_>, answer: impl Future<Output = Result<T, EmbedError>> + Send) -> PyResult<T> {
    wait(py, answer)?.map_err(|error| raised(py, &error))
}

#[pymethods]
impl NativeRun {
    #[getter]
    fn id(&self) -> PyResult<&str> {
        Ok(self.run()?.id())
    }
    #[getter]
    fn conversation(&self) -> PyResult<Option<&str>> {
        Ok(self.run()?.conversation())
    }

    /// Its events, from the first one.
    fn events(&self, py: Python<'_>) -> PyResult<NativeEvents> {
        let events = ask(py, self.run()?.events())?;
        Ok(NativeEvents::new(events))
    }

    /// What comes of the run: its end, or the next pause.
    fn outcome(&self) -> PyResult<NativeOutcome> {
        NativeOutcome::of(self.run()?.clone())
    }

    /// The run as `GET /api/v1/runs/{id}` shows it.
    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shown = ask(py, self.run()?.show())?;
        to_python(py, &shown)
    }

    /// All its pauses, also those that are over.
    fn pauses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pauses = ask(py, self.run()?.pauses())?;
        to_python(py, &serde_json::Value::Array(pauses))
    }

    /// Answers a pause.
    fn answer(&self, py: Python<'_>, pause: &str, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let answer = from_python(answer, "answer")?;
        ask(py, self.run()?.answer(pause, &answer))
    }

    /// Ends the run.
    fn stop(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        self.send(py, Command::Stop { reason })
    }

    /// Lets no new node begin, and pauses the run when the running ones have ended.
    fn pause(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        self.send(py, Command::Pause { reason })
    }

    /// Ends a pause that a command began.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.send(py, Command::Resume)
    }

    /// Sets variables.
    fn update(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let values = map_from_python(values.as_any(), "values")?;
        self.send(py, Command::Update(values))
    }

    /// The run as one document.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot = ask(py, self.run()?.snapshot_bytes())?;
        Ok(PyBytes::new(py, &snapshot))
    }
}

impl Drop for NativeRun {
    fn drop(&mut self) {
        // In a forked process the engine's locks may be held by threads that do not exist there.
        if runtime().is_err() {
            std::mem::forget(self.run.take());
        }
    }
}
