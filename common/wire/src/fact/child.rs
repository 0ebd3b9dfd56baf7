//! Facts of child nodes (nodes that run inside another node's job), as JSON after the fields that name the
//! job.

use serde_json::Value as Json;

use crate::WireError;
use crate::codec::fields::Fields;
use crate::codec::text::ObjectText;
use crate::fact;
use crate::fact::kind;
use crate::fact::{WHAT, report};
use crate::record::{read_record, write_record};
use tidemill_base::clock::Timestamp;
use tidemill_engine::Fact;
use tidemill_engine::fact::{ChildEnd, ChildEvent, ChildFact, JobRef};
use tidemill_workflow::graph::Graph;

/// The kinds of these facts.
pub(crate) const KINDS: [&str; 5] =
    [kind::CHILD_STARTED, kind::CHILD_CHUNK, kind::CHILD_STEP, kind::CHILD_RETRY, kind::CHILD_ENDED];

pub(crate) const fn kind_of(what: &ChildEvent) -> &'static str {
    match what {
        ChildEvent::Started => kind::CHILD_STARTED,
        ChildEvent::Chunk { .. } => kind::CHILD_CHUNK,
        ChildEvent::Step { .. } => kind::CHILD_STEP,
        ChildEvent::Retry { .. } => kind::CHILD_RETRY,
        ChildEvent::Ended { .. } => kind::CHILD_ENDED,
    }
}

pub(crate) fn write(object: &mut ObjectText, what: &ChildEvent) {
    match what {
        ChildEvent::Started => {}
        ChildEvent::Chunk { selector, offset, text } => {
            object.value("selector", selector);
            object.number("offset", *offset);
            object.text("text", text);
        }
        ChildEvent::Step { events, charge } => report::write_step(object, events, charge.as_deref()),
        ChildEvent::Retry { at, record } => {
            object.number("at", at.micros());
            write_record(object, record);
        }
        ChildEvent::Ended { at, end, record, streamed } => {
            object.number("at", at.micros());
            object.text("end", end.name());
            if !streamed.is_empty() {
                object.value("streamed", streamed);
            }
            write_record(object, record);
        }
    }
}

pub(crate) fn read(kind: &str, job: JobRef, map: &mut Fields<'_>, graph: &Graph) -> Result<Fact, WireError> {
    let missing = |key: &str| WireError::malformed(WHAT, format!("{key} is missing"));
    let id = map.text("child").ok_or_else(|| missing("child"))?;
    let unknown = || WireError::UnknownNode { what: WHAT, node: id.to_string() };
    let child = graph.find(id).ok_or_else(unknown)?;
    let number = map.number("try").unwrap_or(1);
    let started_at = fact::time(map, "started_at")?;
    let at = |map: &Fields<'_>| -> Result<Timestamp, WireError> { fact::time(map, "at") };
    let what = match kind {
        kind::CHILD_STARTED => ChildEvent::Started,
        kind::CHILD_CHUNK => ChildEvent::Chunk {
            selector: fact::selector(map.get("selector"))?,
            offset: map.get("offset").and_then(Json::as_u64).unwrap_or(0),
            text: map.take_text("text").ok_or_else(|| missing("text"))?,
        },
        kind::CHILD_STEP => ChildEvent::Step {
            events: fact::step_events(map.take_json("events"))?,
            charge: map.take_map("charge").map(fact::charge).transpose()?.map(Box::new),
        },
        kind::CHILD_RETRY => ChildEvent::Retry { at: at(map)?, record: Box::new(read_record(map)?) },
        _ => {
            let name = map.text("end").unwrap_or_default();
            let end = ChildEnd::ALL.into_iter().find(|end| end.name() == name);
            let unknown =
                || WireError::Unknown { what: "the end of a node inside another", kind: name.into() };
            ChildEvent::Ended {
                at: at(map)?,
                end: end.ok_or_else(unknown)?,
                streamed: fact::streamed(map.get("streamed"))?,
                record: Box::new(read_record(map)?),
            }
        }
    };
    Ok(Fact::Child(Box::new(ChildFact { job, started_at, child, number, what })))
}
