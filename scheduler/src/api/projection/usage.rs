//! What the model calls of a run cost together, by Dify's rules for adding: counts, prices and latency add up, unit prices,
//! currency and times are those of the newer call, and the first call stands for the sum as it is.

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::llm::decimal::Decimal;

/// The sum so far.
#[derive(Debug, Default)]
pub(super) struct Usage(Map<String, Json>);

const COUNTS: [&str; 3] = ["prompt_tokens", "completion_tokens", "total_tokens"];
const PRICES: [&str; 3] = ["prompt_price", "completion_price", "total_price"];

impl Usage {
    /// Adds the usage of a node, if it has any.
    pub(super) fn add(&mut self, usage: &Json) {
        let Some(newer) = usage.as_object().filter(|usage| count(usage, "total_tokens") > 0) else { return };
        if count(&self.0, "total_tokens") == 0 {
            self.0 = newer.clone();
            return;
        }
        let mut sum = newer.clone();
        for key in COUNTS {
            sum.insert(key.into(), (count(&self.0, key) + count(newer, key)).into());
        }
        for key in PRICES {
            sum.insert(key.into(), price(&self.0, key).plus(price(newer, key)).to_string().into());
        }
        let latency = |usage: &Map<String, Json>| usage.get("latency").and_then(Json::as_f64).unwrap_or(0.0);
        let both = (latency(&self.0) + latency(newer)) * 1000.0;
        sum.insert("latency".into(), json!(both.round() / 1000.0));
        self.0 = sum;
    }

    /// Dify's usage object; one of zeroes when nothing was asked.
    pub(super) fn to_json(&self) -> Json {
        if !self.0.is_empty() {
            return Json::Object(self.0.clone());
        }
        json!({
            "prompt_tokens": 0, "prompt_unit_price": "0.0", "prompt_price_unit": "0.0", "prompt_price": "0.0",
            "completion_tokens": 0, "completion_unit_price": "0.0", "completion_price_unit": "0.0",
            "completion_price": "0.0", "total_tokens": 0, "total_price": "0.0", "currency": "USD",
            "latency": 0.0, "time_to_first_token": null, "time_to_generate": null,
        })
    }
}

fn count(usage: &Map<String, Json>, key: &str) -> u64 {
    usage.get(key).and_then(Json::as_u64).unwrap_or(0)
}

fn price(usage: &Map<String, Json>, key: &str) -> Decimal {
    let text = usage.get(key).and_then(Json::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(Decimal::UNPRICED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_prices_add_up_and_the_newer_call_says_the_rest() {
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
