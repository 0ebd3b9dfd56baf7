//! Prints values as Python does: `None`, `True`, `1e+16`, `['a', 1]`, `{'k': None}`.

use std::fmt::Write;

use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Error, Output, State};

use super::budget;
use super::filters::html;
use crate::value::pyrepr::{float_repr, repr_text_into};

/// Deepest nesting that is printed; deeper values are cut, as Python cuts a list that contains itself.
const DEPTH_MAX: usize = 100;

/// Writes the value of `{{ … }}`. Undefined values only get here where they are allowed, and print nothing.
pub(super) fn format(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if *state.auto_escape() != AutoEscape::None && !value.is_safe() {
        let text = html(&text(value));
        budget::charge(state, text.len())?;
        return Ok(out.write_str(&text)?);
    }
    if let Some(text) = value.as_str() {
        budget::charge(state, text.len())?;
        return Ok(out.write_str(text)?);
    }
    let text = text(value);
    budget::charge(state, text.len())?;
    Ok(out.write_str(&text)?)
}

/// `str(value)`; empty for undefined.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.into(),
        None if value.is_undefined() => String::new(),
        None => repr(value),
    }
}

/// `repr(value)`.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    repr_into(&mut out, value, 0);
    out
}

fn repr_into(out: &mut String, value: &Value, depth: usize) {
    if depth > DEPTH_MAX {
        return out.push_str("...");
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => repr_text_into(out, value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => {
            out.push_str(&f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float_repr));
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = value.is_tuple() || super::sorting::is_group(value);
            let (open, close) = if tuple { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                out.push_str(if count == 0 { "" } else { ", " });
                repr_into(out, &item, depth + 1);
                count += 1;
            }
            out.push_str(if value.is_tuple() && count == 1 { "," } else { "" });
            out.push(close);
        }
        ValueKind::Map if matches!(type_name(value), "dict" | "Namespace") => {
            let namespace = type_name(value) == "Namespace";
            out.push_str(if namespace { "<Namespace {" } else { "{" });
            let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
            for (at, (key, item)) in pairs.into_iter().flatten().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                repr_into(out, &key, depth + 1);
                out.push_str(": ");
                repr_into(out, &item, depth + 1);
            }
            out.push_str(if namespace { "}>" } else { "}" });
        }
        _ => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{value}");
        }
    }
}

/// Returns the name of the value's type in Python.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map if value.as_object().is_some_and(|o| o.type_name().contains("acro_object")) => "Macro",
        ValueKind::Map if value.as_object().is_some_and(|o| o.type_name().contains("amespace")) => {
            "Namespace"
        }
        ValueKind::Map => "dict",
        _ => "object",
    }
}

/// The test `sequence`: true for values with a length and items, including texts and mappings.
pub(super) fn is_sequence(state: &State, value: &Value) -> Result<bool, Error> {
    super::arguments::given(state, value)?;
    Ok(value.is_undefined() || has_items(value))
}

/// The test `iterable`.
pub(super) fn is_iterable(state: &State, value: &Value) -> Result<bool, Error> {
    is_sequence(state, value)
}

fn has_items(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
        && !matches!(type_name(value), "Macro" | "Namespace")
}

/// True for the `loop` variable of a loop.
pub(super) fn is_loop(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().contains("loop_object"))
}

/// The test `callable`: macros and functions.
pub(super) fn is_callable(value: &Value) -> bool {
    // Jinja2 counts undefined values as callable; the call itself fails.
    value.is_undefined() || value.kind() == ValueKind::Plain || type_name(value) == "Macro"
}
