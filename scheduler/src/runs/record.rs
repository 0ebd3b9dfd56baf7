//! Reads a run's hash into a struct, for all handlers that show runs.

use std::collections::HashMap;

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::{Caller, RunStatus};
use tidemill_common::store::{LABELS_FIELD, Labels, REMOVED_FIELD, labels_in};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::{self, WireError};

use crate::runs::answered::{ANSWERED_BY, AnsweredBy};
use crate::runs::ids::{end_user_uuid, workflow_uuid};

/// The field of a run with the hash of its app's version, where the graph is another one.
pub const PUBLISHED_FIELD: &str = "published";

/// A run. Values are in their stored form; [`crate::runs::render`] opens them.
#[derive(Debug, Clone)]
pub struct RunRecord {
    pub id: RunId,
    pub status: RunStatus,
    /// The name of the workflow.
    pub workflow: String,
    /// Dify's name of the workflow's mode.
    pub mode: String,
    /// The hash of the graph.
    pub version: String,
    /// The hash of the app's version, if options of the run have added steps around it.
    pub published: Option<String>,
    pub app: Option<String>,
    pub conversation_id: Option<String>,
    /// Its conversation was removed: `/v1` does not show the run any more.
    pub is_removed: bool,
    /// The user who started the run.
    pub user: String,
    /// The time of submission.
    pub created_at: Timestamp,
    /// The time when the run began.
    pub started_at: Option<Timestamp>,
    /// The time when the run last continued after a pause.
    pub resumed_at: Option<Timestamp>,
    /// The time when the run ended.
    pub finished_at: Option<Timestamp>,
    /// The reason why the run failed or was stopped.
    pub error: Option<String>,
    /// Node starts in the root frame; set when the run has ended.
    pub steps: Option<u64>,
    /// Tokens of all model calls; set when the run has ended.
    pub tokens: Option<u64>,
    /// The price of all model calls in plain notation, and its currency; set when the run has ended and a price is
    /// known.
    pub price: Option<(String, String)>,
    /// The id of the API key that pays.
    pub key: Option<String>,
    /// What the client gave at submission to find the run again.
    pub labels: Labels,
    /// What answered in place of the app's workflow.
    pub(crate) answered_by: Option<AnsweredBy>,
    /// What the run does for Tidemill itself; `None` for runs of workflows that people wrote.
    pub inner: Option<String>,
    /// The node of another run that has called this run.
    pub caller: Option<Box<Caller>>,
    /// Failed attempts; set when the run has ended.
    pub exceptions: Option<u64>,
    /// The number of warnings; set when the run has ended or waits, and has any.
    pub warnings: Option<u64>,
    /// Inputs of the node where the run began.
    pub inputs: JsonMap,
    pub sys: JsonMap,
    /// The outputs; empty while there are none.
    pub outputs: JsonMap,
}

impl RunRecord {
    /// The record without inputs, system variables and outputs, for a reader that keeps it for long.
    pub(crate) fn without_values(mut self) -> Self {
        (self.inputs, self.sys, self.outputs) = Default::default();
        self
    }

    /// The run as one under way, for readers that must not see its end yet.
    pub(crate) fn before_its_end(mut self) -> Self {
        self.status = RunStatus::Running;
        self.outputs.clear();
        (self.finished_at, self.error) = (None, None);
        self
    }

    /// Reads the fields of the run hash.
    ///
    /// # Errors
    /// A field has an invalid value.
    pub fn read(id: RunId, fields: &HashMap<String, String>) -> Result<Self, WireError> {
        let malformed = |reason: String| WireError::Malformed { what: "the record of a run", reason };
        let text = |key: &str| fields.get(key).cloned();
        let time = |key: &str| fields.get(key).and_then(|t| t.parse().ok()).map(Timestamp::from_micros);
        let number = |key: &str| fields.get(key).and_then(|t| t.parse().ok());
        let map = |key: &str| match fields.get(key) {
            None => Ok(JsonMap::new()),
            Some(text) => serde_json::from_str(text).map_err(|e| malformed(format!("{key}: {e}"))),
        };
        let status = text("status").unwrap_or_default();
        Ok(Self {
            id,
            status: RunStatus::from_name(&status)
                .ok_or(WireError::Unknown { what: "a run's status", kind: status })?,
            workflow: text("workflow").unwrap_or_default(),
            mode: text("mode").unwrap_or_default(),
            version: text("version").ok_or_else(|| malformed("version is missing".into()))?,
            published: text(PUBLISHED_FIELD),
            app: text("app"),
            conversation_id: text("conversation_id"),
            is_removed: fields.contains_key(REMOVED_FIELD),
            user: text("user").unwrap_or_default(),
            created_at: time("created_at").unwrap_or_default(),
            started_at: time("started_at"),
            resumed_at: time("resumed_at"),
            finished_at: time("finished_at"),
            error: text("error"),
            steps: number("steps"),
            tokens: number("tokens"),
            key: text("key"),
            labels: labels_in(fields.get(LABELS_FIELD).map(String::as_str)),
            answered_by: fields.get(ANSWERED_BY).and_then(|name| AnsweredBy::read(name)),
            inner: text(crate::submit::inner::FIELD),
            price: text("price").zip(text("currency")),
            caller: fields
                .get("caller")
                .and_then(|caller| serde_json::from_str(caller).ok())
                .and_then(|caller: Json| wire::state::read_caller(&caller).ok()),
            exceptions: number("exceptions"),
            warnings: number("warnings"),
            inputs: map("inputs")?,
            sys: map("sys")?,
            outputs: map("outputs")?,
        })
    }

    /// The hash of the version that was published.
    pub fn published_version(&self) -> &str {
        self.published.as_ref().unwrap_or(&self.version)
    }

    /// The id of its workflow under `/v1`: a UUID for a run of an app.
    pub fn workflow_id(&self) -> String {
        match &self.app {
            Some(app) => workflow_uuid(app, self.published_version()).to_string(),
            None => self.version.clone(),
        }
    }

    /// The id of its user under `/v1`.
    pub fn end_user_id(&self) -> String {
        end_user_uuid(self.app.as_deref().unwrap_or_default(), &self.user).to_string()
    }

    /// Seconds from the beginning to the end, or to now.
    pub fn elapsed(&self, now: Timestamp) -> f64 {
        self.started_at.map_or(0.0, |began| self.finished_at.unwrap_or(now).seconds_since(began))
    }

    /// As [`Self::elapsed`], but counted from the last pause on, as on Dify.
    pub fn elapsed_since_pause(&self, now: Timestamp) -> f64 {
        let began = self.resumed_at.or(self.started_at);
        began.map_or(0.0, |began| self.finished_at.unwrap_or(now).seconds_since(began))
    }

    /// Inputs as Dify shows them: those of the start node, and all system variables except the conversation's id.
    pub fn inputs_with_sys(&self) -> JsonMap {
        let mut inputs = self.inputs.clone();
        for (name, value) in self.sys.iter().filter(|(name, _)| *name != "conversation_id") {
            inputs.insert(format!("sys.{name}"), value.clone());
        }
        inputs
    }
}

/// Unix seconds with a fraction, or null.
pub fn seconds(at: Option<Timestamp>) -> Json {
    at.map_or(Json::Null, |at| at.seconds_f64().into())
}

/// Whole Unix seconds, or null, as on Dify.
pub fn whole_seconds(at: Option<Timestamp>) -> Json {
    at.map_or(Json::Null, |at| at.seconds().into())
}
