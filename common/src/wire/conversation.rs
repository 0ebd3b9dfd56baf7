//! What a conversation keeps from one run to the next, and what a run leaves to it: variables, and the list of its messages.

use super::objects;
use super::text::stored_text;
use crate::graph::Graph;
use crate::ids::{BlobId, RunId};
use crate::machine::changes::Changes;
use crate::machine::run::{RunState, RunStatus};
use crate::objects::{MAIN, MessageList};
use crate::value::{BlobRef, Segment, Stored, blob_text};

/// What a run leaves to its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationWrite {
    /// The conversation.
    pub id: String,
    /// Fields of its hash: `v:<name>` and the stored JSON of the variable.
    pub fields: Vec<(String, String)>,
    /// Blobs to copy for it: from, to. One name a variable: a newer copy takes the place of the older.
    pub copies: Vec<(BlobId, BlobId)>,
    /// Copies whose variables have small values now.
    pub dropped: Vec<BlobId>,
    /// Copies that variables which were not written may have: they live as long as the conversation.
    pub kept: Vec<BlobId>,
    /// The list `main` of this run becomes the conversation's; its index is among the fields.
    pub messages: Option<RunId>,
}

/// What it leaves, if anything.
pub(super) fn left(run: &RunState, changes: &Changes) -> Option<Box<ConversationWrite>> {
    let main = left_messages(run, changes);
    if changes.conversation.is_empty() && main.is_none() {
        return None;
    }
    let id = run.head.conversation_id.clone()?;
    let (mut fields, mut copies, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(main) = main {
        let mut index = objects::index_json(main);
        // Who changed it in this run is nothing to the next.
        index.as_object_mut().into_iter().for_each(|index| _ = index.remove("applied"));
        fields.push((CONVERSATION_MESSAGES.to_string(), index.to_string()));
    }
    for (name, value) in &changes.conversation {
        let copy = conversation_copy(&id, name);
        let value = match value {
            // What lies apart is copied, since a run's blobs go with it.
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

/// The list that a run leaves to its conversation, when it ends or waits and has changed it: so the next turn finds it.
fn left_messages<'a>(run: &'a RunState, changes: &Changes) -> Option<&'a MessageList> {
    if !run.head.leaves_turn {
        return None;
    }
    let rests = changes.status_from.is_some() && (run.status.is_over() || run.status == RunStatus::Paused);
    let main = run.objects.as_ref().filter(|_| rests)?.lists.get(MAIN)?;
    (!main.index.applied.is_empty()).then_some(main)
}

/// The field of a conversation's hash that has the index of its messages.
pub const CONVERSATION_MESSAGES: &str = "messages";

/// Where the large value of a conversation variable lies: one name a variable, so that none is forgotten when it is
/// overwritten, and all can be told to live on without being known. Nobody else refers to it: a run that reads it takes a
/// copy of its own.
pub fn conversation_copy(conversation: &str, variable: &str) -> BlobId {
    let name = format!("conversation/{conversation}/{variable}");
    BlobId::from(
        uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string().as_str(),
    )
}

/// Where large values of a conversation's variables may lie, as far as a workflow defines them.
pub fn conversation_copies(graph: &Graph, conversation: &str) -> Vec<BlobId> {
    graph.conversation.iter().map(|variable| conversation_copy(conversation, &variable.name)).collect()
}

/// What a conversation keeps of a variable that is set from outside: the text of its field; and where its large value may
/// lie, with its content if it has one.
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

/// The field of a conversation's hash that keeps a variable.
pub fn conversation_field(variable: &str) -> String {
    format!("v:{variable}")
}
