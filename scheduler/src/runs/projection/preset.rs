//! The events of an answer that was given in place of the workflow: its text and the end of the message. As on Dify there
//! are none of a workflow.

use serde_json::Value as Json;
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::answered::AnsweredBy;
use crate::runs::projection::{ChatFacts, Projection, text};

impl Projection {
    pub(super) fn preset_answer(
        &mut self,
        by: AnsweredBy,
        chat: &ChatFacts,
        record: &EventRecord,
    ) -> Vec<Json> {
        match record.kind.as_str() {
            kind::NODE_RUN_STREAM_CHUNK if record.is_in_answer() && !text(record, "chunk").is_empty() => {
                self.shown.take(record);
                vec![self.message(chat, text(record, "chunk"), &Json::Null)]
            }
            kind::GRAPH_RUN_SUCCEEDED
            | kind::GRAPH_RUN_PARTIAL_SUCCEEDED
            | kind::GRAPH_RUN_FAILED
            | kind::GRAPH_RUN_ABORTED => match by {
                AnsweredBy::InputModeration | AnsweredBy::Annotation(_) => {
                    vec![self.message_end(chat, record)]
                }
            },
            // Nodes of the workflow that records the answer.
            _ => Vec::new(),
        }
    }
}
