//! Options of one run on which versions of Dify, or Dify and graphon, differ for containers. The settings of the same
//! names are in `config`.

/// The effect of conversation variables that an iteration writes (`iteration_conversation_writes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConversationWrites {
    /// Nodes after the iteration see them.
    #[default]
    Parent,
    /// They are lost when their item ends.
    Local,
}

impl ConversationWrites {
    /// The name of the choice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Local => "local",
        }
    }
    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Parent, Self::Local].into_iter().find(|c| c.name() == name)
    }
}

/// The way in which answers inside containers are streamed (`nested_answer_stream`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NestedAnswers {
    /// In one piece, when the answer has ended.
    #[default]
    Whole,
    /// In one piece for each part of the template, when the answer has ended.
    Segments,
    /// Not at all.
    None,
}

impl NestedAnswers {
    /// The name of the choice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Segments => "segments",
            Self::None => "none",
        }
    }
    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Whole, Self::Segments, Self::None].into_iter().find(|c| c.name() == name)
    }
}
