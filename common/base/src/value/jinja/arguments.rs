//! Arguments that may be given in order or by name, as in Python.

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Error, State, UndefinedBehavior};

use super::ops::{failure, undefined};
use super::show;

/// The arguments of a filter, after its value.
pub(super) struct Arguments {
    in_order: std::vec::IntoIter<Value>,
    named: Kwargs,
}

impl Arguments {
    pub(super) fn of(in_order: Rest<Value>, named: Kwargs) -> Self {
        Self { in_order: in_order.0.into_iter(), named }
    }
    /// Returns the next argument, or the one with this name. Null counts as absent.
    pub(super) fn next(&mut self, name: &str) -> Result<Option<Value>, Error> {
        let value = match self.in_order.next() {
            Some(value) => Some(value),
            None => self.named.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|value| !value.is_none()))
    }
    pub(super) fn integer(&mut self, name: &str, default: i64) -> Result<i64, Error> {
        self.next(name)?.map_or(Ok(default), i64::try_from)
    }
    pub(super) fn flag(&mut self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.next(name)?.map_or(default, |value| value.is_true()))
    }
    pub(super) fn text(&mut self, name: &str, default: &str) -> Result<String, Error> {
        Ok(self.next(name)?.map_or_else(|| default.into(), |value| show::text(&value)))
    }
    /// Refuses arguments that were given but not read.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        match self.in_order.next() {
            Some(_) => Err(failure("too many arguments")),
            None => self.named.assert_all_used(),
        }
    }
}

/// Refuses an undefined value in strict templates; elsewhere it counts as empty.
pub(super) fn given(state: &State, value: &Value) -> Result<(), Error> {
    if value.is_undefined() && state.undefined_behavior() == UndefinedBehavior::Strict {
        return Err(undefined(value));
    }
    Ok(())
}

/// Returns the text of a value, which must be defined in strict templates.
pub(super) fn text_of(state: &State, value: &Value) -> Result<String, Error> {
    given(state, value)?;
    Ok(show::text(value))
}

/// Refuses an undefined value, strict or not, for operations that need a value.
pub(super) fn defined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() { Err(undefined(value)) } else { Ok(()) }
}
