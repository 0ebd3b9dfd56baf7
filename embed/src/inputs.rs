//! What a run is given.

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

/// The inputs of a run, and what its host says about it.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    inputs: JsonMap,
    sys: JsonMap,
    options: JsonMap,
    user: Option<String>,
    query: Option<String>,
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
    /// Sets a system variable, without `sys.`.
    #[must_use]
    pub fn sys(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.sys.insert(name.to_owned(), value.into());
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

    /// The body of a request for a run, without its workflow.
    pub(crate) fn into_body(self) -> Json {
        let mut body = json!({"inputs": self.inputs});
        if !self.sys.is_empty() {
            body["sys"] = Json::Object(self.sys);
        }
        if !self.options.is_empty() {
            body["options"] = Json::Object(self.options);
        }
        if let Some(user) = self.user {
            body["user"] = user.into();
        }
        if let Some(query) = self.query {
            body["query"] = query.into();
        }
        body
    }
}
