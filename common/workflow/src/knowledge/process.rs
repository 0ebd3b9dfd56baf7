//! Dify's rules for a text that becomes segments: what is removed from it, and where it is split. The messages for wrong
//! rules are Dify's.

use serde_json::Value as Json;

use super::split::{SplitSettings, Unit, split};

/// Dify's sizes for a rule that does not say them.
const TOKENS: usize = 500;
const OVERLAP: usize = 50;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRule {
    /// A text is split here first. `None`: where it fits best.
    separator: Option<String>,
    settings: SplitSettings,
    removes_spaces: bool,
    removes_addresses: bool,
}

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessRuleError {
    /// It is wrong.
    #[error("{0}")]
    Invalid(String),
    /// It asks for parent and child chunks.
    #[error("documents have no child chunks here: use the mode automatic or custom")]
    Hierarchical,
}

impl Default for ProcessRule {
    /// The automatic mode.
    fn default() -> Self {
        let settings = SplitSettings { size: TOKENS, overlap: OVERLAP, unit: Unit::Tokens };
        Self { separator: None, settings, removes_spaces: true, removes_addresses: false }
    }
}

impl ProcessRule {
    /// Reads a rule in Dify's form: `{"mode", "rules"}`.
    ///
    /// # Errors
    /// See [`ProcessRuleError`].
    pub fn parse(rule: &Json) -> Result<Self, ProcessRuleError> {
        let invalid = |what: &str| Err(ProcessRuleError::Invalid(format!("Process rule {what}")));
        match rule.get("mode").and_then(Json::as_str) {
            Some("automatic") => return Ok(Self::default()),
            Some("custom") => {}
            Some("hierarchical") => return Err(ProcessRuleError::Hierarchical),
            Some(_) => return invalid("mode is invalid"),
            None => return invalid("mode is required"),
        }
        let Some(rules) = rule.get("rules").filter(|rules| !rules.is_null()) else {
            return invalid("rules is required");
        };
        let Some(segmentation) = rules.get("segmentation").filter(|it| !it.is_null()) else {
            return invalid("segmentation is required");
        };
        let separator = match segmentation.get("separator").or_else(|| segmentation.get("delimiter")) {
            None | Some(Json::Null) => None,
            Some(Json::String(text)) if text.is_empty() => {
                return invalid("segmentation separator is required");
            }
            Some(Json::String(text)) => Some(unescaped(text)),
            Some(_) => return invalid("segmentation separator is invalid"),
        };
        let count = |key: &str| segmentation.get(key).filter(|value| !value.is_null());
        let size = match count("max_tokens").map(Json::as_u64) {
            None | Some(Some(0)) => return invalid("segmentation max_tokens is required"),
            Some(None) => return invalid("segmentation max_tokens is invalid"),
            Some(Some(size)) => usize::try_from(size).unwrap_or(usize::MAX),
        };
        let overlap = match count("chunk_overlap").map(Json::as_u64) {
            None => OVERLAP.min(size - 1),
            Some(None) => return invalid("segmentation chunk_overlap is invalid"),
            Some(Some(overlap)) => usize::try_from(overlap).unwrap_or(usize::MAX),
        };
        if overlap >= size {
            return invalid("segmentation chunk_overlap must be less than max_tokens");
        }
        let cleaning = rules.get("pre_processing_rules").and_then(Json::as_array);
        let removes = |id: &str| {
            let rule =
                cleaning.into_iter().flatten().find(|rule| rule.get("id").and_then(Json::as_str) == Some(id));
            rule.is_some_and(|rule| rule.get("enabled").and_then(Json::as_bool) == Some(true))
        };
        Ok(Self {
            separator,
            settings: SplitSettings { size, overlap, unit: Unit::Tokens },
            removes_spaces: removes("remove_extra_spaces"),
            removes_addresses: removes("remove_urls_emails"),
        })
    }

    /// The pieces of a text; none is empty.
    pub fn pieces(&self, text: &str) -> Vec<String> {
        let text = self.cleaned(text);
        match &self.separator {
            None => split(&text, self.settings),
            Some(separator) => {
                text.split(separator.as_str()).flat_map(|part| split(part, self.settings)).collect()
            }
        }
    }

    fn cleaned(&self, text: &str) -> String {
        let is_kept = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String = text.chars().filter(is_kept).collect();
        let text = if self.removes_spaces { with_single_spaces(&text) } else { text };
        if self.removes_addresses { without_addresses(&text) } else { text }
    }
}

/// Clients write line ends as `\n`, often with two characters.
fn unescaped(separator: &str) -> String {
    separator.replace("\\n", "\n").replace("\\t", "\t")
}

/// At most two line ends in a row, and one space.
fn with_single_spaces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut lines, mut spaces) = (0, 0);
    for c in text.chars() {
        let is_line = c == '\n';
        let is_space = !is_line && c.is_whitespace();
        lines = if is_line { lines + 1 } else { 0 };
        spaces = if is_space { spaces + 1 } else { 0 };
        match spaces {
            2 => {
                out.pop();
                out.push(' ');
            }
            3.. => {}
            _ if lines > 2 => {}
            _ => out.push(c),
        }
    }
    out
}

/// Without web and mail addresses. Targets of Markdown links and images stay.
fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let end = word.trim_end();
        let space = &word[end.len()..];
        if !is_mail_address(end.trim_matches(|c: char| !c.is_alphanumeric())) {
            match ["https://", "http://"].iter().find_map(|scheme| end.find(scheme)) {
                Some(at) if !end[..at].ends_with("](") => {
                    out.push_str(&end[..at]);
                    out.push_str(end[at..].find(')').map_or("", |to| &end[at + to..]));
                }
                Some(_) | None => out.push_str(end),
            }
        }
        out.push_str(space);
    }
    out
}

fn is_mail_address(word: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "._%+-".contains(c));
    word.split_once('@').is_some_and(|(name, host)| is_part(name) && is_part(host) && host.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn custom(separator: &str, max_tokens: u64, on: &[&str]) -> Json {
        let cleaning: Vec<Json> = on.iter().map(|id| json!({"id": id, "enabled": true})).collect();
        json!({"mode": "custom", "rules": {"pre_processing_rules": cleaning,
            "segmentation": {"separator": separator, "max_tokens": max_tokens, "chunk_overlap": 0}}})
    }

    #[test]
    fn a_text_is_cleaned_and_split_by_its_rule() {
        for (rule, text, expected) in [
            (json!({"mode": "automatic"}), "one  two\n\n\n\nthree", vec!["one two\n\nthree"]),
            (custom("###", 100, &[]), "one###two", vec!["one", "two"]),
            (custom("\\n", 100, &[]), "one\ntwo\n\n", vec!["one", "two"]),
            (custom("###", 2, &[]), "one two three###x", vec!["one two", "three", "x"]),
            (custom("###", 100, &["remove_extra_spaces"]), "a \t b", vec!["a b"]),
            (
                custom("###", 100, &["remove_urls_emails"]),
                "see https://a.example/x and (http://b.example) or ada@a.example, ![i](https://c.example/i)",
                vec!["see  and () or  ![i](https://c.example/i)"],
            ),
        ] {
            let rule = ProcessRule::parse(&rule).expect("a rule");
            assert_eq!(rule.pieces(text), expected, "{rule:?}");
        }
    }

    #[test]
    fn wrong_rules_are_refused_with_difys_messages() {
        for (rule, message) in [
            (json!({}), "Process rule mode is required"),
            (json!({"mode": "fast"}), "Process rule mode is invalid"),
            (json!({"mode": "custom"}), "Process rule rules is required"),
            (json!({"mode": "custom", "rules": {}}), "Process rule segmentation is required"),
            (
                json!({"mode": "custom", "rules": {"segmentation": {"separator": "x"}}}),
                "Process rule segmentation max_tokens is required",
            ),
            (
                json!({"mode": "custom", "rules": {"segmentation": {"separator": 1, "max_tokens": 5}}}),
                "Process rule segmentation separator is invalid",
            ),
            (
                json!({"mode": "custom", "rules": {"segmentation": {"max_tokens": 5, "chunk_overlap": 5}}}),
                "Process rule segmentation chunk_overlap must be less than max_tokens",
            ),
        ] {
            let error = ProcessRule::parse(&rule).expect_err("refused");
            assert_eq!(error.to_string(), message, "{rule}");
        }
        let error = ProcessRule::parse(&json!({"mode": "hierarchical"})).expect_err("refused");
        assert_eq!(error, ProcessRuleError::Hierarchical);
    }
}
