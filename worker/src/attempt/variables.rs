//! The values a node may read: the inputs of its job, with large values loaded and secrets opened from the graph's
//! environment.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use serde_json::Value as Json;
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::{DocumentVariable, Graph};
use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::nodes::iteration::item;
use tidemill_common::store::Jobs;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::value::{BlobRef, Lookup, Segment, SegmentType, Stored, Variables};

use crate::attempt::list_cache::ListCache;
use crate::jobs::backoff::Backoff;

/// The inputs of one job, with its graph.
#[derive(Debug)]
pub(crate) struct JobVariables {
    inputs: Vec<(String, String, Stored)>,
    /// Loaded blobs among the inputs.
    loaded: HashMap<BlobId, Segment>,
    /// Loaded list items among the inputs.
    items: HashMap<(BlobId, u64), Segment>,
    graph: Arc<Graph>,
}

impl JobVariables {
    pub(crate) fn new(inputs: Vec<(String, String, Stored)>, graph: Arc<Graph>) -> Self {
        Self { inputs, loaded: HashMap::new(), items: HashMap::new(), graph }
    }

    /// Returns the inputs in their stored form.
    pub(crate) fn into_inputs(self) -> Vec<(String, String, Stored)> {
        self.inputs
    }

    pub(crate) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Loads every blob among the inputs once. Waits while the store does not answer.
    ///
    /// # Errors
    /// A failure for the node: a blob is missing or has the wrong content.
    pub(crate) async fn load(
        &mut self,
        jobs: &dyn Jobs,
        list_cache: &ListCache,
        shard: ShardId,
    ) -> Result<(), NodeFailure> {
        let mut wanted: Vec<(&str, &str, &BlobRef)> = Vec::new();
        for (node, name, value) in &self.inputs {
            if let Stored::Blob(blob) = value
                && !wanted.iter().any(|(_, _, known)| known.id == blob.id)
            {
                wanted.push((node, name, blob));
            }
        }
        let loads = wanted.into_iter().map(|(node, name, blob)| load(jobs, shard, node, name, blob));
        self.loaded = try_join_all(loads).await?.into_iter().collect();
        let items = self.inputs.iter().filter_map(|(node, name, value)| match value {
            Stored::Item { list, at } => Some(load_item(jobs, list_cache, shard, (node, name), list, *at)),
            Stored::Inline(_) | Stored::Blob(_) | Stored::Secret(_) => None,
        });
        self.items = try_join_all(items).await?.into_iter().collect();
        Ok(())
    }

    /// Takes all variables and leaves an empty set.
    pub(crate) fn take(&mut self, graph: &Arc<Graph>) -> Self {
        std::mem::replace(self, Self::new(Vec::new(), graph.clone()))
    }

    /// Sets an output of a node inside the job, replacing a value of the same name. `loaded` is the content of a large
    /// value, if it is known.
    pub(crate) fn put(&mut self, node: &str, name: &str, value: Stored, loaded: Option<Segment>) {
        if let (Stored::Blob(blob), Some(segment)) = (&value, loaded) {
            self.loaded.insert(blob.id.clone(), segment);
        }
        self.inputs.retain(|(of, known, _)| !(of == node && known == name));
        self.inputs.push((node.to_owned(), name.to_owned(), value));
    }

    /// As [`Self::put`], for stored values of an earlier delivery of the job.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) async fn put_kept(
        &mut self,
        node: &str,
        values: Vec<(String, Stored)>,
        jobs: &dyn Jobs,
        shard: ShardId,
    ) -> Result<(), NodeFailure> {
        for (name, value) in values {
            let loaded = match &value {
                Stored::Blob(blob) => Some(load(jobs, shard, node, &name, blob).await?.1),
                Stored::Inline(_) | Stored::Item { .. } | Stored::Secret(_) => None,
            };
            self.put(node, &name, value, loaded);
        }
        Ok(())
    }

    /// Returns true if all values together take at most about `bytes_max` bytes. A loaded blob counts as too large.
    pub(crate) fn fits(&self, bytes_max: usize) -> bool {
        let inline = self.inputs.iter().filter_map(|(_, _, stored)| match stored {
            Stored::Inline(segment) => Some(segment),
            Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => None,
        });
        let mut left = bytes_max;
        self.loaded.is_empty()
            && inline.chain(self.items.values()).all(|segment| takes(&segment.value, &mut left))
    }

    /// The blob that holds this value, if the value arrived as a blob.
    pub(crate) fn blob_of(&self, value: &Segment) -> Option<&BlobRef> {
        if self.loaded.is_empty() {
            return None;
        }
        self.inputs.iter().find_map(|(_, _, stored)| match stored {
            Stored::Blob(blob) if self.loaded.get(&blob.id) == Some(value) => Some(blob),
            Stored::Blob(_) | Stored::Item { .. } | Stored::Inline(_) | Stored::Secret(_) => None,
        })
    }

    /// The name of the environment secret that equals this secret value.
    pub(crate) fn secret_name(&self, value: &Segment) -> Option<Arc<str>> {
        if value.ty != SegmentType::Secret {
            return None;
        }
        let same = self.graph.environment.iter().find(|v| v.value == *value);
        same.map(|v| v.name.clone())
    }

    /// The name of the environment secret whose text equals a written value. Such a text must not be stored in the
    /// clear, even in a text variable.
    pub(crate) fn secret_text(&self, value: &Segment) -> Option<Arc<str>> {
        let text = value.value.as_str().filter(|text| !text.is_empty())?;
        let same =
            |v: &&DocumentVariable| v.value.ty == SegmentType::Secret && v.value.value.as_str() == Some(text);
        self.graph.environment.iter().find(same).map(|v| v.name.clone())
    }

    /// The secrets to mask: those the node was given, and those that values of other nodes may contain.
    pub(crate) fn secrets(&self) -> Secrets {
        self.graph.hidden.clone().and_of(self.given_secrets())
    }

    /// The opened secrets that the node was given.
    pub(crate) fn given_secrets(&self) -> impl Iterator<Item = (Arc<str>, &Segment)> {
        self.inputs.iter().filter_map(|(_, _, stored)| match stored {
            Stored::Secret(name) => self.graph.environment_variable(name).map(|v| (name.clone(), &v.value)),
            Stored::Inline(_) | Stored::Blob(_) | Stored::Item { .. } => None,
        })
    }
}

impl Variables for JobVariables {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        // A job has few values, so a linear search is faster than hashing.
        let input = self.inputs.iter().find(|(of, known, _)| of == node && known == name);
        let opened = |name: &str| match self.graph.environment_variable(name) {
            Some(variable) => Lookup::Found(Cow::Borrowed(&variable.value)),
            None => Lookup::Missing,
        };
        match input {
            Some((_, _, Stored::Inline(segment))) => Lookup::Found(Cow::Borrowed(segment)),
            Some((_, _, Stored::Blob(blob))) => match self.loaded.get(&blob.id) {
                Some(segment) => Lookup::Found(Cow::Borrowed(segment)),
                None => Lookup::Blob(blob),
            },
            Some((_, _, Stored::Item { list, at })) => match self.items.get(&(list.id.clone(), *at)) {
                Some(segment) => Lookup::Found(Cow::Borrowed(segment)),
                None => Lookup::Blob(list),
            },
            Some((_, _, Stored::Secret(name))) => opened(name),
            // This also applies to the environment: texts typed by users are templates too, and must not reach
            // variables the workflow's author did not mention.
            None => Lookup::Missing,
        }
    }

    fn names(&self) -> Vec<(String, String)> {
        self.inputs.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
    }
}

/// Subtracts the approximate JSON size of a value from `left`. Returns false as soon as it does not fit.
fn takes(value: &Json, left: &mut usize) -> bool {
    /// The size of a number, or of a key's quotes and the like.
    const LITTLE: usize = 8;
    let own = LITTLE + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match value {
        Json::Array(items) => items.iter().all(|item| takes(item, left)),
        Json::Object(map) => map.iter().all(|(key, item)| {
            let rest = left.checked_sub(key.len());
            rest.is_some_and(|rest| {
                *left = rest;
                takes(item, left)
            })
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
    }
}

/// Loads one item of a list. The list stays cached for the jobs of the other items.
async fn load_item(
    jobs: &dyn Jobs,
    list_cache: &ListCache,
    shard: ShardId,
    (node, name): (&str, &str),
    list: &BlobRef,
    at: u64,
) -> Result<((BlobId, u64), Segment), NodeFailure> {
    let fetch = async {
        let (_, whole) = load(jobs, shard, node, name, list).await?;
        match whole.value {
            Json::Array(items) => Ok(items),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                let message = format!("the value of {node}.{name} (blob {}) is not a list", list.id);
                Err(NodeFailure::new(EngineErrorType::Engine.name(), message))
            }
        }
    };
    let items = list_cache.get(&list.id, list.size, fetch).await?;
    let value = usize::try_from(at).ok().and_then(|at| items.get(at)).cloned().unwrap_or(Json::Null);
    Ok(((list.id.clone(), at), item(list.ty, value)))
}

async fn load(
    jobs: &dyn Jobs,
    shard: ShardId,
    node: &str,
    name: &str,
    blob: &BlobRef,
) -> Result<(BlobId, Segment), NodeFailure> {
    let failed = |reason: &str| {
        let message = format!("the value of {node}.{name} (blob {}) {reason}", blob.id);
        NodeFailure::new(EngineErrorType::BlobMissing.name(), message)
    };
    let mut backoff = Backoff::default();
    let text = loop {
        match jobs.load_blob(shard, &blob.id).await {
            Ok(Some(text)) => break text,
            Ok(None) => return Err(failed("is no longer there")),
            Err(error) if error.is_passing() => backoff.wait().await,
            Err(error) => return Err(failed(&format!("cannot be loaded: {error}"))),
        }
    };
    let value: Json =
        serde_json::from_str(&text).map_err(|error| failed(&format!("cannot be read: {error}")))?;
    Ok((blob.id.clone(), Segment::new(blob.ty, value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_common::graph::builder::import;
    use tidemill_common::value::template::Template;

    use super::*;

    #[test]
    fn only_secrets_that_the_node_mentions_are_opened() {
        let variable =
            |name: &str, kind: &str| json!({"id": name, "name": name, "value_type": kind, "value": "v"});
        let document = json!({
            "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "x"},
            "workflow": {
                "environment_variables": [variable("OWN", "secret"), variable("OTHER", "secret"), variable("PLAIN", "string")],
                "graph": {
                    "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}],
                    "edges": [],
                },
            },
        });
        let imported = import(document.to_string().as_bytes());
        let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
        let inputs = vec![("env".into(), "OWN".into(), Stored::Secret("OWN".into()))];
        let variables = JobVariables::new(inputs, Arc::new(graph));
        for (text, shown) in [
            ("{{#env.OWN#}}", "v"),
            ("{{#env.OTHER#}}", "env.OTHER"),
            ("env.OTHER", "env.OTHER"),
            ("{{#env.PLAIN#}}", "env.PLAIN"),
        ] {
            assert_eq!(Template::parse(text).render_text(&variables), shown, "{text}");
        }
    }

    #[test]
    fn values_are_weighed_only_as_far_as_there_is_room() {
        for (value, room, fits) in [
            (json!(null), 7, false),
            (json!(1.5), 8, true),
            (json!("four"), 12, true),
            (json!("five!"), 12, false),
            (json!([1, [2]]), 32, true),
            (json!([1, [2]]), 31, false),
            (json!({"ab": "c"}), 19, true),
            (json!({"ab": "c"}), 18, false),
        ] {
            assert_eq!(takes(&value, &mut { room }), fits, "{value} {room}");
        }
    }
}
