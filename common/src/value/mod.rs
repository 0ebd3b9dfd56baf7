//! What flows along the edges of a graph: JSON-shaped values with Dify's type names.
//!
//! [`Segment`] is a value in hand; [`Stored`] is the same value at rest: inline, a reference to a blob, or a
//! reference to a secret that is opened only where it is used. Rendering as text is in [`text`], the rules of
//! selectors in [`selector`], text with references in [`template`], with bare names in [`names`], Jinja in [`jinja`].

pub mod coerce;
pub mod jinja;
pub mod json_repair;
pub mod lines;
mod merge;
pub mod mime;
pub mod names;
pub mod pyjson;
pub mod pyrepr;
pub mod secrets;
pub mod selector;
pub mod template;
pub mod text;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::ids::BlobId;

pub use merge::merged;
pub use selector::{Lookup, Selector, Variables};

/// An object of JSON, in the order of its keys.
pub type JsonMap = serde_json::Map<String, Json>;

/// The mark by which Dify knows a file among objects: `dify_model_identity`.
pub const FILE_IDENTITY_KEY: &str = "dify_model_identity";
/// The value of [`FILE_IDENTITY_KEY`].
pub const FILE_IDENTITY: &str = "__dify__file__";

/// Bytes a JSON value takes, roughly, without writing it.
pub fn json_size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Number(_) => 12,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => 2 + items.iter().map(|i| json_size(i) + 1).sum::<usize>(),
        Json::Object(map) => 2 + map.iter().map(|(k, v)| k.len() + 4 + json_size(v)).sum::<usize>(),
    }
}

/// The type of a value, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentType {
    /// null
    None,
    /// text
    String,
    /// text that is shown masked
    Secret,
    /// whole number
    Integer,
    /// number with a fraction
    Float,
    /// true or false
    Boolean,
    /// mapping
    Object,
    /// one file
    File,
    /// list of anything
    ArrayAny,
    /// list of texts
    ArrayString,
    /// list of numbers
    ArrayNumber,
    /// list of mappings
    ArrayObject,
    /// list of truth values
    ArrayBoolean,
    /// list of files
    ArrayFile,
}

impl SegmentType {
    /// Every type, in the order of Dify's list.
    pub const ALL: [Self; 14] = [
        Self::None,
        Self::String,
        Self::Secret,
        Self::Integer,
        Self::Float,
        Self::Boolean,
        Self::Object,
        Self::File,
        Self::ArrayAny,
        Self::ArrayString,
        Self::ArrayNumber,
        Self::ArrayObject,
        Self::ArrayBoolean,
        Self::ArrayFile,
    ];

    /// Dify's name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::String => "string",
            Self::Secret => "secret",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::File => "file",
            Self::ArrayAny => "array[any]",
            Self::ArrayString => "array[string]",
            Self::ArrayNumber => "array[number]",
            Self::ArrayObject => "array[object]",
            Self::ArrayBoolean => "array[boolean]",
            Self::ArrayFile => "array[file]",
        }
    }

    /// The type as users see it: `integer` and `float` are both `number`.
    pub const fn exposed_name(self) -> &'static str {
        match self {
            Self::Integer | Self::Float => "number",
            Self::None
            | Self::String
            | Self::Secret
            | Self::Boolean
            | Self::Object
            | Self::File
            | Self::ArrayAny
            | Self::ArrayString
            | Self::ArrayNumber
            | Self::ArrayObject
            | Self::ArrayBoolean
            | Self::ArrayFile => self.name(),
        }
    }

    /// True for every list type.
    pub const fn is_array(self) -> bool {
        match self {
            Self::ArrayAny
            | Self::ArrayString
            | Self::ArrayNumber
            | Self::ArrayObject
            | Self::ArrayBoolean
            | Self::ArrayFile => true,
            Self::None
            | Self::String
            | Self::Secret
            | Self::Integer
            | Self::Float
            | Self::Boolean
            | Self::Object
            | Self::File => false,
        }
    }
}

impl fmt::Display for SegmentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A type name that no value has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a value type")]
pub struct UnknownType(pub String);

impl FromStr for SegmentType {
    type Err = UnknownType;
    /// `number` is read as `integer`: the value itself decides between the two.
    fn from_str(text: &str) -> Result<Self, UnknownType> {
        if text == "number" {
            return Ok(Self::Integer);
        }
        Self::ALL.into_iter().find(|t| t.name() == text).ok_or_else(|| UnknownType(text.into()))
    }
}

/// A value with its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// What it is.
    pub ty: SegmentType,
    /// Its content. Files are objects with [`FILE_IDENTITY_KEY`].
    pub value: Json,
}

impl Segment {
    /// A value whose type is known.
    pub const fn new(ty: SegmentType, value: Json) -> Self {
        Self { ty, value }
    }
    /// Null.
    pub const fn none() -> Self {
        Self { ty: SegmentType::None, value: Json::Null }
    }
    /// A text.
    pub fn string(text: impl Into<String>) -> Self {
        Self { ty: SegmentType::String, value: Json::String(text.into()) }
    }
    /// The type that a JSON value has by itself (Dify: inference). An object stays an object even when it
    /// carries the mark of a file; see [`Segment::restore_files`].
    pub fn infer(value: Json) -> Self {
        Self { ty: infer_type(&value), value }
    }
    /// As [`Segment::infer`], but objects marked as files become files, also as items of a list. For run inputs and
    /// other values that come from callers.
    pub fn restore_files(value: Json) -> Self {
        let is_file = |v: &Json| v.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY);
        let ty = match &value {
            Json::Object(_) if is_file(&value) => SegmentType::File,
            Json::Array(items) if !items.is_empty() && items.iter().all(is_file) => SegmentType::ArrayFile,
            Json::Null
            | Json::Bool(_)
            | Json::Number(_)
            | Json::String(_)
            | Json::Array(_)
            | Json::Object(_) => infer_type(&value),
        };
        Self { ty, value }
    }
    /// True for the values Python calls false: null, false, 0, `""`, `[]`, `{}`.
    pub fn is_falsy(&self) -> bool {
        match &self.value {
            Json::Null => true,
            Json::Bool(b) => !b,
            Json::Number(n) => n.as_f64() == Some(0.0),
            Json::String(s) => s.is_empty(),
            Json::Array(a) => a.is_empty(),
            Json::Object(o) => o.is_empty(),
        }
    }
}

/// Dify's inference: what type a JSON value has (engine reference, segment types).
pub fn infer_type(value: &Json) -> SegmentType {
    match value {
        Json::Null => SegmentType::None,
        Json::Bool(_) => SegmentType::Boolean,
        Json::Number(n) if n.is_f64() => SegmentType::Float,
        Json::Number(_) => SegmentType::Integer,
        Json::String(_) => SegmentType::String,
        Json::Object(_) => SegmentType::Object,
        Json::Array(items) => infer_array(items),
    }
}

fn infer_array(items: &[Json]) -> SegmentType {
    let all = |test: fn(&Json) -> bool| items.iter().all(test);
    if items.is_empty() {
        SegmentType::ArrayAny
    } else if all(Json::is_string) {
        SegmentType::ArrayString
    } else if all(Json::is_number) {
        SegmentType::ArrayNumber
    } else if all(Json::is_object) {
        SegmentType::ArrayObject
    } else if all(Json::is_boolean) {
        SegmentType::ArrayBoolean
    } else {
        SegmentType::ArrayAny
    }
}

/// A value that lies under its own key because it is large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobRef {
    /// Its name.
    pub id: BlobId,
    /// The type of the value.
    pub ty: SegmentType,
    /// Bytes of its JSON text.
    pub size: u64,
    /// How many items it has, for a list: what an iteration must know to open its frames.
    pub len: Option<u64>,
}

impl BlobRef {
    /// The reference to a value that is stored under `id` as `text`.
    pub fn to(id: BlobId, segment: &Segment, text: &str) -> Self {
        let len = segment.value.as_array().map(|items| items.len() as u64);
        Self { id, ty: segment.ty, size: text.len() as u64, len }
    }
}

/// The text under which a large value is stored: its JSON.
pub fn blob_text(value: &Json) -> String {
    // A JSON value that is in memory can always be written.
    value.to_string()
}

/// A value at rest.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Small enough to stand where it is used.
    Inline(Segment),
    /// Large: only who needs the content loads it.
    Blob(BlobRef),
    /// One item, from 0, of a list that lies apart: the frames of an iteration share the list.
    Item {
        /// The list.
        list: BlobRef,
        /// Which item.
        at: u64,
    },
    /// A secret of the workflow's environment, by its name; opened where it is used, never written.
    Secret(Arc<str>),
}

impl Stored {
    /// The type of the value.
    pub fn ty(&self) -> SegmentType {
        match self {
            Self::Inline(segment) => segment.ty,
            Self::Blob(blob) => blob.ty,
            Self::Item { list, .. } => item_type(list.ty),
            Self::Secret(_) => SegmentType::Secret,
        }
    }
}

/// The type of a list's items as far as the list's type tells it; of a mixed one they are of any type, which only their
/// content tells.
pub const fn item_type(list: SegmentType) -> SegmentType {
    match list {
        SegmentType::ArrayString => SegmentType::String,
        SegmentType::ArrayNumber => SegmentType::Float,
        SegmentType::ArrayObject => SegmentType::Object,
        SegmentType::ArrayBoolean => SegmentType::Boolean,
        SegmentType::ArrayFile => SegmentType::File,
        SegmentType::ArrayAny
        | SegmentType::None
        | SegmentType::String
        | SegmentType::Secret
        | SegmentType::Integer
        | SegmentType::Float
        | SegmentType::Boolean
        | SegmentType::Object
        | SegmentType::File => SegmentType::None,
    }
}

impl From<Segment> for Stored {
    fn from(segment: Segment) -> Self {
        Self::Inline(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_follow_from_json_as_dify_infers_them() {
        for (value, name) in [
            (json!(null), "none"),
            (json!(true), "boolean"),
            (json!(1), "integer"),
            (json!(1.0), "float"),
            (json!("x"), "string"),
            (json!({}), "object"),
            (json!([]), "array[any]"),
            (json!(["a"]), "array[string]"),
            (json!([1, 2.5]), "array[number]"),
            (json!([{"a": 1}]), "array[object]"),
            (json!([true]), "array[boolean]"),
            (json!([true, 1]), "array[any]"),
            (json!([[1], [2]]), "array[any]"),
            (json!([null]), "array[any]"),
        ] {
            assert_eq!(infer_type(&value).name(), name, "{value}");
        }
    }

    #[test]
    fn marked_objects_become_files_only_when_asked() {
        let file = json!({"dify_model_identity": "__dify__file__", "type": "image"});
        assert_eq!(Segment::infer(file.clone()).ty, SegmentType::Object);
        assert_eq!(Segment::restore_files(file.clone()).ty, SegmentType::File);
        assert_eq!(Segment::restore_files(json!([file])).ty, SegmentType::ArrayFile);
    }

    #[test]
    fn every_type_name_reads_back() {
        for ty in SegmentType::ALL {
            assert_eq!(ty.name().parse(), Ok(ty));
        }
    }
}
