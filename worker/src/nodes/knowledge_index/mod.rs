//! The `knowledge-index` node: chunks become segments, get vectors if the dataset has them, and are published together.
//!
//! Intermediate results are stored at once under the name of this execution. So a later worker finds the segments and
//! vectors so far and continues after the last batch. If several runs index the same document, the one ordered last
//! wins, whichever ends first.

mod reuse;

use std::collections::HashSet;

use serde_json::json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::knowledge::{segments, vectors};
use tidemill_common::limits::{KNOWLEDGE_NAME_BYTES_MAX, KNOWLEDGE_SEGMENT_CHARS_MAX};
use tidemill_common::nodes::knowledge_index::{KnowledgeIndexData, Order, Work, failure};
use tidemill_common::nodes::llm::usage::{self, Timing};
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::store::{Generation, KnowledgeBases, Published, StoreError};
use tidemill_common::value::{Segment, Variables};
use tidemill_common::wire::knowledge::{
    DatasetRecord, DocumentRecord, IndexingRecord, IndexingState, ModelName, SegmentRecord, Technique,
    is_inner,
};

use super::llm::no_bill;
use crate::attempt::journal::{ChargeSource, EntryReport, EntryStart, Journal};
use crate::jobs::backoff::Backoff;
use crate::jobs::shared::now;
use crate::outside::knowledge::Datasets;
use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{Model, Providers};

/// Segments per embedding request and journal entry.
const BATCH: usize = 64;

/// The node's access to the worker.
pub(super) struct Means<'a> {
    pub(super) providers: &'a Providers,
    pub(super) knowledge: &'a Datasets,
    pub(super) journal: &'a Journal,
    pub(super) run: RunId,
    pub(super) execution: ExecutionId,
}

/// Runs the node. A failure is part of the result.
pub(super) async fn run(
    data: &KnowledgeIndexData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let order = match data.work(variables) {
        Work::Done(result) => return *result,
        Work::Keep(order) => *order,
    };
    let Some(store) = means.knowledge.store() else {
        return NodeResult::failed(failure("this worker has no store for knowledge bases"));
    };
    let inputs = order.inputs.clone();
    let (run, generation) = (means.run.to_string(), means.execution.to_string());
    let mut indexing =
        Indexing { order, store, means, run, generation, dataset: String::new(), spent: no_bill() };
    let outcome = indexing.run().await;
    let result = NodeResult {
        inputs,
        metadata: usage::metadata(&indexing.spent),
        usage: Some(indexing.spent.clone()),
        ..NodeResult::default()
    };
    match outcome {
        Ok(outputs) => NodeResult { outputs, ..result },
        Err(failure) => {
            tracing::warn!(node = %node.id, document = indexing.order.document, "a document is not indexed");
            // People see this text, and a server may have put what it was sent into it.
            let shown = indexing.means.journal.secrets().masked(failure.message.clone());
            indexing.note(IndexingState::Error, 0, &shown).await;
            NodeResult { failure: Some(failure), ..result }
        }
    }
}

struct Indexing<'a> {
    order: Order,
    store: &'a dyn KnowledgeBases,
    means: Means<'a>,
    run: String,
    generation: String,
    /// The dataset's id, once it is known.
    dataset: String,
    spent: Usage,
}

type Outputs = Vec<(String, Segment)>;

impl Indexing<'_> {
    async fn run(&mut self) -> Result<Outputs, NodeFailure> {
        let dataset = self.find_dataset().await?;
        self.dataset.clone_from(&dataset.id);
        let known = patiently(|| self.store.documents(&dataset.id)).await?.documents;
        let before = known.iter().find(|it| it.id == self.order.document);
        if let Some(done) = before.filter(|it| it.generation == self.generation) {
            // An earlier worker published it but did not report the result.
            return Ok(self.outputs(&dataset, done));
        }
        let made = self.segments(&dataset)?;
        self.begin().await?;
        if let Some(expected) = &self.order.based_on
            && before.is_none_or(|before| before.generation != *expected)
        {
            return Err(failure("the document was changed meanwhile: repeat the change"));
        }
        let of = Generation { dataset: &dataset.id, name: &self.generation };
        patiently(|| self.store.put_segments(of, &made)).await?;
        let embedding = match (dataset.indexing_technique, &dataset.embedding) {
            (Technique::HighQuality, Some(embedding)) => Some(embedding),
            (Technique::HighQuality, None) | (Technique::Economy, _) => None,
        };
        let dimension = match embedding {
            Some(embedding) => self.embed(embedding, &made, before).await?,
            None => 0,
        };
        let other = known.iter().find(|it| it.id != self.order.document && it.dimension != dimension);
        if let Some(other) = other {
            return Err(failure(format!(
                "the vectors of this document have {dimension} numbers, those of {:?} in dataset {} have {}: \
                 the model has changed; make another dataset, or add all of its documents again",
                other.name, dataset.id, other.dimension
            )));
        }
        let at = now().millis();
        let changed = before.filter(|_| self.order.based_on.is_some());
        let record = DocumentRecord {
            id: self.order.document.clone(),
            name: self.order.name.clone(),
            data_source_type: self.order.data_source_type.clone(),
            doc_metadata: match &self.order.doc_metadata {
                Some(metadata) => metadata.clone(),
                None => before.map(|before| before.doc_metadata.clone()).unwrap_or_default(),
            },
            // A change of segments leaves a disabled or archived document as it is.
            enabled: changed.is_none_or(|before| before.enabled),
            archived: changed.is_some_and(|before| before.archived),
            disabled_at: changed.and_then(|before| before.disabled_at),
            generation: self.generation.clone(),
            run: self.run.clone(),
            segments: made.len() as u64,
            word_count: made.iter().map(|it| it.word_count).sum(),
            bytes: made
                .iter()
                .map(|it| (it.content.len() + it.answer.as_ref().map_or(0, String::len)) as u64)
                .sum(),
            dimension,
            embedding: embedding.cloned(),
            created_at: before.map_or(at, |before| before.created_at),
            updated_at: at,
            notes: self.order.notes.clone(),
            ..DocumentRecord::default()
        };
        match patiently(|| self.store.publish_document(&dataset.id, &record, &self.run)).await? {
            Published::Published | Published::Before => Ok(self.outputs(&dataset, &record)),
            Published::NotNewest => Err(superseded()),
            Published::Gone => Err(failure("its segments have expired: add the document again")),
        }
    }

    async fn find_dataset(&self) -> Result<DatasetRecord, NodeFailure> {
        let wanted = &self.order.dataset;
        if let Some(inner) = self.inner(wanted).await? {
            return Ok(inner);
        }
        let all = patiently(|| self.store.datasets()).await?;
        let by = |test: &dyn Fn(&DatasetRecord) -> bool| all.iter().find(|it| test(it)).cloned();
        by(&|it| it.id == *wanted).or_else(|| by(&|it| it.name == *wanted)).ok_or_else(|| {
            failure(format!(
                "there is no knowledge base {wanted:?} here: make it with `tidemill knowledge create`"
            ))
        })
    }

    /// The dataset with this id if it belongs to another feature, which no list has.
    async fn inner(&self, id: &str) -> Result<Option<DatasetRecord>, NodeFailure> {
        if is_inner(id) { patiently(|| self.store.dataset(id)).await } else { Ok(None) }
    }

    fn segments(&self, dataset: &DatasetRecord) -> Result<Vec<SegmentRecord>, NodeFailure> {
        for (what, text) in [("id", &self.order.document), ("name", &self.order.name)] {
            if text.len() > KNOWLEDGE_NAME_BYTES_MAX {
                let max = KNOWLEDGE_NAME_BYTES_MAX;
                return Err(failure(format!("the {what} of the document has more than {max} bytes")));
            }
        }
        let long =
            self.order.pieces.iter().find(|it| it.content.chars().count() > KNOWLEDGE_SEGMENT_CHARS_MAX);
        match long {
            Some(_) => Err(failure(format!(
                "a chunk has more than {KNOWLEDGE_SEGMENT_CHARS_MAX} characters, more than models take: split it"
            ))),
            None => Ok(segments(&dataset.id, &self.order.document, &self.order.pieces)),
        }
    }

    /// After this no run that was ordered earlier can publish this document.
    async fn begin(&self) -> Result<(), NodeFailure> {
        let record = self.record(IndexingState::Indexing, 0, "");
        if self.order.noted_run.as_ref() == Some(&self.run) {
            return self.check(&record).await;
        }
        // A run of a pipeline, or a retry in another run: its order is set once, when it gets here.
        match self.means.journal.begin("begin").await {
            EntryStart::Known(_) => self.check(&record).await,
            EntryStart::Try(the_try) => {
                patiently(|| self.store.begin_indexing(&self.dataset, &self.order.document, &record)).await?;
                self.means.journal.record("begin", the_try.number, &json!({}), EntryReport::default()).await;
                Ok(())
            }
        }
    }

    async fn check(&self, record: &IndexingRecord) -> Result<(), NodeFailure> {
        let noted =
            patiently(|| self.store.note_indexing(&self.dataset, &self.order.document, record)).await?;
        if noted { Ok(()) } else { Err(superseded()) }
    }

    /// Computes and stores the vectors of segments. Returns the length of a vector.
    async fn embed(
        &mut self,
        embedding: &ModelName,
        made: &[SegmentRecord],
        before: Option<&DocumentRecord>,
    ) -> Result<u32, NodeFailure> {
        let (providers, run) = (self.means.providers, Some(self.means.run));
        let model = providers
            .model_for((&embedding.provider, &embedding.model), ModelKind::TextEmbedding, run)
            .await?;
        let taken = match before.filter(|_| self.order.based_on.is_some()) {
            Some(before) => reuse::vectors(self.store, &self.dataset, before, embedding, made).await?,
            None => Vec::new(),
        };
        let of = Generation { dataset: &self.dataset, name: &self.generation };
        patiently(|| self.store.put_vectors(of, &taken)).await?;
        let mut dimension = taken.first().map(|(_, vector)| vector.len());
        let known: HashSet<u64> = taken.iter().map(|(at, _)| *at).collect();
        let is_new = |segment: &&SegmentRecord| !known.contains(&segment.position);
        let new: Vec<SegmentRecord> = made.iter().filter(is_new).cloned().collect();
        for (number, batch) in new.chunks(BATCH).enumerate() {
            let step = format!("embed:{number}");
            let (of_batch, spent) = match self.means.journal.begin(&step).await {
                EntryStart::Known(known) => {
                    let usage = known.get("usage").and_then(|it| it.as_object().cloned()).unwrap_or_default();
                    let dimension = known.get("dimension").and_then(serde_json::Value::as_u64).unwrap_or(0);
                    (usize::try_from(dimension).unwrap_or(0), Usage::from_record(usage))
                }
                EntryStart::Try(the_try) => {
                    let (dimension, spent) = self.embed_batch(&model, &step, batch).await?;
                    let who = ChargeSource::Model(embedding.provider.clone(), embedding.model.clone());
                    let charge = (spent.clone(), who);
                    let report = EntryReport { events: Vec::new(), charge: Some(charge) };
                    let result = json!({"usage": spent.record, "dimension": dimension});
                    self.means.journal.record(&step, the_try.number, &result, report).await;
                    (dimension, spent)
                }
            };
            self.spent = usage::sum(&self.spent, &spent);
            if of_batch == 0 || dimension.is_some_and(|known| known != of_batch) {
                return Err(failure(format!("{} gave vectors of different sizes, or none", embedding.model)));
            }
            dimension = Some(of_batch);
            let done = (number * BATCH + batch.len()) as u64;
            self.check(&self.record(IndexingState::Indexing, done, "")).await?;
        }
        u32::try_from(dimension.unwrap_or(0)).map_err(|_| failure("the vectors are too long"))
    }

    async fn embed_batch(
        &self,
        model: &Model,
        step: &str,
        batch: &[SegmentRecord],
    ) -> Result<(usize, Usage), NodeFailure> {
        let texts: Vec<String> = batch.iter().map(|segment| segment.content.clone()).collect();
        let (made, tokens) = model.for_job(self.means.journal, step).embed(&texts).await?;
        let dimension = made.first().map_or(0, Vec::len);
        if made.len() != texts.len() || made.iter().any(|vector| vector.len() != dimension) {
            return Ok((0, no_bill()));
        }
        let made: Vec<(u64, Vec<f32>)> = batch
            .iter()
            .zip(made)
            .map(|(segment, vector)| (segment.position, vectors::unit(vector)))
            .collect();
        let of = Generation { dataset: &self.dataset, name: &self.generation };
        patiently(|| self.store.put_vectors(of, &made)).await?;
        Ok((dimension, usage::bill(tokens, model.pricing.as_ref(), Timing::default())))
    }

    fn record(&self, state: IndexingState, done: u64, error: &str) -> IndexingRecord {
        IndexingRecord {
            name: self.order.name.clone(),
            run: self.run.clone(),
            state,
            done,
            total: self.order.pieces.len() as u64,
            error: error.into(),
            at: now().millis(),
            notes: self.order.notes.clone(),
        }
    }

    /// Notes the progress, if the store answers.
    async fn note(&self, state: IndexingState, done: u64, error: &str) {
        let record = self.record(state, done, error);
        if let Err(error) = self.store.note_indexing(&self.dataset, &self.order.document, &record).await {
            tracing::debug!(%error, "the progress of a document cannot be noted");
        }
    }

    /// The outputs, as in Dify.
    fn outputs(&self, dataset: &DatasetRecord, document: &DocumentRecord) -> Outputs {
        let values = [
            ("dataset_id", json!(dataset.id)),
            ("dataset_name", json!(dataset.name)),
            ("batch", json!(self.order.batch)),
            ("document_id", json!(document.id)),
            ("document_name", json!(document.name)),
            ("created_at", json!(document.created_at / 1000)),
            ("display_status", json!("completed")),
        ];
        values.into_iter().map(|(name, value)| (name.to_owned(), Segment::infer(value))).collect()
    }
}

fn superseded() -> NodeFailure {
    failure(
        "another version of this document was added meanwhile, or it was removed; this version is discarded",
    )
}

/// Repeats a request until the store answers.
async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
    ask: impl Fn() -> F,
) -> Result<T, NodeFailure> {
    let mut backoff = Backoff::default();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "the store of knowledge bases does not answer");
                backoff.wait().await;
            }
            Err(error) => return Err(failure(error.to_string())),
        }
    }
}
