//! Reads options one at a time from where they are given, and says what is wrong with them.

use serde_json::Value as Json;
use tidemill_common::value::JsonMap;

use super::{SubmitError, unknown_option};

/// The options that one place gives.
pub(super) struct Given<'a> {
    pub(super) options: &'a JsonMap,
    /// The name of the place in messages.
    origin: &'static str,
}

impl<'a> Given<'a> {
    pub(super) fn new(options: &'a JsonMap, origin: &'static str) -> Self {
        Self { options, origin }
    }

    /// Returns the error for an option with a wrong value.
    pub(super) fn wrong(&self, key: &'static str, expected: impl Into<String>) -> SubmitError {
        SubmitError::Option { key, origin: self.origin, expected: expected.into() }
    }

    /// Refuses options with other names.
    pub(super) fn allow_only(&self, known: &[&str]) -> Result<(), SubmitError> {
        match self.options.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(unknown_option(key, self.origin, known)),
            None => Ok(()),
        }
    }

    /// Returns the value of an option; null counts as absent.
    pub(super) fn value(&self, key: &str) -> Option<&'a Json> {
        self.options.get(key).filter(|value| !value.is_null())
    }

    /// Reads a whole number within bounds.
    pub(super) fn number(&self, key: &'static str, min: u64, max: u64) -> Result<Option<u64>, SubmitError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_u64() {
            Some(n) if (min..=max).contains(&n) => Ok(Some(n)),
            Some(_) | None if max == u64::MAX => {
                Err(self.wrong(key, format!("a whole number, {min} or more")))
            }
            Some(_) | None => Err(self.wrong(key, format!("a whole number, {min} to {max}"))),
        }
    }

    /// Reads a number of bytes or characters, 1 or more.
    pub(super) fn size(&self, key: &'static str, max: u64) -> Result<Option<usize>, SubmitError> {
        let size = self.number(key, 1, max)?;
        Ok(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)))
    }

    pub(super) fn truth(&self, key: &'static str) -> Result<Option<bool>, SubmitError> {
        let truth =
            self.value(key).map(|value| value.as_bool().ok_or_else(|| self.wrong(key, "true or false")));
        truth.transpose()
    }

    /// Returns a text that must be one of a few words, or an empty text for any other value: none of the words is empty.
    pub(super) fn word(&self, key: &'static str) -> Option<&'a str> {
        self.value(key).map(|value| value.as_str().unwrap_or_default())
    }
}
