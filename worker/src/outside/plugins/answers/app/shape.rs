//! The dictionaries of apps as Dify's clients know them: the request of a plugin, and the blocking and streaming answers. A
//! stream has the start and the end of its run; a chat's answer comes as one piece. The events between them are not read:
//! nothing is shown before the rules of the app have cleaned it.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{AppMode, SimpleMode};
use tidemill_common::ids::{RunId, workflow_uuid};
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::str_of;

use crate::outside::tools::called_run::usage;

/// The modes of apps that plugins can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppKind {
    Workflow,
    /// A chat with a workflow.
    AdvancedChat,
    /// A chat without a workflow of its own.
    Chat,
    AgentChat,
}

impl AppKind {
    fn of(app: &App) -> Result<Self, String> {
        match app.mode.as_str() {
            mode if mode == AppMode::Workflow.name() => Ok(Self::Workflow),
            mode if mode == AppMode::Chat.name() => Ok(Self::AdvancedChat),
            mode if mode == SimpleMode::Chat.name() => Ok(Self::Chat),
            mode if mode == SimpleMode::AgentChat.name() => Ok(Self::AgentChat),
            mode => Err(format!("a plugin cannot call the app {}: its mode is {mode}", app.id)),
        }
    }
}

/// What a plugin asks of an app.
#[derive(Debug)]
pub(super) struct AppRequest {
    pub(super) kind: AppKind,
    pub(super) inputs: JsonMap,
    files: Vec<Json>,
    pub(super) streams: bool,
    /// The message and the conversation of a chat; the conversation is empty for a new one.
    chat: Option<(String, String)>,
}

impl AppRequest {
    /// Reads a request. Takes values out of it.
    ///
    /// # Errors
    /// The app cannot be called like this; the words are Dify's where it has some.
    pub(super) fn read(app: &App, request: &mut Json) -> Result<Self, String> {
        let kind = AppKind::of(app)?;
        let streams = match request["response_mode"].as_str() {
            None | Some("blocking") => false,
            Some("streaming") => true,
            Some(_) => return Err("response_mode must be streaming or blocking".into()),
        };
        if kind == AppKind::AgentChat && !streams {
            return Err("Agent Chat App does not support blocking mode".into());
        }
        let text = |key: &str| request[key].as_str().unwrap_or_default().replace('\0', "");
        let chat = match (kind, text("query")) {
            (AppKind::Workflow, _) => None,
            (_, query) if query.is_empty() => return Err("missing query".into()),
            (_, query) => Some((query, text("conversation_id").trim().to_ascii_lowercase())),
        };
        let inputs = match request["inputs"].take() {
            Json::Null => JsonMap::new(),
            Json::Object(inputs) => inputs,
            Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                return Err("inputs must be an object".into());
            }
        };
        let files = request["files"].as_array().cloned().unwrap_or_default();
        Ok(Self { kind, inputs, files, streams, chat })
    }

    pub(super) const fn is_chat(&self) -> bool {
        self.chat.is_some()
    }

    /// The input of the run, as its order has it.
    pub(super) fn given(&self) -> JsonMap {
        let mut given = JsonMap::new();
        given.insert("inputs".into(), Json::Object(self.inputs.clone()));
        given.insert("files".into(), Json::Array(self.files.clone()));
        if let Some((query, conversation)) = &self.chat {
            given.insert("query".into(), query.as_str().into());
            given.insert("conversation_id".into(), conversation.as_str().into());
        }
        given
    }
}

/// A run of an app, with the fields of its hash.
pub(super) struct CalledRun<'r> {
    pub(super) app: &'r App,
    pub(super) kind: AppKind,
    pub(super) run: RunId,
    pub(super) fields: &'r HashMap<String, String>,
}

impl CalledRun<'_> {
    /// The first event of a stream, if the mode has one.
    pub(super) fn start(&self, inputs: JsonMap) -> Option<Json> {
        let data = json!({
            "id": self.run, "workflow_id": self.workflow_id(), "inputs": inputs, "created_at": self.created_at(),
        });
        match self.kind {
            AppKind::Workflow | AppKind::AdvancedChat => Some(self.event("workflow_started", data)),
            AppKind::Chat | AppKind::AgentChat => None,
        }
    }

    /// A part that says only that the run goes on. It has the fields that the mode's other events have, because a plugin may read
    /// them of each.
    pub(super) fn ping(&self) -> Json {
        match self.kind {
            AppKind::Workflow => self.event("ping", json!({})),
            AppKind::AdvancedChat | AppKind::Chat | AppKind::AgentChat => {
                self.message("ping", json!({"answer": "", "workflow_run_id": self.run, "data": {}}))
            }
        }
    }

    /// The answer of the ended run: one dictionary, or the last events of a stream.
    pub(super) fn answer(&self, outputs: JsonMap, streams: bool) -> Vec<Json> {
        if self.kind == AppKind::Workflow {
            let data = self.finished(outputs);
            return vec![match streams {
                true => self.event("workflow_finished", data),
                false => json!({"task_id": self.run, "workflow_run_id": self.run, "data": data}),
            }];
        }
        let answer = outputs.get("answer").map(|answer| str_of(answer).into_owned()).unwrap_or_default();
        let word = if self.kind == AppKind::AgentChat && streams { "agent_message" } else { "message" };
        let mut message = self.message(word, json!({"answer": answer}));
        if !streams {
            message["mode"] = self.app.mode.as_str().into();
            message["metadata"] = self.metadata();
            return vec![message];
        }
        let end = self.message("message_end", json!({"metadata": self.metadata(), "files": []}));
        let finished = self.event("workflow_finished", self.finished(outputs));
        let finished = Some(finished).filter(|_| self.kind == AppKind::AdvancedChat);
        [message, end].into_iter().chain(finished).collect()
    }

    fn finished(&self, outputs: JsonMap) -> Json {
        let (began, ended) =
            (self.time("resumed_at").or_else(|| self.time("started_at")), self.time("finished_at"));
        json!({
            "id": self.run,
            "workflow_id": self.workflow_id(),
            "status": self.text("status"),
            "outputs": outputs,
            "error": self.text("error"),
            "elapsed_time": began.zip(ended).map_or(0.0, |(began, ended)| ended.seconds_since(began)),
            "total_tokens": self.number("tokens"),
            "total_steps": self.number("steps"),
            "created_at": self.created_at(),
            "finished_at": ended.map(Timestamp::seconds),
            "exceptions_count": self.number("exceptions"),
            "files": [],
        })
    }

    /// An event of the run.
    fn event(&self, name: &str, data: Json) -> Json {
        let mut event =
            json!({"event": name, "task_id": self.run, "workflow_run_id": self.run, "data": data});
        if self.kind != AppKind::Workflow {
            event["conversation_id"] = json!(self.text("conversation_id"));
            event["message_id"] = json!(self.run);
            event["created_at"] = self.created_at();
        }
        event
    }

    /// An event about the message of a chat.
    fn message(&self, name: &str, more: Json) -> Json {
        let mut message = json!({
            "event": name, "task_id": self.run, "id": self.run, "message_id": self.run,
            "conversation_id": self.text("conversation_id"), "created_at": self.created_at(),
        });
        if let (Json::Object(message), Json::Object(more)) = (&mut message, more) {
            message.extend(more);
        }
        message
    }

    fn metadata(&self) -> Json {
        json!({"annotation_reply": null, "retriever_resources": [], "usage": usage(self.fields).record})
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(String::as_str)
    }

    fn number(&self, key: &str) -> u64 {
        self.text(key).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn time(&self, key: &str) -> Option<Timestamp> {
        self.text(key)?.parse().ok().map(Timestamp::from_micros)
    }

    fn created_at(&self) -> Json {
        json!(self.time("created_at").map(Timestamp::seconds))
    }

    /// Dify's id of the version: `published` is the version of an app around which the run has added steps.
    fn workflow_id(&self) -> String {
        let version = self.text("published").or_else(|| self.text("version")).unwrap_or_default();
        workflow_uuid(&self.app.id, version).to_string()
    }
}
