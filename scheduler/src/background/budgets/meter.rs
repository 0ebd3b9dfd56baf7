//! Counts model calls for `/metrics`: tokens and prices by provider, model and API key. It counts when a commit is
//! written, so each call counts once, however often its job was delivered.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tidemill_common::machine::order::changes::ChargeEntry;
use tidemill_common::wire::commit::ChargeWrite;

use crate::metrics as names;

/// The label for everything above the limit of series.
const OTHER: &str = "other";
/// Prices are counted in units of `10^-9`, because a counter holds whole numbers.
const NANO: u32 = 9;

/// Counts model calls, with a limit on the number of label sets.
#[derive(Debug)]
pub struct Meter {
    series_max: usize,
    seen: Mutex<BTreeSet<[String; 3]>>,
}

impl Meter {
    /// Keeps this many combinations of provider, model and key; all others become `other`
    /// (`scheduler.spending_series_max`).
    pub fn new(series_max: usize) -> Self {
        Self { series_max, seen: Mutex::default() }
    }

    /// Counts the calls of a written commit.
    pub fn count(&self, spent: &ChargeWrite) {
        for call in &spent.calls {
            let labels = self.labels(call, spent.key.as_deref().unwrap_or_default());
            let [provider, model, key] = labels;
            let of = [("provider", provider), ("model", model), ("key", key)];
            metrics::counter!(names::MODEL_CALLS.name, &of).increment(1);
            for (kind, tokens) in [("prompt", call.prompt_tokens), ("completion", call.completion_tokens)] {
                let mut of = Vec::from(of.clone());
                of.push(("kind", kind.to_string()));
                metrics::counter!(names::MODEL_TOKENS.name, &of).increment(tokens);
            }
            if let Some(price) = &call.price {
                let mut of = Vec::from(of.clone());
                of.push(("currency", price.currency.to_string()));
                let units = u64::try_from(price.amount.units(NANO)).unwrap_or(u64::MAX);
                metrics::counter!(names::MODEL_PRICE.name, &of).increment(units);
            }
        }
    }

    fn labels(&self, call: &ChargeEntry, key: &str) -> [String; 3] {
        let labels = [call.provider.clone(), call.model.clone(), key.to_string()];
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(&labels) {
            return labels;
        }
        if seen.len() >= self.series_max {
            return [OTHER; 3].map(str::to_string);
        }
        seen.insert(labels.clone());
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::clock::Timestamp;

    #[test]
    fn above_the_limit_of_series_every_label_is_other() {
        let call = |model: &str| ChargeEntry {
            at: Timestamp::default(),
            provider: "p".into(),
            model: model.into(),
            prompt_tokens: 1,
            completion_tokens: 1,
            total_tokens: 2,
            price: None,
        };
        let meter = Meter::new(2);
        let model = |name: &str| meter.labels(&call(name), "k")[1].clone();
        assert_eq!(["a", "b", "c", "a", "d"].map(model), ["a", "b", "other", "a", "other"]);
    }
}
