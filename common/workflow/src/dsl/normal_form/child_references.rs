//! Rewrites all ways to name a node inside another to its global id, `<parent>_<child>`: `[ext_1, text]`
//! inside the parent, and `[parent.ext_1, text]`, `[parent, ext_1, text]` and `{{#parent.ext_1.text#}}`
//! everywhere.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use crate::dsl::children::global_id;
use tidemill_base::value::JsonMap;

/// The ids of the children, by the id of their parent.
type Children = HashMap<String, HashSet<String>>;

pub(super) fn rewrite(graph: &mut JsonMap) {
    let Some(nodes) = graph.get("nodes").and_then(Json::as_array) else { return };
    let children: Children = nodes.iter().filter_map(children_of).collect();
    if children.is_empty() {
        return;
    }
    for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        let id = node.get("id").and_then(Json::as_str).map(str::to_owned);
        let around = id.and_then(|id| Some((children.get(&id)?.clone(), id)));
        let scope = Scope { all: &children, own: around.as_ref().map(|(own, id)| (id.as_str(), own)) };
        if let Some(data) = node.get_mut("data") {
            scope.rewrite(data);
        }
    }
}

fn children_of(node: &Json) -> Option<(String, HashSet<String>)> {
    let list = node.get("data")?.get("virtual_nodes")?.as_array()?;
    let ids = list.iter().filter_map(|child| Some(child.get("id")?.as_str()?.to_owned()));
    let ids: HashSet<String> = ids.collect();
    (!ids.is_empty()).then(|| Some((node.get("id")?.as_str()?.to_owned(), ids)))?
}

struct Scope<'a> {
    all: &'a Children,
    /// The current node and its children, if it has some: their local ids are valid here.
    own: Option<(&'a str, &'a HashSet<String>)>,
}

impl Scope<'_> {
    fn rewrite(&self, value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Some(new) = self.text(text) {
                    *text = new;
                }
            }
            Json::Array(items) => match self.selector(items) {
                Some(new) => *items = new,
                None => items.iter_mut().for_each(|item| self.rewrite(item)),
            },
            Json::Object(map) => map.values_mut().for_each(|value| self.rewrite(value)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// Returns the rewritten selector; `None` when it does not name a child in one of these ways.
    fn selector(&self, items: &[Json]) -> Option<Vec<Json>> {
        let parts: Vec<&str> = items.iter().map(Json::as_str).collect::<Option<_>>()?;
        let new = self.path(&parts)?;
        Some(new.into_iter().map(Json::String).collect())
    }

    fn path(&self, parts: &[&str]) -> Option<Vec<String>> {
        let (first, rest) = parts.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let (id, rest) = if let Some((parent, _)) = self.own.filter(|(_, own)| own.contains(*first)) {
            (global_id(parent, first), rest)
        } else if let Some((parent, local)) = first.split_once('.') {
            (self.known(parent, local)?, rest)
        } else {
            let (local, rest) = rest.split_first().filter(|(_, rest)| !rest.is_empty())?;
            (self.known(first, local)?, rest)
        };
        Some([id].into_iter().chain(rest.iter().map(|part| (*part).to_owned())).collect())
    }

    fn known(&self, parent: &str, local: &str) -> Option<String> {
        self.all.get(parent)?.contains(local).then(|| global_id(parent, local))
    }

    /// Returns the text with its references rewritten; `None` when nothing changed.
    fn text(&self, text: &str) -> Option<String> {
        let mut new = String::new();
        let (mut rest, mut changed) = (text, false);
        while let Some(begin) = rest.find("{{#") {
            let Some(length) = rest[begin + 3..].find("#}}") else { break };
            let inner = &rest[begin + 3..begin + 3 + length];
            new.push_str(&rest[..begin + 3]);
            let parts: Vec<&str> = inner.split('.').collect();
            match self.path(&parts) {
                Some(path) => {
                    changed = true;
                    new.push_str(&path.join("."));
                }
                None => new.push_str(inner),
            }
            new.push_str("#}}");
            rest = &rest[begin + 3 + length + 3..];
        }
        new.push_str(rest);
        changed.then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ve_c1_every_way_to_name_a_child_becomes_its_one_id() {
        let mut graph = json!({"nodes": [
            {"id": "t", "data": {"virtual_nodes": [{"id": "ext_1", "data": {"p": "{{#ext_1.text#}}"}}], "a": ["ext_1", "text"],
                "b": ["t.ext_1", "text"], "c": "x {{#t.ext_1.text#}} {{#ext_2.text#}}", "d": [["ext_1", "o", "k"], "ext_1"]}},
            {"id": "e", "data": {"a": ["ext_1", "text"], "b": ["t", "ext_1", "text"], "c": ["t", "ext_1"], "d": ["t", "ext_2", "x"],
                "e": "{{#t.ext_1.text#}}{{#t.ext_1#}}{{#"}},
        ]});
        let expected = json!({"nodes": [
            {"id": "t", "data": {"virtual_nodes": [{"id": "ext_1", "data": {"p": "{{#t_ext_1.text#}}"}}], "a": ["t_ext_1", "text"],
                "b": ["t_ext_1", "text"], "c": "x {{#t_ext_1.text#}} {{#ext_2.text#}}", "d": [["t_ext_1", "o", "k"], "ext_1"]}},
            {"id": "e", "data": {"a": ["ext_1", "text"], "b": ["t_ext_1", "text"], "c": ["t", "ext_1"], "d": ["t", "ext_2", "x"],
                "e": "{{#t_ext_1.text#}}{{#t.ext_1#}}{{#"}},
        ]});
        for _ in 0..2 {
            rewrite(graph.as_object_mut().unwrap());
            assert_eq!(graph, expected);
        }
    }
}
