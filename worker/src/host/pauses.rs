//! Questions of executors to people. Each is a pause of the run, so no executor has to wait; every later execution of the
//! node gets the answers.

use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::pause::input::wrong_schema;
use tidemill_common::nodes::pause::{CALLED_OFF, not_interactive};
use tidemill_common::nodes::{PauseKind, PauseRequest};

use crate::attempt::journal::{Journal, PauseEnd};

/// The class of a failure: no answer can fit the schema.
const WRONG_SCHEMA: &str = "InvalidSchemaError";

/// The questions of one node, or of one operation of a Call.
#[derive(Clone, Copy)]
pub(crate) struct Questions<'a> {
    pub(crate) journal: &'a Journal,
    pub(crate) node: &'a Node,
    pub(crate) options: &'a RunOptions,
    /// The beginning of their journal keys.
    pub(crate) key: &'a str,
}

impl Questions<'_> {
    fn step(&self, before: usize) -> String {
        format!("{}:{}", self.key, before + 1)
    }

    /// The answers to questions of earlier executions, in order. The first delivery of a first attempt reads nothing.
    pub(crate) async fn answered(&self) -> Vec<Json> {
        let mut answers = Vec::new();
        if !self.journal.may_have_entries() {
            return answers;
        }
        while let Some(PauseEnd::Answered(answer)) = self.journal.pause_end(&self.step(answers.len())).await {
            answers.push(answer);
        }
        answers
    }

    /// Asks a person, after as many answers as `before`. The first call for a question parks the job, and does not return.
    ///
    /// # Errors
    /// No person can be asked, the schema is none, or the question was cancelled.
    pub(crate) async fn ask(
        &self,
        before: usize,
        message: String,
        schema: Option<Json>,
    ) -> Result<Json, NodeFailure> {
        let kind = PauseKind::UserInteraction;
        if !self.options.choices().interactive {
            return Err(not_interactive(kind));
        }
        let schema = schema.unwrap_or(Json::Null);
        if let Some(reason) = wrong_schema(&schema) {
            // No answer would fit, so the run would wait for ever.
            let message = format!("the schema of a question of node {} is invalid: {reason}", self.node.id);
            return Err(NodeFailure::new(WRONG_SCHEMA, message));
        }
        let request = PauseRequest::asking(kind, message, schema);
        match self.journal.pause(&self.step(before), request).await {
            PauseEnd::Answered(answer) => Ok(answer),
            PauseEnd::Expired | PauseEnd::Cancelled => {
                let message = format!("the question of node {} was cancelled", self.node.id);
                Err(NodeFailure::new(CALLED_OFF, message))
            }
        }
    }
}
