//! The order for a sub-workflow run, as the commit of its caller has stored it.

use serde_json::{Value as Json, json};
use tidemill_common::ids::{FramePath, RunId, ShardId};
use tidemill_common::machine::state::options::budget::Budget;
use tidemill_common::machine::state::run::Caller;
use tidemill_common::store::Runs;
use tidemill_common::value::{JsonMap, Stored};
use tidemill_common::wire::codec::value::stored_from_json;
use tidemill_common::wire::state::read_budget;

use super::OrderError;

/// An order, and the place in the caller that waits for its result.
pub(super) struct Order {
    /// The id or the name of the app.
    pub(super) app: String,
    /// The depth of nested calls.
    pub(super) depth: u64,
    /// The user who started the caller.
    pub(super) user: String,
    frame: FramePath,
    node: String,
    stored_inputs: Option<Stored>,
    /// The rest of the caller's budget.
    pub(super) budget: Option<Box<Budget>>,
    /// The id of the API key that pays.
    pub(super) key: Option<String>,
}

/// The inputs and files of the run.
#[derive(Default)]
pub(super) struct RunInputs {
    pub(super) inputs: JsonMap,
    pub(super) files: Vec<Json>,
    /// The message and the conversation, if it is a call of a chat.
    pub(super) chat: Option<ChatMessage>,
}

/// A message of a called chat.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChatMessage {
    pub(super) query: String,
    /// The conversation that it continues; empty for a new one.
    pub(super) conversation: String,
}

impl ChatMessage {
    fn take(given: &mut JsonMap) -> Option<Self> {
        let text = |value: Option<Json>| value.and_then(|value| value.as_str().map(str::to_owned));
        let query = text(given.remove("query"))?;
        Some(Self { query, conversation: text(given.remove("conversation_id")).unwrap_or_default() })
    }
}

impl Order {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut map: JsonMap = serde_json::from_str(text)
            .map_err(|error| format!("the order of the call cannot be read: {error}"))?;
        let stored_inputs =
            map.remove("given").map(stored_from_json).transpose().map_err(|error| error.to_string())?;
        let words = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default();
        Ok(Self {
            app: words("app").to_string(),
            depth: map.get("depth").and_then(Json::as_u64).unwrap_or(1),
            user: words("user").to_string(),
            budget: map.get("budget").and_then(Json::as_object).and_then(read_budget),
            key: map.get("key").and_then(Json::as_str).map(str::to_string),
            frame: FramePath::from(words("frame")),
            node: words("node").to_string(),
            stored_inputs,
        })
    }

    /// The node that waits for the run.
    pub(super) fn caller(&self, run: RunId) -> Caller {
        Caller { run, frame: self.frame.clone(), node: self.node.as_str().into() }
    }

    /// Reads the inputs and files of the run, from their blob if they are stored as one. Without the blob the run must not
    /// begin, because it would begin without inputs.
    ///
    /// # Errors
    /// The store failed, or the blob is gone.
    pub(super) async fn open(&mut self, store: &dyn Runs, shard: ShardId) -> Result<RunInputs, OrderError> {
        let value = match self.stored_inputs.take() {
            Some(Stored::Inline(segment)) => segment.value,
            Some(Stored::Blob(blob)) => {
                let gone = |why: &str| {
                    OrderError::Permanent(format!("the inputs of the call (blob {}) {why}", blob.id))
                };
                let text = store.blob(shard, &blob.id).await?.ok_or_else(|| gone("are no longer there"))?;
                serde_json::from_str(&text).map_err(|_| gone("cannot be read"))?
            }
            // The arguments of a call are an object, never an item of a list.
            Some(Stored::Item { .. } | Stored::Secret(_)) | None => Json::Null,
        };
        let Json::Object(mut map) = value else { return Ok(RunInputs::default()) };
        Ok(RunInputs {
            inputs: map.remove("inputs").and_then(|v| v.as_object().cloned()).unwrap_or_default(),
            files: map.remove("files").and_then(|v| v.as_array().cloned()).unwrap_or_default(),
            chat: ChatMessage::take(&mut map),
        })
    }
}

/// Returns the order in the form that is kept after a refusal, and the node that gets the reason.
pub(super) fn refused(text: &str, run: RunId, reason: &str) -> (String, Caller) {
    let mut map: JsonMap = serde_json::from_str(text).unwrap_or_default();
    map.remove("given");
    map.insert("error".into(), json!(reason));
    let words = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default();
    let caller = Caller { run, frame: FramePath::from(words("frame")), node: words("node").into() };
    (Json::Object(map.clone()).to_string(), caller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;

    #[tokio::test]
    async fn an_order_whose_inputs_are_gone_says_so() {
        let clock = std::sync::Arc::new(tidemill_common::clock::SystemClock);
        let store = tidemill_common::store::memory::MemoryStore::with(clock, 1, 10);
        let text = r#"{"app":"a1","node":"t","depth":1,"user":"u","given":{"$tm":"blob","id":"b1","type":"object","size":9}}"#;
        let opened = Order::read(text).unwrap().open(&store, ShardId(0)).await;
        let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(error, "the inputs of the call (blob b1) are no longer there");
    }

    #[tokio::test]
    async fn an_order_of_a_chat_has_its_message_and_its_conversation() {
        let clock = std::sync::Arc::new(tidemill_common::clock::SystemClock);
        let store = tidemill_common::store::memory::MemoryStore::with(clock, 1, 10);
        let message = |query: &str, conversation: &str| {
            Some(ChatMessage { query: query.into(), conversation: conversation.into() })
        };
        for (given, expected) in [
            (json!({"inputs": {}}), None),
            (json!({"inputs": {}, "query": "Hi"}), message("Hi", "")),
            (json!({"inputs": {}, "query": "Hi", "conversation_id": "c"}), message("Hi", "c")),
        ] {
            let order = json!({"app": "a", "node": "t", "given": given}).to_string();
            let opened = Order::read(&order).unwrap().open(&store, ShardId(0)).await.unwrap();
            assert_eq!(opened.chat, expected, "{given}");
        }
    }

    #[test]
    fn an_order_is_read_and_its_refusal_names_the_waiting_node() {
        let text = r#"{"app":"a1","node":"t","frame":"it#3","depth":2,"user":"u","given":{"inputs":{}}}"#;
        let order = Order::read(text).unwrap();
        let run = RunId::new(1, 2, ShardId(3));
        assert_eq!((order.app.as_str(), order.depth, order.user.as_str()), ("a1", 2, "u"));
        let (kept, caller) = refused(text, run, "app not found");
        assert_eq!(caller, order.caller(run));
        let kept: Json = serde_json::from_str(&kept).unwrap();
        assert_eq!((&kept["error"], &kept["given"]), (&json!("app not found"), &Json::Null));
        assert!(Order::read("[]").is_err());
    }
}
