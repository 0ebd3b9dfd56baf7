//! The budget of a run: the most that it may spend on models, in tokens and in money.

use std::sync::Arc;

use crate::state::cost::{Cost, Price};
use tidemill_workflow::nodes::llm::decimal::Decimal;

/// The origin of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// The settings (`[run]`).
    Settings,
    /// The workflow (`workflow.tidemill`).
    Workflow,
    /// The request.
    Request,
    /// The caller of a sub-workflow run: what its own budget has left.
    Caller,
}

impl SetBy {
    /// All origins.
    pub const ALL: [Self; 4] = [Self::Settings, Self::Workflow, Self::Request, Self::Caller];
    /// The name of the origin on the wire and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Workflow => "workflow",
            Self::Request => "request",
            Self::Caller => "caller",
        }
    }
    /// Returns the origin with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// The most that a run may spend. `None` means no limit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    /// Tokens (`budget_tokens`).
    pub tokens: Option<(u64, SetBy)>,
    /// Money (`budget_price`). Costs in another currency do not count against it.
    pub price: Option<(Price, SetBy)>,
}

impl Budget {
    /// Returns the message for a cost that exceeds the budget, or `None`.
    pub fn crossed(&self, tokens: u64, cost: impl FnOnce() -> Cost) -> Option<String> {
        if let Some((max, by)) = self.tokens
            && tokens > max
        {
            let by = by.name();
            return Some(format!(
                "{tokens} tokens are spent, and the run may spend {max} (budget_tokens, set by the {by})"
            ));
        }
        let (max, by) = self.price.as_ref()?;
        let paid = cost().price.filter(|paid| paid.currency == max.currency)?;
        is_more(paid.amount, max.amount).then(|| {
            let (paid, of, max, by) = (paid.amount.fixed(), &max.currency, max.amount.fixed(), by.name());
            format!("{paid} {of} are spent, and the run may spend {max} {of} (budget_price, set by the {by})")
        })
    }

    /// The rest of the budget, for a sub-workflow run. It is at least one token, so that the run fails at its first
    /// model call and not before.
    pub fn left(&self, cost: &Cost) -> Self {
        let tokens = self.tokens.map(|(max, _)| (max.saturating_sub(cost.tokens).max(1), SetBy::Caller));
        let price = self.price.as_ref().map(|(max, _)| {
            let paid = cost.price.as_ref().filter(|paid| paid.currency == max.currency);
            let left = paid.map_or(max.amount, |paid| max.amount.minus(paid.amount));
            (Price { amount: left, currency: max.currency.clone() }, SetBy::Caller)
        });
        Self { tokens, price }
    }

    /// The smaller of two budgets, for tokens and price separately.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let tokens = match (self.tokens, other.tokens) {
            (Some(one), Some(two)) => Some(if two.0 < one.0 { two } else { one }),
            (one, two) => one.or(two),
        };
        let price = match (self.price, other.price) {
            (Some(one), Some(two)) if one.0.currency == two.0.currency => {
                Some(if is_more(one.0.amount, two.0.amount) { two } else { one })
            }
            (one, two) => one.or(two),
        };
        Self { tokens, price }
    }
}

/// True when `one` is more than `other`.
pub fn is_more(one: Decimal, other: Decimal) -> bool {
    !one.minus(other).is_zero()
}

/// Parses `<amount> <currency>`, such as `0.50 EUR`.
pub fn price(text: &str) -> Option<Price> {
    let (amount, currency) = text.trim().split_once(' ')?;
    let currency = currency.trim();
    let fits = (1..=16).contains(&currency.len()) && currency.bytes().all(|b| b.is_ascii_alphanumeric());
    fits.then_some(())?;
    Some(Price { amount: amount.parse().ok()?, currency: Arc::from(currency) })
}

/// Formats a price in the form that [`price`] parses.
pub fn price_text(price: &Price) -> String {
    format!("{} {}", price.amount.fixed(), price.currency)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(tokens: u64, text: &str) -> Cost {
        Cost { tokens, price: price(text).map(Box::new) }
    }

    #[test]
    fn a_budget_says_who_set_it_and_what_was_spent() {
        let budget = Budget {
            tokens: Some((10, SetBy::Request)),
            price: price("0.5 EUR").map(|price| (price, SetBy::Settings)),
        };
        let crossed = |tokens, text: &str| budget.crossed(tokens, || cost(tokens, text));
        assert_eq!(crossed(10, "0.5 EUR"), None);
        assert_eq!(
            crossed(11, "0 EUR").unwrap(),
            "11 tokens are spent, and the run may spend 10 (budget_tokens, set by the request)"
        );
        assert_eq!(
            crossed(1, "0.5000001 EUR").unwrap(),
            "0.5000001 EUR are spent, and the run may spend 0.5 EUR (budget_price, set by the settings)"
        );
        assert_eq!(crossed(1, "7 USD"), None, "another currency");
    }

    #[test]
    fn a_sub_workflow_run_may_spend_what_its_caller_has_left() {
        let budget = Budget { tokens: Some((10, SetBy::Request)), price: None };
        assert_eq!(budget.left(&cost(4, "1 EUR")).tokens, Some((6, SetBy::Caller)));
        assert_eq!(budget.left(&cost(40, "1 EUR")).tokens, Some((1, SetBy::Caller)));
        let own = Budget {
            tokens: Some((3, SetBy::Workflow)),
            price: price("1 EUR").map(|p| (p, SetBy::Workflow)),
        };
        let both = own.tighter(budget.left(&cost(4, "")));
        assert_eq!((both.tokens, both.price.unwrap().1), (Some((3, SetBy::Workflow)), SetBy::Workflow));
    }

    #[test]
    fn a_price_has_an_amount_and_a_currency() {
        assert_eq!(price_text(&price("0.50 EUR").unwrap()), "0.50 EUR");
        for wrong in ["", "5", "x EUR", "-1 EUR", "1 E UR!"] {
            assert_eq!(price(wrong), None, "{wrong}");
        }
    }
}
