//! What is told of a step: events with one envelope, and the record that the run's history keeps.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::machine::events::StepEvent;
use tidemill_common::value::{JsonMap, json_size};

use crate::steps::Steps;

/// Who tells: the step as events name it.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    /// Its id: the node's, or one for the time being.
    pub(crate) id: String,
    /// Its name for people.
    pub(crate) name: String,
    /// What it does.
    pub(crate) description: String,
    /// Its type: the call.
    pub(crate) ty: String,
    /// Which attempt it is: what is told again carries the same, or a later one.
    pub(crate) attempt: u32,
}

/// Where a step stands.
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

impl Teller {
    /// An event of the step.
    pub(crate) fn event(&self, what: StepEvent, status: Status, content: Json) -> (StepEvent, JsonMap) {
        let mut data = self.envelope(status);
        data.insert("content".into(), content);
        (what, data)
    }

    /// The end of the step, with what it took.
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

    /// What the history keeps of it.
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

/// A value above this size is cut where it is told and recorded, in bytes of JSON: whole it is an output.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
const SHOWN_CHARS: usize = 1000;

/// What is told and recorded of an object: large values as their size and their beginning, and no more of them than fit.
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

/// What a step took.
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

/// A moment in seconds with two decimals, as runs keep it.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    (at.seconds_f64() * 100.0).round() / 100.0
}

/// Tells events now; they may be told again when the job is handed out again.
pub(crate) fn tell(steps: &Steps, event: (StepEvent, JsonMap)) {
    steps.tell(vec![event]);
}
