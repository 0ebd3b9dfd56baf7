//! Conversations: access, turns, and the list of a user's conversations.

use std::collections::HashMap;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, RunId, ShardId};

/// A conversation, its owner and its blobs. Each use of it extends the time to live of all parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRef {
    /// The shard of the conversation and its runs.
    pub shard: ShardId,
    pub id: String,
    /// The app; empty for runs of workflows without an app, which no list shows.
    pub app: String,
    /// The user who owns it.
    pub user: String,
    /// Possible blobs of its variables ([`tidemill_wire::conversation::conversation_copies`]).
    pub copies: Vec<BlobId>,
}

/// A run that continues a conversation or begins one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entering {
    /// On the run's shard.
    pub conversation: ConversationRef,
    /// Entering again with the same run changes nothing.
    pub run: RunId,
    /// Whether the conversation must exist already, for this app and user.
    pub must_exist: bool,
    pub at: Timestamp,
    /// Extra fields for the hash of a new conversation.
    pub begins: Vec<(&'static str, String)>,
}

/// The result of entering a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered {
    /// The run is the newest of the conversation.
    Entered {
        /// The number of its turn, from 1.
        dialogue: u64,
        /// The run before it.
        previous: Option<RunId>,
        /// Other earlier runs that have ended and whose turns are not stored yet, oldest first.
        unsettled: Vec<RunId>,
    },
    /// No such conversation for this app and user.
    Unknown,
}

/// The turn of an ended run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settling {
    /// On the run's shard.
    pub conversation: ConversationRef,
    pub run: RunId,
    /// A JSON object with its `id`.
    pub turn: String,
}

/// A change of a conversation that no run makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationChange {
    pub conversation: ConversationRef,
    /// Fields of its hash.
    pub fields: Vec<(String, String)>,
    /// The blob of a changed variable: its content, or `None` when the value is small now.
    pub copy: Option<(BlobId, Option<String>)>,
    /// Moves it to the front of the list; `None` keeps its place.
    pub used_at: Option<Timestamp>,
}

/// A user's rating of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rating {
    pub conversation: ConversationRef,
    /// The id of the message's run.
    pub message: RunId,
    /// JSON; `None` removes the rating.
    pub rating: Option<String>,
    pub at: Timestamp,
}

/// The result of rating a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rated {
    /// The rating was stored or removed.
    Done,
    /// There was no rating to remove.
    Absent,
    /// No such conversation for this app and user.
    Unknown,
}

/// The order of a list of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationsBy {
    /// By their begin.
    Begin,
    /// By their last use.
    Use,
}

/// The conversations to list.
#[derive(Debug, Clone)]
pub struct ListConversations {
    pub app: String,
    pub user: String,
    pub by: ConversationsBy,
    /// Newest first, else oldest first.
    pub newest_first: bool,
    /// Only those after this one, which must be in the list.
    pub after: Option<(ShardId, String)>,
    /// At most so many.
    pub limit: usize,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedConversation {
    pub shard: ShardId,
    pub id: String,
    /// The fields that [`FIELDS_LISTED`] names.
    pub fields: HashMap<String, String>,
}

/// The hash field with the runs that have entered and whose turns are not stored yet, oldest first, with spaces between.
pub const OPEN_FIELD: &str = "open";

/// The hash fields that a list returns.
pub const FIELDS_LISTED: [&str; 9] =
    ["app", "user", "last", "before", "name", "inputs", "introduction", "created_at", "updated_at"];
