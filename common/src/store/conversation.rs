//! Conversations: who may go on with one, the turns that it remembers, and the list of those that a user has.

use std::collections::HashMap;

use crate::clock::Timestamp;
use crate::ids::{BlobId, RunId, ShardId};

/// A conversation, whose it is, and what lies apart from it. Whatever touches it makes all of that live on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRef {
    /// Where it lies, with its runs.
    pub shard: ShardId,
    /// Its id.
    pub id: String,
    /// The app that it belongs to, or will; empty for runs of workflows that no app has, which nobody lists.
    pub app: String,
    /// Whose conversation it is, or will be.
    pub user: String,
    /// Where large values of its variables may lie ([`crate::wire::conversation::conversation_copies`]).
    pub copies: Vec<BlobId>,
}

/// A run that wants to go on with a conversation, or to begin one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entering {
    /// The conversation; it lies on the run's shard.
    pub conversation: ConversationRef,
    /// The run. Entering twice with the same one is entering once.
    pub run: RunId,
    /// Whether there must be such a conversation already, of this app and user.
    pub must_exist: bool,
    /// When.
    pub at: Timestamp,
    /// Further fields of its hash, for one that begins with this run.
    pub begins: Vec<(&'static str, String)>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered {
    /// The run is the newest of the conversation.
    Entered {
        /// Which turn of the conversation it is, from 1.
        dialogue: u64,
        /// The run before it.
        previous: Option<RunId>,
    },
    /// There is no such conversation, or it is somebody else's.
    Unknown,
}

/// What was said in a run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settling {
    /// The conversation; it lies on the run's shard.
    pub conversation: ConversationRef,
    /// The run.
    pub run: RunId,
    /// Its turn: a JSON object with its `id`.
    pub turn: String,
}

/// A change to a conversation that is not a run's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationChange {
    /// The conversation.
    pub conversation: ConversationRef,
    /// Fields of its hash.
    pub fields: Vec<(String, String)>,
    /// Where a large value among them lies: its content, or none when there is none any more.
    pub copy: Option<(BlobId, Option<String>)>,
    /// When it moves to the front of the list; none: it stays where it is.
    pub used_at: Option<Timestamp>,
}

/// What a user says of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rating {
    /// The conversation.
    pub conversation: ConversationRef,
    /// The message: the id of its run.
    pub message: RunId,
    /// JSON; none to take back what was said.
    pub rating: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rated {
    /// It is kept, or taken back.
    Done,
    /// There was nothing to take back.
    Absent,
    /// There is no such conversation of this app and user.
    Unknown,
}

/// By what conversations are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationsBy {
    /// When they began.
    Begin,
    /// When they were used last.
    Use,
}

/// Which conversations to list.
#[derive(Debug, Clone)]
pub struct ListConversations {
    /// Of this app.
    pub app: String,
    /// And this user.
    pub user: String,
    /// By what.
    pub by: ConversationsBy,
    /// The newest first.
    pub newest_first: bool,
    /// Those behind this one, which must be among them.
    pub after: Option<(ShardId, String)>,
    /// At most so many.
    pub limit: usize,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedConversation {
    /// Where it lies.
    pub shard: ShardId,
    /// Its id.
    pub id: String,
    /// What [`FIELDS_LISTED`] names of its hash.
    pub fields: HashMap<String, String>,
}

/// Fields of a conversation's hash that a list tells.
pub const FIELDS_LISTED: [&str; 9] =
    ["app", "user", "last", "before", "name", "inputs", "introduction", "created_at", "updated_at"];
