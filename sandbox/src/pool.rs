//! A pool of idle helpers. A helper belongs to one execution at a time: it returns to the pool after a good end.
//! Dropping it kills it with whatever it runs.

use std::sync::{Mutex, PoisonError};

/// The idle helpers of one kind.
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

/// Reasons for an execution without outcome.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The helper ended or is out of sync. The execution can be repeated in another helper, because code has no outside
    /// effects.
    Helper(String),
    /// The execution broke a limit that is enforced by killing the helper.
    Execution(crate::frame::Verdict, String),
}
