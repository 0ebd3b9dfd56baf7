//! Conversations: who may go on with one, and the turns that it remembers.

use crate::clock::Timestamp;
use crate::ids::RunId;

/// A run that wants to go on with a conversation, or to begin one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entering {
    /// The conversation; it lies on the run's shard.
    pub id: String,
    /// The run. Entering twice with the same one is entering once.
    pub run: RunId,
    /// The app that the conversation belongs to, or will.
    pub app: String,
    /// Whose conversation it is, or will be.
    pub user: String,
    /// Whether there must be such a conversation already, of this app and user.
    pub must_exist: bool,
    /// When.
    pub at: Timestamp,
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
