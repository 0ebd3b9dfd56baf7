//! The `data` of nodes as the file has it, for executors of a host. A graph does not keep it, so it is read from the
//! stored document, once for each version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_common::dsl::Document;
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::{GraphHash, global_id};
use tidemill_common::value::JsonMap;

/// Most versions whose data is kept. One more, and all are read again.
const VERSIONS_MAX: usize = 32;

/// The data of all nodes of a version, by node.
pub(crate) type Configs = HashMap<String, JsonMap>;

/// The versions that were read.
#[derive(Default)]
pub(crate) struct NodeConfigs(Mutex<HashMap<GraphHash, Arc<Configs>>>);

impl NodeConfigs {
    /// The data of the nodes, if it is kept.
    pub(crate) fn find(&self, hash: &GraphHash) -> Option<Arc<Configs>> {
        self.lock().get(hash).cloned()
    }

    /// Reads the data from the stored text of the version, and keeps it.
    ///
    /// # Errors
    /// The text cannot be read.
    pub(crate) fn read(&self, hash: &GraphHash, text: &str) -> Result<Arc<Configs>, NodeFailure> {
        let document = Document::from_stored(text).map_err(|problem| {
            let message = format!("workflow version {hash} cannot be read: {problem}");
            NodeFailure::new(EngineErrorType::Engine.name(), message)
        })?;
        let configs = Arc::new(of(document));
        let mut known = self.lock();
        if known.len() >= VERSIONS_MAX {
            known.clear();
        }
        known.insert(hash.clone(), configs.clone());
        Ok(configs)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GraphHash, Arc<Configs>>> {
        // It is a cache: each of its entries is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data by node, also of nodes inside others.
fn of(document: Document) -> Configs {
    let mut configs = Configs::new();
    for node in document.nodes {
        add_children(&node.id, &node.data, &mut configs);
        configs.insert(node.id, node.data);
    }
    configs
}

fn add_children(parent: &str, data: &JsonMap, configs: &mut Configs) {
    let children = data.get("virtual_nodes").and_then(|children| children.as_array());
    for child in children.into_iter().flatten() {
        let Some(local) = child.get("id").and_then(|id| id.as_str()) else { continue };
        let mut own = child.get("data").and_then(|data| data.as_object()).cloned().unwrap_or_default();
        own.insert("type".into(), child.get("type").cloned().unwrap_or_default());
        configs.insert(global_id(parent, local), own);
    }
}
