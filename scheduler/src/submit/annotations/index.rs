//! The index of the questions of an app's annotations: an embedded dataset. Runs index it, as any document of a knowledge
//! base: all questions together when the annotation reply is switched on, and one question when an annotation is added.

use serde_json::{Value as Json, json};
use tidemill_common::annotations::{self, dataset_of};
use tidemill_common::ids::RunId;
use tidemill_common::limits::KNOWLEDGE_SEGMENT_CHARS_MAX;
use tidemill_common::store::{Page, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{DatasetRecord, IndexingRecord, IndexingState, ModelName};

use super::PURPOSE;
use crate::submit::inner::FIELD;
use crate::submit::{Submission, SubmitError, Submitter, SystemValues, WorkflowSource};

/// The workflow that indexes a document of a knowledge base.
const INDEXING: &str = include_str!("../../api/indexing/segments.yml");
/// Annotations that are read at once.
const PAGE: usize = 256;
/// Most questions in one document.
const QUESTIONS_MAX: usize = 512;
/// Most bytes of questions in one document, unless it has only one.
const BYTES_MAX: usize = 512 * 1024;
/// Begins the names of the documents with the questions that there were when the index was made.
const ALL: &str = "all:";
/// Time after which an index whose runs have failed is made again, in ms.
const AGAIN_MS: i64 = 60_000;
/// Indexed when there are no annotations yet, so that the model is tried. No annotation matches it.
const NO_QUESTION: &str = "annotation reply";

impl Submitter {
    /// True when the index exists, has vectors of this model, and its questions are searchable or will be soon.
    pub(super) async fn has_index(&self, app: &str, embedding: &ModelName) -> Result<bool, StoreError> {
        Ok(matches!(self.index_state(app, embedding).await?, IndexState::Usable))
    }

    async fn index_state(&self, app: &str, embedding: &ModelName) -> Result<IndexState, StoreError> {
        let (knowledge, dataset) = (self.store.knowledge(), dataset_of(app));
        let Some(record) = knowledge.dataset(&dataset).await? else { return Ok(IndexState::Missing) };
        if record.embedding.as_ref() != Some(embedding) {
            return Ok(IndexState::Broken(Box::new(record)));
        }
        let (version, indexing, now) = tokio::try_join!(
            knowledge.knowledge_version(&dataset),
            knowledge.indexing(&dataset),
            self.clock.now(&*self.store),
        )?;
        let is_broken = is_broken(version, &indexing, record.created_at, now.millis());
        Ok(if is_broken { IndexState::Broken(Box::new(record)) } else { IndexState::Usable })
    }

    /// Makes the index of all questions again. Returns the runs that do it.
    ///
    /// # Errors
    /// A run cannot be created.
    pub async fn index_annotations(
        &self,
        app: &str,
        embedding: &ModelName,
        key: Option<String>,
    ) -> Result<Vec<RunId>, SubmitError> {
        self.drop_annotation_index(app).await?;
        self.make_index(app, (embedding, 0), key).await
    }

    /// Makes the index if there is none, or one with vectors of another model, or one whose runs have failed. Of several
    /// requests at the same time one makes it.
    pub(super) async fn make_missing_index(
        &self,
        app: &str,
        embedding: &ModelName,
        key: Option<String>,
    ) -> Result<(), SubmitError> {
        let revision = match self.index_state(app, embedding).await? {
            IndexState::Usable => return Ok(()),
            IndexState::Missing => 0,
            IndexState::Broken(mut record) => {
                record.revision += 1;
                let is_of_model = record.embedding.as_ref() == Some(embedding);
                if is_of_model {
                    record.created_at = self.store.time().await?.millis();
                }
                // The one whose change is stored makes the index again. The revision goes on with the new dataset, so
                // that a request with the old record cannot remove that.
                if !self.store.knowledge().replace_dataset(&record).await? {
                    return Ok(());
                }
                if is_of_model {
                    return self.fill_index(app, key).await.map(|_| ());
                }
                self.drop_annotation_index(app).await?;
                record.revision + 1
            }
        };
        self.make_index(app, (embedding, revision), key).await.map(|_| ())
    }

    async fn make_index(
        &self,
        app: &str,
        (embedding, revision): (&ModelName, u64),
        key: Option<String>,
    ) -> Result<Vec<RunId>, SubmitError> {
        let created_at = self.store.time().await?.millis();
        let dataset = DatasetRecord { revision, ..annotations::dataset(app, embedding.clone(), created_at) };
        if !self.store.knowledge().put_dataset(&dataset, true).await? {
            return Ok(Vec::new());
        }
        self.fill_index(app, key).await
    }

    /// Indexes all questions in the dataset that exists.
    async fn fill_index(&self, app: &str, key: Option<String>) -> Result<Vec<RunId>, SubmitError> {
        // Only now, so that an annotation that is added meanwhile is among them, or finds the dataset.
        let questions = documents(self.questions(app).await?);
        let mut runs = Vec::with_capacity(questions.len());
        for (number, questions) in questions.into_iter().enumerate() {
            // After a failure, which is noted, a later question makes the index again.
            runs.push(self.index_document(app, &format!("{ALL}{number}"), questions, key.clone()).await?);
        }
        Ok(runs)
    }

    /// Adds the question of one annotation to the index, or makes the whole index if there is none.
    ///
    /// # Errors
    /// A run cannot be created.
    pub async fn index_annotation(
        &self,
        app: &str,
        (id, question): (&str, &str),
        embedding: &ModelName,
        key: Option<String>,
    ) -> Result<(), SubmitError> {
        match self.index_state(app, embedding).await? {
            IndexState::Missing | IndexState::Broken(_) => {
                self.make_missing_index(app, embedding, key).await?;
            }
            IndexState::Usable if is_indexed(question) => {
                self.index_document(app, id, vec![question.to_owned()], key).await?;
            }
            IndexState::Usable => {}
        }
        Ok(())
    }

    /// Removes the question of one annotation from the index, if it was added alone. Among others it stays, and matches no
    /// annotation.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn forget_annotation(&self, app: &str, id: &str) -> Result<(), StoreError> {
        self.store.knowledge().drop_document(&dataset_of(app), id).await.map(|_| ())
    }

    /// Removes the index.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn drop_annotation_index(&self, app: &str) -> Result<(), StoreError> {
        self.store.knowledge().drop_dataset(&dataset_of(app)).await.map(|_| ())
    }

    async fn questions(&self, app: &str) -> Result<Vec<String>, StoreError> {
        let mut questions = Vec::new();
        let mut page = Page { from: 0, count: PAGE };
        loop {
            let some = self.store.annotations().annotation_page(app, page).await?;
            let is_last = some.is_empty();
            questions.extend(some.into_iter().map(|it| it.record.question).filter(|it| is_indexed(it)));
            if is_last {
                return Ok(questions);
            }
            page.from += PAGE;
        }
    }

    async fn index_document(
        &self,
        app: &str,
        document: &str,
        questions: Vec<String>,
        key: Option<String>,
    ) -> Result<RunId, SubmitError> {
        let dataset = dataset_of(app);
        let run = RunId::generate(self.some_shard().await?);
        let record = IndexingRecord {
            name: document.to_owned(),
            run: run.to_string(),
            total: questions.len() as u64,
            at: self.store.time().await?.millis(),
            ..IndexingRecord::default()
        };
        let segments: Vec<Json> = questions.into_iter().map(|text| json!({ "content": text })).collect();
        let about = json!({"name": document, "data_source_type": PURPOSE, "noted_run": run.to_string()});
        let content = json!({"segments": segments, "document": about});
        let sys = [
            ("dataset_id", dataset.as_str()),
            ("document_id", document),
            ("batch", record.run.as_str()),
            ("invoke_from", "service-api"),
        ];
        let sys = sys.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let submission = Submission {
            run: Some(run),
            key,
            host: vec![(FIELD, PURPOSE.to_owned())],
            ..Submission::of(
                WorkflowSource::Text(INDEXING.into()),
                SystemValues::Exactly(sys),
                JsonMap::from_iter([("document".to_owned(), content)]),
            )
        };
        // Before the run is created, so that the run never finds an older record.
        self.store.knowledge().begin_indexing(&dataset, document, &record).await?;
        if let Err(error) = self.submit(submission).await {
            let failed = IndexingRecord {
                state: IndexingState::Error,
                error: format!("it could not be submitted: {error}"),
                ..record
            };
            self.store.knowledge().note_indexing(&dataset, document, &failed).await?;
            return Err(error);
        }
        Ok(run)
    }
}

/// The index of an app's questions, for a model.
enum IndexState {
    Usable,
    Missing,
    /// It has vectors of another model, or the runs that should have filled it have failed.
    Broken(Box<DatasetRecord>),
}

/// True when the questions of an index neither are searchable nor will be: the runs that index them have failed, or were
/// never created, and this is some time ago, so that a model that fails is not asked with each question. `version` is that
/// of the searchable documents.
fn is_broken(version: u64, indexing: &[(String, IndexingRecord)], created_at: i64, now: i64) -> bool {
    let is_old = |at: i64| now - at >= AGAIN_MS;
    let mut of_all = indexing.iter().filter(|(document, _)| document.starts_with(ALL)).peekable();
    let were_created = version > 0 || of_all.peek().is_some();
    let has_failed = of_all.any(|(_, record)| record.state == IndexingState::Error && is_old(record.at));
    is_old(created_at) && (has_failed || !were_created)
}

/// False for texts that a segment cannot hold; they match only exactly.
fn is_indexed(question: &str) -> bool {
    !question.trim().is_empty() && question.chars().count() <= KNOWLEDGE_SEGMENT_CHARS_MAX
}

/// Divides questions into documents. There is always one, so that the model is tried.
fn documents(mut questions: Vec<String>) -> Vec<Vec<String>> {
    questions.sort();
    questions.dedup();
    if questions.is_empty() {
        questions.push(NO_QUESTION.to_owned());
    }
    let mut documents: Vec<Vec<String>> = Vec::new();
    let mut bytes = 0;
    for question in questions {
        bytes += question.len();
        match documents.last_mut() {
            Some(last) if last.len() < QUESTIONS_MAX && bytes <= BYTES_MAX => last.push(question),
            Some(_) | None => {
                bytes = question.len();
                documents.push(vec![question]);
            }
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_divided_into_documents_each_once() {
        let sizes =
            |questions: Vec<String>| -> Vec<usize> { documents(questions).iter().map(Vec::len).collect() };
        let numbered = |count: usize| (0..count).map(|number| format!("question {number:04}")).collect();
        assert_eq!(sizes(numbered(1)), [1]);
        assert_eq!(sizes(numbered(QUESTIONS_MAX)), [QUESTIONS_MAX]);
        assert_eq!(sizes(numbered(QUESTIONS_MAX + 1)), [QUESTIONS_MAX, 1]);
        assert_eq!(sizes(vec!["same".into(), "other".into(), "same".into()]), [2]);
        let large = |letter: &str| letter.repeat(BYTES_MAX - 1);
        assert_eq!(sizes(vec![large("a"), large("b"), "c".into()]), [1, 2]);
        assert_eq!(documents(Vec::new()), [[NO_QUESTION]]);
    }

    #[test]
    fn an_index_whose_runs_have_failed_or_never_existed_is_broken_after_a_minute() {
        let record = |document: &str, state: IndexingState, at: i64| {
            (document.to_owned(), IndexingRecord { state, at, ..IndexingRecord::default() })
        };
        let (fails, goes_on) = (IndexingState::Error, IndexingState::Indexing);
        let (long_ago, lately, now) = (0, AGAIN_MS, AGAIN_MS + 1);
        for (version, indexing, created_at, expected) in [
            (0, vec![], lately, false),
            (0, vec![], long_ago, true),
            (1, vec![], long_ago, false),
            (0, vec![record("all:0", goes_on, long_ago)], long_ago, false),
            (0, vec![record("all:0", fails, lately)], long_ago, false),
            (0, vec![record("all:0", fails, long_ago)], long_ago, true),
            (0, vec![record("all:0", fails, long_ago)], lately, false),
            (3, vec![record("all:1", fails, long_ago)], long_ago, true),
            (1, vec![record("an annotation", fails, long_ago)], long_ago, false),
            (0, vec![record("an annotation", goes_on, long_ago)], long_ago, true),
        ] {
            assert_eq!(is_broken(version, &indexing, created_at, now), expected, "{version} {indexing:?}");
        }
    }

    #[test]
    fn texts_that_a_segment_cannot_hold_are_not_indexed() {
        assert!(is_indexed("ä".repeat(KNOWLEDGE_SEGMENT_CHARS_MAX).as_str()));
        for text in ["", " \n", "ä".repeat(KNOWLEDGE_SEGMENT_CHARS_MAX + 1).as_str()] {
            assert!(!is_indexed(text));
        }
    }
}
