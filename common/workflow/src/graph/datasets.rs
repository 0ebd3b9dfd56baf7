//! The datasets that a workflow searches. Whether they exist is known only by those who know the settings and the store,
//! so a file alone is never wrong.

use std::collections::BTreeMap;

use crate::dsl::{Diagnostic, Severity};
use crate::graph::Graph;
use crate::nodes::NodeData;

/// The code for a dataset that a file needs and that may be missing where it is going to run.
pub const NEEDED: &str = "dataset.needed";
/// The code for a dataset that no worker knows. Runs warn with the same code.
pub const UNKNOWN: &str = tidemill_base::warning::DATASET_UNKNOWN;
/// Most datasets that a warning lists.
const SHOWN_MAX: usize = 5;

/// Returns the datasets that are not known, each with the nodes that search it.
pub fn unknown(graph: &Graph, is_known: impl Fn(&str) -> bool) -> BTreeMap<&str, Vec<&str>> {
    let mut unknown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in &graph.nodes {
        let NodeData::KnowledgeRetrieval(data) = &node.data else { continue };
        for id in data.dataset_ids.iter().filter(|id| !is_known(id)) {
            unknown.entry(id).or_default().push(node.id.as_str());
        }
    }
    unknown
}

/// Makes one warning for all of them; `None` when there are none.
pub fn warning(code: &'static str, unknown: &BTreeMap<&str, Vec<&str>>) -> Option<Diagnostic> {
    let first = unknown.keys().next()?;
    let listed = unknown.iter().take(SHOWN_MAX);
    let listed: Vec<String> = listed.map(|(id, nodes)| format!("{id} (node {})", nodes.join(", "))).collect();
    let more = unknown.len().saturating_sub(SHOWN_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let reason = if code == NEEDED {
        "the workflow searches datasets that workers must have"
    } else {
        "the workflow searches datasets that no worker has, and finds nothing there"
    };
    let hint = format!(
        "add [knowledge.datasets.\"{first}\"] to the settings of the workers, or documents with `tidemill knowledge add`; \
         for `tidemill check`, name the settings with --config"
    );
    Some(Diagnostic {
        severity: Severity::Warning,
        code,
        path: String::new(),
        line: None,
        message: format!("{reason}: {}{more}", listed.join(", ")),
        hint: Some(hint),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::import;
    use serde_json::json;

    fn graph(of: &[(&str, &[&str])]) -> Graph {
        let mut nodes = vec![json!({"id": "s", "data": {"type": "start", "title": "S", "variables": []}})];
        let mut edges = Vec::new();
        for (id, datasets) in of {
            let config = json!({"top_k": 4, "reranking_enable": false});
            nodes.push(json!({"id": id, "data": {
                "type": "knowledge-retrieval", "title": "K", "query_variable_selector": ["s", "q"],
                "dataset_ids": datasets, "retrieval_mode": "multiple", "multiple_retrieval_config": config,
            }}));
            edges.push(json!({"source": "s", "target": id}));
        }
        let imported = import(json!({"graph": {"nodes": nodes, "edges": edges}}).to_string().as_bytes());
        imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
    }

    #[test]
    fn all_unknown_datasets_of_a_file_are_one_warning_and_known_ones_are_none() {
        let graph = graph(&[("a", &["d1", "d2"]), ("b", &["d2", "d3"])]);
        for (known, expected) in [
            (vec!["d1", "d2", "d3"], None),
            (vec!["d1", "d3"], Some("d2 (node a, b)")),
            (vec![], Some("d1 (node a), d2 (node a, b), d3 (node b)")),
        ] {
            let found = warning(UNKNOWN, &unknown(&graph, |id| known.contains(&id)));
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    assert!(found.message.ends_with(expected) && !found.is_error(), "{found:?}");
                }
                _ => panic!("{known:?}: {found:?}"),
            }
        }
        assert!(unknown(&self::graph(&[]), |_| false).is_empty());
    }

    #[test]
    fn a_long_list_is_shortened() {
        let ids = ["1", "2", "3", "4", "5", "6", "7"];
        let found = warning(NEEDED, &unknown(&graph(&[("a", &ids)]), |_| false)).unwrap();
        assert!(found.message.ends_with("5 (node a) and 2 more"), "{}", found.message);
        assert!(found.hint.is_some_and(|hint| hint.contains("[knowledge.datasets.\"1\"]")));
    }
}
