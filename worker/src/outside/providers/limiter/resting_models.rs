//! Remembers models without limits whose provider asked to wait. Meanwhile this worker makes their calls take permits,
//! like those of a model with limits, so that they are not all refused.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_common::limits::MODEL_REST_MAX_MS;

/// The resting models of one connection, each with the end of its rest.
#[derive(Debug, Default)]
pub struct RestingModels(Mutex<Vec<(Box<str>, Instant)>>);

impl RestingModels {
    /// Returns true if a model rests.
    pub fn has(&self, model: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return false;
        }
        let now = Instant::now();
        all.retain(|(_, until)| *until > now);
        all.iter().any(|(name, _)| **name == *model)
    }

    /// Lets a model rest for this time from now on.
    pub fn note(&self, model: &str, rest: Duration) {
        let until = Instant::now() + rest.min(Duration::from_millis(MODEL_REST_MAX_MS));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|(name, _)| **name == *model) {
            Some((_, known)) => *known = until.max(*known),
            None => all.push((model.into(), until)),
        }
    }
}
