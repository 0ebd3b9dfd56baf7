//! Keeps secrets out of a node's record and errors. A comparison or an assignment needs the plain text of a secret; its
//! record and errors show the mask.

use std::borrow::Cow;

use serde_json::Value as Json;

use tidemill_base::value::{Lookup, Segment, SegmentType, Variables};

/// The secrets that a node reads. Empty for most nodes.
#[derive(Default)]
pub(in crate::nodes) struct Secrets<'a>(Vec<Cow<'a, Segment>>);

impl<'a> Secrets<'a> {
    /// The secrets among the mentioned variables.
    pub(in crate::nodes) fn among(mentions: &[(String, String)], variables: &'a dyn Variables) -> Self {
        let secret = |(node, name): &(String, String)| match variables.variable(node, name) {
            Lookup::Found(segment) if segment.ty == SegmentType::Secret => Some(segment),
            Lookup::Found(_) | Lookup::Missing | Lookup::Blob(_) => None,
        };
        Self(mentions.iter().filter_map(secret).collect())
    }

    /// Masks all secrets in the text.
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

    /// Masks all secrets in the texts of the value.
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
