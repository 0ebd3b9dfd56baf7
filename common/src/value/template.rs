//! Text with references to variables: `Dear {{#start.name#}}`.
//!
//! Parsed once, rendered often. The rules are Dify's, its oddities included: a reference that resolves to nothing
//! shows its bare path, and a text between references that as a whole is the path of a variable is replaced by it.
//! What a value renders to is never looked at again.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::{Lookup, Segment, Selector, Variables};

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{#([a-zA-Z0-9_]{1,50}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,29}){1,10})#\}\}")
        .expect("the pattern is well formed")
});

/// Longest text, in bytes, that is tried as the path of a variable: eleven parts of fifty characters and some room.
const PATH_BYTES_MAX: usize = 1024;

/// Longest reference, in bytes: a node, ten names, and the braces.
const REFERENCE_BYTES_MAX: usize = 50 + 10 * 31 + 6;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Fixed text.
    Text(String),
    /// Fixed text that may be the path of a variable: if there is one, its value stands here instead.
    PerhapsVariable(Selector),
    /// A reference; shows its path when there is no such variable.
    Variable(Selector),
}

/// Text with references, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Finds the references. Every text is a template; what does not look exactly like a reference is text.
    pub fn parse(source: &str) -> Self {
        let mut parts = Vec::new();
        let mut end = 0;
        for found in REFERENCE.captures_iter(source) {
            let (Some(whole), Some(path)) = (found.get(0), found.get(1)) else { continue };
            parts.extend(fixed(&source[end..whole.start()]));
            parts.push(Part::Variable(split(path.as_str())));
            end = whole.end();
        }
        parts.extend(fixed(&source[end..]));
        Self { parts }
    }

    /// The pieces, in order; no text is empty.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The template with every value as prompts and requests show it.
    pub fn render_text(&self, variables: &dyn Variables) -> String {
        self.render(variables, Segment::text)
    }

    /// The template with every value as answers show it.
    pub fn render_markdown(&self, variables: &dyn Variables) -> String {
        self.render(variables, Segment::markdown)
    }

    /// The template with every value as logs show it: secrets masked.
    pub fn render_log(&self, variables: &dyn Variables) -> String {
        self.render(variables, Segment::log)
    }

    /// Adds `(node, name)` of everything that rendering may read.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for part in &self.parts {
            if let Part::PerhapsVariable(selector) | Part::Variable(selector) = part {
                mention(selector, into);
            }
        }
    }

    fn render(&self, variables: &dyn Variables, show: for<'a> fn(&'a Segment) -> Cow<'a, str>) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::PerhapsVariable(selector) | Part::Variable(selector) => match variables.get(selector) {
                    Lookup::Found(segment) => out.push_str(&show(&segment)),
                    Lookup::Missing | Lookup::Blob(_) => out.push_str(&selector.join(".")),
                },
            }
        }
        out
    }
}

/// The reference with which a text begins, and its length.
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

/// Adds the variable that a selector reads, if it is long enough to read one.
pub fn mention(selector: &[String], into: &mut Vec<(String, String)>) {
    if let [node, name, ..] = selector {
        into.push((node.clone(), name.clone()));
    }
}

fn fixed(text: &str) -> Option<Part> {
    if text.is_empty() {
        return None;
    }
    // Dify tries every text with a dot in it. A line break or an empty part rules out any variable that could be there.
    let path_like = text.len() <= PATH_BYTES_MAX
        && text.contains('.')
        && !text.contains('\n')
        && text.split('.').all(|part| !part.is_empty());
    Some(if path_like { Part::PerhapsVariable(split(text)) } else { Part::Text(text.into()) })
}

fn split(path: &str) -> Selector {
    path.split('.').map(String::from).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    /// Variables from an object of objects: node, then name.
    pub(crate) struct Pool(Vec<(String, String, Segment)>);
    impl Pool {
        pub(crate) fn new(nodes: Json) -> Self {
            let mut all = Vec::new();
            for (node, names) in nodes.as_object().expect("an object of nodes") {
                for (name, value) in names.as_object().expect("an object of names") {
                    all.push((node.clone(), name.clone(), Segment::restore_files(value.clone())));
                }
            }
            Self(all)
        }
        /// Adds a variable under a type that its value does not show.
        pub(crate) fn with(mut self, node: &str, name: &str, segment: Segment) -> Self {
            self.0.push((node.into(), name.into(), segment));
            self
        }
    }
    impl Variables for Pool {
        fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
            let found = self.0.iter().find(|(n, v, _)| n == node && v == name);
            found.map_or(Lookup::Missing, |(_, _, segment)| Lookup::Found(Cow::Borrowed(segment)))
        }
        fn names(&self) -> Vec<(String, String)> {
            self.0.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
        }
    }

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
    fn a_text_that_is_a_path_as_a_whole_is_replaced() {
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
            matches!(Template::parse(source).parts(), [Part::Text(_) | Part::PerhapsVariable(_)])
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
