//! Checks that the datasets in a workflow exist. An unknown dataset is a warning, because it may be added later.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tidemill_common::graph::{Graph, datasets};

use crate::api::ApiState;
use crate::api::error::ApiError;

/// Returns a warning for the datasets that are in no settings and not in the store.
///
/// # Errors
/// Errors of the store.
pub(super) async fn unknown(state: &ApiState, graph: &Graph) -> Result<Option<Json>, ApiError> {
    if datasets::unknown(graph, |_| false).is_empty() {
        return Ok(None);
    }
    let known = known(state).await?;
    let unknown = datasets::unknown(graph, |id| known.contains(id));
    let Some(warning) = datasets::warning(datasets::UNKNOWN, &unknown) else { return Ok(None) };
    let mut shown = warning.to_json();
    shown["datasets"] = json!(unknown.keys().collect::<Vec<_>>());
    Ok(Some(shown))
}

/// Ids and names of all datasets: those of the store, of the settings of this scheduler, and of the records of workers.
async fn known(state: &ApiState) -> Result<BTreeSet<String>, ApiError> {
    let mut known: BTreeSet<String> = state.config.knowledge.names().map(str::to_owned).collect();
    for record in state.store.knowledge().datasets().await? {
        known.extend([record.id, record.name]);
    }
    for worker in state.store.fleet().workers().await? {
        known.extend(worker.about.iter().flat_map(|about| about.datasets.iter().cloned()));
    }
    Ok(known)
}
