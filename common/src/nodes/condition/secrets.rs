//! Keeps secrets out of what a node leaves behind. A comparison or an assignment needs the plain text of a secret; its
//! record and its errors show the mask.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::value::{Lookup, Segment, SegmentType, Variables};

/// The secrets that a node reads. Empty for nearly every node.
#[derive(Default)]
pub(in crate::nodes) struct Secrets<'a>(Vec<Cow<'a, Segment>>);

impl<'a> Secrets<'a> {
    /// Those of the mentioned variables that are secret.
    pub(in crate::nodes) fn among(mentions: &[(String, String)], variables: &'a dyn Variables) -> Self {
        let secret = |(node, name): &(String, String)| match variables.variable(node, name) {
            Lookup::Found(segment) if segment.ty == SegmentType::Secret => Some(segment),
            Lookup::Found(_) | Lookup::Missing | Lookup::Blob(_) => None,
        };
        Self(mentions.iter().filter_map(secret).collect())
    }

    /// The text with every secret masked.
    pub(in crate::nodes) fn hide(&self, mut text: String) -> String {
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

    /// The value with every secret in its texts masked.
    pub(in crate::nodes) fn hide_in(&self, value: Json) -> Json {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Json::String(text) => Json::String(self.hide(text)),
            Json::Array(items) => items.into_iter().map(|item| self.hide_in(item)).collect(),
            Json::Object(map) => map.into_iter().map(|(key, item)| (key, self.hide_in(item))).collect(),
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => plain,
        }
    }
}
