//! The parts of the projection that only chats have. Every event contains conversation and message, text is sent as
//! `message`, and the end is sent twice: once for the message and once for the run.

use serde_json::{Value as Json, json};
use tidemill_common::dsl::features;
use tidemill_common::graph::{Graph, SimpleMode};
use tidemill_common::wire::event::{EventRecord, kind};
use uuid::Uuid;

use crate::runs::answered::AnsweredBy;
use crate::runs::end_user;
use crate::runs::projection::usage::Usage;
use crate::runs::projection::{Projection, field, text};

/// The message that a run answers. Its id is the run's id.
#[derive(Debug, Clone, Default)]
pub struct ChatFacts {
    pub conversation_id: String,
    /// The mode of an app that had no workflow in Dify. Then no event is about workflows and nodes.
    pub simple: Option<SimpleMode>,
}

/// Data that the end of a message contains beside the text.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Tokens and prices of the model calls.
    pub(super) usage: Usage,
    /// The knowledge sources.
    pub(super) sources: Sources,
    /// The class of the error of the node that failed last.
    pub(super) failed_by: Option<String>,
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

/// Dify's error, with status 400, for a chat whose run failed.
#[derive(Debug, PartialEq, Eq)]
pub struct ChatFailure {
    /// Dify's code.
    pub code: &'static str,
    pub message: String,
}

impl ChatFailure {
    /// The error for a run that ended with this text, after a node failed with an error of this class. The errors with
    /// which Dify refuses to begin a run have codes of their own; all others are a failure of the run, or of the model's
    /// call in an app that had no workflow (`is_simple`).
    pub fn of(class: Option<&str>, error: &str, is_simple: bool) -> Self {
        let error = end_user::error_text(error);
        let code = match class.unwrap_or_default() {
            "ProviderTokenNotInitError" => "provider_not_initialize",
            "QuotaExceededError" => "provider_quota_exceeded",
            "ModelCurrentlyNotSupportError" => "model_currently_not_support",
            _ if is_simple => "completion_request_error",
            _ => return Self { code: "invalid_param", message: format!("Run failed: {error}") },
        };
        Self { code, message: error.into_owned() }
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
    pub fn gather(&mut self, record: &EventRecord) {
        match record.kind.as_str() {
            kind::NODE_RUN_SUCCEEDED | kind::NODE_RUN_EXCEPTION => {
                if let Some(usage) = record.data.get("usage") {
                    self.gathered.usage.add(usage);
                }
            }
            kind::NODE_RUN_FAILED => {
                let class = text(record, "error_type");
                self.gathered.failed_by = (!class.is_empty()).then(|| class.to_owned());
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
            if chat.simple == Some(SimpleMode::Completion) {
                // Its conversation only keeps the message.
                payload.shift_remove("conversation_id");
            }
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
        // Dify gives no reason in apps that had no workflow.
        let reason = if chat.simple.is_some() { "" } else { self.moderated.reason() };
        self.of_message(chat, "message_replace", json!({"answer": self.answer(), "reason": reason}))
    }

    /// The events at the end of a run: `message_end` comes first when the run succeeded, else `workflow_finished`.
    pub(super) fn ends(&mut self, chat: &ChatFacts, record: &EventRecord) -> Vec<Json> {
        let finished = self.workflow_finished(record);
        match record.kind.as_str() {
            kind::GRAPH_RUN_FAILED => {
                let failure = ChatFailure::of(self.failed_by(), text(record, "error"), false);
                let fields = json!({"code": failure.code, "status": 400, "message": failure.message});
                let mut error = self.of_message(chat, "error", fields);
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
        let files = match chat.simple {
            Some(_) => self.message_files(record),
            None => self.with_files(field(record, "outputs", json!({}))).1.into(),
        };
        let fields = json!({"id": self.run.id, "metadata": self.metadata(), "files": files});
        self.of_message(chat, "message_end", fields)
    }

    /// The class of the error of the node that failed last.
    pub fn failed_by(&self) -> Option<&str> {
        self.gathered.failed_by.as_deref()
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
        Some(self.with_links_so_far(self.message_replace(chat)))
    }

    /// The text that clients see, with paths of files where they get signed URLs.
    pub fn answer(&self) -> String {
        self.moderated.text().map_or_else(|| self.shown.text(), str::to_owned)
    }
}
