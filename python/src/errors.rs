//! Turns errors of the engine into the exceptions of `tidemill.errors`, so that Python code catches them by class and code.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tidemill_embed::EmbedError;

use crate::convert::to_python;

/// The exception for an error of the engine: `Refused` with code, message and diagnostics, else `TidemillError`.
pub(crate) fn raised(py: Python<'_>, error: &EmbedError) -> PyErr {
    exception(py, error).unwrap_or_else(|problem| problem)
}

/// The exception for what a setting or the store refuses.
pub(crate) fn trouble(py: Python<'_>, error: &dyn std::error::Error) -> PyErr {
    named(py, "TidemillError", (error.to_string(),)).unwrap_or_else(|problem| problem)
}

/// An engine or a worker that has been closed.
pub(crate) fn closed(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("this {what} is closed; make a new one"))
}

fn exception(py: Python<'_>, error: &EmbedError) -> PyResult<PyErr> {
    let EmbedError::Refused { code, message, diagnostics } = error else {
        return Ok(trouble(py, error));
    };
    let list = PyList::empty(py);
    for diagnostic in diagnostics {
        list.append(to_python(py, diagnostic)?)?;
    }
    named(py, "Refused", (code.as_str(), message.as_str(), list))
}

fn named<'py>(py: Python<'py>, class: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyResult<PyErr> {
    let class = py.import("tidemill.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1(arguments)?))
}
