//! The secrets that a job was given: they go where the workflow sends them, and nowhere else. What is shown of a node has
//! them masked; what is kept for another worker names them instead, and they are opened when it is read.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::value::pyrepr::repr_text;
use tidemill_common::value::text::mask;
use tidemill_common::value::{JsonMap, Segment};

/// Begins and ends what stands for a secret in a text that is kept; in texts that have it, it is written otherwise.
const MARK: char = '\u{1a}';
/// Stands behind the mark where the text had the mark itself.
const ITSELF: char = '=';

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<Secret>);

#[derive(Clone)]
struct Secret {
    name: Arc<str>,
    /// As it is, as Python shows it, as JSON writes it: each once, and always in this order.
    spellings: Vec<String>,
    mask: String,
}

impl Secrets {
    /// These, by name. What is no text or empty hides nothing.
    pub(crate) fn of<'a>(secrets: impl Iterator<Item = (Arc<str>, &'a Segment)>) -> Self {
        let mut known: Vec<Secret> = Vec::new();
        for (name, segment) in secrets {
            let Some(plain) = segment.value.as_str().filter(|text| !text.is_empty()) else { continue };
            if known.iter().any(|one| one.name == name) {
                continue;
            }
            // Some texts show a value as Python does or as JSON, and then a line end in it has another spelling.
            let inner = |quoted: &str| quoted[1..quoted.len() - 1].to_owned();
            let mut spellings = vec![plain.to_owned()];
            for other in [inner(&repr_text(plain)), inner(&Json::from(plain).to_string())] {
                if !spellings.contains(&other) {
                    spellings.push(other);
                }
            }
            known.push(Secret { name, spellings, mask: mask(plain) });
        }
        Self(known)
    }

    /// Whether there is none.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is in a text of these values.
    pub(crate) fn are_in(&self, values: &JsonMap) -> bool {
        !self.0.is_empty() && values.values().any(|value| self.is_in(value))
    }

    fn is_in(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => self.first_in(text).is_some(),
            Json::Array(items) => items.iter().any(|item| self.is_in(item)),
            Json::Object(map) => {
                map.iter().any(|(key, item)| self.first_in(key).is_some() || self.is_in(item))
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => false,
        }
    }

    /// The text with every secret masked.
    pub(crate) fn masked(&self, text: String) -> String {
        if self.first_in(&text).is_none() {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((at, secret, spelling)) = self.first_in(rest) {
            out.push_str(&rest[..at]);
            out.push_str(&secret.mask);
            rest = &rest[at + secret.spellings[spelling].len()..];
        }
        out + rest
    }

    /// The value with every secret in its texts masked; the names in mappings stay as they are, others look for them.
    pub(crate) fn hidden(&self, value: Json) -> Json {
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
    pub(crate) fn hidden_in(&self, values: JsonMap) -> JsonMap {
        if self.0.is_empty() {
            return values;
        }
        values.into_iter().map(|(name, value)| (name, self.hidden(value))).collect()
    }

    /// What somebody answered who was shown `asked`: what repeats a text as it was shown is that text.
    pub(crate) fn unmasked(&self, answer: Json, asked: &Json) -> Json {
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
    pub(crate) fn sealed(&self, value: Json) -> Json {
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
                    (_, Some((at, secret, spelling))) => {
                        out.push_str(&rest[..at]);
                        out.push_str(&format!("{MARK}{spelling}{}{MARK}", secret.name));
                        rest = &rest[at + secret.spellings[spelling].len()..];
                    }
                    _ => return out + rest,
                }
            }
        })
    }

    /// The value that was kept: with secrets in the places of their names.
    pub(crate) fn opened(&self, value: Json) -> Json {
        self.each_text(value, &|text| if text.contains(MARK) { self.open(&text) } else { text })
    }

    fn open(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(MARK) {
            out.push_str(&rest[..at]);
            let behind = &rest[at + MARK.len_utf8()..];
            if let Some(behind) = behind.strip_prefix(ITSELF) {
                out.push(MARK);
                rest = behind;
                continue;
            }
            let named = behind.split_once(MARK).and_then(|(name, behind)| Some((self.named(name)?, behind)));
            match named {
                Some((secret, behind)) => {
                    out.push_str(secret);
                    rest = behind;
                }
                // Kept before there were such names.
                None => {
                    out.push(MARK);
                    rest = behind;
                }
            }
        }
        out + rest
    }

    /// The secret of a spelling's number and a name.
    fn named(&self, text: &str) -> Option<&str> {
        let (spelling, name) = text.split_at_checked(1)?;
        let secret = self.0.iter().find(|secret| &*secret.name == name)?;
        secret.spellings.get(spelling.parse::<usize>().ok()?).map(String::as_str)
    }

    /// The first secret in a text, the longest of those that begin there: its place, it, and which spelling.
    fn first_in(&self, text: &str) -> Option<(usize, &Secret, usize)> {
        let found = self.0.iter().flat_map(|secret| {
            let each = secret.spellings.iter().enumerate();
            each.filter_map(move |(nth, spelling)| Some((text.find(spelling.as_str())?, secret, nth)))
        });
        found.min_by_key(|(at, secret, nth)| (*at, Reverse(secret.spellings[*nth].len())))
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
    use tidemill_common::value::SegmentType;

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
    fn what_is_kept_names_secrets_and_opens_to_what_it_was() {
        let known = secrets(&[("KEY", "sk-12345678901234567890"), ("K", "sk-123"), ("EMPTY", "")]);
        let value = json!({"words": "use sk-12345678901234567890, sk-123 or \u{1a}0KEY\u{1a}", "n": [1, null, "sk-123"]});
        let sealed = known.sealed(value.clone());
        assert!(!sealed.to_string().contains("sk-"), "{sealed}");
        assert_eq!(known.opened(sealed), value);
        // Nothing is changed for whoever has none, and what an older version kept stays as it is.
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
