//! Reads messages into lists of fields instead of hash tables: a message has about a dozen fields, each read
//! once, and hash tables took half of the reading time. Names and strings borrow from the message until a
//! caller keeps them.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::error::Category;

use crate::{WireError, check_version};
use tidemill_base::value::JsonMap;

/// The fields of an object, in the order of the text. Of two with the same name the later counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, Field<'a>)>);

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field<'a> {
    Object(Fields<'a>),
    /// A string.
    Text(Cow<'a, str>),
    /// Any other value.
    Plain(Json),
}

impl<'a> Fields<'a> {
    /// Reads a message and checks its version.
    pub(crate) fn read(what: &'static str, text: &'a str) -> Result<Self, WireError> {
        let fields = match serde_json::from_str(text).map_err(|e| WireError::malformed(what, e))? {
            Field::Object(fields) => fields,
            Field::Text(_) | Field::Plain(_) => {
                return Err(WireError::malformed(what, "its body is not an object"));
            }
        };
        check_version(what, fields.get("v"))?;
        Ok(fields)
    }

    fn find(&self, name: &str) -> Option<&Field<'a>> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, field)| field)
    }

    /// A value that is neither an object nor a string.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self.find(name)? {
            Field::Plain(json) => Some(json),
            Field::Object(_) | Field::Text(_) => None,
        }
    }

    /// A string.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.find(name)? {
            Field::Text(text) => Some(text),
            Field::Object(_) | Field::Plain(_) => None,
        }
    }

    /// A number that fits `u32`.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.get(name).and_then(Json::as_u64).and_then(|number| u32::try_from(number).ok())
    }

    /// Takes a value out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Field<'a>> {
        let at = self.0.iter().rposition(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Takes a value out as JSON.
    pub(crate) fn take_json(&mut self, name: &str) -> Option<Json> {
        self.take(name).map(Field::into_json)
    }

    /// Takes an object out as JSON.
    pub(crate) fn take_map(&mut self, name: &str) -> Option<JsonMap> {
        self.take(name)?.into_object()
    }

    /// Takes a string out.
    pub(crate) fn take_text(&mut self, name: &str) -> Option<String> {
        self.take(name)?.into_text()
    }

    /// All fields in the order of the text; the caller may take their values.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = (&str, &mut Field<'a>)> {
        self.0.iter_mut().map(|(name, field)| (&**name, field))
    }

    /// Converts all fields to JSON.
    pub(crate) fn into_map(self) -> JsonMap {
        self.0.into_iter().map(|(name, field)| (name.into_owned(), field.into_json())).collect()
    }
}

impl From<JsonMap> for Fields<'_> {
    fn from(map: JsonMap) -> Self {
        Self(map.into_iter().map(|(name, json)| (Cow::Owned(name), Field::from(json))).collect())
    }
}

impl From<Json> for Field<'_> {
    fn from(json: Json) -> Self {
        match json {
            Json::Object(map) => Self::Object(map.into()),
            Json::String(text) => Self::Text(Cow::Owned(text)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => Self::Plain(json),
        }
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (Cow<'a, str>, Field<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Default for Field<'_> {
    fn default() -> Self {
        Self::Plain(Json::Null)
    }
}

impl Field<'_> {
    /// The value when it is neither an object nor a string.
    pub(crate) fn as_plain(&self) -> Option<&Json> {
        match self {
            Self::Plain(json) => Some(json),
            Self::Object(_) | Self::Text(_) => None,
        }
    }
    /// The object as JSON, if it is one.
    pub(crate) fn into_object(self) -> Option<JsonMap> {
        match self {
            Self::Object(fields) => Some(fields.into_map()),
            Self::Text(_) | Self::Plain(_) => None,
        }
    }
    /// The string, if it is one.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.into_owned()),
            Self::Object(_) | Self::Plain(_) => None,
        }
    }
    /// Converts the value to JSON.
    pub(crate) fn into_json(self) -> Json {
        match self {
            Self::Object(fields) => Json::Object(fields.into_map()),
            Self::Text(text) => Json::String(text.into_owned()),
            Self::Plain(json) => json,
        }
    }
}

impl<'de> Deserialize<'de> for Field<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Json::Bool(value)))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Field<'de>, E> {
        Ok(Field::Plain(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Field<'de>, E> {
        Ok(Field::Plain(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Field<'de>, E> {
        Ok(Field::Plain(value.into()))
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Borrowed(value)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Owned(value.to_owned())))
    }
    fn visit_string<E>(self, value: String) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Owned(value)))
    }
    fn visit_unit<E>(self) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Json::Null))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Field::Plain(Json::Array(list)))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field<'de>, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some((Name(name), field)) = map.next_entry()? {
            fields.push((name, field));
        }
        Ok(Field::Object(Fields(fields)))
    }
}

/// Receives the fields of a message while it is read.
pub(crate) trait Sink<'a> {
    /// Receives a field. The value is the next one of `fields`.
    fn field<M: MapAccess<'a>>(&mut self, name: &str, fields: &mut M) -> Result<(), M::Error>;
}

/// Reads a message field by field and checks its version. The sink does not receive the version.
pub(crate) fn read_each<'a>(
    what: &'static str,
    text: &'a str,
    sink: &mut impl Sink<'a>,
) -> Result<(), WireError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reader.deserialize_map(Each(sink)).and_then(|version| reader.end().map(|()| version));
    let wrong = |error: serde_json::Error| match error.classify() {
        // serde's own message would include the whole content.
        Category::Data => WireError::malformed(what, "its body is not an object"),
        Category::Syntax | Category::Eof | Category::Io => WireError::malformed(what, error),
    };
    check_version(what, read.map_err(wrong)?.as_ref())
}

struct Each<'s, S>(&'s mut S);

impl<'de, S: Sink<'de>> Visitor<'de> for Each<'_, S> {
    type Value = Option<Json>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Json>, A::Error> {
        let mut version = None;
        while let Some(Name(name)) = map.next_key()? {
            match &*name {
                "v" => version = Some(map.next_value()?),
                name => self.0.field(name, &mut map)?,
            }
        }
        Ok(version)
    }
}

/// The name of a field. A plain `Cow` would always be deserialized as owned.
pub(crate) struct Name<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }
    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(value)))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(value.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            (-1e9..1e9).prop_map(|number: f64| Json::from(number)),
            ".*".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
                prop::collection::vec((".{0,6}", inner), 0..5)
                    .prop_map(|fields| Json::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_read_unchanged(json in any_json()) {
            let text = json.to_string();
            let read: Field = serde_json::from_str(&text).unwrap();
            let plain: Json = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.into_json(), plain);
        }
    }

    #[test]
    fn a_later_field_of_the_same_name_counts() {
        let mut fields = Fields::read("a test", r#"{"a": 1, "b": {"c": null}, "a": "2"}"#).unwrap();
        assert_eq!((fields.text("a"), fields.number("a")), (Some("2"), None));
        assert_eq!(fields.get("b"), None, "an object is taken, not looked at");
        assert_eq!(fields.take_map("b").map(Json::Object), Some(serde_json::json!({"c": null})));
        assert_eq!((fields.take_text("a"), fields.take("nothing")), (Some("2".into()), None));
    }

    #[derive(Default)]
    struct Names(Vec<(String, Json)>);

    impl<'a> Sink<'a> for Names {
        fn field<M: MapAccess<'a>>(&mut self, name: &str, fields: &mut M) -> Result<(), M::Error> {
            self.0.push((name.to_string(), fields.next_value::<Field>()?.into_json()));
            Ok(())
        }
    }

    #[test]
    fn fields_are_shown_one_by_one_and_the_version_is_checked() {
        let mut seen = Names::default();
        read_each("a test", r#"{"a": 1, "v": 2, "b\n": {"c": null}, "a": "2"} "#, &mut seen).unwrap();
        let json = serde_json::json!([["a", 1], ["b\n", {"c": null}], ["a", "2"]]);
        assert_eq!(serde_json::to_value(seen.0).unwrap(), json);
        for (text, reason) in [
            ("", "a test cannot be read: EOF while parsing a value at line 1 column 0"),
            ("[]", "a test cannot be read: its body is not an object"),
            (r#""text""#, "a test cannot be read: its body is not an object"),
            (r#"{"a": 1} {}"#, "a test cannot be read: trailing characters at line 1 column 10"),
            (r#"{"a": tru}"#, "a test cannot be read: expected ident at line 1 column 10"),
            (r#"{"v": 9}"#, "a test is of version 9, this process reads up to 5; upgrade it"),
        ] {
            let refused = read_each("a test", text, &mut Names::default());
            assert_eq!(refused.unwrap_err().to_string(), reason);
        }
    }

    #[test]
    fn an_invalid_message_is_refused() {
        for (text, reason) in [
            ("", "a test cannot be read: EOF while parsing a value at line 1 column 0"),
            ("[]", "a test cannot be read: its body is not an object"),
            (r#"{"v": 9}"#, "a test is of version 9, this process reads up to 5; upgrade it"),
        ] {
            assert_eq!(Fields::read("a test", text).unwrap_err().to_string(), reason);
        }
    }
}
