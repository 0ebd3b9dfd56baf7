//! Knowledge bases that a node searches. Newer exports have encrypted ids, which name the same dataset in each file of
//! one Dify.

use serde_json::Value as Json;

use super::{Found, NodeView, Requirement, list};
use crate::kinds::NodeKind;

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::KnowledgeRetrieval {
        return;
    }
    for id in list(node.data, "dataset_ids").iter().filter_map(Json::as_str).filter(|id| !id.is_empty()) {
        found.add(Requirement::Dataset { id: id.into() });
    }
}
