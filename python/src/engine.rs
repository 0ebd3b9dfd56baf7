//! The compiled half of `tidemill.Engine`: starts and closes an embedded engine, and starts its runs, each without the
//! interpreter's lock. It also has the clock that `Engine.advance` moves.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_embed::{EmbedError, Engine, EngineConfig, Inputs};

use crate::calls::queue::NativeQueue;
use crate::calls::registry::{Lanes, Registration, hosts};
use crate::convert::{map_from_python, to_python};
use crate::errors::{closed, raised};
use crate::run::NativeRun;
use crate::runtime::runtime;
use crate::waiting::wait;
use crate::{logs, settings};

/// A running engine.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeEngine {
    /// `None` once it has been closed.
    engine: RwLock<Option<Engine>>,
    clock: Arc<MovedClock>,
}

/// The system's clock, moved ahead.
#[derive(Default)]
struct MovedClock(AtomicI64);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().micros().saturating_add(self.0.load(Ordering::Relaxed)))
    }
}

#[pymethods]
impl NativeEngine {
    /// Starts an engine with these functions; `on_loop` is called with each call of one that runs on an event loop.
    #[new]
    fn new(
        py: Python<'_>,
        settings: Option<&Bound<'_, PyAny>>,
        tidemill: Option<PathBuf>,
        registrations: Vec<Registration>,
        threads: &NativeQueue,
        on_loop: Py<PyAny>,
    ) -> PyResult<Self> {
        let settings = settings::read(settings)?;
        let hosts = hosts(registrations, Lanes { threads, on_loop })?;
        // Before anything starts: refused in a forked process.
        runtime()?;
        logs::start(None);
        let clock = Arc::new(MovedClock::default());
        let config =
            EngineConfig { settings, hosts, tidemill, clock: clock.clone(), ..EngineConfig::default() };
        let engine = wait(py, Box::pin(Engine::create(config)))?.map_err(|error| raised(py, &error))?;
        Ok(Self { engine: RwLock::new(Some(engine)), clock })
    }

    /// Starts a run of the text of a workflow file. `request` has the other fields of the request.
    fn run(&self, py: Python<'_>, workflow: &str, request: &Bound<'_, PyDict>) -> PyResult<NativeRun> {
        let request = map_from_python(request.as_any(), "run")?;
        let inputs =
            request.into_iter().fold(Inputs::new(), |inputs, (name, value)| inputs.field(&name, value));
        self.with(py, async |engine| engine.run(workflow, inputs).await).map(NativeRun::new)
    }

    /// Continues a run from a snapshot.
    fn resume(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<NativeRun> {
        self.with(py, async |engine| engine.resume_bytes(snapshot).await).map(NativeRun::new)
    }

    /// A run of this engine by its id.
    fn find(&self, py: Python<'_>, id: &str) -> PyResult<NativeRun> {
        self.with(py, async |engine| engine.find(id).await).map(NativeRun::new)
    }

    /// Stores a file for runs of a user. Returns it as inputs take it.
    fn upload<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        content: &[u8],
        user: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let content = content.to_vec();
        to_python(py, &self.with(py, async |engine| engine.upload(name, content, user).await)?)
    }

    /// Moves the clock of the engine ahead, by so many microseconds.
    fn advance(&self, micros: i64) {
        self.clock.0.fetch_add(micros.max(0), Ordering::Relaxed);
    }

    /// The node types that cannot run, as sentences.
    fn lacks(&self) -> Vec<String> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.iter().flat_map(Engine::lacks).map(ToString::to_string).collect()
    }

    /// Stops the engine. With `wait_for_nodes` nodes that run may end within `worker.grace_seconds`; else they are
    /// cancelled.
    fn close(&self, py: Python<'_>, wait_for_nodes: bool) -> PyResult<()> {
        let runtime = runtime()?;
        py.detach(|| {
            let engine = self.engine.write().unwrap_or_else(PoisonError::into_inner).take();
            let Some(engine) = engine else { return };
            if wait_for_nodes {
                runtime.block_on(engine.stop());
            } else {
                let _runtime = runtime.enter();
                drop(engine);
            }
        });
        Ok(())
    }
}

impl NativeEngine {
    /// Asks the engine for something without the interpreter's lock.
    fn with<T, F>(&self, py: Python<'_>, make: F) -> PyResult<T>
    where
        T: Send,
        F: AsyncFnOnce(&Engine) -> Result<T, EmbedError> + Send,
    {
        let runtime = runtime()?;
        let made = py.detach(|| {
            let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
            engine.as_ref().map(|engine| runtime.block_on(make(engine)))
        });
        made.ok_or_else(|| closed("engine"))?.map_err(|error| raised(py, &error))
    }
}

impl Drop for NativeEngine {
    fn drop(&mut self) {
        let engine = self.engine.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(engine) = engine else { return };
        match runtime() {
            Ok(runtime) => {
                let _runtime = runtime.enter();
                drop(engine);
            }
            // Its locks may be held by threads of the parent that do not exist here.
            Err(_) => std::mem::forget(engine),
        }
    }
}
