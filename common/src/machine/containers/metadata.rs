//! What the record of a container says beside its outputs: cost and duration of its frames. Dify's names.

use serde_json::{Value as Json, json};

use crate::machine::body::OpenContainer;
use crate::machine::run::NodeState;
use crate::nodes::llm::decimal::Decimal;
use crate::value::JsonMap;

/// `total_tokens`, `total_price`, `currency` and the durations under `durations` (`iteration_duration_map`, …).
pub(super) fn of(state: &NodeState, open: &OpenContainer, durations: &str) -> JsonMap {
    let spent = &state.inside.spent;
    let (price, currency) = match &spent.price {
        Some(price) => (price.amount.fixed(), &*price.currency),
        None => (Decimal::UNPRICED.fixed(), "USD"),
    };
    let seconds: JsonMap =
        open.collected.iter().map(|(at, left)| (at.to_string(), json!(left.seconds))).collect();
    let mut map = JsonMap::new();
    map.insert("total_tokens".into(), spent.tokens.into());
    map.insert("total_price".into(), price.into());
    map.insert("currency".into(), currency.into());
    map.insert(durations.into(), Json::Object(seconds));
    map
}
