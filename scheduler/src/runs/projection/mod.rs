//! Translates the engine's events to the events of Dify's service API. No I/O: data that the events lack is in
//! [`RunFacts`] and [`Totals`]. Each family of events has its own file: the run, nodes, containers, pauses, text.

mod chat;
mod container;
mod enclosing;
pub(crate) mod files;
mod linked;
mod moderated;
mod names;
mod node;
mod pause;
mod preset;
mod run;
pub(crate) mod simple;
mod spoken;
#[cfg(test)]
mod tests;
mod text;
mod thoughts;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::graph::Graph;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::answered::AnsweredBy;
use crate::runs::file_links::FileLinks;
use crate::runs::projection::chat::Gathered;
pub use crate::runs::projection::chat::{ChatFacts, ChatFailure, Sources};
pub(crate) use crate::runs::projection::moderated::{Moderated, clean_outputs, clean_text};
pub use crate::runs::projection::pause::FormsOfRun;
pub use crate::runs::projection::run::Totals;
pub use crate::runs::projection::text::ShownText;
pub use crate::runs::projection::thoughts::Thoughts;
pub use crate::runs::projection::usage::Usage;

/// Data about the run for the payloads.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// The id of the run, which is also its `task_id`.
    pub id: String,
    /// The id of the workflow's version: Dify's `workflow_id`.
    pub workflow_id: String,
    /// The user who started the run.
    pub user: String,
    /// What answered in place of the app's workflow.
    pub(crate) answered_by: Option<AnsweredBy>,
    /// The id of that user.
    pub end_user_id: String,
    /// Inputs and system variables, as `workflow_started` shows them.
    pub inputs: JsonMap,
    /// The time of submission, in Unix seconds.
    pub created_at: i64,
    /// The message that the run answers; only in chats.
    pub chat: Option<ChatFacts>,
    /// Creates the tokens of the run's forms; with `None` tokens are empty.
    pub forms: Option<FormsOfRun>,
    /// Signs URLs of files, also of those in texts; with `None` files of runs have none.
    pub links: Option<FileLinks>,
}

/// Follows the events of one run and returns Dify's payloads for each.
#[derive(Debug)]
pub struct Projection {
    run: RunFacts,
    graph: Arc<Graph>,
    /// Counts and times of the ended run, for its last payload.
    totals: Totals,
    /// The text that a client has received.
    shown: ShownText,
    /// Puts signed URLs into the text that is sent in pieces.
    linked: linked::Linked,
    /// Replaces an answer that the app's moderation flags.
    moderated: Moderated,
    /// Data for the end of a chat's message.
    gathered: Gathered,
    /// The rounds of an agent app.
    thoughts: Thoughts,
    /// The number of each execution, in the order of their start.
    index: HashMap<String, u64>,
    /// The time of the run's start, or of its last start after a pause.
    began_ms: Option<i64>,
    /// Dify's `created_at` of a run, in Unix seconds: its submission, or its last start after a pause.
    created_at: i64,
    /// True when containers are sent as nodes too, which a snapshot needs.
    shows_containers: bool,
}

impl Projection {
    /// Creates it before the first event.
    pub fn new(run: RunFacts, graph: Arc<Graph>) -> Self {
        Self {
            moderated: Moderated::of(&graph.features),
            created_at: run.created_at,
            run,
            graph,
            totals: Totals::default(),
            shown: ShownText::default(),
            linked: linked::Linked::default(),
            gathered: Gathered::default(),
            thoughts: Thoughts::default(),
            index: HashMap::new(),
            began_ms: None,
            shows_containers: false,
        }
    }

    /// Forgets all events, because they come again from the first that is left. Returns the event that tells the client
    /// to clear its text.
    pub fn reset(&mut self) -> Json {
        self.shown = ShownText::default();
        self.linked = linked::Linked::default();
        self.moderated = Moderated::of(&self.graph.features);
        self.gathered = Gathered::default();
        self.thoughts = Thoughts::default();
        self.index.clear();
        self.text_replace()
    }

    /// Sets the counts for the last payload, and for that of a pause. Call it before such an event is projected.
    pub fn set_totals(&mut self, totals: Totals) {
        self.totals = totals;
    }

    /// The payloads for an event, whose values must be opened. For an event that is not sent, only the text of chunks
    /// must be.
    pub fn project(&mut self, record: &EventRecord) -> Vec<Json> {
        if self.run.chat.is_some() {
            self.gather(record);
        }
        let payloads = match (self.run.answered_by, self.run.chat.clone()) {
            (Some(by), Some(chat)) => self.preset_answer(by, &chat, record),
            (Some(_) | None, _) => {
                let payloads = self.payloads(record);
                if self.moderated.is_off() { payloads } else { self.moderate(record, payloads) }
            }
        };
        self.with_links(payloads)
    }

    /// The payloads for an event, without moderation.
    fn payloads(&mut self, record: &EventRecord) -> Vec<Json> {
        if let Some(chat @ ChatFacts { simple: Some(mode), .. }) = &self.run.chat {
            let (chat, mode) = (chat.clone(), *mode);
            return self.project_simple(&chat, mode, record);
        }
        let payload = match record.kind.as_str() {
            kind::GRAPH_RUN_PAUSED => self.workflow_paused(record),
            kind::GRAPH_RUN_STARTED => self.workflow_started(record),
            kind::GRAPH_RUN_SUCCEEDED
            | kind::GRAPH_RUN_PARTIAL_SUCCEEDED
            | kind::GRAPH_RUN_FAILED
            | kind::GRAPH_RUN_ABORTED => match self.run.chat.clone() {
                Some(chat) => return self.ends(&chat, record),
                None => self.workflow_finished(record),
            },
            kind::NODE_RUN_STARTED
            | kind::NODE_RUN_SUCCEEDED
            | kind::NODE_RUN_FAILED
            | kind::NODE_RUN_EXCEPTION
            | kind::NODE_RUN_RETRY
                if !self.tells_node(record) =>
            {
                return Vec::new();
            }
            kind::NODE_RUN_STARTED => self.node_started(record),
            kind::NODE_RUN_SUCCEEDED | kind::NODE_RUN_FAILED | kind::NODE_RUN_EXCEPTION => {
                self.node_finished(record)
            }
            kind::NODE_RUN_RETRY => self.node_retry(record),
            // A child's own text has no counterpart on Dify; clients would add it to the answer.
            kind::NODE_RUN_STREAM_CHUNK | kind::NODE_RUN_STREAM_REPLACED if !record.is_in_answer() => {
                return Vec::new();
            }
            kind::NODE_RUN_STREAM_CHUNK => self.text_chunk(record),
            kind::NODE_RUN_STREAM_REPLACED => return self.text_replaced(record).into_iter().collect(),
            names::AGENT_LOG => self.agent_log(record),
            names::REASONING_CHUNK => self.reasoning_chunk(record),
            names::PAUSE_REQUESTED => return self.human_input_required(record).into_iter().collect(),
            names::FORM_FILLED => self.form_filled(record),
            names::FORM_TIMEOUT => self.form_timeout(record),
            // Edges, and kinds of newer versions, have no counterpart on Dify.
            _ => return self.container(record).into_iter().collect(),
        };
        vec![payload]
    }

    /// The payloads for a snapshot, of an event before the client's position. Containers are nodes there, and a node
    /// that waits has ended as `paused`.
    pub fn project_old(&mut self, record: &EventRecord) -> Vec<Json> {
        self.shows_containers = true;
        let mut payloads = self.project(record);
        self.shows_containers = false;
        if record.kind == names::PAUSE_REQUESTED {
            payloads.push(self.node_paused(record));
        }
        payloads
    }

    fn envelope(&self, event: &str, data: Json) -> Json {
        if let Some(chat) = &self.run.chat {
            return json!({
                "event": event,
                "conversation_id": chat.conversation_id,
                "message_id": self.run.id,
                "created_at": self.run.created_at,
                "task_id": self.run.id,
                "workflow_run_id": self.run.id,
                "data": data,
            });
        }
        json!({
            "event": event,
            "workflow_run_id": self.run.id,
            "task_id": self.run.id,
            "data": data,
        })
    }
}

/// A field of an event, or the default.
fn field(record: &EventRecord, key: &str, default: Json) -> Json {
    record.data.get(key).cloned().unwrap_or(default)
}

fn text<'a>(record: &'a EventRecord, key: &str) -> &'a str {
    record.data.get(key).and_then(Json::as_str).unwrap_or_default()
}
