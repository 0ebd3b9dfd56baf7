//! Features of an app that Tidemill does not serve, when they are switched on.

use super::{Found, Requirement};
use crate::dsl::features::ServedFeatures;
use crate::dsl::{Document, features, moderation};

/// The feature that publishing refuses.
const MODERATION: &str = "sensitive_word_avoidance";

pub(super) fn find(document: &Document, found: &mut Found) {
    if moderation::not_served(&document.features, &moderation::Served::default()).is_some() {
        found.add(Requirement::Feature { name: MODERATION });
    }
    for feature in features::not_served(&document.features, ServedFeatures::default()) {
        found.add(Requirement::Feature { name: feature.name });
    }
}
