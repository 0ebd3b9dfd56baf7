//! Secrets of a workflow's environment, and how texts are searched for them. They go where the workflow sends them; what is
//! shown of a run, or kept for people, has them masked, also in texts that were made from them. What is kept for another
//! worker names them instead, and they are opened when it is read.
//!
//! A secret is found as it stands and in the spellings of [`spellings`]. A part of a secret is not found, nor one that code
//! has changed in another way.

mod search;
pub mod spelling;

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::text::mask;
use super::{JsonMap, Segment};
use spelling::spellings;

/// A secret with fewer characters is not searched for in texts that were only made near it: it would be found in words
/// that have nothing to do with it.
pub const CHARS_MIN: usize = 8;

/// Begins and ends what stands for a secret in a text that is kept; in texts that have it, it is written otherwise.
const MARK: char = '\u{1a}';
/// Stands after the mark where the text had the mark itself.
const ITSELF: char = '=';
/// Numbers of spellings are one digit in this base.
const DIGITS: u32 = 36;

/// See the module. Cheap to copy; none takes no memory.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Arc<Secret>>);

struct Secret {
    name: Arc<str>,
    /// Each once, and always in this order.
    spellings: Vec<String>,
    mask: String,
}

/// Shows how many there are, and no more.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// These, by name, however short. What is no text or empty hides nothing.
    pub fn of<'a>(secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        Self::default().and_of(secrets)
    }

    /// These and others, however short.
    #[must_use]
    pub fn and_of<'a>(mut self, secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        for (name, segment) in secrets {
            if let Some(plain) = segment.value.as_str().filter(|text| !text.is_empty()) {
                self.add(name, plain);
            }
        }
        self
    }

    /// Those of them that are long enough to be searched for in any text.
    pub fn long_of<'a>(secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        let is_long = |(_, segment): &(Arc<str>, &Segment)| {
            segment.value.as_str().is_some_and(|text| text.chars().nth(CHARS_MIN - 1).is_some())
        };
        Self::of(secrets.filter(is_long))
    }

    fn add(&mut self, name: Arc<str>, plain: &str) {
        if self.0.iter().all(|one| one.name != name) {
            let secret = Secret { name, spellings: spellings(plain), mask: mask(plain) };
            self.0.push(Arc::new(secret));
        }
    }

    /// Whether there is none.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is in a text of these values.
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

    /// The text with every secret masked.
    pub fn masked(&self, text: String) -> String {
        if !self.is_within(&text) {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for found in self.found(&text) {
            out.push_str(&text[done..found.from]);
            out.push_str(&found.secret.mask);
            done = found.to;
        }
        out + &text[done..]
    }

    /// The value with every secret in its texts masked; the names in mappings stay as they are, others look for them.
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

    /// These values with every secret in their texts masked.
    pub fn hidden_in(&self, values: JsonMap) -> JsonMap {
        if self.0.is_empty() {
            return values;
        }
        values.into_iter().map(|(name, value)| (name, self.hidden(value))).collect()
    }

    /// The same, and masked in the names of mappings that lie deeper than `names`: those above are not a user's.
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

    /// A text of JSON, read and masked if it holds a secret: in all its texts, and in the names of mappings that lie deeper
    /// than `names`.
    pub fn hidden_json(&self, text: String, names: usize) -> String {
        if !self.may_be_in_json(&text) {
            return text;
        }
        match serde_json::from_str(&text) {
            Ok(value) => self.hidden_below(value, names).to_string(),
            Err(_) => self.masked(text),
        }
    }

    /// Whether a text of JSON may hold one of them. It may say yes of a text that holds none.
    pub fn may_be_in_json(&self, text: &str) -> bool {
        // A text within a text is written with the escapes of JSON.
        self.0.iter().flat_map(|secret| &secret.spellings).any(|spelling| {
            text.contains(spelling.as_str())
                || spelling.contains(|letter: char| letter == '"' || letter == '\\' || letter.is_control())
                    && text.contains(&spelling::as_json(spelling))
        })
    }

    /// What somebody answered who was shown `asked`: what repeats a text as it was shown is that text.
    pub fn unmasked(&self, answer: Json, asked: &Json) -> Json {
        match (answer, asked) {
            (Json::String(answer), Json::String(asked)) => {
                let repeats = !self.0.is_empty() && self.masked(asked.clone()) == answer;
                Json::String(if repeats { asked.clone() } else { answer })
            }
            (Json::Array(answer), Json::Array(asked)) if !self.0.is_empty() => {
                let nothing = Json::Null;
                let each = answer.into_iter().enumerate();
                each.map(|(at, item)| self.unmasked(item, asked.get(at).unwrap_or(&nothing))).collect()
            }
            (Json::Object(answer), Json::Object(asked)) if !self.0.is_empty() => {
                let nothing = Json::Null;
                let each = answer.into_iter();
                each.map(|(key, item)| {
                    let item = self.unmasked(item, asked.get(&key).unwrap_or(&nothing));
                    (key, item)
                })
                .collect()
            }
            (answer, _) => answer,
        }
    }

    /// The value as it is kept: with the names of secrets in their places.
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

    /// The value that was kept: with secrets in the places of their names.
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
                // Kept before there were such names.
                None => {
                    out.push(MARK);
                    rest = after;
                }
            }
        }
        out + rest
    }

    /// The secret of a spelling's number and a name.
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
    fn what_is_kept_names_secrets_and_opens_to_what_it_was() {
        let known = secrets(&[("KEY", "sk-12345678901234567890"), ("K", "sk-123"), ("EMPTY", "")]);
        let value = json!({"words": "use sk-12345678901234567890, sk-123 or \u{1a}0KEY\u{1a}", "n": [1, null, "sk-123"]});
        let sealed = known.sealed(value.clone());
        assert!(!sealed.to_string().contains("sk-"), "{sealed}");
        assert_eq!(known.opened(sealed), value);
        // Without secrets nothing is changed, and what an older version kept stays as it is.
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
    fn an_answer_that_repeats_a_mask_means_what_was_masked() {
        let known = secrets(&[("KEY", "sk-12345678901234567890")]);
        let asked =
            json!({"q": "use sk-12345678901234567890", "list": ["sk-12345678901234567890", "b"], "n": 1});
        let shown = known.hidden(asked.clone());
        assert!(!shown.to_string().contains("1234567890"), "{shown}");
        assert_eq!(known.unmasked(shown.clone(), &asked), asked);
        let mut edited = shown;
        edited["q"] = json!("another");
        edited["list"][1] = json!("c");
        let expected = json!({"q": "another", "list": ["sk-12345678901234567890", "c"], "n": 1});
        assert_eq!(known.unmasked(edited, &asked), expected);
    }

    #[test]
    fn every_text_opens_to_what_it_was() {
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
