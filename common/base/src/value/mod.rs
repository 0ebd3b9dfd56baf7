//! Values that flow along the edges of a graph: JSON with Dify's type names.
//!
//! [`Segment`] is a value in memory. [`Stored`] is a value at rest: inline, a reference to a blob, or a
//! reference to a secret that is opened only where it is used. Values are rendered as text in [`text`] and
//! found by [`selector`]. [`template`] is text with references, [`names`] is text with bare names, [`jinja`]
//! is Jinja.

pub mod coerce;
pub mod file_name;
pub mod jinja;
pub mod json_repair;
pub mod lines;
mod merge;
pub mod mime;
pub mod names;
pub mod pool;
pub mod pyjson;
pub mod pyrepr;
pub mod reasoning;
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

/// A JSON object, sorted by key.
pub type JsonMap = serde_json::Map<String, Json>;

/// The key that marks an object as a file for Dify: `dify_model_identity`.
pub const FILE_IDENTITY_KEY: &str = "dify_model_identity";
/// The value of [`FILE_IDENTITY_KEY`].
pub const FILE_IDENTITY: &str = "__dify__file__";

/// Estimates the size of a value's JSON in bytes, without writing it.
pub fn json_size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Number(_) => 12,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => 2 + items.iter().map(|i| json_size(i) + 1).sum::<usize>(),
        Json::Object(map) => 2 + map.iter().map(|(k, v)| k.len() + 4 + json_size(v)).sum::<usize>(),
    }
}

/// The type of a value, with Dify's names.
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
    /// All types, in the order of Dify's list.
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

    /// Returns Dify's name of the type.
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

    /// Returns the type as users see it: `integer` and `float` are both `number`.
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

/// The error for a type name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a value type")]
pub struct UnknownType(pub String);

impl FromStr for SegmentType {
    type Err = UnknownType;
    /// Reads `number` as `integer`: the value itself decides between integer and float.
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
    pub ty: SegmentType,
    /// The content. A file is an object with [`FILE_IDENTITY_KEY`].
    pub value: Json,
}

impl Segment {
    /// Builds a value whose type is known.
    pub const fn new(ty: SegmentType, value: Json) -> Self {
        Self { ty, value }
    }
    /// Returns null.
    pub const fn none() -> Self {
        Self { ty: SegmentType::None, value: Json::Null }
    }
    /// Builds a text.
    pub fn string(text: impl Into<String>) -> Self {
        Self { ty: SegmentType::String, value: Json::String(text.into()) }
    }
    /// Builds a value whose type is inferred from the JSON, as Dify does. An object stays an object even when
    /// it carries the mark of a file; see [`Segment::restore_files`].
    pub fn infer(value: Json) -> Self {
        Self { ty: infer_type(&value), value }
    }
    /// As [`Segment::infer`], but objects marked as files become files, also as items of a list. For run
    /// inputs and other values from clients.
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
    /// True for the values that are false in Python: null, false, 0, `""`, `[]`, `{}`.
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

/// Infers the type of a JSON value as Dify does (engine reference, segment types).
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

/// A reference to a blob: a large value that is stored under its own key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobRef {
    pub id: BlobId,
    /// The type of the value.
    pub ty: SegmentType,
    /// Size of its JSON, in bytes.
    pub size: u64,
    /// The number of items of a list, which an iteration needs to open its frames; `None` for other values.
    pub len: Option<u64>,
}

impl BlobRef {
    /// Builds the reference to `segment`, whose JSON `text` is stored under `id`.
    pub fn to(id: BlobId, segment: &Segment, text: &str) -> Self {
        let len = segment.value.as_array().map(|items| items.len() as u64);
        Self { id, ty: segment.ty, size: text.len() as u64, len }
    }
}

/// Returns the text that is stored as a blob: the JSON of the value.
pub fn blob_text(value: &Json) -> String {
    // Writing a JSON value that is in memory cannot fail.
    value.to_string()
}

/// A value at rest, in the state of a run or in a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// A small value, stored in place.
    Inline(Segment),
    /// A large value, stored as a blob. Only code that needs the content loads it.
    Blob(BlobRef),
    /// One item (from 0) of a list that is stored as a blob. The frames of an iteration share the list.
    Item { list: BlobRef, at: u64 },
    /// A secret of the workflow's environment, by name. Opened where it is used, never written.
    Secret(Arc<str>),
}

impl Stored {
    /// Returns the type of the value.
    pub fn ty(&self) -> SegmentType {
        match self {
            Self::Inline(segment) => segment.ty,
            Self::Blob(blob) => blob.ty,
            Self::Item { list, .. } => item_type(list.ty),
            Self::Secret(_) => SegmentType::Secret,
        }
    }
}

/// Returns the type of a list's items, as far as the type of the list determines it. `None` for a mixed list:
/// there only the items themselves show it.
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
