//! Features of an app that Tidemill does not serve, when they are switched on.

use super::{Found, Requirement, is_enabled};
use crate::dsl::{Document, moderation};

/// The features that are read and not served. Moderation has its own rules.
const NOT_SERVED: [&str; 5] = [
    "suggested_questions_after_answer",
    "speech_to_text",
    "text_to_speech",
    "annotation_reply",
    "more_like_this",
];

/// The name of the feature that publishing refuses.
pub(super) const MODERATION: &str = "sensitive_word_avoidance";

pub(super) fn find(document: &Document, found: &mut Found) {
    if moderation::refused(&document.features).is_some() {
        found.add(Requirement::Feature { name: MODERATION });
    }
    for name in NOT_SERVED {
        if is_enabled(&document.features, name) {
            found.add(Requirement::Feature { name });
        }
    }
}
