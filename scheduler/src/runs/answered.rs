//! What may answer a chat in place of the app's workflow. The hash of the run that records such an answer names it.

/// The field of the hash.
pub(crate) const ANSWERED_BY: &str = "answered_by";

/// What answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// Moderation flagged what the user wrote.
    InputModeration,
}

impl AnsweredBy {
    const ALL: [Self; 1] = [Self::InputModeration];

    /// The name in the hash.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InputModeration => "input_moderation",
        }
    }

    /// Reads the name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}
