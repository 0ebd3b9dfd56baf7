//! What API keys have spent: sums of the model calls that their runs have paid for, kept with the commits that count them.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::nodes::llm::decimal::Decimal;
use crate::wire::commit::SpentWrite;

/// Money is counted in units of `10^-7`, as prices are rounded.
pub const MONEY_PLACES: u32 = 7;
/// The day of a moment, UTC: `2026-01-31`.
pub fn day_of(at: Timestamp) -> String {
    let day = chrono::DateTime::from_timestamp(at.seconds(), 0).unwrap_or_default();
    day.format("%Y-%m-%d").to_string()
}

/// In front of the currency in the name of a sum of money.
const PRICE: &str = "price:";

/// Sums by their names: `calls`, `prompt_tokens`, `completion_tokens`, `tokens`, and `price:<currency>` in units of `10^-7`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySpent(pub BTreeMap<String, u64>);

impl KeySpent {
    /// What the calls of a commit add up to.
    pub fn of(write: &SpentWrite) -> Self {
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

    /// Adds all sums of another.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, count)| self.add(name, *count));
    }

    /// A sum, 0 where nothing was counted.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// What was paid in a currency.
    pub fn paid(&self, currency: &str) -> Decimal {
        Decimal::of_units(u128::from(self.get(&format!("{PRICE}{currency}"))), MONEY_PLACES)
    }

    /// What was paid, by currency, in plain notation.
    pub fn prices(&self) -> impl Iterator<Item = (&str, String)> {
        let names = self.0.keys().filter_map(|name| name.strip_prefix(PRICE));
        names.map(|currency| (currency, self.paid(currency).fixed()))
    }
}

/// The id under which a key is known to people: the beginning of its hash, which opens nothing.
pub fn key_id(key_hash: &str) -> String {
    key_hash.chars().take(16).collect()
}
