//! Helpers that are kept warm. One that is taken belongs to its execution: it comes back when that ended well, and is killed
//! with whatever it runs when it is dropped.

use std::sync::{Mutex, PoisonError};

/// Helpers of one kind that wait.
#[derive(Debug)]
pub(crate) struct Pool<S>(Mutex<Vec<S>>);

impl<S> Default for Pool<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> Pool<S> {
    pub(crate) fn take(&self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
    pub(crate) fn give(&self, slot: S) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}

/// Why an execution has no outcome.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The helper ended or is out of step. Another one may do better: code has no effects outside.
    Helper(String),
    /// The execution broke a bound that only its helper's end enforces.
    Execution(crate::frame::Verdict, String),
}
