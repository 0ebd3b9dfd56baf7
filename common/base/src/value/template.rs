//! Text with references to variables: `Dear {{#start.name#}}`.
//!
//! A template is parsed once and rendered often. The rules are Dify's, including its oddities: a reference to
//! a missing variable shows its bare path, and a piece of text between references is replaced by a value when
//! the whole piece is the path of a variable. Rendered values are never parsed again.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::{Lookup, Segment, Selector, Variables};

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{#([a-zA-Z0-9_]{1,50}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,29}){1,10})#\}\}")
        .expect("the pattern is well formed")
});

/// Longest text, in bytes, that is tried as the path of a variable: eleven parts of fifty characters, plus a
/// margin.
const PATH_BYTES_MAX: usize = 1024;

/// Longest reference, in bytes: a node, ten names, and the braces.
const REFERENCE_BYTES_MAX: usize = 50 + 10 * 31 + 6;

/// A piece of a response template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    /// The value of a variable.
    Variable(Selector),
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePiece {
    Text(String),
    /// Fixed text that may be the path of a variable. If the variable exists, its value replaces the text.
    PerhapsVariable(Selector),
    /// A reference; shows its path when the variable does not exist.
    Variable(Selector),
}

/// A parsed text with references.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<TemplatePiece>,
}

impl Template {
    /// Parses a template. Every text is valid; everything that is not exactly a reference is fixed text.
    pub fn parse(source: &str) -> Self {
        let mut parts = Vec::new();
        let mut end = 0;
        for found in REFERENCE.captures_iter(source) {
            let (Some(whole), Some(path)) = (found.get(0), found.get(1)) else { continue };
            parts.extend(fixed(&source[end..whole.start()]));
            parts.push(TemplatePiece::Variable(split(path.as_str())));
            end = whole.end();
        }
        parts.extend(fixed(&source[end..]));
        Self { parts }
    }

    /// Returns the pieces in order; no text piece is empty.
    pub fn parts(&self) -> &[TemplatePiece] {
        &self.parts
    }

    /// Renders the template with every value as in prompts and requests.
    pub fn render_text(&self, variables: &dyn Variables) -> String {
        self.render(variables, Segment::text)
    }

    /// Renders the template with every value as in answers.
    pub fn render_markdown(&self, variables: &dyn Variables) -> String {
        self.render(variables, Segment::markdown)
    }

    /// Renders the template with every value as in logs: secrets masked.
    pub fn render_log(&self, variables: &dyn Variables) -> String {
        self.render(variables, Segment::log)
    }

    /// Adds the `(node, name)` of every variable that rendering may read.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for part in &self.parts {
            if let TemplatePiece::PerhapsVariable(selector) | TemplatePiece::Variable(selector) = part {
                mention(selector, into);
            }
        }
    }

    fn render(&self, variables: &dyn Variables, show: for<'a> fn(&'a Segment) -> Cow<'a, str>) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                TemplatePiece::Text(text) => out.push_str(text),
                TemplatePiece::PerhapsVariable(selector) | TemplatePiece::Variable(selector) => {
                    match variables.get(selector) {
                        Lookup::Found(segment) => out.push_str(&show(&segment)),
                        Lookup::Missing | Lookup::Blob(_) => out.push_str(&selector.join(".")),
                    }
                }
            }
        }
        out
    }
}

/// Parses the reference at the beginning of a text, and returns it with its length in bytes.
pub(super) fn reference_at(text: &str) -> Option<(Selector, usize)> {
    if !text.starts_with("{{#") {
        return None;
    }
    let near = &text.as_bytes()[..text.len().min(REFERENCE_BYTES_MAX)];
    let end = near.windows(3).position(|window| window == b"#}}")? + 3;
    let found = REFERENCE.captures(text.get(..end)?)?;
    found.get(0).filter(|whole| whole.start() == 0)?;
    Some((split(found.get(1)?.as_str()), end))
}

/// Adds the variable that a selector reads. A selector of fewer than two parts reads none.
pub fn mention(selector: &[String], into: &mut Vec<(String, String)>) {
    if let [node, name, ..] = selector {
        into.push((node.clone(), name.clone()));
    }
}

fn fixed(text: &str) -> Option<TemplatePiece> {
    if text.is_empty() {
        return None;
    }
    // Dify tries every text with a dot in it. No variable name has a line break or an empty part.
    let path_like = text.len() <= PATH_BYTES_MAX
        && text.contains('.')
        && !text.contains('\n')
        && text.split('.').all(|part| !part.is_empty());
    Some(if path_like {
        TemplatePiece::PerhapsVariable(split(text))
    } else {
        TemplatePiece::Text(text.into())
    })
}

fn split(path: &str) -> Selector {
    path.split('.').map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::pool::Pool;
    use proptest::prelude::*;
    use serde_json::json;

    fn pool() -> Pool {
        Pool::new(json!({
            "start": {"a": "A!", "o": {"user": {"name": "Bo", "tags": ["x", "y"]}}, "ref": "{{#start.a#}}", "nul": null},
            "dashed-id": {"output": "dash"},
            "env": {"mood": "sunny"},
            "开始": {"名前": "東京"},
        }))
    }

    #[test]
    fn references_become_values_and_nothing_else_does() {
        for (source, text) in [
            ("{{#start.a#}} and {{#start.a#}}", "A! and A!"),
            ("x{{#ghost.out#}}y", "xghost.outy"),
            ("{{#dashed-id.output#}}", "{{#dashed-id.output#}}"),
            ("{{# start.a #}} {{ start.a }} {{#start.a}}", "{{# start.a #}} {{ start.a }} {{#start.a}}"),
            ("{{#start#}} {{#start.1a#}} {{#start.o.0#}}", "{{#start#}} {{#start.1a#}} {{#start.o.0#}}"),
            ("{{#start.o.user.name#}}/{{#start.o.user.absent#}}", "Bo/start.o.user.absent"),
            ("{{#start.o#}}", r#"{"user": {"name": "Bo", "tags": ["x", "y"]}}"#),
            ("{{#start.ref#}}|{{#start.nul#}}|", "{{#start.a#}}||"),
            ("{{{#start.a#}}}", "{A!}"),
            ("", ""),
        ] {
            assert_eq!(Template::parse(source).render_text(&pool()), text, "{source}");
        }
    }

    #[test]
    fn a_piece_of_text_that_is_a_variable_path_is_replaced() {
        for (source, text) in [
            ("start.a", "A!"),
            ("pre start.a", "pre start.a"),
            ("{{#env.mood#}}start.a{{#env.mood#}}", "sunnyA!sunny"),
            ("dashed-id.output", "dash"),
            ("开始.名前", "東京"),
            ("start.nope", "start.nope"),
            ("start.a\n", "start.a\n"),
            ("3.14 e.g. x.y", "3.14 e.g. x.y"),
            ("start..a", "start..a"),
        ] {
            assert_eq!(Template::parse(source).render_text(&pool()), text, "{source}");
        }
    }

    #[test]
    fn lengths_of_ids_and_names_are_bounded() {
        let literal = |source: &str| {
            matches!(
                Template::parse(source).parts(),
                [TemplatePiece::Text(_) | TemplatePiece::PerhapsVariable(_)]
            )
        };
        assert!(!literal(&format!("{{{{#{}.{}#}}}}", "n".repeat(50), "v".repeat(30))));
        assert!(literal(&format!("{{{{#{}.v#}}}}", "n".repeat(51))));
        assert!(literal(&format!("{{{{#n.{}#}}}}", "v".repeat(31))));
        assert!(!literal(&format!("{{{{#n{}#}}}}", ".v".repeat(10))));
        assert!(literal(&format!("{{{{#n{}#}}}}", ".v".repeat(11))));
    }

    #[test]
    fn mentions_are_all_that_may_be_read() {
        let mut into = Vec::new();
        Template::parse("sys.query{{#a.b.c#}} or {{#d.e#}}").mentions(&mut into);
        let pairs = [("sys", "query"), ("a", "b"), ("d", "e")];
        assert_eq!(into, pairs.map(|(node, name)| (node.to_string(), name.to_string())));
    }

    proptest! {
        #[test]
        fn text_without_references_stays_as_it_is(source in "[^#]*") {
            prop_assert_eq!(Template::parse(&source).render_text(&Pool::new(json!({}))), source);
        }
    }
}
