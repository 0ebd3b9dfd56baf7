//! Stored values as JSON: plain JSON where it says everything, else an object marked with the key `$tm`.
//!
//! | value | form |
//! | --- | --- |
//! | inline, type as inferred | the JSON itself |
//! | inline, other type | `{"$tm":"value","type":"array[string]","value":[]}` |
//! | blob | `{"$tm":"blob","id":"…","type":"string","size":70000}` |
//! | item of a list in a blob | `{"$tm":"item","id":"…","type":"array[any]","size":70000,"len":900,"at":3}` |
//! | secret | `{"$tm":"secret","name":"KEY"}` |
//! | joined text | `{"$tm":"joined","parts":[…]}` |

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value as Json;

use crate::WireError;
use crate::codec::fields::{Field, Name};
use tidemill_base::ids::BlobId;
use tidemill_base::value::{BlobRef, JsonMap, Segment, Stored, infer_type};
use tidemill_engine::order::events::Output;
use tidemill_engine::state::NamedValues;

/// The key that marks an object that is not plain JSON.
pub const MARK: &str = "$tm";

/// Serializes a stored value.
pub struct StoredJson<'a>(pub &'a Stored);

impl Serialize for StoredJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Stored::Inline(segment) if is_plain(segment) => segment.value.serialize(s),
            Stored::Inline(segment) => {
                let mut map = s.serialize_map(Some(3))?;
                map.serialize_entry(MARK, "value")?;
                map.serialize_entry("type", segment.ty.name())?;
                map.serialize_entry("value", &segment.value)?;
                map.end()
            }
            Stored::Blob(blob) => {
                let mut map = s.serialize_map(None)?;
                map.serialize_entry(MARK, "blob")?;
                write_blob(&mut map, blob)?;
                map.end()
            }
            Stored::Item { list, at } => {
                let mut map = s.serialize_map(None)?;
                map.serialize_entry(MARK, "item")?;
                write_blob(&mut map, list)?;
                map.serialize_entry("at", at)?;
                map.end()
            }
            Stored::Secret(name) => {
                let mut map = s.serialize_map(Some(2))?;
                map.serialize_entry(MARK, "secret")?;
                map.serialize_entry("name", name)?;
                map.end()
            }
        }
    }
}

fn write_blob<M: SerializeMap>(map: &mut M, blob: &BlobRef) -> Result<(), M::Error> {
    map.serialize_entry("id", blob.id.as_str())?;
    map.serialize_entry("type", blob.ty.name())?;
    map.serialize_entry("size", &blob.size)?;
    if let Some(len) = blob.len {
        map.serialize_entry("len", &len)?;
    }
    Ok(())
}

/// Whether a value's plain JSON says everything.
pub(crate) fn is_plain(segment: &Segment) -> bool {
    infer_type(&segment.value) == segment.ty && segment.value.get(MARK).is_none()
}

/// Serializes named values as one object.
pub struct NamedJson<'a>(pub &'a NamedValues);

impl Serialize for NamedJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, &StoredJson(value))?;
        }
        map.end()
    }
}

/// Serializes a run's outputs as one object.
pub struct OutputsJson<'a>(pub &'a [(String, Output)]);

impl Serialize for OutputsJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, &OutputJson(value))?;
        }
        map.end()
    }
}

struct OutputJson<'a>(&'a Output);

impl Serialize for OutputJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let parts = match self.0 {
            Output::One(value) => return StoredJson(value).serialize(s),
            Output::Joined(parts) => parts,
        };
        let mut text = String::new();
        for part in parts {
            match part {
                Stored::Inline(segment) => text.push_str(&segment.text()),
                Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => {
                    let mut map = s.serialize_map(Some(2))?;
                    map.serialize_entry(MARK, "joined")?;
                    map.serialize_entry("parts", &parts.iter().map(StoredJson).collect::<Vec<_>>())?;
                    return map.end();
                }
            }
        }
        text.serialize(s)
    }
}

/// Reads a stored value.
///
/// # Errors
/// An unknown mark, or invalid fields beside it.
pub fn stored_from_json(value: Json) -> Result<Stored, WireError> {
    let mut map = match value {
        Json::Object(map) if map.contains_key(MARK) => map,
        plain @ (Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::String(_)
        | Json::Array(_)
        | Json::Object(_)) => return Ok(Stored::Inline(Segment::infer(plain))),
    };
    const WHAT: &str = "a stored value";
    let text = |map: &JsonMap, key: &str| -> Result<String, WireError> {
        let found = map.get(key).and_then(Json::as_str).map(str::to_string);
        found.ok_or_else(|| WireError::malformed(WHAT, format!("{key} is missing")))
    };
    let ty = |map: &JsonMap| text(map, "type")?.parse().map_err(|e| WireError::malformed(WHAT, e));
    match text(&map, MARK)?.as_str() {
        "value" => {
            let ty = ty(&map)?;
            Ok(Stored::Inline(Segment::new(ty, map.remove("value").unwrap_or(Json::Null))))
        }
        kind @ ("blob" | "item") => {
            let number = |key: &str| map.get(key).and_then(Json::as_u64);
            let blob = BlobRef {
                id: BlobId::from(text(&map, "id")?.as_str()),
                ty: ty(&map)?,
                size: number("size").unwrap_or(0),
                len: number("len"),
            };
            if kind == "blob" {
                return Ok(Stored::Blob(blob));
            }
            let at = number("at").ok_or_else(|| WireError::malformed(WHAT, "at is missing"))?;
            Ok(Stored::Item { list: blob, at })
        }
        "secret" => Ok(Stored::Secret(text(&map, "name")?.into())),
        kind => Err(WireError::Unknown { what: WHAT, kind: kind.to_string() }),
    }
}

/// Like [`stored_from_json`], for a message's field.
pub(crate) fn stored_from_field(field: Field<'_>) -> Result<Stored, WireError> {
    match field {
        Field::Plain(json) => Ok(Stored::Inline(Segment::infer(json))),
        Field::Text(text) => Ok(Stored::Inline(Segment::string(text))),
        Field::Object(fields) => stored_from_json(Json::Object(fields.into_map())),
    }
}

/// Like [`named_from_json`], for a message's field.
pub(crate) fn named_from_field(field: Option<Field<'_>>) -> Result<NamedValues, WireError> {
    match field {
        None | Some(Field::Plain(Json::Null)) => Ok(Vec::new()),
        Some(Field::Object(fields)) => {
            let named = |(name, value): (Cow<'_, str>, _)| Ok((name.into_owned(), stored_from_field(value)?));
            fields.into_iter().map(named).collect()
        }
        Some(Field::Text(_) | Field::Plain(_)) => Err(WireError::malformed("named values", "not an object")),
    }
}

/// Named values while they are read: invalid ones are a value here, not an error of the reader.
pub(crate) struct Named(pub(crate) Result<NamedValues, WireError>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamedVisitor).map(Self)
    }
}

struct NamedVisitor;

impl NamedVisitor {
    fn no_object<E>() -> Result<Result<NamedValues, WireError>, E> {
        Ok(Err(WireError::malformed("named values", "not an object")))
    }
}

impl<'de> Visitor<'de> for NamedVisitor {
    type Value = Result<NamedValues, WireError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("named values")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // Most have one or two.
        let mut values = Ok(Vec::with_capacity(2));
        while let Some((Name(name), field)) = map.next_entry()? {
            if let Ok(known) = &mut values {
                match stored_from_field(field) {
                    Ok(value) => known.push((name.into_owned(), value)),
                    Err(wrong) => values = Err(wrong),
                }
            }
        }
        Ok(values)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Ok(Vec::new()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Self::no_object()
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Self::no_object()
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Self::no_object()
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Self::no_object()
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Self::no_object()
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Self::no_object()
    }
}

/// Reads named values from an object; an absent value gives an empty list.
///
/// # Errors
/// As for [`stored_from_json`].
pub fn named_from_json(value: Option<Json>) -> Result<NamedValues, WireError> {
    match value {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Object(map)) => map.into_iter().map(|(k, v)| Ok((k, stored_from_json(v)?))).collect(),
        Some(Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
            Err(WireError::malformed("named values", "not an object"))
        }
    }
}

/// The blobs among named values.
pub fn blobs_of(values: &NamedValues) -> impl Iterator<Item = &BlobRef> {
    values.iter().filter_map(|(_, value)| match value {
        Stored::Blob(blob) | Stored::Item { list: blob, .. } => Some(blob),
        Stored::Inline(_) | Stored::Secret(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_base::value::SegmentType;

    #[test]
    fn values_read_back_with_their_types() {
        for stored in [
            Stored::Inline(Segment::infer(json!({"a": [1, 2.0, null]}))),
            Stored::Inline(Segment::new(SegmentType::ArrayString, json!([]))),
            Stored::Inline(Segment::infer(json!({"$tm": "blob", "id": "a user's own"}))),
            Stored::Blob(BlobRef { id: "b1".into(), ty: SegmentType::String, size: 70_000, len: None }),
            Stored::Item {
                list: BlobRef { id: "b2".into(), ty: SegmentType::ArrayAny, size: 70_000, len: Some(900) },
                at: 3,
            },
            Stored::Secret("KEY".into()),
        ] {
            let text = serde_json::to_string(&StoredJson(&stored)).unwrap();
            assert_eq!(stored_from_json(serde_json::from_str(&text).unwrap()), Ok(stored), "{text}");
        }
        let plain = Stored::Inline(Segment::string("x"));
        assert_eq!(serde_json::to_string(&StoredJson(&plain)).unwrap(), "\"x\"");
    }
    #[test]
    fn named_values_are_read_alike_with_and_without_a_list_of_fields() {
        for text in [
            "null",
            "{}",
            r#"{"a": "x", "b\t": {"c": [1, {"d": null}]}, "a": 2}"#,
            r#"{"a": {"$tm": "blob", "id": "b", "type": "string", "size": 9}, "b": {"$tm": "secret", "name": "K"}}"#,
            r#"{"a": {"$tm": "what"}, "b": 1}"#,
            r#"{"a": {"$tm": "blob"}}"#,
            "true",
            "-1",
            "1",
            "1.5",
            r#""text""#,
            r#"[{"a": [1]}, 2]"#,
        ] {
            let streamed = serde_json::from_str::<Named>(text).unwrap().0;
            assert_eq!(streamed, named_from_field(Some(serde_json::from_str(text).unwrap())), "{text}");
        }
        assert!(serde_json::from_str::<Named>(r#"{"a": [}"#).is_err());
    }
}
