//! The index of the questions of an app's annotations: an embedded dataset. Runs index it, as any document of a knowledge
//! base: all questions together when the annotation reply is switched on, and one question when an annotation is added.

use serde_json::{Value as Json, json};
use tidemill_common::annotations::{self, dataset_of};
use tidemill_common::ids::RunId;
use tidemill_common::limits::KNOWLEDGE_SEGMENT_CHARS_MAX;
use tidemill_common::store::{Page, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{IndexingRecord, IndexingState, ModelName};

use super::PURPOSE;
use crate::submit::inner::FIELD;
use crate::submit::{Submission, SubmitError, Submitter, SystemValues, WorkflowSource};

/// The workflow that indexes a document of a knowledge base.
const INDEXING: &str = include_str!("../../api/native/knowledge/indexing.yml");
/// Annotations that are read at once.
const PAGE: usize = 256;
/// Most questions in one document.
const QUESTIONS_MAX: usize = 512;
/// Most bytes of questions in one document, unless it has only one.
const BYTES_MAX: usize = 512 * 1024;
/// Indexed when there are no annotations yet, so that the model is tried. No annotation matches it.
const NO_QUESTION: &str = "annotation reply";

impl Submitter {
    /// True when the index exists and has vectors of this model.
    pub(super) async fn has_index(&self, app: &str, embedding: &ModelName) -> Result<bool, StoreError> {
        let record = self.store.knowledge().dataset(&dataset_of(app)).await?;
        Ok(record.is_some_and(|record| record.embedding.as_ref() == Some(embedding)))
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
        self.make_index(app, embedding, key).await
    }

    /// Makes the index if there is none, or one with vectors of another model. Of several requests at the same time one
    /// makes it.
    pub(super) async fn make_missing_index(
        &self,
        app: &str,
        embedding: &ModelName,
        key: Option<String>,
    ) -> Result<(), SubmitError> {
        if self.store.knowledge().dataset(&dataset_of(app)).await?.is_some() {
            self.drop_annotation_index(app).await?;
        }
        self.make_index(app, embedding, key).await.map(|_| ())
    }

    async fn make_index(
        &self,
        app: &str,
        embedding: &ModelName,
        key: Option<String>,
    ) -> Result<Vec<RunId>, SubmitError> {
        let created_at = self.store.time().await?.millis();
        let dataset = annotations::dataset(app, embedding.clone(), created_at);
        if !self.store.knowledge().put_dataset(&dataset, true).await? {
            return Ok(Vec::new());
        }
        // Only now, so that an annotation that is added meanwhile is among them, or finds the dataset.
        let questions = documents(self.questions(app).await?);
        let mut runs = Vec::with_capacity(questions.len());
        for (number, questions) in questions.into_iter().enumerate() {
            match self.index_document(app, &format!("all:{number}"), questions, key.clone()).await {
                Ok(run) => runs.push(run),
                Err(error) => {
                    // Without the dataset the next question makes the index again.
                    self.drop_annotation_index(app).await?;
                    return Err(error);
                }
            }
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
        if !self.has_index(app, embedding).await? {
            self.make_missing_index(app, embedding, key).await?;
        } else if is_indexed(question) {
            self.index_document(app, id, vec![question.to_owned()], key).await?;
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
    fn texts_that_a_segment_cannot_hold_are_not_indexed() {
        assert!(is_indexed("ä".repeat(KNOWLEDGE_SEGMENT_CHARS_MAX).as_str()));
        for text in ["", " \n", "ä".repeat(KNOWLEDGE_SEGMENT_CHARS_MAX + 1).as_str()] {
            assert!(!is_indexed(text));
        }
    }
}
