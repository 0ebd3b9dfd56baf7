//! Keeps secrets out of what a condition leaves behind. A comparison needs the plain text of a secret; its record
//! and its errors show the mask.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::value::{Lookup, Segment, SegmentType, Variables};

/// The secrets that an expected text was rendered with. Empty for nearly every condition.
#[derive(Default)]
pub(super) struct Secrets<'a>(Vec<Cow<'a, Segment>>);

impl<'a> Secrets<'a> {
    /// Those of the mentioned variables that are secret.
    pub(super) fn among(mentions: &[(String, String)], variables: &'a dyn Variables) -> Self {
        let secret = |(node, name): &(String, String)| match variables.variable(node, name) {
            Lookup::Found(segment) if segment.ty == SegmentType::Secret => Some(segment),
            Lookup::Found(_) | Lookup::Missing | Lookup::Blob(_) => None,
        };
        Self(mentions.iter().filter_map(secret).collect())
    }

    /// The text with every secret masked.
    pub(super) fn hide(&self, mut text: String) -> String {
        for secret in &self.0 {
            if let Json::String(plain) = &secret.value
                && !plain.is_empty()
                && text.contains(plain.as_str())
            {
                text = text.replace(plain.as_str(), &secret.log());
            }
        }
        text
    }
}
