//! The events of a run, as Python sees them: in batches, so that Python waits and takes the interpreter's lock once for
//! all that is there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidemill_embed::{EmbedError, Event, EventStream, Times};
use tokio::task::AbortHandle;

use crate::convert::to_python;
use crate::errors::raised;
use crate::mailbox::{self, Letter};
use crate::runtime::runtime;
use crate::waiting::wait_up_to;

/// The most events of one batch.
const BATCH_MAX: usize = 256;

/// Events that are there, in order. It is empty at the end of the stream.
type Batch = Result<Vec<Event>, EmbedError>;

/// One event.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeEvent(Event);

#[pymethods]
impl NativeEvent {
    #[getter]
    fn r#type(&self) -> &str {
        &self.0.kind
    }
    #[getter]
    fn seq(&self) -> u64 {
        self.0.seq
    }
    /// Its time, in seconds since 1970.
    #[getter]
    fn time(&self) -> f64 {
        self.0.raw["ts"].as_f64().unwrap_or_default() / 1000.0
    }
    /// Its fields. A new object at each call.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.data)
    }
    /// The event as `{"type", "data"}`, with graphon's types and fields.
    fn document<'py>(&self, py: Python<'py>, times: &str) -> PyResult<Bound<'py, PyAny>> {
        let times = match times {
            "iso" => Times::Iso,
            "unix" => Times::Unix,
            other => {
                let message = format!("times is \"iso\" or \"unix\", not {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        to_python(py, &self.0.document(times))
    }
}

/// The events of one run, in order, for one reader.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeEvents {
    stream: Arc<tokio::sync::Mutex<EventStream>>,
    /// What came for a reader on an event loop.
    arrived: Arc<Mutex<Option<Batch>>>,
    /// The task that waits for such a reader.
    waiting: Mutex<Option<AbortHandle>>,
}

impl NativeEvents {
    pub(crate) fn new(events: EventStream) -> Self {
        Self {
            stream: Arc::new(tokio::sync::Mutex::new(events)),
            arrived: Arc::default(),
            waiting: Mutex::default(),
        }
    }
}

#[pymethods]
impl NativeEvents {
    /// Waits for events, at most so many milliseconds. `None`: there are none yet; an empty list: there will be none.
    fn next(&self, py: Python<'_>, milliseconds: u64) -> PyResult<Option<Vec<NativeEvent>>> {
        let batch = wait_up_to(py, Duration::from_millis(milliseconds), batch(&self.stream))?;
        batch.map(|batch| events(py, batch)).transpose()
    }

    /// Has a function called (on the thread of the mailbox) when `take` has events.
    fn when_ready(&self, function: Py<PyAny>) -> PyResult<()> {
        let (stream, arrived) = (self.stream.clone(), self.arrived.clone());
        let task = runtime()?.spawn(async move {
            let batch = batch(&stream).await;
            *arrived.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
            mailbox::post(Letter::Wake(function));
        });
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        Ok(())
    }

    /// The events that `when_ready` has waited for. An empty list: there will be none.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<NativeEvent>> {
        let batch = self.arrived.lock().unwrap_or_else(PoisonError::into_inner).take();
        batch.map_or_else(|| Ok(Vec::new()), |batch| events(py, batch))
    }
}

impl Drop for NativeEvents {
    fn drop(&mut self) {
        if runtime().is_err() {
            // A forked process; see `NativeRun`.
            std::mem::forget(self.stream.clone());
        } else if let Some(task) = self.waiting.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Waits for an event; returns it with those that are there as well.
async fn batch(stream: &tokio::sync::Mutex<EventStream>) -> Batch {
    let mut stream = stream.lock().await;
    let Some(first) = stream.next().await? else { return Ok(Vec::new()) };
    let mut batch = vec![first];
    while batch.len() < BATCH_MAX {
        match stream.next().now_or_never() {
            Some(Ok(Some(event))) => batch.push(event),
            // The end comes again with the next call. An event that cannot be read is a bug; the others follow.
            Some(Ok(None) | Err(_)) | None => break,
        }
    }
    Ok(batch)
}

fn events(py: Python<'_>, batch: Batch) -> PyResult<Vec<NativeEvent>> {
    let batch = batch.map_err(|error: EmbedError| raised(py, &error))?;
    Ok(batch.into_iter().map(NativeEvent).collect())
}
