//! A run as its hash tells it, read once for all that show runs.

use std::collections::HashMap;

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::run::{Caller, RunStatus};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::{self, WireError};

/// A run. Values are in their stored form; [`crate::runs::render`] opens them.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// Its id.
    pub id: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// The name of its workflow.
    pub workflow: String,
    /// Dify's name of its mode.
    pub mode: String,
    /// The hash of its graph.
    pub version: String,
    /// Its app.
    pub app: Option<String>,
    /// The conversation it belongs to.
    pub conversation_id: Option<String>,
    /// Who started it.
    pub user: String,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed or was stopped.
    pub error: Option<String>,
    /// Node starts of the root frame; once it is over.
    pub steps: Option<u64>,
    /// Tokens of all model calls; once it is over.
    pub tokens: Option<u64>,
    /// What its model calls cost, in plain notation, and of what; once it is over and where a price is known.
    pub price: Option<(String, String)>,
    /// The API key that pays for it, by its id.
    pub key: Option<String>,
    /// The node of another run that has called it.
    pub caller: Option<Box<Caller>>,
    /// Failed attempts; once it is over.
    pub exceptions: Option<u64>,
    /// Inputs of the start node.
    pub inputs: JsonMap,
    /// System variables.
    pub sys: JsonMap,
    /// What it made; empty while there is nothing.
    pub outputs: JsonMap,
}

impl RunRecord {
    /// Reads the fields of the run hash.
    ///
    /// # Errors
    /// A field that cannot be what it should be.
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
            app: text("app"),
            conversation_id: text("conversation_id"),
            user: text("user").unwrap_or_default(),
            created_at: time("created_at").unwrap_or_default(),
            started_at: time("started_at"),
            finished_at: time("finished_at"),
            error: text("error"),
            steps: number("steps"),
            tokens: number("tokens"),
            key: text("key"),
            price: text("price").zip(text("currency")),
            caller: fields
                .get("caller")
                .and_then(|caller| serde_json::from_str(caller).ok())
                .and_then(|caller: Json| wire::state::read_caller(&caller).ok()),
            exceptions: number("exceptions"),
            inputs: map("inputs")?,
            sys: map("sys")?,
            outputs: map("outputs")?,
        })
    }

    /// Seconds from its begin to its end, or to now.
    pub fn elapsed(&self, now: Timestamp) -> f64 {
        self.started_at.map_or(0.0, |began| self.finished_at.unwrap_or(now).seconds_since(began))
    }

    /// Inputs as Dify shows them: those of the start node, and every system variable but the conversation's id.
    pub fn inputs_with_sys(&self) -> JsonMap {
        let mut inputs = self.inputs.clone();
        for (name, value) in self.sys.iter().filter(|(name, _)| *name != "conversation_id") {
            inputs.insert(format!("sys.{name}"), value.clone());
        }
        inputs
    }
}

/// Unix seconds with their fraction, or null.
pub fn seconds(at: Option<Timestamp>) -> Json {
    at.map_or(Json::Null, |at| at.seconds_f64().into())
}

/// Whole Unix seconds, or null: Dify's form.
pub fn whole_seconds(at: Option<Timestamp>) -> Json {
    at.map_or(Json::Null, |at| at.seconds().into())
}
