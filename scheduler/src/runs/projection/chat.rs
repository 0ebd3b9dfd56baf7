//! What is different for a chat: every event names conversation and message, text comes as `message`, and the end is told
//! twice, once of the message and once of the run.

use serde_json::{Value as Json, json};
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::projection::usage::Usage;
use crate::runs::projection::{Projection, field, files};

/// The message that a run answers. Its id is the run's.
#[derive(Debug, Clone, Default)]
pub struct ChatFacts {
    /// The conversation.
    pub conversation_id: String,
}

/// What a chat's run has told beside its text.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// What its model calls cost.
    pub(super) usage: Usage,
    /// Where its knowledge came from.
    pub(super) sources: Sources,
}

/// Where a run's knowledge came from, by the execution that told it: what one tells again, because its job was handed out
/// again, stands in the place of what it told before.
#[derive(Debug, Default)]
pub struct Sources(Vec<(String, Vec<Json>)>);

impl Sources {
    /// Notes what an event tells of it.
    pub fn take(&mut self, record: &EventRecord) {
        let told = resources(record);
        if told.is_empty() {
            return;
        }
        let execution = record.data.get("id").and_then(Json::as_str).unwrap_or_default();
        match self.0.iter_mut().find(|(known, _)| known == execution) {
            Some((_, before)) => *before = told.to_vec(),
            None => self.0.push((execution.to_owned(), told.to_vec())),
        }
    }

    /// All of it, in the order in which it was first told.
    pub fn all(&self) -> Vec<Json> {
        self.0.iter().flat_map(|(_, told)| told.iter().cloned()).collect()
    }
}

/// The event by which a node tells where its context came from.
const RESOURCES: &str = "node_run_retriever_resource";

/// Where the knowledge came from that an event tells of.
fn resources(record: &EventRecord) -> &[Json] {
    if record.kind != RESOURCES {
        return &[];
    }
    let told = record.data.get("data").unwrap_or(&Json::Null).get("retriever_resources");
    let told = told.or_else(|| record.data.get("retriever_resources"));
    told.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

impl Projection {
    /// Notes what the end of the message will say.
    pub(super) fn gather(&mut self, record: &EventRecord) {
        match record.kind.as_str() {
            kind::NODE_RUN_SUCCEEDED | kind::NODE_RUN_EXCEPTION => {
                if let Some(usage) = record.data.get("usage") {
                    self.gathered.usage.add(usage);
                }
            }
            _ => self.gathered.sources.take(record),
        }
    }

    /// An event of the chat without `data`: its fields stand at the top.
    fn of_message(&self, chat: &ChatFacts, event: &str, fields: Json) -> Json {
        let mut payload = json!({
            "event": event,
            "conversation_id": chat.conversation_id,
            "message_id": self.run.id,
            "created_at": self.run.created_at,
            "task_id": self.run.id,
        });
        if let (Json::Object(payload), Json::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        payload
    }

    /// A piece of the answer.
    pub(super) fn message(&self, chat: &ChatFacts, text: &str, selector: &Json) -> Json {
        let fields = json!({"id": self.run.id, "answer": text, "from_variable_selector": selector});
        self.of_message(chat, "message", fields)
    }

    /// The whole answer as it stands.
    pub(super) fn message_replace(&self, chat: &ChatFacts) -> Json {
        self.of_message(chat, "message_replace", json!({"answer": self.shown.text(), "reason": ""}))
    }

    /// The end of a run: of the message first when all went well, else the run first, then why.
    pub(super) fn ends(&mut self, chat: &ChatFacts, record: &EventRecord) -> Vec<Json> {
        let finished = self.workflow_finished(record);
        match record.kind.as_str() {
            kind::GRAPH_RUN_FAILED => {
                let message = field(record, "error", "".into());
                let mut error = self.of_message(
                    chat,
                    "error",
                    json!({"code": "invalid_param", "status": 400, "message": format!("Run failed: {}", message.as_str().unwrap_or_default())}),
                );
                if let Json::Object(map) = &mut error {
                    map.shift_remove("task_id");
                }
                vec![finished, error]
            }
            kind::GRAPH_RUN_ABORTED => vec![finished, self.message_end(chat, record)],
            _ => vec![self.message_end(chat, record), finished],
        }
    }

    fn message_end(&self, chat: &ChatFacts, record: &EventRecord) -> Json {
        let files = files::among(&field(record, "outputs", json!({})));
        let fields = json!({"id": self.run.id, "metadata": self.metadata(), "files": files});
        self.of_message(chat, "message_end", fields)
    }

    /// Usage and sources of the message, as far as the run has come.
    pub fn metadata(&self) -> Json {
        json!({
            "annotation_reply": null,
            "retriever_resources": self.gathered.sources.all(),
            "usage": self.gathered.usage.to_json(),
        })
    }

    /// What brings whoever comes later to a chat up to date: the answer as it stands, once something was said.
    pub fn text_so_far(&self) -> Option<Json> {
        let chat = self.run.chat.as_ref().filter(|_| !self.shown.text().is_empty())?;
        Some(self.message_replace(chat))
    }

    /// The text that is shown.
    pub fn answer(&self) -> String {
        self.shown.text()
    }
}
