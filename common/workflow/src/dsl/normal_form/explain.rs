//! Names the rewrites that changed a file, and what each changed, for `tidemill check --explain`.
//!
//! Each rule is applied to a copy and compared, so a rule needs no report of its own. This is slow, and only done for
//! people.

use serde_json::Value as Json;

use super::{Form, Migrations, bare, forms};
use tidemill_base::value::JsonMap;

/// Most places of one rule that are named.
const PLACES_MAX: usize = 100;

/// A place that a rule changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The name of the rule.
    pub rule: &'static str,
    /// The place, such as `nodes[3].data.version`.
    pub path: String,
    /// Its line in the file. A place that the rule added has the line of the part around it.
    pub line: Option<u32>,
    /// Set for a place that a rule would have changed, and a setting leaves alone: what that means.
    pub note: Option<&'static str>,
}

/// Applies every rule to a graph and returns the places that each changed, in the order of their application.
pub(in super::super) fn explain(graph: &JsonMap, migrations: Migrations) -> Vec<Rewrite> {
    of(&mut graph.clone(), forms(migrations))
}

/// As [`explain`], for the further rules of a bare graph, which the others have changed already.
pub(in super::super) fn explain_bare(graph: &mut JsonMap) -> Vec<Rewrite> {
    of(graph, bare::FORMS.iter())
}

/// As [`explain`], for some rules. They change the graph.
pub(super) fn of<'f>(graph: &mut JsonMap, forms: impl Iterator<Item = &'f Form>) -> Vec<Rewrite> {
    let mut all = Vec::new();
    for form in forms {
        let before = graph.clone();
        form.apply(graph);
        let mut places = Vec::new();
        of_maps(&before, graph, "", &mut places);
        let mut places = one_for_each_element(places);
        places.truncate(PLACES_MAX);
        all.extend(places.into_iter().map(|path| Rewrite { rule: form.name, path, line: None, note: None }));
    }
    all
}

fn of_maps(before: &JsonMap, after: &JsonMap, path: &str, places: &mut Vec<String>) {
    let within = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    places.extend(gone.map(|key| within(key)));
    for (key, value) in after {
        match before.get(key) {
            Some(old) => of_values(old, value, &within(key), places),
            None => places.push(within(key)),
        }
    }
}

/// Joins the places in one node or edge to the innermost part that holds them all: one line says what a rule did there.
fn one_for_each_element(places: Vec<String>) -> Vec<String> {
    let element = |place: &str| place.split('.').next().unwrap_or_default().to_owned();
    let mut joined: Vec<String> = Vec::with_capacity(places.len());
    for place in places {
        match joined.last_mut().filter(|last| element(last) == element(&place)) {
            Some(last) => {
                let (old, new) = (last.split('.'), place.split('.'));
                let common: Vec<&str> =
                    old.zip(new).take_while(|(old, new)| old == new).map(|(part, _)| part).collect();
                *last = common.join(".");
            }
            None => joined.push(place),
        }
    }
    joined
}

fn of_values(before: &Json, after: &Json, path: &str, places: &mut Vec<String>) {
    match (before, after) {
        (old, new) if old == new => {}
        (Json::Object(old), Json::Object(new)) => of_maps(old, new, path, places),
        (Json::Array(old), Json::Array(new)) if old.len() <= new.len() => {
            for (at, value) in new.iter().enumerate() {
                let place = format!("{path}[{at}]");
                match old.get(at) {
                    Some(old) => of_values(old, value, &place, places),
                    None => places.push(place),
                }
            }
        }
        _ => places.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_rule_that_changed_something_is_named_with_its_places() {
        let graph = json!({"nodes": [
            {"id": "a", "data": {"type": "LLM"}},
            {"id": "b", "data": {"type": "tool", "tool_configurations": {"x": null, "y": 1, "z": null}}},
            {"id": "c", "data": {"type": "iteration", "start_node_id": "d"}},
            {"id": "d", "parentId": "c", "data": {"type": "code"}},
            {"id": "e", "type": "END", "name": "E", "config": {"outputs": []}},
        ], "edges": [{"source": "a", "target": "b"}]});
        let found = explain(graph.as_object().unwrap(), Migrations::On);
        let found: Vec<(&str, &str)> = found.iter().map(|one| (one.rule, one.path.as_str())).collect();
        assert_eq!(
            found,
            [
                ("foreign-node", "nodes[4]"),
                ("foreign-type", "nodes[4].data.type"),
                ("node-type", "nodes[0].data.type"),
                ("edge-handle", "edges[0].sourceHandle"),
                ("container-start", "nodes[2].data.start_node_id"),
                ("container-start", "nodes[5]"),
                ("container-start", "edges[1]"),
                ("tool-options", "nodes[1].data.tool_configurations"),
            ]
        );
    }
}
