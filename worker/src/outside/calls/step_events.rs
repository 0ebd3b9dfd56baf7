//! Builds the events of a step, and its record in the run's history.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::value::{JsonMap, json_size};

use crate::attempt::journal::Journal;

/// The step's identity in events.
#[derive(Debug, Clone)]
pub(crate) struct StepEvents {
    /// The node's id, or a temporary one.
    pub(crate) id: String,
    /// The name shown to people.
    pub(crate) name: String,
    pub(crate) description: String,
    /// The call's type.
    pub(crate) ty: String,
    /// The attempt. A repeated event carries the same or a later one.
    pub(crate) attempt: u32,
}

/// The status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Init,
    Running,
    Success,
    Error,
    Param,
    Cancelled,
}

impl Status {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Param => "param",
            Self::Cancelled => "cancelled",
        }
    }
}

impl StepEvents {
    /// An event of the step.
    pub(crate) fn event(&self, what: StepEvent, status: Status, content: Json) -> (StepEvent, JsonMap) {
        let mut data = self.envelope(status);
        data.insert("content".into(), content);
        (what, data)
    }

    /// The end of the step, with its cost.
    pub(crate) fn output(&self, status: Status, content: Json, took: Took) -> (StepEvent, JsonMap) {
        let (what, mut data) = self.event(StepEvent::StepOutput, status, content);
        let metadata = json!({
            "time_cost": took.seconds, "input_tokens": took.input_tokens, "output_tokens": took.output_tokens,
        });
        data.insert("metadata".into(), metadata);
        (what, data)
    }

    /// A piece of text for the user.
    pub(crate) fn text(&self, text: &str) -> (StepEvent, JsonMap) {
        let mut data = self.envelope(Status::Running);
        data.insert("text".into(), text.into());
        (StepEvent::TextAdd, data)
    }

    /// An object for the user.
    pub(crate) fn object(&self, object: &JsonMap) -> (StepEvent, JsonMap) {
        self.event(StepEvent::StepData, Status::Running, Json::Object(bounded(object.clone())))
    }

    fn envelope(&self, status: Status) -> JsonMap {
        let fields = [
            ("step_id", json!(self.id)),
            ("step_name", json!(self.name)),
            ("step_description", json!(self.description)),
            ("step_type", json!(self.ty)),
            ("step_status", json!(status.name())),
            ("attempt", json!(self.attempt)),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The record for the run's history.
    pub(crate) fn record(&self, status: Status, input: Json, output: Json, took: Took) -> JsonMap {
        let fields = [
            ("step_name", json!(self.name)),
            ("step_type", json!(self.ty)),
            ("step_status", json!(status.name())),
            ("action", json!("call")),
            ("execution_time", json!(took.millis())),
            ("input_data", input),
            ("output_data", output),
            ("extra_data", json!({})),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// Largest value in events and records, in bytes of JSON; larger ones are cut. The output has the whole value.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
const SHOWN_CHARS: usize = 1000;

/// Bounds an object for events and records: large values are replaced by their size and start, and values that do not
/// fit are dropped.
pub(crate) fn bounded(map: JsonMap) -> JsonMap {
    let cut = |value: Json| match json_size(&value) {
        0..=SHOWN_BYTES_MAX => value,
        bytes => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            json!({"bytes": bytes, "beginning": text.chars().take(SHOWN_CHARS).collect::<String>()})
        }
    };
    let mut shown = JsonMap::new();
    let (mut left, mut passed_over) = (16 * SHOWN_BYTES_MAX, 0_usize);
    for (name, value) in map {
        let value = cut(value);
        let bytes = name.len() + json_size(&value);
        if bytes > left {
            passed_over += 1;
            continue;
        }
        left -= bytes;
        shown.insert(name, value);
    }
    if passed_over > 0 {
        shown.insert("passed_over".into(), json!(passed_over));
    }
    shown
}

/// The duration and tokens of a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Took {
    pub(crate) seconds: f64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Took {
    fn millis(self) -> u64 {
        (self.seconds * 1000.0).round() as u64
    }
}

/// A time in seconds with two decimals, as runs store it.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    (at.seconds_f64() * 100.0).round() / 100.0
}

/// Sends an event now, without a journal entry; it may be sent again when the job is delivered again.
pub(crate) fn emit(journal: &Journal, event: (StepEvent, JsonMap)) {
    journal.emit(vec![event]);
}
