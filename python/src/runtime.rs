//! The one Tokio runtime of the process. It starts with the first engine or worker, and lives as long as the process.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// Threads of the runtime. They only move messages; nodes that compute are elsewhere.
const THREADS: usize = 2;

struct OfProcess {
    runtime: Runtime,
    process: u32,
}

static RUNTIME: OnceLock<Result<OfProcess, String>> = OnceLock::new();

/// The runtime. The first call starts it.
///
/// # Errors
/// In a process that was forked after the runtime had started: its threads exist in the parent only. Also when the system
/// refuses threads.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let started = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("tidemill").enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(OfProcess { runtime, process: std::process::id() })
    });
    match started {
        Ok(of) if of.process == std::process::id() => Ok(&of.runtime),
        Ok(_) => Err(PyRuntimeError::new_err(FORKED)),
        Err(error) => {
            let message = format!("tidemill cannot start its threads: {error}");
            Err(PyRuntimeError::new_err(message))
        }
    }
}

const FORKED: &str = "this process was forked after tidemill had started an engine or a worker, whose threads exist in \
    the parent only; start Python processes with the method \"spawn\", or fork before the first run";

/// The version of the package.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
