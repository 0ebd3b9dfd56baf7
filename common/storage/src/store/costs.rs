//! The spending of API keys: sums over the model calls of their runs, updated by the commits.

use std::collections::BTreeMap;

use tidemill_base::clock::Timestamp;
use tidemill_wire::commit::ChargeWrite;
use tidemill_workflow::nodes::llm::decimal::Decimal;

/// Money is counted in units of `10^-7`, to which prices are rounded.
pub const MONEY_PLACES: u32 = 7;
/// The UTC day of a time: `2026-01-31`.
pub fn day_of(at: Timestamp) -> String {
    let day = chrono::DateTime::from_timestamp(at.seconds(), 0).unwrap_or_default();
    day.format("%Y-%m-%d").to_string()
}

/// The prefix of a currency in the name of a money sum.
const PRICE: &str = "price:";

/// Sums by name: `calls`, `prompt_tokens`, `completion_tokens`, `tokens`, and `price:<currency>` in units of
/// `10^-7`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyCost(pub BTreeMap<String, u64>);

impl KeyCost {
    /// The sums over the calls of a commit.
    pub fn of(write: &ChargeWrite) -> Self {
        let mut sums = Self::default();
        for call in &write.calls {
            for (name, count) in [
                ("calls", 1),
                ("prompt_tokens", call.prompt_tokens),
                ("completion_tokens", call.completion_tokens),
                ("tokens", call.total_tokens),
            ] {
                sums.add(name, count);
            }
            if let Some(price) = &call.price {
                let units = u64::try_from(price.amount.units(MONEY_PLACES)).unwrap_or(u64::MAX);
                sums.add(&format!("{PRICE}{}", price.currency), units);
            }
        }
        sums
    }

    /// Adds to a sum.
    pub fn add(&mut self, name: &str, count: u64) {
        if count > 0 {
            let sum = self.0.entry(name.to_string()).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds all sums of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, count)| self.add(name, *count));
    }

    /// A sum; 0 when nothing was counted.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The amount paid in a currency.
    pub fn paid(&self, currency: &str) -> Decimal {
        Decimal::of_units(u128::from(self.get(&format!("{PRICE}{currency}"))), MONEY_PLACES)
    }

    /// The amounts paid, by currency, in plain notation.
    pub fn prices(&self) -> impl Iterator<Item = (&str, String)> {
        let names = self.0.keys().filter_map(|name| name.strip_prefix(PRICE));
        names.map(|currency| (currency, self.paid(currency).fixed()))
    }
}

/// The public id of a key: the beginning of its hash, which opens nothing.
pub fn key_id(key_hash: &str) -> String {
    key_hash.chars().take(16).collect()
}
