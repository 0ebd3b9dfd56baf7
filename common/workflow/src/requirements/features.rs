//! Features of an app that are switched on: those that Tidemill does not serve, and the model of the annotation reply.

use super::{Found, ModelRole, Requirement};
use crate::annotations::ReplySetting;
use crate::dsl::features::ServedFeatures;
use crate::dsl::{Document, features, moderation};

/// The feature that publishing refuses.
const MODERATION: &str = "sensitive_word_avoidance";

pub(super) fn find(document: &Document, found: &mut Found) {
    if moderation::is_unserved(&document.features, &moderation::Served::default()) {
        found.add(Requirement::Feature { name: MODERATION });
    }
    for feature in features::not_served(&document.features, ServedFeatures::default()) {
        found.add(Requirement::Feature { name: feature.name });
    }
    if let Some(model) = ReplySetting::in_force(None, &document.features).and_then(|it| it.embedding) {
        let (provider, model) = (model.provider, model.model);
        found.add(Requirement::Model { provider, model, role: ModelRole::Embedding });
    }
}
