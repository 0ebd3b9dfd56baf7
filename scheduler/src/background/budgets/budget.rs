//! The budget of an API key: limits on tokens and on money, in total and per day.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::cost::Price;
use tidemill_common::machine::state::options::budget;
use tidemill_common::store::KeyCost;
use tidemill_common::value::JsonMap;

/// The most that a key may spend. A limit that is `None` does not apply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyBudget {
    /// Tokens in total.
    pub tokens: Option<u64>,
    /// Tokens per day (UTC).
    pub tokens_per_day: Option<u64>,
    /// Money in total. Spending in other currencies does not count.
    pub price: Option<Price>,
    /// Money per day (UTC).
    pub price_per_day: Option<Price>,
}

impl KeyBudget {
    /// Reads the stored form.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let map: JsonMap = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::of(&map)
    }

    /// Reads the form of a request.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn of(map: &JsonMap) -> Result<Self, String> {
        const KEYS: [&str; 4] = ["tokens", "tokens_per_day", "price", "price_per_day"];
        if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("a budget has no {key}; it has {}", KEYS.join(", ")));
        }
        let given = |key: &str| map.get(key).filter(|value| !value.is_null());
        let tokens = |key: &str| {
            let read = |value: &Json| value.as_u64().ok_or_else(|| format!("{key} must be a whole number"));
            given(key).map(read).transpose()
        };
        let price = |key: &str| {
            let wrong = || format!("{key} must be an amount and a currency, such as \"5.00 EUR\"");
            given(key).map(|value| value.as_str().and_then(budget::price).ok_or_else(wrong)).transpose()
        };
        Ok(Self {
            tokens: tokens("tokens")?,
            tokens_per_day: tokens("tokens_per_day")?,
            price: price("price")?,
            price_per_day: price("price_per_day")?,
        })
    }

    /// The JSON form that is stored and shown.
    pub fn to_json(&self) -> Json {
        let price = |price: &Option<Price>| price.as_ref().map(budget::price_text);
        json!({
            "tokens": self.tokens,
            "tokens_per_day": self.tokens_per_day,
            "price": price(&self.price),
            "price_per_day": price(&self.price_per_day),
        })
    }

    /// Returns which limit the key has reached, or `None` while it may spend more.
    pub fn crossed(&self, key: &str, all: &KeyCost, today: &KeyCost) -> Option<String> {
        for (name, max, spent) in
            [("tokens", self.tokens, all), ("tokens_per_day", self.tokens_per_day, today)]
        {
            let tokens = spent.get("tokens");
            if let Some(max) = max.filter(|max| tokens >= *max) {
                return Some(format!(
                    "key {key} has spent {tokens} tokens of {max} ({name}, set for the key)"
                ));
            }
        }
        for (name, max, spent) in [("price", &self.price, all), ("price_per_day", &self.price_per_day, today)]
        {
            let Some(max) = max else { continue };
            let paid = spent.paid(&max.currency);
            if !budget::is_more(max.amount, paid) {
                let (paid, max, of) = (paid.fixed(), max.amount.fixed(), &max.currency);
                return Some(format!(
                    "key {key} has spent {paid} {of} of {max} {of} ({name}, set for the key)"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(tokens: u64, units: u64) -> KeyCost {
        let mut spent = KeyCost::default();
        spent.add("tokens", tokens);
        spent.add("price:EUR", units);
        spent
    }

    #[test]
    fn a_key_that_may_spend_no_more_says_which_limit_it_reached() {
        let budget =
            KeyBudget::read(r#"{"tokens":10,"tokens_per_day":5,"price":"1 EUR","price_per_day":"0.5 EUR"}"#)
                .unwrap();
        let crossed = |all: KeyCost, today: KeyCost| budget.crossed("k", &all, &today);
        assert_eq!(crossed(spent(9, 9_999_999), spent(4, 4_999_999)), None);
        for (all, today, said) in [
            (spent(10, 0), spent(0, 0), "key k has spent 10 tokens of 10 (tokens, set for the key)"),
            (spent(6, 0), spent(6, 0), "key k has spent 6 tokens of 5 (tokens_per_day, set for the key)"),
            (
                spent(0, 10_000_000),
                spent(0, 0),
                "key k has spent 1.0000000 EUR of 1 EUR (price, set for the key)",
            ),
            (
                spent(0, 0),
                spent(0, 5_000_000),
                "key k has spent 0.5000000 EUR of 0.5 EUR (price_per_day, set for the key)",
            ),
        ] {
            assert_eq!(crossed(all, today).as_deref(), Some(said));
        }
        let again = KeyBudget::read(&budget.to_json().to_string()).unwrap();
        assert_eq!(again, budget);
    }

    #[test]
    fn an_invalid_budget_says_what_is_wrong() {
        for (text, said) in [
            (r#"{"token":1}"#, "a budget has no token; it has tokens, tokens_per_day, price, price_per_day"),
            (r#"{"tokens":"1"}"#, "tokens must be a whole number"),
            (r#"{"price":"5"}"#, "price must be an amount and a currency, such as \"5.00 EUR\""),
        ] {
            assert_eq!(KeyBudget::read(text).unwrap_err(), said);
        }
    }
}
