//! What a worker has to say of a job, as it is written. [`super::fact`] reads it: whoever changes a field here changes it
//! there.

use serde_json::{Value as Json, json};

use super::child;
use super::fact::kind;
use super::record::write_record;
use super::text::ObjectText;
use super::value::StoredJson;
use crate::clock::Timestamp;
use crate::ids::{Delivery, EntryId, FramePath, NodeId};
use crate::machine::events::StepEvent;
use crate::machine::fact::{Asked, Call, Charge, ChildEvent};
use crate::machine::records::Record;
use crate::value::{JsonMap, Selector};

/// A job as its worker names it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobName {
    /// The frame.
    pub frame: FramePath,
    /// The node.
    pub node: NodeId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The entry it was delivered under.
    pub entry: EntryId,
    /// The holder.
    pub holder: Delivery,
}

/// What a worker has to say of a job.
#[derive(Debug, Clone)]
pub enum Report {
    /// It has begun, and goes on.
    Started {
        /// When.
        at: Timestamp,
    },
    /// A piece of text.
    Chunk {
        /// When the attempt began.
        started_at: Timestamp,
        /// Which text.
        selector: Selector,
        /// Bytes before this piece.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// A step was done, or something is to be told of it.
    Step {
        /// When the attempt began.
        started_at: Timestamp,
        /// What it tells.
        events: Vec<(StepEvent, JsonMap)>,
        /// What it cost.
        charge: Option<Box<Charge>>,
    },
    /// Something happened to a node inside it.
    Child {
        /// When the try began.
        started_at: Timestamp,
        /// Which node.
        child: NodeId,
        /// Which try of it, from 1.
        number: u32,
        /// What.
        what: ChildEvent,
    },
    /// It waits for a time to come; nobody holds it any more.
    Parked {
        /// When the attempt began.
        started_at: Timestamp,
        /// How long, in milliseconds.
        wait_ms: u64,
        /// What for.
        reason: String,
        /// Whether it is a node inside it that waits.
        is_childs: bool,
        /// The run whose end it waits for, if it is one.
        call: Option<Box<Call>>,
        /// What somebody is asked, if it waits for an answer.
        pause: Option<Box<Asked>>,
    },
    /// It has ended; it failed when the record holds an error or `failed` is set.
    Ended {
        /// When it began.
        started_at: Timestamp,
        /// When it ended.
        finished_at: Timestamp,
        /// Whether it failed.
        failed: bool,
        /// What it left.
        record: Box<Record>,
        /// How many bytes of which text were streamed.
        streamed: Vec<(Selector, u64)>,
    },
}

impl Report {
    /// The entry's field `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started { .. } => kind::STARTED,
            Self::Chunk { .. } => kind::CHUNK,
            Self::Step { .. } => kind::STEP,
            Self::Child { what, .. } => child::kind_of(what),
            Self::Parked { .. } => kind::PARKED,
            Self::Ended { failed: false, .. } => kind::DONE,
            Self::Ended { failed: true, .. } => kind::FAILED,
        }
    }
    /// The entry's field `fact`.
    pub fn to_json(&self, job: &JobName) -> String {
        let mut object = ObjectText::with_capacity(512);
        object.text("node", job.node.as_str());
        if !job.frame.is_root() {
            object.text("frame", job.frame.as_str());
        }
        object.number("attempt", job.attempt);
        object.entry("job", job.entry);
        object.text("holder", &job.holder.consumer);
        object.number("delivery", job.holder.number);
        self.write(&mut object);
        object.end()
    }

    fn write(&self, object: &mut ObjectText) {
        match self {
            Self::Started { at } => object.number("at", at.micros()),
            Self::Chunk { started_at, selector, offset, text } => {
                object.number("started_at", started_at.micros());
                object.value("selector", selector);
                object.number("offset", *offset);
                object.text("text", text);
            }
            Self::Step { started_at, events, charge } => {
                object.number("started_at", started_at.micros());
                write_step(object, events, charge.as_deref());
            }
            Self::Child { started_at, child, number, what } => {
                object.number("started_at", started_at.micros());
                object.text("child", child.as_str());
                object.number("try", *number);
                child::write(object, what);
            }
            Self::Parked { started_at, wait_ms, reason, is_childs, call, pause } => {
                object.number("started_at", started_at.micros());
                object.number("wait_ms", *wait_ms);
                object.text("reason", reason);
                if *is_childs {
                    object.value("childs", &true);
                }
                if let Some(call) = call {
                    object.value("call", &call_json(call));
                }
                if let Some(asked) = pause {
                    object.value("pause", &asked_json(asked));
                }
            }
            Self::Ended { started_at, finished_at, record, streamed, failed: _ } => {
                object.number("started_at", started_at.micros());
                object.number("finished_at", finished_at.micros());
                if !streamed.is_empty() {
                    object.value("streamed", streamed);
                }
                write_record(object, record);
            }
        }
    }
}

pub(super) fn write_step(object: &mut ObjectText, events: &[(StepEvent, JsonMap)], charge: Option<&Charge>) {
    if !events.is_empty() {
        let told: Vec<_> = events.iter().map(|(what, data)| (what.name(), data)).collect();
        object.value("events", &told);
    }
    if let Some(charge) = charge {
        object.value("charge", &charge_json(charge));
    }
}

fn call_json(call: &Call) -> Json {
    let mut value = json!({"run": call.run, "app": call.app});
    if let Some(given) = &call.given {
        value["given"] = serde_json::to_value(StoredJson(given)).unwrap_or_default();
    }
    value
}

fn asked_json(asked: &Asked) -> Json {
    json!({"id": &*asked.pause, "step": &*asked.step, "request": asked.request.to_json()})
}

fn charge_json(charge: &Charge) -> Json {
    let (provider, model) = &charge.model;
    let mut value =
        json!({"key": charge.key, "provider": provider, "model": model, "usage": charge.usage.record});
    if let Some(run) = charge.run {
        value["run"] = json!(run);
    }
    value
}
