//! What a run begins with: a builder, so that a host need not write the JSON of a request.

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

/// The inputs of a run, and what its host says about it. Each method sets one field of `POST /api/v1/runs`
/// (docs/api.md).
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    inputs: JsonMap,
    files: Vec<Json>,
    sys: Option<JsonMap>,
    options: JsonMap,
    user: Option<String>,
    query: Option<String>,
    conversation: Option<String>,
    variables: JsonMap,
    memory: Vec<Json>,
    fields: JsonMap,
}

impl Inputs {
    /// No inputs.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets an input of the start node.
    #[must_use]
    pub fn input(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.inputs.insert(name.to_owned(), value.into());
        self
    }
    /// Sets all inputs of the start node.
    #[must_use]
    pub fn inputs(mut self, inputs: JsonMap) -> Self {
        self.inputs = inputs;
        self
    }
    /// Adds a file of the message, as in Dify's `files`. [`Engine::upload`](crate::Engine::upload) gives one from bytes.
    #[must_use]
    pub fn file(mut self, file: Json) -> Self {
        self.files.push(file);
        self
    }
    /// Sets all files of the message.
    #[must_use]
    pub fn files(mut self, files: Vec<Json>) -> Self {
        self.files = files;
        self
    }
    /// Sets a system variable, without `sys.`. With any of them the host gives all: none has a default, and the inputs are
    /// taken as they are, without the form of the start node.
    #[must_use]
    pub fn sys(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.sys.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }
    /// Sets an option of the run, such as `max_steps`.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.options.insert(name.to_owned(), value.into());
        self
    }
    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }
    /// Sets the message of a chat.
    #[must_use]
    pub fn query(mut self, query: &str) -> Self {
        self.query = Some(query.to_owned());
        self
    }
    /// Names the conversation: its variables and earlier turns go from run to run, as long as the engine lives. The empty
    /// text begins a new one, whose id is [`Run::conversation`](crate::Run::conversation).
    #[must_use]
    pub fn conversation(mut self, id: &str) -> Self {
        self.conversation = Some(id.to_owned());
        self
    }
    /// Sets a conversation variable; it replaces the stored value and the workflow's default.
    #[must_use]
    pub fn conversation_variable(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }
    /// Gives earlier turns of a chat that the host keeps itself: objects with `query` and `answer`, oldest first.
    #[must_use]
    pub fn memory(mut self, turns: Vec<Json>) -> Self {
        self.memory = turns;
        self
    }
    /// Sets any other field of the request, such as `root` or `call_depth`.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The body of a request for a run, without its workflow.
    pub(crate) fn into_body(self) -> JsonMap {
        let mut body = JsonMap::from_iter([("inputs".to_owned(), Json::Object(self.inputs))]);
        let list = |items: Vec<Json>| (!items.is_empty()).then(|| json!(items));
        let map = |map: JsonMap| (!map.is_empty()).then(|| Json::Object(map));
        let fields = [
            ("files", list(self.files)),
            ("sys", self.sys.map(Json::Object)),
            ("options", map(self.options)),
            ("user", self.user.map(Json::String)),
            ("query", self.query.map(Json::String)),
            ("conversation_id", self.conversation.map(Json::String)),
            ("conversation", map(self.variables)),
            ("memory", list(self.memory)),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        body.extend(given);
        body.extend(self.fields);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_in_the_request() {
        assert_eq!(Json::Object(Inputs::new().into_body()), json!({"inputs": {}}));
        let all = Inputs::new()
            .input("a", 1)
            .file(json!({"type": "image"}))
            .sys("query", "q")
            .option("max_steps", 3)
            .user("u")
            .query("hello")
            .conversation("c")
            .conversation_variable("v", true)
            .memory(vec![json!({"query": "x", "answer": "y"})])
            .field("root", "start");
        let expected = json!({
            "inputs": {"a": 1}, "files": [{"type": "image"}], "sys": {"query": "q"}, "options": {"max_steps": 3},
            "user": "u", "query": "hello", "conversation_id": "c", "conversation": {"v": true},
            "memory": [{"query": "x", "answer": "y"}], "root": "start",
        });
        assert_eq!(Json::Object(all.into_body()), expected);
    }
}
