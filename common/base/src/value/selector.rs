//! Selectors: names of values such as `[node, variable, key…]`, and the trait to look them up.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{BlobRef, Segment, SegmentType, infer_type};

/// A path into the variables of a run: the first two parts name a variable, the rest is a path inside its
/// value.
pub type Selector = Vec<String>;

/// The result of a look-up.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup<'a> {
    /// No variable of this name (Dify: missing; not the same as null).
    Missing,
    /// The value, with secrets opened.
    Found(Cow<'a, Segment>),
    /// The variable is a blob; its content must be loaded first.
    Blob(&'a BlobRef),
}

/// The variables that a node can see.
pub trait Variables {
    /// Returns the variable of node and name, whole.
    fn variable(&self, node: &str, name: &str) -> Lookup<'_>;

    /// Returns the `(node, name)` of every variable, in a stable order. Dify's start node shows them all.
    fn names(&self) -> Vec<(String, String)>;

    /// Returns the value that a selector names. A selector of fewer than two parts is missing, as on Dify.
    fn get(&self, selector: &[String]) -> Lookup<'_> {
        let [node, name, path @ ..] = selector else { return Lookup::Missing };
        match self.variable(node, name) {
            Lookup::Found(segment) if !path.is_empty() => match descend(&segment, path) {
                Some(inner) => Lookup::Found(Cow::Owned(inner)),
                None => Lookup::Missing,
            },
            found @ (Lookup::Missing | Lookup::Found(_) | Lookup::Blob(_)) => found,
        }
    }

    /// As [`Variables::get`], for callers that have made sure that the value is not a blob.
    fn found(&self, selector: &[String]) -> Option<Cow<'_, Segment>> {
        match self.get(selector) {
            Lookup::Found(segment) => Some(segment),
            Lookup::Missing | Lookup::Blob(_) => None,
        }
    }
}

/// The attributes of a file that a selector can reach.
pub const FILE_ATTRIBUTES: [&str; 8] =
    ["type", "size", "name", "mime_type", "transfer_method", "url", "extension", "related_id"];

/// Follows a path into a value as Dify does: attributes of a file, keys of an object. Items of lists cannot
/// be reached.
pub fn descend(segment: &Segment, path: &[String]) -> Option<Segment> {
    if segment.ty == SegmentType::File {
        // Dify ignores all parts after the first.
        let key = path.first()?;
        return file_attribute(&segment.value, key).map(Segment::infer);
    }
    let mut at = &segment.value;
    for key in path {
        at = at.as_object()?.get(key)?;
    }
    Some(Segment { ty: infer_type(at), value: at.clone() })
}

/// Returns one attribute of a file object; `None` for an attribute that files do not have.
pub fn file_attribute(file: &Json, key: &str) -> Option<Json> {
    if !FILE_ATTRIBUTES.contains(&key) {
        return None;
    }
    let field = |name: &str| file.get(name).cloned().unwrap_or(Json::Null);
    Some(match key {
        "name" => field("filename"),
        "url" => match field("url") {
            Json::Null => field("remote_url"),
            url @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => {
                url
            }
        },
        other => field(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct One(Segment);
    impl Variables for One {
        fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
            if (node, name) == ("n", "v") { Lookup::Found(Cow::Borrowed(&self.0)) } else { Lookup::Missing }
        }
        fn names(&self) -> Vec<(String, String)> {
            vec![("n".into(), "v".into())]
        }
    }
    fn get(value: Json, path: &[&str]) -> Option<Json> {
        let pool = One(Segment::restore_files(value));
        let selector: Vec<String> = path.iter().map(ToString::to_string).collect();
        pool.found(&selector).map(|s| s.value.clone())
    }

    #[test]
    fn selectors_reach_keys_and_never_items() {
        let value = json!({"a": {"b": null, "l": [1]}});
        assert_eq!(get(value.clone(), &["n"]), None);
        assert_eq!(get(value.clone(), &["n", "v", "a", "b"]), Some(Json::Null));
        assert_eq!(get(value.clone(), &["n", "v", "a", "x"]), None);
        assert_eq!(get(value.clone(), &["n", "v", "a", "l", "0"]), None);
        assert_eq!(get(json!(5), &["n", "v", "a"]), None);
    }

    #[test]
    fn a_file_shows_its_attributes_only() {
        let file = json!({"dify_model_identity": "__dify__file__", "filename": "a.png", "remote_url": "http://x/a.png"});
        assert_eq!(get(file.clone(), &["n", "v", "name", "ignored"]), Some(json!("a.png")));
        assert_eq!(get(file.clone(), &["n", "v", "url"]), Some(json!("http://x/a.png")));
        assert_eq!(get(file, &["n", "v", "filename"]), None);
    }
}
