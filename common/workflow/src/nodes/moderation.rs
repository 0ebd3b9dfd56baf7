//! The `moderation` node: asks a server whether texts are acceptable. Only built-in workflows have it: their schedulers
//! need a worker to ask. This file reads the order; the worker has the addresses and the keys.

use serde_json::Value as Json;

use super::fields::{required, selector};
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Selector, Variables};

const ERROR: &str = "ModerationNodeError";

/// Configuration of `moderation`.
#[derive(Debug, Clone)]
pub struct ModerationData {
    /// The variable with the order.
    pub order: Selector,
}

/// The question to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// OpenAI's moderation API, by a model as the settings name it.
    OpenAi { provider: String, model: String, text: String },
    /// The API extension with this id.
    Api { extension: String, point: String, params: Json },
}

impl ModerationData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        Some(Self { order: required(data, "order_variable_selector", problems, selector)? })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.order, into);
    }

    /// Reads the order.
    ///
    /// # Errors
    /// It is missing or invalid.
    pub fn order(&self, variables: &dyn Variables) -> Result<Order, NodeFailure> {
        let found = variables.found(&self.order);
        let order = found.as_ref().map_or(&Json::Null, |order| &order.value);
        let text = |key: &str| {
            let text = order[key].as_str().map(str::to_owned);
            text.ok_or_else(|| failure(format!("the order has no text `{key}`")))
        };
        match order["by"].as_str() {
            Some("openai") => {
                Ok(Order::OpenAi { provider: text("provider")?, model: text("model")?, text: text("text")? })
            }
            Some("api") => Ok(Order::Api {
                extension: text("extension")?,
                point: text("point")?,
                params: order["params"].clone(),
            }),
            _ => Err(failure("the order must have `by`: openai or api")),
        }
    }
}

/// A failure of this node.
pub fn failure(message: impl Into<String>) -> NodeFailure {
    NodeFailure::new(ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_base::value::Segment;
    use tidemill_base::value::pool::Pool;

    #[test]
    fn an_order_is_read_or_its_mistake_is_named() {
        let data = json!({"order_variable_selector": ["start", "order"]});
        let data = ModerationData::parse(data.as_object().unwrap(), &mut Problems::new()).unwrap();
        let read =
            |order: Json| data.order(&Pool::new(json!({})).with("start", "order", Segment::infer(order)));
        let openai = json!({"by": "openai", "provider": "openai", "model": "m", "text": "t"});
        let expected = Order::OpenAi { provider: "openai".into(), model: "m".into(), text: "t".into() };
        assert_eq!(read(openai), Ok(expected));
        let api = json!({"by": "api", "extension": "e", "point": "ping", "params": {"a": 1}});
        let expected = Order::Api { extension: "e".into(), point: "ping".into(), params: json!({"a": 1}) };
        assert_eq!(read(api), Ok(expected));
        for (order, named) in [
            (json!({"by": "openai", "model": "m", "text": "t"}), "provider"),
            (json!({"by": "else"}), "by"),
            (json!({"by": "api", "point": "p"}), "extension"),
        ] {
            let refused = read(order).unwrap_err().to_string();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
