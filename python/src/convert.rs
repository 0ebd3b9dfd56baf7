//! Turns JSON values into Python objects and back, without a text in between: each value of a node crosses here.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};
use serde_json::{Map, Number, Value as Json};

/// The deepest nesting of a value that comes from Python. Without a bound a list that contains itself would end the process.
const DEPTH_MAX: usize = 128;

/// A value of the engine as a Python object.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Json::Number(number) => number_to_python(py, number)?,
        Json::String(text) => PyString::new(py, text).into_any(),
        Json::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Json::Object(map) => map_to_python(py, map)?.into_any(),
    })
}

/// A map of the engine as a `dict`.
pub(crate) fn map_to_python<'py>(py: Python<'py>, map: &Map<String, Json>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in map {
        dict.set_item(key, to_python(py, value)?)?;
    }
    Ok(dict)
}

fn number_to_python<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    Ok(if let Some(number) = number.as_i64() {
        number.into_pyobject(py)?.into_any()
    } else if let Some(number) = number.as_u64() {
        number.into_pyobject(py)?.into_any()
    } else {
        PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any()
    })
}

/// A Python object as a value of the engine. `what` names it in errors.
///
/// # Errors
/// `TypeError` for an object that JSON cannot hold, `ValueError` for a number that it cannot hold; with the place.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Json> {
    read(value, DEPTH_MAX).map_err(|misfit| misfit.into_error(value.py(), what))
}

/// As [`from_python`], for a mapping with texts as keys.
///
/// # Errors
/// As [`from_python`].
pub(crate) fn map_from_python(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Map<String, Json>> {
    match from_python(value, what)? {
        Json::Object(map) => Ok(map),
        _ => {
            let message = format!("{what}: a mapping is needed, not {}", type_name(value));
            Err(PyTypeError::new_err(message))
        }
    }
}

/// The reason why an object is no JSON, and the way to it, innermost first.
struct Misfit {
    way: Vec<String>,
    reason: Reason,
}

enum Reason {
    Type(String),
    Value(String),
    Python(PyErr),
}

impl Misfit {
    fn of_type(reason: impl Into<String>) -> Self {
        Self { way: Vec::new(), reason: Reason::Type(reason.into()) }
    }
    fn of_value(reason: impl Into<String>) -> Self {
        Self { way: Vec::new(), reason: Reason::Value(reason.into()) }
    }
    fn below(mut self, key: String) -> Self {
        self.way.push(key);
        self
    }
    fn into_error(self, py: Python<'_>, what: &str) -> PyErr {
        let way: String = self.way.iter().rev().map(|key| format!(".{key}")).collect();
        match self.reason {
            Reason::Type(reason) => PyTypeError::new_err(format!("{what}{way}: {reason}")),
            Reason::Value(reason) => PyValueError::new_err(format!("{what}{way}: {reason}")),
            Reason::Python(error) => {
                let outer = PyValueError::new_err(format!("{what}{way}: {error}"));
                outer.set_cause(py, Some(error));
                outer
            }
        }
    }
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Self { way: Vec::new(), reason: Reason::Python(error) }
    }
}

fn read(value: &Bound<'_, PyAny>, depth: usize) -> Result<Json, Misfit> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Json::String(text.to_cow()?.into_owned()));
    }
    if value.is_none() {
        return Ok(Json::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Json::Bool(value.is_true()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return whole_number(number);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = Number::from_f64(number.value());
        return number.map(Json::Number).ok_or_else(|| Misfit::of_value("JSON has no NaN and no infinity"));
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Misfit::of_value(format!(
            "nested deeper than {DEPTH_MAX} levels; a list or dict may contain itself"
        )));
    };
    if let Ok(dict) = value.cast::<PyDict>() {
        return members(dict.iter(), depth);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return items(list.iter(), depth);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return items(tuple.iter(), depth);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let list = mapping.items()?;
        let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> =
            list.iter().map(|pair| pair.extract()).collect::<PyResult<_>>()?;
        return members(pairs.into_iter(), depth);
    }
    if is_integral(value)? {
        let number = value.call_method0("__index__")?;
        return whole_number(number.cast::<PyInt>().map_err(PyErr::from)?);
    }
    Err(Misfit::of_type(format!(
        "{} is no JSON value; use None, bool, int, float, str, list, tuple or dict",
        type_name(value)
    )))
}

/// True for whole numbers of other libraries, such as `numpy.int64`. Arrays and truth values of such libraries may have
/// `__index__`, too, but are no `numbers.Integral`: as numbers they would lose what they are.
fn is_integral(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static INTEGRAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    value.is_instance(INTEGRAL.import(value.py(), "numbers", "Integral")?)
}

fn whole_number(number: &Bound<'_, PyInt>) -> Result<Json, Misfit> {
    if let Ok(number) = number.extract::<i64>() {
        return Ok(number.into());
    }
    match number.extract::<u64>() {
        Ok(number) => Ok(number.into()),
        Err(_) => Err(Misfit::of_value("a whole number must fit into 64 bits; pass larger ones as text")),
    }
}

fn members<'py>(
    pairs: impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    depth: usize,
) -> Result<Json, Misfit> {
    let mut map = Map::new();
    for (key, value) in pairs {
        let Ok(key) = key.cast::<PyString>() else {
            return Err(Misfit::of_type(format!("keys are str, not {}", type_name(&key))));
        };
        let key = key.to_cow()?.into_owned();
        match read(&value, depth) {
            Ok(value) => drop(map.insert(key, value)),
            Err(misfit) => return Err(misfit.below(key)),
        }
    }
    Ok(Json::Object(map))
}

fn items<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Result<Json, Misfit> {
    let read_at = |(at, item): (usize, Bound<'py, PyAny>)| {
        read(&item, depth).map_err(|misfit| misfit.below(at.to_string()))
    };
    items.enumerate().map(read_at).collect::<Result<_, _>>().map(Json::Array)
}

/// The name of its type, with the module of one that is not built in: `numpy.bool` is not `bool`.
fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "this object".into(), |name| name.to_string())
}
