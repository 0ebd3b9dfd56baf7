//! Adds steps around a whole workflow, for runs that ask for them: a summary of the conversation before the
//! first node, and an extraction of facts after the last one. They are ordinary nodes of a separate workflow
//! version, so no other code has to know about them.

use std::collections::HashSet;

use serde_json::json;

use super::document::{Document, DocumentEdge, DocumentNode};
use crate::kinds::{ExecutionType, NodeKind, SOURCE_HANDLE};
use tidemill_base::language::{Language, Text};
use tidemill_base::value::JsonMap;

const SUMMARY_ID: &str = "summary_before";
const FACTS_ID: &str = "facts_after";
const SUMMARY_TITLE: Text = Text { zh: "理解上下文", en: "Summary" };
const FACTS_TITLE: Text = Text { zh: "记忆存储", en: "Facts" };

impl Document {
    /// Returns the workflow with a summary after each root node, and one facts node after all nodes that have
    /// no successor.
    #[must_use]
    pub fn with_steps_around(&self, summary: bool, facts: bool, language: Language) -> Self {
        let mut with = self.clone();
        if facts {
            with.add_facts(language);
        }
        if summary {
            with.add_summaries(language);
        }
        with
    }

    fn add_summaries(&mut self, language: Language) {
        let is_root = |node: &&DocumentNode| {
            let kind = NodeKind::from_wire(node.type_name());
            node.parent.is_none() && kind.is_some_and(|kind| kind.spec().execution == ExecutionType::Root)
        };
        let roots: Vec<String> = self.nodes.iter().filter(is_root).map(|node| node.id.clone()).collect();
        for root in roots {
            let id = self.add(SUMMARY_ID, NodeKind::Summary, SUMMARY_TITLE.of(language));
            for edge in self.edges.iter_mut().filter(|edge| edge.source == root) {
                edge.source.clone_from(&id);
                edge.handle = SOURCE_HANDLE.into();
            }
            self.join(&root, &id);
        }
    }

    fn add_facts(&mut self, language: Language) {
        let sources: HashSet<&str> = self.edges.iter().map(|edge| edge.source.as_str()).collect();
        let is_last = |node: &&DocumentNode| node.parent.is_none() && !sources.contains(node.id.as_str());
        let last: Vec<String> = self.nodes.iter().filter(is_last).map(|node| node.id.clone()).collect();
        let id = self.add(FACTS_ID, NodeKind::Facts, FACTS_TITLE.of(language));
        for from in last {
            self.join(&from, &id);
        }
    }

    /// Adds a node that sends nothing to the user, under the first free id.
    fn add(&mut self, name: &str, kind: NodeKind, title: &str) -> String {
        let is_free = |id: &String| !self.nodes.iter().any(|node| node.id == *id);
        let numbered = (2..).map(|n| format!("{name}_{n}"));
        let id = std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
        let data = json!({"type": kind.wire(), "title": title, "to_user": false});
        let data: JsonMap = data.as_object().cloned().unwrap_or_default();
        let place = self.nodes.len();
        self.nodes.push(DocumentNode { id: id.clone(), parent: None, data, place });
        id
    }

    fn join(&mut self, source: &str, target: &str) {
        let number = self.edges.iter().map(|edge| edge.number + 1).max().unwrap_or(0);
        let (id, place) = (None, self.edges.len());
        let (source, target) = (source.to_owned(), target.to_owned());
        self.edges.push(DocumentEdge { id, number, source, target, handle: SOURCE_HANDLE.into(), place });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph;

    fn document(edges: &[(&str, &str)]) -> Document {
        let edges: Vec<_> = edges.iter().map(|(from, to)| json!({"source": from, "target": to})).collect();
        let empty = |id: &str| json!({"id": id, "data": {"type": "empty", "title": id}});
        let file = json!({"graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, empty("a"), empty("b"),
                {"id": "end", "data": {"type": "end", "title": "E", "outputs": []}},
            ],
            "edges": edges,
        }});
        graph::import(file.to_string().as_bytes()).document.unwrap()
    }
    fn edges(document: &Document) -> Vec<String> {
        document.edges.iter().map(|edge| format!("{} > {}", edge.source, edge.target)).collect()
    }

    #[test]
    fn a_summary_comes_first_and_facts_come_last() {
        let plain = document(&[("start", "a"), ("start", "b"), ("a", "end")]);
        let around = plain.with_steps_around(true, true, Language::En);
        let expected = [
            "summary_before > a",
            "summary_before > b",
            "a > end",
            "b > facts_after",
            "end > facts_after",
            "start > summary_before",
        ];
        assert_eq!(edges(&around), expected);
        let (built, problems) = graph::build(&around, around.hash());
        assert!(built.is_some(), "{problems:?}");
        assert_ne!(around.hash(), plain.hash());
        assert_eq!(around.with_steps_around(false, false, Language::En), around);
    }

    #[test]
    fn a_version_with_steps_around_it_is_stored_like_any() {
        let around =
            document(&[("start", "a"), ("a", "b"), ("b", "end")]).with_steps_around(true, true, Language::Zh);
        let stored = Document::from_stored(&around.canonical()).unwrap();
        assert_eq!(stored, around);
    }
}
