//! Secrets of a workflow's environment, and the search for them in texts.
//!
//! Secrets are sent only where the workflow sends them. Everything that is shown of a run or stored for
//! people has them masked, also in texts derived from them. Data that is stored for another worker contains
//! their names instead (it is "sealed") and is opened when it is read.
//!
//! A secret is found literally and in the spellings of [`spellings`]. A part of a secret is not found, nor a
//! secret that code has changed in another way.

mod search;
pub mod spelling;

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::text::mask;
use super::{JsonMap, Segment};
use spelling::spellings;

/// A secret with fewer characters is not searched for in unrelated texts: it would match words that have
/// nothing to do with it.
pub const CHARS_MIN: usize = 8;

/// Begins and ends the placeholder for a secret in a sealed text. Where the text itself has this character,
/// it is escaped.
const MARK: char = '\u{1a}';
/// Follows the mark where the text contained the mark itself.
const ITSELF: char = '=';
/// The number of a spelling is one digit in this base.
const DIGITS: u32 = 36;

/// A set of secrets; see the module. Cheap to clone; an empty set allocates nothing.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Arc<Secret>>);

struct Secret {
    name: Arc<str>,
    /// No duplicates, always in the same order.
    spellings: Vec<String>,
    mask: String,
}

/// Shows only the number of secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Builds the set from these secrets, of any length. Values that are not texts, or empty, are ignored.
    pub fn of<'a>(secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        Self::default().and_of(secrets)
    }

    /// Adds more secrets, of any length.
    #[must_use]
    pub fn and_of<'a>(mut self, secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        for (name, segment) in secrets {
            if let Some(plain) = segment.value.as_str().filter(|text| !text.is_empty()) {
                self.add(name, plain);
            }
        }
        self
    }

    /// Builds the set from those secrets that are long enough to be searched for in any text.
    pub fn long_of<'a>(secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        let is_long = |(_, segment): &(Arc<str>, &Segment)| {
            segment.value.as_str().is_some_and(|text| text.chars().nth(CHARS_MIN - 1).is_some())
        };
        Self::of(secrets.filter(is_long))
    }

    /// Creates secrets that are not variables of a workflow, such as keys of the settings. They are masked as a whole, and
    /// cannot be sealed, because they have no names.
    pub fn unnamed<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let texts = texts.filter(|text| !text.is_empty()).enumerate();
        let secret = |(at, text): (usize, &str)| {
            Arc::new(Secret { name: at.to_string().into(), spellings: spellings(text), mask: "***".into() })
        };
        Self(texts.map(secret).collect())
    }

    fn add(&mut self, name: Arc<str>, plain: &str) {
        if self.0.iter().all(|one| one.name != name) {
            let secret = Secret { name, spellings: spellings(plain), mask: mask(plain) };
            self.0.push(Arc::new(secret));
        }
    }

    /// True when there are no secrets.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// True when a text in these values contains a secret.
    pub fn are_in(&self, values: &JsonMap) -> bool {
        !self.0.is_empty() && values.values().any(|value| self.is_in(value))
    }

    fn is_in(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => self.is_within(text),
            Json::Array(items) => items.iter().any(|item| self.is_in(item)),
            Json::Object(map) => map.iter().any(|(key, item)| self.is_within(key) || self.is_in(item)),
            Json::Null | Json::Bool(_) | Json::Number(_) => false,
        }
    }

    /// Returns the text with every secret masked, including one that is cut off at the end or before a `…`.
    pub fn masked(&self, text: String) -> String {
        let found = self.found_or_cut(&text);
        if found.is_empty() {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for found in found {
            out.push_str(&text[done..found.from]);
            out.push_str(&found.secret.mask);
            done = found.to;
        }
        out + &text[done..]
    }

    /// Returns the value with every secret in its texts masked. Keys of objects stay unchanged, since code
    /// looks them up.
    pub fn hidden(&self, value: Json) -> Json {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Json::String(text) => Json::String(self.masked(text)),
            Json::Array(items) => items.into_iter().map(|item| self.hidden(item)).collect(),
            Json::Object(map) => Json::Object(self.hidden_in(map)),
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => plain,
        }
    }

    /// Returns the values with every secret in their texts masked.
    pub fn hidden_in(&self, values: JsonMap) -> JsonMap {
        if self.0.is_empty() {
            return values;
        }
        values.into_iter().map(|(name, value)| (name, self.hidden(value))).collect()
    }

    /// As [`Self::hidden`], and also masks keys of objects deeper than `names` levels: the keys above are not
    /// chosen by users.
    pub fn hidden_below(&self, value: Json, names: usize) -> Json {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Json::String(text) => Json::String(self.masked(text)),
            Json::Array(items) => items.into_iter().map(|item| self.hidden_below(item, names)).collect(),
            Json::Object(map) => {
                let below = names.saturating_sub(1);
                let key = |key: String| if names == 0 { self.masked(key) } else { key };
                map.into_iter().map(|(name, item)| (key(name), self.hidden_below(item, below))).collect()
            }
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => plain,
        }
    }

    /// Masks a JSON text if it contains a secret: in all its texts, and in keys of objects deeper than
    /// `names` levels.
    pub fn hidden_json(&self, text: String, names: usize) -> String {
        if !self.may_be_in_json(&text) {
            return text;
        }
        match serde_json::from_str(&text) {
            Ok(value) => self.hidden_below(value, names).to_string(),
            Err(_) => self.masked(text),
        }
    }

    /// True when a JSON text may contain a secret. False positives are possible.
    pub fn may_be_in_json(&self, text: &str) -> bool {
        // A JSON text inside a JSON text is escaped twice. The end of a secret may have been cut off.
        self.0.iter().flat_map(|secret| &secret.spellings).any(|spelling| {
            let begin = spelling.char_indices().nth(CHARS_MIN).map_or(&**spelling, |(at, _)| &spelling[..at]);
            text.contains(begin)
                || begin.contains(|letter: char| letter == '"' || letter == '\\' || letter.is_control())
                    && text.contains(&spelling::as_json(begin))
        })
    }

    /// Restores an answer from a person who was shown `original` with masks: a text that repeats the masked form
    /// becomes the original text.
    pub fn unmasked(&self, answer: Json, original: &Json) -> Json {
        match (answer, original) {
            (Json::String(answer), Json::String(original)) => {
                let repeats = !self.0.is_empty() && self.masked(original.clone()) == answer;
                Json::String(if repeats { original.clone() } else { answer })
            }
            (Json::Array(answer), Json::Array(original)) if !self.0.is_empty() => {
                let nothing = Json::Null;
                let each = answer.into_iter().enumerate();
                each.map(|(at, item)| self.unmasked(item, original.get(at).unwrap_or(&nothing))).collect()
            }
            (Json::Object(answer), Json::Object(original)) if !self.0.is_empty() => {
                let nothing = Json::Null;
                let each = answer.into_iter();
                each.map(|(key, item)| {
                    let item = self.unmasked(item, original.get(&key).unwrap_or(&nothing));
                    (key, item)
                })
                .collect()
            }
            (answer, _) => answer,
        }
    }

    /// Returns the value in the form that is stored: with the names of secrets instead of the secrets.
    pub fn sealed(&self, value: Json) -> Json {
        self.each_text(value, &|text| {
            let mut out = String::with_capacity(text.len());
            let mut rest = text.as_str();
            loop {
                let (mark, secret) = (rest.find(MARK), self.first_in(rest));
                match (mark, secret) {
                    (Some(mark), secret) if secret.is_none_or(|(at, ..)| mark < at) => {
                        out.push_str(&rest[..mark]);
                        out.extend([MARK, ITSELF]);
                        rest = &rest[mark + MARK.len_utf8()..];
                    }
                    (_, Some((at, secret, nth))) => {
                        let number = u32::try_from(nth).ok().and_then(|nth| char::from_digit(nth, DIGITS));
                        out.push_str(&rest[..at]);
                        out.push(MARK);
                        out.extend(number);
                        out.push_str(&secret.name);
                        out.push(MARK);
                        rest = &rest[at + secret.spellings[nth].len()..];
                    }
                    _ => return out + rest,
                }
            }
        })
    }

    /// Returns a sealed value with the secrets put back.
    pub fn opened(&self, value: Json) -> Json {
        self.each_text(value, &|text| if text.contains(MARK) { self.open(&text) } else { text })
    }

    fn open(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(MARK) {
            out.push_str(&rest[..at]);
            let after = &rest[at + MARK.len_utf8()..];
            if let Some(after) = after.strip_prefix(ITSELF) {
                out.push(MARK);
                rest = after;
                continue;
            }
            let named = after.split_once(MARK).and_then(|(name, after)| Some((self.named(name)?, after)));
            match named {
                Some((secret, after)) => {
                    out.push_str(secret);
                    rest = after;
                }
                // The value was stored before sealing existed.
                None => {
                    out.push(MARK);
                    rest = after;
                }
            }
        }
        out + rest
    }

    /// Returns the secret for a spelling number followed by a name.
    fn named(&self, text: &str) -> Option<&str> {
        let mut letters = text.chars();
        let nth = letters.next()?.to_digit(DIGITS)?;
        let secret = self.0.iter().find(|secret| &*secret.name == letters.as_str())?;
        secret.spellings.get(usize::try_from(nth).ok()?).map(String::as_str)
    }

    fn each_text(&self, value: Json, change: &impl Fn(String) -> String) -> Json {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Json::String(text) => Json::String(change(text)),
            Json::Array(items) => items.into_iter().map(|item| self.each_text(item, change)).collect(),
            Json::Object(map) => {
                map.into_iter().map(|(key, item)| (change(key), self.each_text(item, change))).collect()
            }
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::SegmentType;
    use super::*;

    fn secrets(all: &[(&str, &str)]) -> Secrets {
        let segments: Vec<_> = all
            .iter()
            .map(|(name, text)| (Arc::from(*name), Segment::new(SegmentType::Secret, json!(text))))
            .collect();
        Secrets::of(segments.iter().map(|(name, segment): &(Arc<str>, Segment)| (name.clone(), segment)))
    }

    #[test]
    fn a_secret_is_found_as_python_and_json_spell_it() {
        let known = secrets(&[("KEY", "sk-12345678901234567890\n")]);
        for text in [
            "Illegal header value b'Bearer sk-12345678901234567890\\n'",
            "{\"key\": \"sk-12345678901234567890\\n\"}",
            "use sk-12345678901234567890\n!",
        ] {
            let masked = known.masked(text.into());
            assert!(masked.contains('*') && !masked.contains("1234567890"), "{masked}");
        }
        let quoted = secrets(&[("KEY", "a\"quoted\"secret")]);
        assert!(!quoted.masked(r#"{"key":"a\"quoted\"secret"}"#.into()).contains("quoted"));
    }

    #[test]
    fn a_short_secret_is_no_reason_to_search_other_texts() {
        let of = |text: &str| {
            let segment = Segment::new(SegmentType::Secret, json!(text));
            Secrets::long_of(std::iter::once((Arc::from("KEY"), &segment)))
        };
        assert!(of("1234567").are_none() && of("äöüäöüä").are_none());
        assert_eq!(of("12345678").masked("a 12345678 b".into()), format!("a {} b", "*".repeat(20)));
    }

    #[test]
    fn a_text_of_json_is_masked_in_its_texts_and_stays_json() {
        let known = secrets(&[("KEY", "say \"hush\" 12")]);
        let text = json!({"say \"hush\" 12": {"a": ["x say \"hush\" 12"], "say \"hush\" 12": 12}, "in": r#"{"a":"say \"hush\" 12"}"#}).to_string();
        let masked: Json = serde_json::from_str(&known.hidden_json(text, 1)).unwrap();
        let mask = "say \"h************12";
        let inner = format!(r#"{{"a":"{mask}"}}"#);
        assert_eq!(masked, json!({"say \"hush\" 12": {"a": [format!("x {mask}")], (mask): 12}, "in": inner}));
        let other = r#"{"a":  1}"#;
        assert_eq!(known.hidden_json(other.into(), 1), other);
    }

    #[test]
    fn a_sealed_value_names_secrets_and_opens_to_the_original() {
        let known = secrets(&[("KEY", "sk-12345678901234567890"), ("K", "sk-123"), ("EMPTY", "")]);
        let value = json!({"words": "use sk-12345678901234567890, sk-123 or \u{1a}0KEY\u{1a}", "n": [1, null, "sk-123"]});
        let sealed = known.sealed(value.clone());
        assert!(!sealed.to_string().contains("sk-"), "{sealed}");
        assert_eq!(known.opened(sealed), value);
        // Without secrets nothing is changed, and a value stored by an older version stays as it is.
        assert_eq!(Secrets::default().sealed(value.clone()), value);
        assert_eq!(known.opened(json!("a \u{1a}b\u{1a} c \u{1a}")), json!("a \u{1a}b\u{1a} c \u{1a}"));
    }

    #[test]
    fn secrets_are_found_in_keys_and_within() {
        let known = secrets(&[("KEY", "hush")]);
        let map = |value: Json| value.as_object().cloned().unwrap();
        assert!(known.are_in(&map(json!({"a": [{"b": "say hush!"}]}))));
        assert!(known.are_in(&map(json!({"a": {"hush": 1}}))));
        assert!(!known.are_in(&map(json!({"a": "quiet", "n": 1}))));
        assert!(!Secrets::default().are_in(&map(json!({"a": "hush"}))));
    }

    #[test]
    fn an_answer_that_repeats_a_mask_means_the_masked_text() {
        let known = secrets(&[("KEY", "sk-12345678901234567890")]);
        let original =
            json!({"q": "use sk-12345678901234567890", "list": ["sk-12345678901234567890", "b"], "n": 1});
        let shown = known.hidden(original.clone());
        assert!(!shown.to_string().contains("1234567890"), "{shown}");
        assert_eq!(known.unmasked(shown.clone(), &original), original);
        let mut edited = shown;
        edited["q"] = json!("another");
        edited["list"][1] = json!("c");
        let expected = json!({"q": "another", "list": ["sk-12345678901234567890", "c"], "n": 1});
        assert_eq!(known.unmasked(edited, &original), expected);
    }

    #[test]
    fn every_sealed_text_opens_to_the_original() {
        let letters = ['a', '=', '0', 'K', MARK];
        for (one, other) in [("a", "="), ("K", "0K"), ("\u{1a}", "aa"), ("=a", "\u{1a}=")] {
            let known = secrets(&[("K", one), ("a", other)]);
            for number in 0..letters.len().pow(5) {
                let digits = (0..5).scan(number, |left, _| {
                    let digit = *left % letters.len();
                    *left /= letters.len();
                    Some(letters[digit])
                });
                let value = Json::String(digits.collect());
                assert_eq!(known.opened(known.sealed(value.clone())), value);
            }
        }
    }
}
