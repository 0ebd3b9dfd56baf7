//! Settings as Python gives them: the path of a `tidemill.toml`, or a mapping of its sections. Settings of the
//! environment (`TIDEMILL_…`) win over both, as in the programs.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use tidemill_common::config::{Config, Sources};
use toml::{Table, Value};

use crate::convert::map_from_python;

/// How errors call a mapping.
const MAPPING: &str = "settings";
const LOG_IS_OF_THE_PROCESS: &str = "an engine has no section log, because its process has one log: call \
    tidemill.log(\"off\"), with the level you want, before the first engine or worker";

/// Reads the settings of an engine. Without any, `tidemill.toml` in the working directory is read if it exists.
///
/// # Errors
/// `ValueError` for a file that cannot be read, an unknown key or an invalid value, and for a mapping with the section
/// `log`; `TypeError` for another object.
pub(crate) fn read(settings: Option<&Bound<'_, PyAny>>) -> PyResult<Config> {
    let (table, origin, sources) = given(settings)?;
    // A file may be that of the programs, too, which use the section. A mapping is for this engine, where it has no effect:
    // the log is that of the process, and its program starts it.
    if origin == MAPPING && table.contains_key("log") {
        return Err(wrong(LOG_IS_OF_THE_PROCESS));
    }
    Config::of_table(table, &origin, &sources).map_err(wrong)
}

/// As [`read`], for a worker inside another program: it has a listener only if a setting names one, because the usual
/// address belongs to the worker program of the machine.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_for_worker(settings: Option<&Bound<'_, PyAny>>) -> PyResult<Config> {
    let (mut table, origin, sources) = given(settings)?;
    let worker = table.entry("worker").or_insert_with(|| Value::Table(Table::new()));
    if let Some(worker) = worker.as_table_mut() {
        worker.entry("listen").or_insert_with(|| Value::String(String::new()));
    }
    Config::of_table(table, &origin, &sources).map_err(wrong)
}

/// The table, how errors call it, and the sources of what wins over it.
fn given(settings: Option<&Bound<'_, PyAny>>) -> PyResult<(Table, String, Sources)> {
    let of_file = |file: Option<PathBuf>| {
        let sources = Sources::of_process(file, Vec::new());
        let (table, origin) = sources.table().map_err(wrong)?;
        Ok((table, origin, sources))
    };
    let Some(settings) = settings else { return of_file(None) };
    if settings.cast::<PyMapping>().is_err() {
        return of_file(Some(settings.extract()?));
    }
    let mut sections = map_from_python(settings, MAPPING)?;
    // TOML has no null; an absent setting has its default.
    for section in sections.values_mut().filter_map(serde_json::Value::as_object_mut) {
        section.retain(|_, value| !value.is_null());
    }
    let table = Table::try_from(sections).map_err(wrong)?;
    Ok((table, MAPPING.into(), Sources::of_process(None, Vec::new())))
}

/// A setting that cannot be used, as Python sees it.
pub(crate) fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
