//! The events of apps that had no workflow in Dify: `chat`, `agent-chat` and `completion`. Their clients receive the message
//! and its end, and no event about workflows and nodes.

use serde_json::{Value as Json, json};
use tidemill_common::graph::SimpleMode;
use tidemill_common::wire::event::{EventRecord, kind};

use super::{ChatFacts, ChatFailure, Projection, text};

impl Projection {
    /// The payloads for an event of such an app.
    pub(super) fn project_simple(
        &mut self,
        chat: &ChatFacts,
        mode: SimpleMode,
        record: &EventRecord,
    ) -> Vec<Json> {
        match record.kind.as_str() {
            kind::NODE_RUN_STREAM_CHUNK if record.is_in_answer() => {
                self.shown.take(record);
                vec![self.piece(chat, mode, text(record, "chunk"))]
            }
            kind::NODE_RUN_STREAM_REPLACED if record.is_in_answer() => {
                self.text_replaced(record).into_iter().collect()
            }
            kind::GRAPH_RUN_SUCCEEDED | kind::GRAPH_RUN_PARTIAL_SUCCEEDED | kind::GRAPH_RUN_ABORTED => {
                let fields = json!({"id": self.run.id, "metadata": self.metadata(), "files": null});
                vec![self.of_message(chat, "message_end", fields)]
            }
            kind::GRAPH_RUN_FAILED => vec![self.error(chat, record)],
            _ if mode == SimpleMode::AgentChat => self.agent_thought(chat, record).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn piece(&self, chat: &ChatFacts, mode: SimpleMode, text: &str) -> Json {
        match mode {
            SimpleMode::AgentChat => {
                self.of_message(chat, "agent_message", json!({"id": self.run.id, "answer": text}))
            }
            SimpleMode::Chat | SimpleMode::Completion => self.message(chat, text, &Json::Null),
        }
    }

    fn error(&self, chat: &ChatFacts, record: &EventRecord) -> Json {
        let failure = ChatFailure::of(self.failed_by(), text(record, "error"), true);
        let fields = json!({"code": failure.code, "status": 400, "message": failure.message});
        let mut error = self.of_message(chat, "error", fields);
        if let Json::Object(map) = &mut error {
            map.shift_remove("task_id");
        }
        error
    }

    fn agent_thought(&mut self, chat: &ChatFacts, record: &EventRecord) -> Option<Json> {
        let at = self.thoughts.take(record)?;
        Some(self.of_message(chat, "agent_thought", self.thoughts.event(&self.run.id, at)))
    }
}
