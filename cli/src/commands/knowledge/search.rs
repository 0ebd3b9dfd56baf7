//! Searches a dataset in the way a workflow does: with a run of a single knowledge-retrieval node.

use serde_json::{Value as Json, json};

use crate::client::{Client, Follow};
use crate::error::Error;

/// Number of passages at most, unless the user gives another.
const TOP_K: u32 = 10;

/// Searches a dataset and returns the items of the node's `result`.
///
/// # Errors
/// The scheduler cannot be reached, or the search fails.
pub(super) async fn ask(
    client: &Client,
    dataset: &str,
    query: &str,
    top_k: Option<u32>,
) -> Result<Json, Error> {
    // A run would find nothing in a dataset that does not exist; here that is an error.
    client.dataset(dataset).await?;
    let request = json!({"workflow": workflow(dataset, top_k).to_string(), "inputs": {"query": query}});
    let run = client.submit(&request).await?;
    let mut follow = Follow::new(client, &run, None);
    while follow.next().await?.is_some() {}
    let ended = client.run(&run).await?;
    match ended["outputs"].get("result") {
        Some(result) if ended["status"] == "succeeded" => Ok(result.clone()),
        Some(_) | None => {
            let error = ended["error"].as_str().unwrap_or("the search failed");
            Err(Error::Failed(format!("run {run}: {error}")))
        }
    }
}

fn workflow(dataset: &str, top_k: Option<u32>) -> Json {
    let node = |id: &str, mut data: Json| {
        data["title"] = id.into();
        json!({"id": id, "data": data})
    };
    let edge = |source: &str, target: &str| {
        json!({"id": format!("{source}-{target}"), "source": source, "sourceHandle": "source",
            "target": target, "targetHandle": "target"})
    };
    let question = json!({"variable": "query", "label": "query", "type": "paragraph", "required": true});
    json!({
        "app": {"mode": "workflow", "name": "Search a dataset"}, "kind": "app", "version": "0.6.0",
        "workflow": {"graph": {
            "edges": [edge("start", "search"), edge("search", "end")],
            "nodes": [
                node("start", json!({"type": "start", "variables": [question]})),
                node("search", json!({
                    "type": "knowledge-retrieval", "query_variable_selector": ["start", "query"],
                    "dataset_ids": [dataset], "retrieval_mode": "multiple",
                    "multiple_retrieval_config": {"top_k": top_k.unwrap_or(TOP_K), "reranking_enable": false},
                })),
                node("end", json!({"type": "end", "outputs": [
                    {"variable": "result", "value_selector": ["search", "result"]}]})),
            ],
        }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_of_a_search_can_be_run() {
        let imported = tidemill_common::graph::import(workflow("k", None).to_string().as_bytes());
        assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
    }
}
