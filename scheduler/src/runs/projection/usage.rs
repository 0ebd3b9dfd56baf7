//! Adds up the usage of a run's model calls by Dify's rules: counts, prices and latency are added; unit prices,
//! currency and times are those of the newest call. The first call is taken unchanged.

use serde_json::Value as Json;
use tidemill_common::nodes::Usage as Bill;
use tidemill_common::nodes::llm::usage::{Timing, Tokens, bill, sum};

/// The sum so far.
#[derive(Debug, Default)]
pub struct Usage(Option<Bill>);

impl Usage {
    /// Adds the usage of a node, if it has used tokens.
    pub fn add(&mut self, usage: &Json) {
        let newer = usage.as_object().map(|record| Bill::from_record(record.clone()));
        let Some(newer) = newer.filter(|usage| usage.total_tokens > 0) else { return };
        self.0 = Some(self.0.as_ref().map_or_else(|| newer.clone(), |older| sum(older, &newer)));
    }

    /// Dify's usage object, with zeroes when there were no calls.
    pub fn to_json(&self) -> Json {
        let none = || bill(Tokens::default(), None, Timing::default());
        Json::Object(self.0.clone().unwrap_or_else(none).record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_and_prices_add_up_and_other_fields_come_from_the_newest_call() {
        let call = |tokens: u64, price: &str, unit: &str| {
            json!({
                "prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1, "prompt_price": price,
                "completion_price": "0.0", "total_price": price, "prompt_unit_price": unit, "currency": "EUR",
                "latency": 0.1,
            })
        };
        let mut sum = Usage::default();
        sum.add(&json!({"total_tokens": 0, "currency": "GBP"}));
        sum.add(&call(10, "0.5", "1"));
        sum.add(&call(20, "0.25", "2"));
        let sum = sum.to_json();
        assert_eq!((&sum["total_tokens"], &sum["total_price"]), (&json!(32), &json!("0.75")));
        assert_eq!((&sum["prompt_unit_price"], &sum["latency"]), (&json!("2"), &json!(0.2)));
        assert_eq!(Usage::default().to_json()["currency"], "USD");
    }
}
