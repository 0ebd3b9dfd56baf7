//! A fast reader for messages in the form we write: no white space, hardly any escapes. Nearly all messages
//! have this form, and a general JSON reader takes three times as long. Returns `None` for anything else; the
//! caller then falls back to serde_json, which also explains errors.

use crate::codec::fields::Field;
use crate::codec::text::plain_length;
use crate::codec::value::stored_from_field;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::state::NamedValues;

/// With more opening brackets in a value, serde_json checks the nesting depth.
const OPENINGS_MAX: usize = 100;
/// Numbers with up to so many digits fit `u64`.
const DIGITS_MAX: usize = 18;

/// A position in a message.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// Starts at the first character.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Reads an object: `field` reads the value of each name.
    pub(crate) fn object(&mut self, mut field: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.pass(b'{')?;
        if self.pass(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.text()?;
            self.pass(b':')?;
            field(self, name)?;
            if self.pass(b',').is_none() {
                return self.pass(b'}');
            }
        }
    }

    /// Reads a string without escapes.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let begin = self.text[self.at..].starts_with('"').then_some(self.at + 1)?;
        let end = begin + plain_length(&self.text.as_bytes()[begin..]);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.text.get(begin..end)
    }

    /// Reads a whole, non-negative number.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let rest = &self.text.as_bytes()[self.at..];
        let mut number = 0u64;
        let mut digits = 0;
        while let Some(digit @ b'0'..=b'9') = rest.get(digits) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            digits += 1;
        }
        self.at += digits;
        let is_whole = (1..=DIGITS_MAX).contains(&digits) && (rest[0] != b'0' || digits == 1);
        // Anything else after the digits fails in the next read.
        is_whole.then_some(number)
    }

    /// Reads any value.
    pub(crate) fn field(&mut self) -> Option<Field<'a>> {
        let rest = &self.text[self.at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Field<'a>>();
        let field = values.next()?.ok()?;
        let length = values.byte_offset();
        let openings = rest[..length].bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
        self.at += length;
        (openings <= OPENINGS_MAX).then_some(field)
    }

    /// Reads a stored value.
    fn stored(&mut self) -> Option<Stored> {
        match self.text() {
            Some(text) => Some(Stored::Inline(Segment::string(text))),
            None => stored_from_field(self.field()?).ok(),
        }
    }

    /// Reads named values.
    pub(crate) fn named(&mut self) -> Option<NamedValues> {
        // Most have one or two.
        let mut values = Vec::with_capacity(2);
        self.object(|scan, name| {
            values.push((name.to_owned(), scan.stored()?));
            Some(())
        })?;
        Some(values)
    }

    /// Reads an object of objects of stored values, as a list: outer name, inner name, value.
    pub(crate) fn grouped(&mut self) -> Option<Vec<(String, String, Stored)>> {
        // Most have one or two.
        let mut values = Vec::with_capacity(2);
        self.object(|scan, outer| {
            scan.object(|scan, name| {
                values.push((outer.to_owned(), name.to_owned(), scan.stored()?));
                Some(())
            })
        })?;
        Some(values)
    }

    /// Skips `byte` if it comes next.
    fn pass(&mut self, byte: u8) -> Option<()> {
        let is_next = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::value::named_from_json;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn named(text: &str) -> Option<NamedValues> {
        let mut scan = Scan::new(text);
        scan.named().filter(|_| scan.is_at_end())
    }

    #[test]
    fn other_forms_are_left_to_the_general_reader() {
        for text in [
            "",
            "{",
            "{}x",
            "[]",
            "null",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":"x}"#,
            r#"{"a":"x",}"#,
            r#"{ "a":"x"}"#,
            r#"{"a" :"x"}"#,
            r#"{"a\n":"x"}"#,
            "{\"a\":\"\t\"}",
            r#"{"a":1.}"#,
            r#"{"a":01}"#,
            r#"{"a":tru}"#,
            r#"{"é":"x"#,
        ] {
            assert_eq!(named(text), None, "{text}");
        }
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(120), "]".repeat(120));
        assert_eq!(named(&deep), None);
    }

    #[test]
    fn numbers_are_whole_and_fit() {
        let number = |text: &str| {
            let mut scan = Scan::new(text);
            scan.number().filter(|_| scan.is_at_end())
        };
        for (text, expected) in
            [("0", 0), ("7", 7), ("120", 120), ("999999999999999999", 999_999_999_999_999_999)]
        {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for text in ["", "-1", "01", "00", "1.0", "1e3", "1x", "1000000000000000000", "99999999999999999999"]
        {
            assert_eq!(number(text), None, "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e9..1e9).prop_map(|number: f64| Json::from(number)),
            "(?s).{0,30}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            let object = prop::collection::vec((".{0,6}", inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Json::Array),
                object.prop_map(|fields| Json::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_are_read_unchanged(values in prop::collection::vec(("[a-z]{0,9}", any_json()), 0..4)) {
            let object = Json::Object(values.into_iter().collect());
            let found = named(&object.to_string());
            prop_assert_eq!(found, Some(named_from_json(Some(object)).unwrap()));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in r#"[{}\[\]":,\\ea0-9é\n.-]{0,40}"#) {
            if let Some(found) = named(&text) {
                let general = serde_json::from_str::<crate::codec::value::Named>(&text).map(|named| named.0);
                prop_assert_eq!(Some(found), general.ok().and_then(Result::ok));
            }
        }
    }
}
