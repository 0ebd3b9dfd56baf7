//! Writes a worker's reports about a job. [`crate::fact`] reads them: change both together.

use serde_json::{Value as Json, json};

use crate::codec::text::ObjectText;
use crate::codec::value::StoredJson;
use crate::fact::child;
use crate::fact::kind;
use crate::record::write_record;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{Delivery, EntryId, FramePath, NodeId};
use tidemill_base::value::{JsonMap, Selector};
use tidemill_engine::fact::{Call, Charge, ChildEvent, JobQuestion};
use tidemill_engine::state::record::Record;
use tidemill_engine::state::step_event::StepEvent;

/// Identifies a job in its worker's reports.
#[derive(Debug, Clone, PartialEq)]
pub struct JobName {
    pub frame: FramePath,
    pub node: NodeId,
    /// Counts from 1.
    pub attempt: u32,
    /// The entry of its delivery.
    pub entry: EntryId,
    /// The delivery to the worker.
    pub holder: Delivery,
    /// The last sign of life of the worker that lost the job before, if one did.
    pub lost_at: Option<Timestamp>,
}

/// A worker's report about a job.
#[derive(Debug, Clone)]
pub enum Report {
    /// The attempt has begun and goes on.
    Started { at: Timestamp },
    /// A piece of text.
    Chunk {
        /// When the attempt began.
        started_at: Timestamp,
        selector: Selector,
        /// Bytes streamed before this piece.
        offset: u64,
        text: String,
    },
    /// A journal entry is complete, or the job has events to report.
    Step {
        /// When the attempt began.
        started_at: Timestamp,
        /// Events sent to the client.
        events: Vec<(StepEvent, JsonMap)>,
        charge: Option<Box<Charge>>,
    },
    /// An event of a child node.
    Child {
        /// When the child's try began.
        started_at: Timestamp,
        child: NodeId,
        /// The number of its try, from 1.
        number: u32,
        what: ChildEvent,
    },
    /// The job waits and no worker holds it.
    Parked {
        /// When the attempt began.
        started_at: Timestamp,
        /// When the worker let go of the job.
        at: Timestamp,
        /// Milliseconds to wait.
        wait_ms: u64,
        reason: String,
        /// Whether a child node waits.
        is_childs: bool,
        /// The sub-workflow run that it waits for, if any.
        call: Option<Box<Call>>,
        /// The question, when it waits for an answer.
        pause: Option<Box<JobQuestion>>,
    },
    /// The job orders a sub-workflow run, and its worker continues meanwhile.
    Called {
        /// When the attempt began.
        started_at: Timestamp,
        /// Whether a child node calls.
        is_childs: bool,
        call: Box<Call>,
    },
    /// The attempt has ended. It failed when the record holds an error or `failed` is set.
    Ended {
        started_at: Timestamp,
        finished_at: Timestamp,
        failed: bool,
        record: Box<Record>,
        /// Bytes streamed, by text.
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
            Self::Called { .. } => kind::CALLED,
            Self::Ended { failed: false, .. } => kind::DONE,
            Self::Ended { failed: true, .. } => kind::FAILED,
        }
    }
    /// Writes the entry's field `fact`.
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
        if let Some(at) = job.lost_at {
            object.number("lost_at", at.micros());
        }
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
            Self::Parked { started_at, at, wait_ms, reason, is_childs, call, pause } => {
                object.number("started_at", started_at.micros());
                object.number("at", at.micros());
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
            Self::Called { started_at, is_childs, call } => {
                object.number("started_at", started_at.micros());
                if *is_childs {
                    object.value("childs", &true);
                }
                object.value("call", &call_json(call));
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

pub(crate) fn write_step(object: &mut ObjectText, events: &[(StepEvent, JsonMap)], charge: Option<&Charge>) {
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

fn asked_json(asked: &JobQuestion) -> Json {
    json!({"id": &*asked.pause, "step": &*asked.step, "request": crate::state::pause::to_json(&asked.request)})
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
