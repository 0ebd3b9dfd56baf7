//! The documents of a dataset with their versions, in the order of their making.

use tidemill_common::wire::knowledge::{
    DatasetRecord, DocumentNotes, DocumentRecord, IndexingRecord, IndexingState,
};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::knowledge::shown::versions;

/// A document.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) id: String,
    /// Its place among the documents of its dataset, from 1.
    pub(super) position: u64,
    /// The version that searches find.
    pub(super) published: Option<DocumentRecord>,
    /// The newer version that is not searchable yet.
    pub(super) indexing: Option<IndexingRecord>,
}

/// All documents, the oldest first.
pub(super) async fn all(state: &ApiState, dataset: &DatasetRecord) -> Result<Vec<View>, ApiError> {
    let knowledge = state.store.knowledge();
    // In this order a document that is published in between is in both lists, and not in neither.
    let indexing = knowledge.indexing(&dataset.id).await?;
    let published = knowledge.documents(&dataset.id).await?.documents;
    let all = versions(state, published, indexing).await?;
    let mut all: Vec<View> = all
        .into_iter()
        .map(|(id, (published, indexing))| View { id, position: 0, published, indexing })
        .collect();
    all.sort_by(|a, b| (a.created_at(), &a.id).cmp(&(b.created_at(), &b.id)));
    all.iter_mut().zip(1..).for_each(|(view, position)| view.position = position);
    Ok(all)
}

/// A document by its id.
///
/// # Errors
/// 404 with this text.
pub(super) async fn one(
    state: &ApiState,
    dataset: &DatasetRecord,
    id: &str,
    missing: &str,
) -> Result<View, ApiError> {
    let all = all(state, dataset).await?;
    all.into_iter().find(|view| view.id == id).ok_or_else(|| ApiError::not_found(missing))
}

impl View {
    /// Unix milliseconds.
    pub(super) fn created_at(&self) -> i64 {
        let since = self.indexing.as_ref().map_or(0, |it| it.at);
        self.published.as_ref().map_or(since, |it| it.created_at)
    }

    /// The newer whole version. A change of segments is none: the document stays available meanwhile, as on Dify.
    pub(super) fn newer(&self) -> Option<&IndexingRecord> {
        let batch = self.published.as_ref().map_or("", |it| it.notes.batch.as_str());
        self.indexing.as_ref().filter(|it| batch.is_empty() || it.notes.batch != batch)
    }

    /// The name of its newest version.
    pub(super) fn name(&self) -> &str {
        let published = self.published.as_ref().map_or("", |it| it.name.as_str());
        self.newer().map_or(published, |it| it.name.as_str())
    }

    /// The notes of its newest version.
    pub(super) fn notes(&self) -> DocumentNotes {
        let published = self.published.as_ref().map(|it| &it.notes);
        self.newer().map(|it| &it.notes).or(published).cloned().unwrap_or_default()
    }

    /// The batch of its newest version: a run, by which clients ask for the status.
    pub(super) fn batch(&self) -> String {
        let notes = self.notes();
        if !notes.batch.is_empty() {
            return notes.batch;
        }
        let published = self.published.as_ref().map_or("", |it| it.run.as_str());
        self.newer().map_or(published, |it| it.run.as_str()).to_owned()
    }

    /// Dify's status of the newest version.
    pub(super) fn indexing_status(&self) -> &'static str {
        self.newer().map_or("completed", |it| it.state.name())
    }

    /// Dify's status for people.
    pub(super) fn display_status(&self) -> &'static str {
        match (self.newer(), &self.published) {
            (Some(it), _) if it.state == IndexingState::Waiting => "queuing",
            (Some(it), _) if it.state == IndexingState::Indexing => "indexing",
            (Some(_), _) => "error",
            (None, Some(it)) if it.archived => "archived",
            (None, Some(it)) if !it.enabled => "disabled",
            (None, _) => "available",
        }
    }

    /// Why the newest version failed.
    pub(super) fn error(&self) -> Option<&str> {
        let failed = self.newer().filter(|it| it.state == IndexingState::Error);
        failed.map(|it| it.error.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_difys_status() {
        let published = |enabled, archived| DocumentRecord { enabled, archived, ..DocumentRecord::default() };
        let indexing = |state| IndexingRecord { state, ..IndexingRecord::default() };
        for (known, newer, expected) in [
            (Some(published(true, false)), None, ("completed", "available")),
            (Some(published(false, false)), None, ("completed", "disabled")),
            (Some(published(false, true)), None, ("completed", "archived")),
            (None, Some(indexing(IndexingState::Waiting)), ("waiting", "queuing")),
            (Some(published(true, false)), Some(indexing(IndexingState::Indexing)), ("indexing", "indexing")),
            (Some(published(true, false)), Some(indexing(IndexingState::Error)), ("error", "error")),
        ] {
            let view = View { id: "d".into(), position: 1, published: known, indexing: newer };
            assert_eq!((view.indexing_status(), view.display_status()), expected, "{view:?}");
        }
    }
    #[test]
    fn a_change_of_segments_leaves_a_document_available() {
        let notes = DocumentNotes { batch: "b".into(), ..DocumentNotes::default() };
        let published = DocumentRecord { notes: notes.clone(), ..DocumentRecord::default() };
        let state = IndexingState::Waiting;
        let indexing = IndexingRecord { state, notes, ..IndexingRecord::default() };
        let mut view = View {
            id: "d".into(),
            position: 1,
            published: Some(published),
            indexing: Some(indexing.clone()),
        };
        assert_eq!((view.indexing_status(), view.display_status()), ("completed", "available"));
        let notes = DocumentNotes { batch: "c".into(), ..DocumentNotes::default() };
        view.indexing = Some(IndexingRecord { notes, ..indexing });
        assert_eq!((view.indexing_status(), view.display_status()), ("waiting", "queuing"));
    }
}
