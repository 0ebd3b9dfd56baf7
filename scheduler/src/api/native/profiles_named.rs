//! Checks that the profiles in a workflow exist. An unknown profile is a warning, because it may be added later or be
//! in the settings of workers. With `strict` it is an error.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::graph::{Graph, Node};
use tidemill_common::nodes::NodeData;
use tidemill_common::registry::PROFILE_PREFIX;
use tidemill_common::store::CatalogKind;

use crate::api::ApiState;
use crate::api::error::ApiError;

/// Returns a warning for each unknown profile.
///
/// # Errors
/// Errors of the store; 422 `unknown_profile` with all of them if `strict` is set.
pub(super) async fn unknown(state: &ApiState, graph: &Graph, strict: bool) -> Result<Vec<Json>, ApiError> {
    let named: BTreeSet<(String, String)> = graph
        .nodes
        .iter()
        .filter_map(|node| Some((node.id.to_string(), named_by(node)?.to_owned())))
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let catalog = state.store.catalog().await?;
    let is_known = |id: &str| {
        let is_default = ["default", "DEFAULT"].contains(&id) && catalog.default_profile.is_some();
        is_default || catalog.find(CatalogKind::Profile, id).is_some()
    };
    let unknown: Vec<(String, String)> = named.into_iter().filter(|(_, id)| !is_known(id)).collect();
    if let Some((node, id)) = unknown.first().filter(|_| strict) {
        let message = format!("LLM Profile not found: {id} (node {node})");
        let all = unknown.iter().map(|(node, id)| json!({"node_id": node, "profile_id": id})).collect();
        let refused = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_profile", message);
        return Err(refused.with("error_type", "ValidationError".into()).with("profiles", all));
    }
    Ok(unknown.iter().map(warning).collect())
}

/// The profile that a node uses.
fn named_by(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::ProfileLlm(data) => Some(&data.profile_id),
        NodeData::Step(data) => data.filling.profile_id.as_deref(),
        NodeData::UserInteraction(data) => Some(&data.by_model.as_ref()?.profile),
        // An extraction names its profile instead of a provider.
        NodeData::Llm(data) => data.model.provider.strip_prefix(PROFILE_PREFIX),
        _ => None,
    }
}

fn warning((node, id): &(String, String)) -> Json {
    let message = format!(
        "LLM Profile not found: {id} (node {node}); it must be kept with `tidemill profiles add {id}`, or stand in \
         the settings of every worker ([profiles.{id}]), before the node runs"
    );
    json!({"severity": "warning", "code": "llm.unknown_profile", "message": message})
}
