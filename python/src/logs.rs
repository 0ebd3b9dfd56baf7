//! The log of the engine's own lines. Embedded, it is quiet: warnings and errors only, on standard error.

use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tidemill_common::telemetry::{self, LogConfig, LogFormat};

/// Warnings, without those that every engine would repeat: `Engine.lacks` has them.
const QUIET: &str = "warn,tidemill_embed::engine=error,tidemill_worker::app=error";

static STARTED: Mutex<bool> = Mutex::new(false);

/// Starts the log of this process, if it has not started. `config` is what the settings say, if they are those of a
/// program.
pub(crate) fn start(config: Option<&LogConfig>) {
    if let Ok(mut started) = STARTED.lock()
        && !*started
    {
        *started = true;
        telemetry::start_panics();
        telemetry::start_logs(&config.cloned().unwrap_or_else(quiet));
    }
}

/// What an embedded engine writes unless the program asks for more.
fn quiet() -> LogConfig {
    let variable = |name: &str| std::env::var(name).ok();
    let level = variable("TIDEMILL_LOG_LEVEL").filter(|level| telemetry::check_level(level).is_ok());
    let format = match variable("TIDEMILL_LOG_FORMAT").as_deref() {
        Some("json") => LogFormat::Json,
        _ => LogFormat::Text,
    };
    LogConfig { level: level.unwrap_or_else(|| QUIET.into()), format }
}

/// Starts the log of the engine's own lines with this level and format.
///
/// # Errors
/// `ValueError` for an unknown level or format, `RuntimeError` when the log has started.
#[pyfunction]
#[pyo3(signature = (level="info", format="auto"))]
pub(crate) fn log(level: &str, format: &str) -> PyResult<()> {
    telemetry::check_level(level).map_err(PyValueError::new_err)?;
    let format = match format {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        other => {
            let message = format!("format is \"auto\", \"text\" or \"json\", not {other:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    if STARTED.lock().is_ok_and(|started| *started) {
        return Err(PyRuntimeError::new_err(
            "the log has started; call tidemill.log before the first engine or worker",
        ));
    }
    start(Some(&LogConfig { level: level.to_owned(), format }));
    Ok(())
}
