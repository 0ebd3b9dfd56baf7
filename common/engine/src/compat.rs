//! Where Dify's versions and bare graphon differ on containers: the choices of one run. The settings of the same names
//! are in `config`, which knows nothing of runs; the wire knows them by [`ConversationWrites::name`] and its like.

/// What becomes of the conversation variables that an iteration writes (`iteration_conversation_writes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConversationWrites {
    /// The nodes behind the iteration see them.
    #[default]
    Parent,
    /// They are lost with their item.
    Local,
}

impl ConversationWrites {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Local => "local",
        }
    }
    /// The choice of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Parent, Self::Local].into_iter().find(|c| c.name() == name)
    }
}

/// How answers inside containers stream (`nested_answer_stream`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NestedAnswers {
    /// As one piece when the answer has ended.
    #[default]
    Whole,
    /// Piece by piece.
    Segments,
    /// Not at all.
    None,
}

impl NestedAnswers {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Segments => "segments",
            Self::None => "none",
        }
    }
    /// The choice of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Whole, Self::Segments, Self::None].into_iter().find(|c| c.name() == name)
    }
}
