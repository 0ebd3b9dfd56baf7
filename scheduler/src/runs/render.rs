//! The only place where stored values become what a client sees. It loads blobs, removes marks, and masks secrets, also
//! inside texts that contain them. Only the values of named maps carry marks; deeper values belong to the user.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::config::CompatConfig;
use tidemill_common::graph::Graph;
use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::nodes::iteration::item;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::value::secrets::Secrets;
use tidemill_common::value::selector::descend;
use tidemill_common::value::{BlobRef, JsonMap, Segment, SegmentType, Stored};
use tidemill_common::wire::codec::value::{MARK, stored_from_json};
use tidemill_common::wire::event::EventRecord;

/// Levels of names in an event that users cannot choose: the event's own, and `outputs` and the like.
const NAMES_OF_EVENTS: usize = 2;

/// Opens the stored values of one run.
#[derive(Clone)]
pub struct Renderer {
    store: Arc<dyn Runs>,
    shard: ShardId,
    graph: Arc<Graph>,
    /// True when secrets in the outputs of a run are shown.
    secrets_in_outputs: bool,
    /// The secrets to mask in texts.
    hidden: Secrets,
}

impl Renderer {
    /// Creates it for a run of this graph on this shard.
    pub fn new(store: Arc<dyn Runs>, shard: ShardId, graph: Arc<Graph>, compat: &CompatConfig) -> Self {
        let shows = compat.secrets_in_outputs;
        let hidden = if shows { Secrets::default() } else { graph.hidden.clone() };
        Self { store, shard, graph, secrets_in_outputs: shows, hidden }
    }

    /// The workflow of the run.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Opens the values in an event's data.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn event(&self, record: &mut EventRecord) -> Result<(), StoreError> {
        let is_of_run = record.kind.starts_with("graph_run_");
        if let (true, Some(Json::Object(outputs))) = (is_of_run, record.data.get_mut("outputs")) {
            self.outputs(outputs).await?;
        }
        for key in ["inputs", "process_data", "outputs"] {
            if let Some(Json::Object(values)) = record.data.get_mut(key) {
                self.named(values).await?;
            }
        }
        if let Some(Json::Object(values)) = record.data.get_mut("pre_loop_output") {
            self.named(values).await?;
        }
        if let Some(Json::Object(variable)) = record.data.get_mut("variable") {
            self.named(variable).await?;
        }
        // In events of a loop: the variables after each round.
        let rounds = record.data.get_mut("metadata").and_then(|m| m.get_mut("loop_variable_map"));
        for round in rounds.and_then(Json::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
            if let Json::Object(values) = round {
                self.named(values).await?;
            }
        }
        self.chunk(record).await?;
        let data = std::mem::take(&mut record.data);
        if let Json::Object(data) = self.hidden.hidden_below(Json::Object(data), NAMES_OF_EVENTS) {
            record.data = data;
        }
        Ok(())
    }

    /// Opens the text of a chunk event; leaves other events unchanged.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn chunk(&self, record: &mut EventRecord) -> Result<(), StoreError> {
        let from = record.data.get("from").and_then(Json::as_u64).unwrap_or(0);
        let path = path_within(record.data.get("selector"));
        let Some(chunk @ Json::Object(_)) = record.data.get_mut("chunk") else { return Ok(()) };
        let mut whole = self.segment(chunk.take()).await?;
        if !path.is_empty() {
            whole = descend(&whole, &path).unwrap_or_else(Segment::none);
        }
        // Offsets count the bytes sent before, so they fall between characters.
        let shown = shown_text(&whole);
        let rest = usize::try_from(from).ok().and_then(|from| shown.get(from..)).unwrap_or_default();
        *chunk = Json::String(self.hidden.masked(rest.to_string()));
        record.data.shift_remove("from");
        Ok(())
    }

    /// Opens every value of a map.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn named(&self, values: &mut JsonMap) -> Result<(), StoreError> {
        for value in values.values_mut() {
            if value.get(MARK).is_some() {
                *value = self.value(value.take()).await?;
            } else if !self.hidden.are_none() {
                *value = self.hidden.hidden_below(value.take(), 0);
            }
        }
        Ok(())
    }

    /// Opens the outputs of a run. Secrets are masked here too, unless `compat.secrets_in_outputs` allows to show
    /// secrets that a workflow outputs on purpose, as Dify does.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn outputs(&self, values: &mut JsonMap) -> Result<(), StoreError> {
        if self.secrets_in_outputs {
            for value in values.values_mut().filter(|value| value.get(MARK).is_some()) {
                *value = match joined_parts(value) {
                    Some(parts) => Json::String(self.joined(parts, true).await?),
                    None => self.segment(value.take()).await?.value,
                };
            }
        }
        self.named(values).await
    }

    /// Opens a stored value and masks secrets in it.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn stored(&self, value: &Stored) -> Result<Json, StoreError> {
        Ok(self.to_json(match value {
            Stored::Inline(segment) => segment.clone(),
            Stored::Blob(blob) => self.blob(&blob.id, blob.ty).await?,
            Stored::Item { list, at } => self.item(list, *at).await?,
            Stored::Secret(name) => self.secret(name),
        }))
    }

    /// Opens a stored value without masking texts, for callers that do not show it. A secret itself stays masked.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn whole(&self, value: &Stored) -> Result<Json, StoreError> {
        Ok(match value {
            Stored::Inline(segment) => segment.value.clone(),
            Stored::Blob(blob) => self.blob(&blob.id, blob.ty).await?.value,
            Stored::Item { list, at } => self.item(list, *at).await?.value,
            Stored::Secret(name) => Json::String(self.secret(name).log().into_owned()),
        })
    }

    async fn value(&self, value: Json) -> Result<Json, StoreError> {
        let Some(parts) = joined_parts(&value) else { return Ok(self.to_json(self.segment(value).await?)) };
        Ok(Json::String(self.hidden.masked(self.joined(parts, false).await?)))
    }

    async fn joined(&self, parts: &[Json], shows_secrets: bool) -> Result<String, StoreError> {
        let mut text = String::new();
        for part in parts {
            let part = self.segment(part.clone()).await?;
            let is_masked = part.ty == SegmentType::Secret && !shows_secrets;
            text.push_str(&if is_masked { part.log() } else { part.text() });
        }
        Ok(text)
    }

    async fn segment(&self, value: Json) -> Result<Segment, StoreError> {
        match stored_from_json(value.clone()) {
            Ok(Stored::Inline(segment)) => Ok(segment),
            Ok(Stored::Blob(blob)) => self.blob(&blob.id, blob.ty).await,
            Ok(Stored::Item { list, at }) => self.item(&list, at).await,
            Ok(Stored::Secret(name)) => Ok(self.secret(&name)),
            Err(error) => {
                tracing::error!(%error, "stored value cannot be read");
                Ok(Segment::none())
            }
        }
    }

    async fn item(&self, list: &BlobRef, at: u64) -> Result<Segment, StoreError> {
        let list = self.blob(&list.id, list.ty).await?;
        let value = usize::try_from(at).ok().and_then(|at| list.value.get(at)).cloned();
        Ok(item(list.ty, value.unwrap_or(Json::Null)))
    }

    async fn blob(&self, id: &BlobId, ty: SegmentType) -> Result<Segment, StoreError> {
        let text = self.store.blob(self.shard, id).await?;
        match text.as_deref().map(serde_json::from_str) {
            Some(Ok(value)) => Ok(Segment::new(ty, value)),
            Some(Err(_)) | None => {
                // While a run is being removed, its blobs go before its record.
                tracing::warn!(blob = %id, is_there = text.is_some(), "blob cannot be shown");
                Ok(Segment::none())
            }
        }
    }

    fn to_json(&self, segment: Segment) -> Json {
        if segment.ty == SegmentType::Secret {
            return Json::String(segment.log().into_owned());
        }
        self.hidden.hidden_below(segment.value, 0)
    }

    fn secret(&self, name: &str) -> Segment {
        let known = self.graph.environment_variable(name).map(|variable| variable.value.value.clone());
        Segment::new(SegmentType::Secret, known.unwrap_or_else(|| "".into()))
    }
}

/// The part of a selector after node and variable.
fn path_within(selector: Option<&Json>) -> Vec<String> {
    let parts = selector.and_then(Json::as_array).into_iter().flatten();
    parts.filter_map(Json::as_str).skip(2).map(String::from).collect()
}

fn joined_parts(value: &Json) -> Option<&Vec<Json>> {
    (value.get(MARK)?.as_str()? == "joined").then(|| value.get("parts")?.as_array())?
}

fn shown_text(segment: &Segment) -> String {
    if segment.ty == SegmentType::Secret {
        segment.log().into_owned()
    } else {
        segment.markdown().into_owned()
    }
}
