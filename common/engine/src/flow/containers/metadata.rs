//! Metadata of a container's record: cost and duration of its frames, with Dify's names.

use crate::state::container::OpenContainer;
use crate::state::record::{Durations, Record};
use crate::state::run::NodeState;
use tidemill_workflow::nodes::llm::decimal::Decimal;

/// Puts `total_tokens`, `total_price`, `currency` and the durations into the record. `durations` is the name of the
/// latter.
pub(super) fn put(record: &mut Record, state: &NodeState, open: &OpenContainer, durations: &'static str) {
    let cost = &state.inside.cost;
    let (price, currency) = match &cost.price {
        Some(price) => (price.amount.fixed(), &*price.currency),
        None => (Decimal::UNPRICED.fixed(), "USD"),
    };
    record.metadata.clear();
    record.metadata.insert("total_tokens".into(), cost.tokens.into());
    record.metadata.insert("total_price".into(), price.into());
    record.metadata.insert("currency".into(), currency.into());
    let mut seconds = Vec::with_capacity(open.closed());
    for (first, left) in &open.collected {
        match &left.page {
            None => seconds.push((*first, left.seconds)),
            Some(page) => seconds.extend((*first..).zip(page.seconds.iter().copied())),
        }
    }
    record.durations = Some(Durations { name: durations, seconds });
}
