//! A conversation's variables and message list: how one run saves them for the next.

use crate::codec::text::stored_text;
use crate::state::messages;
use tidemill_base::ids::{BlobId, RunId};
use tidemill_base::value::{BlobRef, Segment, Stored, blob_text};
use tidemill_engine::order::changes::Changes;
use tidemill_engine::state::run::{RunState, RunStatus};
use tidemill_workflow::graph::Graph;
use tidemill_workflow::messages::{MAIN, MessageList};

/// Changes that a run makes to its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationWrite {
    pub id: String,
    /// Fields of the conversation hash: `v:<name>` and the stored JSON of the variable.
    pub fields: Vec<(String, String)>,
    /// Blobs to copy for the conversation: from, to. Each variable has one copy; a newer value overwrites it.
    pub copies: Vec<(BlobId, BlobId)>,
    /// Copies to delete: their variables now have small values.
    pub dropped: Vec<BlobId>,
    /// Possible copies of variables that were not written; their time to live is extended with the
    /// conversation's.
    pub kept: Vec<BlobId>,
    /// Set when the list `main` of this run replaces the conversation's; the index is in `fields`.
    pub messages: Option<RunId>,
}

/// The changes for the conversation; `None` when there are none.
pub(super) fn left(run: &RunState, changes: &Changes) -> Option<Box<ConversationWrite>> {
    let main = left_messages(run, changes);
    if changes.conversation.is_empty() && main.is_none() {
        return None;
    }
    let id = run.head.conversation_id.clone()?;
    let (mut fields, mut copies, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(main) = main {
        let mut index = messages::index_json(main);
        // The record of applied changes belongs to this run only.
        index.as_object_mut().into_iter().for_each(|index| _ = index.remove("applied"));
        fields.push((CONVERSATION_MESSAGES.to_string(), index.to_string()));
    }
    for (name, value) in &changes.conversation {
        let copy = conversation_copy(&id, name);
        let value = match value {
            // Blobs are copied, because a run's blobs are deleted with it.
            Stored::Blob(blob) => {
                copies.push((blob.id.clone(), copy.clone()));
                Stored::Blob(BlobRef { id: copy, ..blob.clone() })
            }
            Stored::Inline(_) | Stored::Item { .. } | Stored::Secret(_) => {
                dropped.push(copy);
                value.clone()
            }
        };
        fields.push((conversation_field(name), stored_text(&value)));
    }
    let others = run.graph.conversation.iter().map(|variable| &*variable.name);
    let kept = others
        .filter(|name| !changes.conversation.iter().any(|(written, _)| written == name))
        .map(|name| conversation_copy(&id, name))
        .collect();
    Some(Box::new(ConversationWrite { id, fields, copies, dropped, kept, messages: main.map(|_| run.id) }))
}

/// The message list for the next turn, when the run has changed it and ends or waits.
fn left_messages<'a>(run: &'a RunState, changes: &Changes) -> Option<&'a MessageList> {
    if !run.head.leaves_turn {
        return None;
    }
    let rests = changes.status_from.is_some() && (run.status.is_over() || run.status == RunStatus::Paused);
    let main = run.messages.as_ref().filter(|_| rests)?.lists.get(MAIN)?;
    (!main.index.applied.is_empty()).then_some(main)
}

/// The field of a conversation hash that holds the index of its messages.
pub const CONVERSATION_MESSAGES: &str = "messages";

/// The blob name for the large value of a conversation variable. One name a variable: an overwritten value
/// leaves no blob over, and the time to live of all copies can be extended without reading the hash. No run
/// refers to it; a run that reads it copies it.
pub fn conversation_copy(conversation: &str, variable: &str) -> BlobId {
    let name = format!("conversation/{conversation}/{variable}");
    BlobId::from(
        uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string().as_str(),
    )
}

/// The blob names that a workflow's conversation variables may use.
pub fn conversation_copies(graph: &Graph, conversation: &str) -> Vec<BlobId> {
    graph.conversation.iter().map(|variable| conversation_copy(conversation, &variable.name)).collect()
}

/// Encodes a conversation variable that a client sets: the text of its field; and the blob's name, with its
/// content when the value is large.
pub fn conversation_value(
    conversation: &str,
    variable: &str,
    value: Segment,
    inline_bytes_max: usize,
) -> (String, (BlobId, Option<String>)) {
    let copy = conversation_copy(conversation, variable);
    let text = blob_text(&value.value);
    if text.len() <= inline_bytes_max {
        return (stored_text(&Stored::Inline(value)), (copy, None));
    }
    let blob = BlobRef::to(copy.clone(), &value, &text);
    (stored_text(&Stored::Blob(blob)), (copy, Some(text)))
}

/// The field of a conversation hash for a variable.
pub fn conversation_field(variable: &str) -> String {
    format!("v:{variable}")
}

/// The variable whose field this is; `None` for a field of another kind.
pub fn variable_of_field(field: &str) -> Option<&str> {
    field.strip_prefix("v:")
}
