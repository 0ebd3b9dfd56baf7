//! Writes messages: an object's fields directly into its text. Our field names need no escapes, and hardly
//! any value does; checking every character took a third of the time of writing a commit.

use std::io;
use std::mem::take;

use serde::Serialize;
use serde_json::Value as Json;

use crate::codec::value::{StoredJson, is_plain};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ExecutionId};
use tidemill_base::value::Stored;
use tidemill_engine::state::NamedValues;

const MICROS: i64 = 1_000_000;
/// The range in which a float of seconds prints all digits of its microseconds. Above, doubles are too
/// coarse; below, they print with an exponent.
const PLAIN_MICROS: std::ops::Range<i64> = MICROS..1 << 52;

/// The text of a JSON object, written field by field.
#[derive(Debug)]
pub(crate) struct ObjectText {
    text: String,
}

impl ObjectText {
    /// An empty object with capacity for about so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut text = String::with_capacity(bytes);
        text.push('{');
        Self { text }
    }

    /// Closes the object and returns its text.
    pub(crate) fn end(mut self) -> String {
        self.text.push('}');
        self.text
    }

    /// Appends an object to a text; `write` writes its fields.
    pub(crate) fn behind(text: &mut String, write: impl FnOnce(&mut Self)) {
        text.push('{');
        let mut object = Self { text: take(text) };
        write(&mut object);
        *text = object.end();
    }

    /// Begins a field. `name` must need no escapes. Inlined, like most of its callers: the length of a
    /// constant name is known, so a few store instructions write it.
    #[inline(always)]
    fn name(&mut self, name: &'static str) {
        debug_assert!(needs_no_escape(name), "{name}");
        if self.text.ends_with('{') {
            self.text.push('"');
        } else {
            self.text.push_str(",\"");
        }
        self.text.push_str(name);
        self.text.push_str("\":");
    }

    fn comma(&mut self) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
    }

    /// Begins an object as a field's value. The following fields belong to it until [`close`](Self::close).
    #[inline(always)]
    pub(crate) fn open(&mut self, name: &'static str) {
        self.name(name);
        self.text.push('{');
    }

    /// Ends the object that was opened last.
    pub(crate) fn close(&mut self) {
        self.text.push('}');
    }

    /// A string.
    #[inline(always)]
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.name(name);
        self.put_text(text);
    }

    /// A string of ours that needs no escapes.
    #[inline(always)]
    pub(crate) fn word(&mut self, name: &'static str, word: &'static str) {
        debug_assert!(needs_no_escape(word), "{word}");
        self.name(name);
        self.put_plain(word);
    }

    /// A hash in hex.
    #[inline(always)]
    pub(crate) fn hash(&mut self, name: &'static str, hash: &str) {
        debug_assert!(needs_no_escape(hash), "{hash}");
        self.name(name);
        self.put_plain(hash);
    }

    /// A value that is JSON already.
    #[inline(always)]
    pub(crate) fn json(&mut self, name: &'static str, json: &str) {
        self.name(name);
        self.text.push_str(json);
    }

    /// A list of strings.
    pub(crate) fn texts<'a>(&mut self, name: &'static str, texts: impl Iterator<Item = &'a str>) {
        self.name(name);
        self.text.push('[');
        for (at, text) in texts.enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.put_text(text);
        }
        self.text.push(']');
    }

    /// A whole number.
    #[inline(always)]
    pub(crate) fn number(&mut self, name: &'static str, number: impl itoa::Integer) {
        self.name(name);
        self.put_number(number);
    }

    /// A time in Unix seconds, printed as a float would be. The digits are those of whole microseconds.
    pub(crate) fn seconds(&mut self, name: &'static str, at: Timestamp) {
        let micros = at.micros();
        if !PLAIN_MICROS.contains(&micros) {
            return self.value(name, &at.seconds_f64());
        }
        self.name(name);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(micros);
        // At least seven digits, by the range.
        let (whole, part) = digits.split_at(digits.len().saturating_sub(6));
        self.text.push_str(whole);
        self.text.push('.');
        self.text.push_str(match part {
            "000000" => "0",
            // Most times have all digits.
            _ if !part.ends_with('0') => part,
            _ => part.trim_end_matches('0'),
        });
    }

    /// An execution.
    #[inline(always)]
    pub(crate) fn execution(&mut self, name: &'static str, execution: &ExecutionId) {
        self.name(name);
        self.put_execution(execution);
    }

    /// The id of an entry.
    #[inline(always)]
    pub(crate) fn entry(&mut self, name: &'static str, entry: EntryId) {
        self.name(name);
        self.put_entry(entry);
    }

    /// Any other value.
    #[inline(always)]
    pub(crate) fn value(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        self.put(value);
    }

    /// Any value under a name that may need escapes.
    pub(crate) fn foreign(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.comma();
        self.put_text(name);
        self.text.push(':');
        self.put(value);
    }

    /// Any value under a number.
    pub(crate) fn numbered(&mut self, number: u32, value: &(impl Serialize + ?Sized)) {
        self.comma();
        self.text.push('"');
        self.put_number(number);
        self.text.push_str("\":");
        self.put(value);
    }

    /// A stored value.
    #[inline(always)]
    pub(crate) fn stored(&mut self, name: &'static str, value: &Stored) {
        self.name(name);
        self.put_stored(value);
    }

    /// Named values, as an object.
    #[inline(always)]
    pub(crate) fn named(&mut self, name: &'static str, values: &NamedValues) {
        self.name(name);
        self.put_values(values);
    }

    /// An object of objects of stored values: `{outer: {inner: value}}`, in order of first appearance of the
    /// outer names.
    pub(crate) fn grouped(&mut self, name: &'static str, values: &[(String, String, Stored)]) {
        self.name(name);
        self.text.push('{');
        for (at, (outer, _, _)) in values.iter().enumerate() {
            if values[..at].iter().any(|(before, _, _)| before == outer) {
                continue;
            }
            self.comma();
            self.put_text(outer);
            self.text.push(':');
            let of_outer = values[at..].iter().filter(|(of, _, _)| of == outer);
            self.put_named(of_outer.map(|(_, name, value)| (&**name, value)));
        }
        self.text.push('}');
    }

    fn put_values(&mut self, values: &NamedValues) {
        self.put_named(values.iter().map(|(name, value)| (&**name, value)));
    }

    fn put_execution(&mut self, execution: &ExecutionId) {
        self.put_plain(execution.encode(&mut ExecutionId::buffer()));
    }

    fn put_entry(&mut self, entry: EntryId) {
        let (mut major, mut minor) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (major, minor) = (major.format(entry.major), minor.format(entry.minor));
        self.text.reserve(major.len() + minor.len() + 3);
        self.text.push('"');
        self.text.push_str(major);
        self.text.push('-');
        self.text.push_str(minor);
        self.text.push('"');
    }

    fn put_named<'a>(&mut self, values: impl Iterator<Item = (&'a str, &'a Stored)>) {
        self.text.push('{');
        for (name, value) in values {
            self.comma();
            self.put_text(name);
            self.text.push(':');
            self.put_stored(value);
        }
        self.text.push('}');
    }

    fn put_stored(&mut self, value: &Stored) {
        match value {
            Stored::Inline(segment) if is_plain(segment) => match &segment.value {
                Json::String(text) => self.put_text(text),
                other => self.put(other),
            },
            other => self.put(&StoredJson(other)),
        }
    }

    fn put_number(&mut self, number: impl itoa::Integer) {
        self.text.push_str(itoa::Buffer::new().format(number));
    }

    fn put_text(&mut self, text: &str) {
        if needs_no_escape(text) { self.put_plain(text) } else { self.put(text) }
    }

    /// A string that needs no escapes.
    fn put_plain(&mut self, text: &str) {
        self.text.reserve(text.len() + 2);
        self.text.push('"');
        self.text.push_str(text);
        self.text.push('"');
    }

    fn put(&mut self, value: &(impl Serialize + ?Sized)) {
        let before = self.text.len();
        // Cannot fail: the memory writer accepts everything, and our maps have string keys.
        if serde_json::to_writer(Pieces(&mut self.text), value).is_err() {
            self.text.truncate(before);
            self.text.push_str("null");
        }
    }
}

/// Receives the pieces of text that a serializer writes.
struct Pieces<'a>(&'a mut String);

impl io::Write for Pieces<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.push_str(std::str::from_utf8(piece).map_err(io::Error::other)?);
        Ok(piece.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text of a stored value.
pub(crate) fn stored_text(value: &Stored) -> String {
    let mut text = String::new();
    put_stored(&mut text, value);
    text
}

/// Appends the text of a stored value.
pub(crate) fn put_stored(text: &mut String, value: &Stored) {
    // Only the value is written; no object is needed around it.
    let mut object = ObjectText { text: take(text) };
    object.put_stored(value);
    *text = object.text;
}

/// The text of named values.
pub(crate) fn named_text(values: &NamedValues) -> String {
    let mut object = ObjectText { text: String::with_capacity(64) };
    object.put_values(values);
    object.text
}

/// Whether a string needs no escapes. Checks sixteen bytes at once, eight for shorter strings, and single
/// bytes below that.
fn needs_no_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    // The last chunk may overlap the one before.
    if let Some(last) = bytes.last_chunk() {
        return bytes.as_chunks().0.iter().all(are_plain_16) && are_plain_16(last);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => are_plain_8(first) && are_plain_8(last),
        _ => bytes.iter().all(|byte| is_plain_byte(*byte)),
    }
}

const fn is_plain_byte(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Whether none of sixteen bytes needs an escape. Tests every byte for every reason without an early end, so
/// that the compiler uses vector instructions.
fn are_plain_16(bytes: &[u8; 16]) -> bool {
    let any = |wrong: fn(u8) -> bool| bytes.iter().fold(false, |found, byte| found | wrong(*byte));
    !(any(|byte| byte < 0x20) | any(|byte| byte == b'"') | any(|byte| byte == b'\\'))
}

/// Whether none of eight bytes needs an escape.
const fn are_plain_8(eight: &[u8; 8]) -> bool {
    marks_of_8(eight) == 0
}

/// Sets the highest bit of each byte that needs an escape. The first mark is exact; later ones may be false,
/// because a borrow can pass on to the next byte. Bytes above 127 never need an escape and are masked out at
/// the end, since the highest bit is the result of the subtraction.
const fn marks_of_8(eight: &[u8; 8]) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_le_bytes(*eight);
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let below = word.wrapping_sub(ONES * 0x20);
    (below | quote.wrapping_sub(ONES) | slash.wrapping_sub(ONES)) & !word & HIGHS
}

/// The number of bytes before the first quotation mark, backslash or control character.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let (eights, rest) = bytes.as_chunks();
    let found = eights.iter().map(marks_of_8).enumerate().find(|(_, marks)| *marks != 0);
    match found {
        Some((at, marks)) => at * 8 + marks.trailing_zeros() as usize / 8,
        None => eights.len() * 8 + rest.iter().take_while(|byte| is_plain_byte(**byte)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::value::NamedJson;
    use proptest::prelude::*;
    use serde_json::json;
    use tidemill_base::ids::{FramePath, RunId, ShardId};
    use tidemill_base::value::{Segment, SegmentType};

    fn stored(value: Json) -> Stored {
        Stored::Inline(Segment::infer(value))
    }

    proptest! {
        #[test]
        fn a_text_is_written_as_json_writes_it(text in "(?s).{0,40}") {
            let mut object = ObjectText::with_capacity(0);
            object.text("a", &text);
            prop_assert_eq!(object.end(), json!({"a": text}).to_string());
            let mut behind = "{".to_string();
            ObjectText::behind(&mut behind, |object| object.text("a", &text));
            prop_assert_eq!(&behind[1..], json!({"a": text}).to_string());
            prop_assert_eq!(stored_text(&stored(text.as_str().into())), json!(text).to_string());
        }
    }

    proptest! {
        #[test]
        fn a_moment_is_written_as_its_floating_number(
            micros in prop_oneof![any::<i64>(), -3 * MICROS..3 * MICROS, 1_700_000_000 * MICROS..2_000_000_000 * MICROS,
                (1_700_000_000..2_000_000_000_i64).prop_map(|s| s * MICROS), (0..1_i64 << 51).prop_map(|half| half * 10)],
        ) {
            let at = Timestamp::from_micros(micros);
            let mut object = ObjectText::with_capacity(0);
            object.seconds("at", at);
            prop_assert_eq!(object.end(), json!({"at": at.seconds_f64()}).to_string());
        }
    }

    #[test]
    fn a_character_that_needs_an_escape_is_found_wherever_it_stands() {
        let places = || (1..=40).flat_map(|length| (0..length).map(move |at| (length, at)));
        for wrong in ['"', '\\', '\n', '\u{0}', '\u{1f}'] {
            for (length, at) in places() {
                let text: String = (0..length).map(|place| if place == at { wrong } else { 'x' }).collect();
                assert!(!needs_no_escape(&text), "{wrong:?} at {at} of {length}");
                assert_eq!(plain_length(text.as_bytes()), at, "{wrong:?} of {length}");
                assert_eq!(plain_length(text.replace('x', "é").as_bytes()), 2 * at, "{wrong:?} of {length}");
            }
        }
        for byte in 0..=127u8 {
            let wrong = byte < 0x20 || byte == b'"' || byte == b'\\';
            for before in ["", "1234567", "123456789 12345"] {
                assert_eq!(
                    needs_no_escape(&format!("{before}{}é", char::from(byte))),
                    !wrong,
                    "{before:?} {byte}"
                );
            }
        }
        for right in ["", "x", "a text of more than sixteen bytes", "Zürich \u{7f} 水车"] {
            assert!(needs_no_escape(right), "{right}");
            assert_eq!(plain_length(right.as_bytes()), right.len(), "{right}");
        }
    }

    #[test]
    fn an_object_is_what_json_would_make_of_it() {
        let run = RunId::new(1, 2, ShardId(3));
        let execution = ExecutionId::derive(&run, &FramePath::root(), &"n".into());
        let typed = Stored::Inline(Segment::new(SegmentType::ArrayString, json!([])));
        let named =
            vec![("a \"b\"".to_string(), stored(json!({"x": [1, null]}))), ("c".into(), typed.clone())];
        let grouped = [("n", "x", "1"), ("m", "x", "2"), ("n", "y", "\t3")];
        let grouped = grouped.map(|(n, x, v)| (n.to_string(), x.to_string(), stored(v.into())));
        let null = Json::Null;
        let mut object = ObjectText::with_capacity(16);
        object.text("text", "{");
        object.word("word", "a word");
        object.json("json", "[1]");
        object.texts("texts", ["a", "\"", ""].into_iter());
        object.texts("no_texts", [].into_iter());
        object.number("number", -17_i64);
        object.execution("execution", &execution);
        object.entry("entry", EntryId::new(17, 3));
        object.value("float", &1.5);
        object.stored("stored", &typed);
        object.named("named", &named);
        object.named("none", &Vec::new());
        object.foreign("d\n", &[1]);
        object.numbered(7, &null);
        object.open("object");
        object.number("a", 1);
        object.number("b", 2);
        object.close();
        object.grouped("grouped", &grouped);
        let expected = json!({
            "text": "{", "word": "a word", "json": [1], "texts": ["a", "\"", ""], "no_texts": [], "number": -17, "execution": execution.to_string(), "entry": "17-3", "float": 1.5,
            "stored": StoredJson(&typed), "named": NamedJson(&named), "none": {}, "d\n": [1], "7": null, "object": {"a": 1, "b": 2},
            "grouped": {"n": {"x": "1", "y": "\t3"}, "m": {"x": "2"}},
        });
        assert_eq!(object.end(), expected.to_string());
        assert_eq!(ObjectText::with_capacity(0).end(), "{}");
        assert_eq!(named_text(&named), serde_json::to_string(&NamedJson(&named)).unwrap());
        assert_eq!(stored_text(&typed), serde_json::to_string(&StoredJson(&typed)).unwrap());
    }
}
