//! Which models without limits of their own were asked by their providers to wait: as long as they do, this worker lets their
//! calls take turns as those of a limited model, instead of having each of them refused.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_common::limits::MODEL_REST_MAX_MS;

/// Models of one connection that rest, with the end of their rest.
#[derive(Debug, Default)]
pub struct Resting(Mutex<Vec<(Box<str>, Instant)>>);

impl Resting {
    /// Whether a model rests.
    pub fn has(&self, model: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return false;
        }
        let now = Instant::now();
        all.retain(|(_, until)| *until > now);
        all.iter().any(|(name, _)| **name == *model)
    }

    /// A model rests for so long from now on.
    pub fn note(&self, model: &str, rest: Duration) {
        let until = Instant::now() + rest.min(Duration::from_millis(MODEL_REST_MAX_MS));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|(name, _)| **name == *model) {
            Some((_, known)) => *known = until.max(*known),
            None => all.push((model.into(), until)),
        }
    }
}
