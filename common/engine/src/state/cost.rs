//! The cost of model calls: tokens and, where it is known, a price. One call has a cost, and so has the sum of many.

use std::sync::Arc;

use tidemill_workflow::nodes::Usage;
use tidemill_workflow::nodes::llm::decimal::Decimal;

/// A cost of model calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cost {
    pub tokens: u64,
    /// The price, if known. Boxed, because each node has several of these and few nodes cost anything.
    pub price: Option<Box<Price>>,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    pub amount: Decimal,
    /// The currency, such as `USD`.
    pub currency: Arc<str>,
}

impl Cost {
    /// The cost of one call.
    pub fn of(usage: Option<&Usage>) -> Self {
        let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) else { return Self::default() };
        let amount = usage.total_price.parse().ok();
        let price = amount.map(|amount| Price { amount, currency: usage.currency.as_str().into() });
        let price = price.map(Box::new);
        Self { tokens: usage.total_tokens, price }
    }
    /// The rest of a cost of which a part was counted before. Without tokens in the rest, it has no price.
    #[must_use]
    pub fn without(&self, counted: &Self) -> Self {
        if counted.tokens == 0 {
            return self.clone();
        }
        let tokens = self.tokens.saturating_sub(counted.tokens);
        let price = self.price.clone().filter(|_| tokens > 0);
        let price = price.map(|price| match &counted.price {
            Some(of) => Box::new(Price { amount: price.amount.minus(of.amount), ..*price }),
            None => price,
        });
        Self { tokens, price }
    }
    /// The sum. If the currencies differ, it has the newer one, as on Dify.
    #[must_use]
    pub fn plus(&self, newer: &Self) -> Self {
        let price = match (&self.price, &newer.price) {
            (Some(old), Some(new)) => {
                let currency = new.currency.clone();
                Some(Box::new(Price { amount: old.amount.plus(new.amount), currency }))
            }
            (old, new) => new.clone().or_else(|| old.clone()),
        };
        Self { tokens: self.tokens + newer.tokens, price }
    }
}
