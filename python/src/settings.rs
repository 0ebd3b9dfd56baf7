//! Settings as Python gives them: the path of a `tidemill.toml`, or a mapping of its sections. Settings of the
//! environment (`TIDEMILL_…`) win over both, as in the programs.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use tidemill_common::config::{Config, Sources};

use crate::convert::map_from_python;

/// Reads settings. Without any, `tidemill.toml` in the working directory is read if it exists.
///
/// # Errors
/// `ValueError` for a file that cannot be read, an unknown key or an invalid value; `TypeError` for another object.
pub(crate) fn read(settings: Option<&Bound<'_, PyAny>>) -> PyResult<Config> {
    let wrong = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let Some(settings) = settings else {
        return Config::load(&Sources::of_process(None, Vec::new())).map_err(|error| wrong(&error));
    };
    if settings.cast::<PyMapping>().is_err() {
        let file: PathBuf = settings.extract()?;
        return Config::load(&Sources::of_process(Some(file), Vec::new())).map_err(|error| wrong(&error));
    }
    let mut sections = map_from_python(settings, "settings")?;
    // TOML has no null; an absent setting has its default.
    for section in sections.values_mut().filter_map(serde_json::Value::as_object_mut) {
        section.retain(|_, value| !value.is_null());
    }
    let table = toml::Table::try_from(sections).map_err(|error| wrong(&error))?;
    Config::of_table(table, "settings", &Sources::of_process(None, Vec::new())).map_err(|error| wrong(&error))
}
