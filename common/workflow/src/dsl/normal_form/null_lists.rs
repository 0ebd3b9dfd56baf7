//! Rewrites null or absent lists to empty ones: some editors write `edges: null`.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(graph: &mut JsonMap) {
    for list in ["nodes", "edges"] {
        let value = graph.entry(list).or_insert(Json::Null);
        if value.is_null() {
            *value = Json::Array(Vec::new());
        }
    }
}
