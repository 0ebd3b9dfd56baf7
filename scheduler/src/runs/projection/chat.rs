//! The parts of the projection that only chats have. Every event contains conversation and message, text is sent as
//! `message`, and the end is sent twice: once for the message and once for the run.

use serde_json::{Value as Json, json};
use tidemill_common::dsl::features;
use tidemill_common::graph::Graph;
use tidemill_common::wire::event::{EventRecord, kind};
use uuid::Uuid;

use crate::runs::answered::AnsweredBy;
use crate::runs::projection::usage::Usage;
use crate::runs::projection::{Projection, field, files};

/// The message that a run answers. Its id is the run's id.
#[derive(Debug, Clone, Default)]
pub struct ChatFacts {
    pub conversation_id: String,
}

/// Data that the end of a message contains beside the text.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Tokens and prices of the model calls.
    pub(super) usage: Usage,
    /// The knowledge sources.
    pub(super) sources: Sources,
}

/// The knowledge sources of a run, by execution. When an execution reports again, because its job was delivered again,
/// its new report replaces the old one.
#[derive(Debug, Default)]
pub struct Sources(Vec<(String, Vec<Json>)>);

impl Sources {
    /// Adds the sources in an event, if it has any.
    pub fn take(&mut self, record: &EventRecord) {
        let sources = resources(record);
        if sources.is_empty() {
            return;
        }
        let execution = record.data.get("id").and_then(Json::as_str).unwrap_or_default();
        match self.0.iter_mut().find(|(known, _)| known == execution) {
            Some((_, before)) => *before = sources.to_vec(),
            None => self.0.push((execution.to_owned(), sources.to_vec())),
        }
    }

    /// All sources, in the order of their first report, if the app shows them. A bare graph has no such switch, and
    /// shows them.
    pub fn shown(&self, graph: &Graph) -> Vec<Json> {
        if !graph.is_bare && !features::is_switched_on(&graph.features, "retriever_resource") {
            return Vec::new();
        }
        self.0.iter().flat_map(|(_, sources)| sources.iter().cloned()).collect()
    }
}

/// The event in which a node reports the sources of its context.
const RESOURCES: &str = "node_run_retriever_resource";

/// The sources in an event.
fn resources(record: &EventRecord) -> &[Json] {
    if record.kind != RESOURCES {
        return &[];
    }
    let sources = record.data.get("data").unwrap_or(&Json::Null).get("retriever_resources");
    let sources = sources.or_else(|| record.data.get("retriever_resources"));
    sources.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The annotation that answered, and its author. There are no accounts here, so the author is the one that Dify names when
/// it does not know the account.
fn annotation_reply(id: Uuid) -> Json {
    json!({"id": id.to_string(), "account": {"id": Uuid::nil().to_string(), "name": "Dify user"}})
}

impl Projection {
    /// Collects data for the end of the message.
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

    /// An event without `data`: its fields are at the top level.
    pub(super) fn of_message(&self, chat: &ChatFacts, event: &str, fields: Json) -> Json {
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

    /// The whole answer so far.
    pub(super) fn message_replace(&self, chat: &ChatFacts) -> Json {
        let reason = self.moderated.reason();
        self.of_message(chat, "message_replace", json!({"answer": self.answer(), "reason": reason}))
    }

    /// The events at the end of a run: `message_end` comes first when the run succeeded, else `workflow_finished`.
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

    pub(super) fn message_end(&self, chat: &ChatFacts, record: &EventRecord) -> Json {
        let files = files::among(&field(record, "outputs", json!({})));
        let fields = json!({"id": self.run.id, "metadata": self.metadata(), "files": files});
        self.of_message(chat, "message_end", fields)
    }

    /// Usage and sources of the message so far.
    pub fn metadata(&self) -> Json {
        json!({
            "annotation_reply": self.run.answered_by.and_then(AnsweredBy::annotation).map(annotation_reply),
            "retriever_resources": self.gathered.sources.shown(&self.graph),
            "usage": self.gathered.usage.to_json(),
        })
    }

    /// The answer so far, for a client that joins a chat later. Returns `None` while there is no text.
    pub fn text_so_far(&self) -> Option<Json> {
        let chat = self.run.chat.as_ref().filter(|_| !self.answer().is_empty())?;
        Some(self.message_replace(chat))
    }

    /// The text that clients see.
    pub fn answer(&self) -> String {
        self.moderated.text().map_or_else(|| self.shown.text(), str::to_owned)
    }
}
