//! Reads an agent node of version "2" as one of version "1". An editor of 2025 wrote this version into nodes that name a
//! strategy. The later agent node, which has no strategy, names its `agent_node_kind`, and keeps its version.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub(in super::super) fn rewrite(data: &mut JsonMap) {
    let text = |key: &str| data.get(key).and_then(Json::as_str).unwrap_or_default();
    let is_of_a_strategy = text("type") == "agent"
        && text("version") == "2"
        && !text("agent_strategy_name").is_empty()
        && data.get("agent_node_kind").is_none_or(Json::is_null);
    if is_of_a_strategy {
        data.insert("version".into(), "1".into());
    }
}
