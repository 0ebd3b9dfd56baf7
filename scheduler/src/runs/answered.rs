//! What may answer a chat in place of the app's workflow. The hash of the run that records such an answer names it.

use uuid::Uuid;

/// The field of the hash.
pub(crate) const ANSWERED_BY: &str = "answered_by";

const INPUT_MODERATION: &str = "input_moderation";
/// Followed by the annotation's id.
const ANNOTATION: &str = "annotation:";

/// What answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// Moderation flagged what the user wrote.
    InputModeration,
    /// The annotation with this id.
    Annotation(Uuid),
}

impl AnsweredBy {
    /// The text in the hash.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::InputModeration => INPUT_MODERATION.to_owned(),
            Self::Annotation(id) => format!("{ANNOTATION}{id}"),
        }
    }

    /// Reads the text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text.strip_prefix(ANNOTATION) {
            Some(id) => Uuid::try_parse(id).ok().map(Self::Annotation),
            None => (text == INPUT_MODERATION).then_some(Self::InputModeration),
        }
    }

    /// The annotation that answered.
    pub(crate) fn annotation(self) -> Option<Uuid> {
        match self {
            Self::Annotation(id) => Some(id),
            Self::InputModeration => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_as_it_was_written() {
        for by in [AnsweredBy::InputModeration, AnsweredBy::Annotation(Uuid::from_u128(7))] {
            assert_eq!(AnsweredBy::read(&by.to_text()), Some(by));
        }
        for other in ["", "annotation:", "annotation:x", "output_moderation"] {
            assert_eq!(AnsweredBy::read(other), None, "{other}");
        }
    }
}
