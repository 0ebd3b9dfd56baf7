//! The cost of a model call: tokens times price, as Dify's usage object.

use serde_json::{Value as Json, json};

use super::decimal::Decimal;
use crate::nodes::{Usage, WASTED};
use tidemill_base::value::JsonMap;

/// Tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    pub prompt: u64,
    pub completion: u64,
}

/// Prices of a model's tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pricing {
    /// Price of 1/`unit` prompt tokens.
    pub input: Decimal,
    /// Price of 1/`unit` completion tokens. `None`: no price.
    pub output: Option<Decimal>,
    /// The share of one token in the amount that prices are for: `0.000001` for prices per million.
    pub unit: Decimal,
    /// For example `USD`.
    pub currency: String,
}

/// The duration of a call, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timing {
    /// From just before the request to the end of the stream.
    pub latency: f64,
    /// Until the first text. `None` without text.
    pub first_token: Option<f64>,
    /// From the first text to the end. `None` without text.
    pub generate: Option<f64>,
}

/// The usage of one call. The total of tokens is always the sum of both counts, whatever the provider reports.
pub fn bill(tokens: Tokens, pricing: Option<&Pricing>, timing: Timing) -> Usage {
    let prompt = CostPart::of(tokens.prompt, pricing.map(|p| (p.input, p.unit)));
    let completion = CostPart::of(tokens.completion, pricing.and_then(|p| Some((p.output?, p.unit))));
    let total_tokens = tokens.prompt.saturating_add(tokens.completion);
    let total_price = prompt.amount.plus(completion.amount);
    let currency = pricing.map_or("USD", |p| &p.currency);
    let mut record = JsonMap::new();
    prompt.record("prompt", &mut record);
    completion.record("completion", &mut record);
    for (key, value) in [
        ("total_tokens", json!(total_tokens)),
        ("total_price", json!(total_price.to_string())),
        ("currency", json!(currency)),
        ("latency", milliseconds(Some(timing.latency))),
        ("time_to_first_token", milliseconds(timing.first_token)),
        ("time_to_generate", milliseconds(timing.generate)),
    ] {
        record.insert(key.into(), value);
    }
    Usage {
        prompt_tokens: tokens.prompt,
        completion_tokens: tokens.completion,
        total_tokens,
        total_price: total_price.to_string(),
        record,
        currency: currency.into(),
    }
}

/// The sum of two usages, by Dify's rules: counts, prices and latency are added; unit prices, currency and times are
/// the newer one's; an older usage without tokens is ignored.
pub fn sum(older: &Usage, newer: &Usage) -> Usage {
    let mut record = newer.record.clone();
    // Wasted cost is counted where it is reported, so it is not part of a sum.
    record.remove(WASTED);
    if older.total_tokens == 0 {
        return Usage::from_record(record);
    }
    let count = |record: &JsonMap, key: &str| record.get(key).and_then(Json::as_u64).unwrap_or(0);
    for key in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        record.insert(key.into(), json!(count(&older.record, key) + count(&newer.record, key)));
    }
    let price = |record: &JsonMap, key: &str| {
        let text = record.get(key).and_then(Json::as_str);
        text.and_then(|text| text.parse().ok()).unwrap_or(Decimal::UNPRICED)
    };
    for key in ["prompt_price", "completion_price", "total_price"] {
        let both = price(&older.record, key).plus(price(&newer.record, key));
        record.insert(key.into(), json!(both.to_string()));
    }
    let latency = |record: &JsonMap| record.get("latency").and_then(Json::as_f64).unwrap_or(0.0);
    record.insert("latency".into(), milliseconds(Some(latency(&older.record) + latency(&newer.record))));
    Usage::from_record(record)
}

/// Reads the cost that a tool, for example, reports for its call. Counts must be whole numbers; texts and booleans are
/// ignored. A missing total is the sum of both counts.
pub fn reported(said: &JsonMap) -> Usage {
    let count = |key: &str| said.get(key).and_then(Json::as_u64).unwrap_or(0);
    let price = |key: &str| {
        let text = match said.get(key) {
            Some(Json::String(text)) => text.clone(),
            Some(Json::Number(number)) => number.to_string(),
            _ => return Decimal::UNPRICED,
        };
        text.parse().unwrap_or(Decimal::UNPRICED)
    };
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    let total = match count("total_tokens") {
        0 => prompt.saturating_add(completion),
        total => total,
    };
    let mut usage = bill(Tokens { prompt, completion }, None, Timing::default());
    for (key, value) in
        [("total_tokens", json!(total)), ("total_price", json!(price("total_price").to_string()))]
    {
        usage.record.insert(key.into(), value);
    }
    if let Some(currency) = said.get("currency").and_then(Json::as_str).filter(|name| !name.is_empty()) {
        usage.record.insert("currency".into(), currency.into());
    }
    Usage::from_record(usage.record)
}

/// Marks the usage as estimated: no one has counted its tokens.
#[must_use]
pub fn estimated(mut usage: Usage) -> Usage {
    usage.record.insert("estimated".into(), true.into());
    usage
}

/// The metadata of a node with a model call, as on Dify: `total_tokens`, `total_price` in plain notation, `currency`.
pub fn metadata(usage: &Usage) -> JsonMap {
    let price =
        usage.total_price.parse::<Decimal>().map_or_else(|_| usage.total_price.clone(), Decimal::fixed);
    let mut map = JsonMap::new();
    map.insert("total_tokens".into(), json!(usage.total_tokens));
    map.insert("total_price".into(), json!(price));
    map.insert("currency".into(), json!(usage.currency));
    map
}

/// The prompt's or the completion's part of a usage.
struct CostPart {
    tokens: u64,
    unit_price: Decimal,
    unit: Decimal,
    amount: Decimal,
}

impl CostPart {
    fn of(tokens: u64, price: Option<(Decimal, Decimal)>) -> Self {
        let none = Decimal::UNPRICED;
        match price {
            Some((unit_price, unit)) => {
                Self { tokens, unit_price, unit, amount: unit_price.amount(unit, tokens) }
            }
            None => Self { tokens, unit_price: none, unit: none, amount: none },
        }
    }

    fn record(&self, name: &str, into: &mut JsonMap) {
        into.insert(format!("{name}_tokens"), json!(self.tokens));
        into.insert(format!("{name}_unit_price"), json!(self.unit_price.to_string()));
        into.insert(format!("{name}_price_unit"), json!(self.unit.to_string()));
        into.insert(format!("{name}_price"), json!(self.amount.to_string()));
    }
}

/// Seconds, rounded to three places as on Dify.
fn milliseconds(seconds: Option<f64>) -> Json {
    seconds.map_or(Json::Null, |s| json!((s * 1000.0).round() / 1000.0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_whole_numbers_count_in_a_tools_cost() {
        let of = |said: Json| {
            let usage = super::reported(said.as_object().unwrap());
            (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.total_tokens,
                usage.total_price,
                usage.currency,
            )
        };
        let free =
            |prompt, completion, total| (prompt, completion, total, "0.0".to_owned(), "USD".to_owned());
        assert_eq!(of(json!({"prompt_tokens": 3, "completion_tokens": 4})), free(3, 4, 7));
        assert_eq!(
            of(json!({"prompt_tokens": true, "completion_tokens": "4", "total_tokens": 5})),
            free(0, 0, 5)
        );
        assert_eq!(of(json!({"prompt_tokens": -1, "completion_tokens": 1.5})), free(0, 0, 0));
        let priced = of(json!({"total_tokens": 2, "total_price": "0.25", "currency": "EUR"}));
        assert_eq!(priced, (0, 0, 2, "0.25".to_owned(), "EUR".to_owned()));
        assert_eq!(of(json!({"total_tokens": 2, "total_price": "much"})).3, "0.0");
    }

    use super::*;

    const TOKENS: Tokens = Tokens { prompt: 5, completion: 7 };

    #[test]
    fn without_prices_every_amount_is_the_unpriced_zero() {
        let usage = bill(TOKENS, None, Timing { latency: 0.12345, ..Timing::default() });
        assert_eq!(
            Json::Object(usage.record),
            json!({
                "prompt_tokens": 5, "prompt_unit_price": "0.0", "prompt_price_unit": "0.0", "prompt_price": "0.0",
                "completion_tokens": 7, "completion_unit_price": "0.0", "completion_price_unit": "0.0",
                "completion_price": "0.0", "total_tokens": 12, "total_price": "0.0", "currency": "USD",
                "latency": 0.123, "time_to_first_token": null, "time_to_generate": null
            })
        );
    }

    #[test]
    fn prices_are_decimal_texts_with_seven_places() {
        let pricing = Pricing {
            input: "0.02".parse().unwrap(),
            output: Some("2".parse().unwrap()),
            unit: "0.000001".parse().unwrap(),
            currency: "EUR".into(),
        };
        let usage = bill(TOKENS, Some(&pricing), Timing::default());
        assert_eq!(usage.record["prompt_price"], "1E-7");
        assert_eq!(usage.record["completion_price"], "0.0000140");
        assert_eq!(usage.record["total_price"], "0.0000141");
        assert_eq!(usage.record["prompt_price_unit"], "0.000001");
        assert_eq!(metadata(&usage)["total_price"], "0.0000141");
        let none = bill(Tokens::default(), Some(&pricing), Timing::default());
        assert_eq!(none.total_price, "0E-7");
        assert_eq!(metadata(&none)["total_price"], "0.0000000");
        assert_eq!(none.currency, "EUR");
    }
}
