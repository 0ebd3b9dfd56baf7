//! Knowledge bases: a document is published completely, once, and only by the newest run.

use super::{Outcome, Subject, holds, same};
use tidemill_common::store::{Generation, Published, StoreError};
use tidemill_common::wire::knowledge::{
    DatasetRecord, DocumentRecord, IndexingRecord, IndexingState, SegmentRecord,
};

const KEPT: &str = "books, 书";

fn dataset(description: &str) -> DatasetRecord {
    DatasetRecord {
        id: KEPT.into(),
        name: "B".into(),
        description: description.into(),
        ..DatasetRecord::default()
    }
}

fn indexing(run: &str, done: u64) -> IndexingRecord {
    let state = IndexingState::Indexing;
    IndexingRecord {
        name: "a.md".into(),
        run: run.into(),
        state,
        done,
        total: 2,
        ..IndexingRecord::default()
    }
}

fn document(generation: &str) -> DocumentRecord {
    DocumentRecord {
        id: "d".into(),
        name: "a.md".into(),
        generation: generation.into(),
        segments: 2,
        ..DocumentRecord::default()
    }
}

fn generation(name: &str) -> Generation<'_> {
    Generation { dataset: KEPT, name }
}

impl Subject {
    /// Indexes document `d` without publishing it.
    async fn index(&self, run: &str, name: &str) -> Result<(), StoreError> {
        self.store.begin_indexing(KEPT, "d", &indexing(run, 0)).await?;
        let segment = |position: u64| SegmentRecord {
            id: format!("s{position}"),
            position,
            content: format!("{position} of {name}"),
            ..SegmentRecord::default()
        };
        self.store.put_segments(generation(name), &[segment(1), segment(2)]).await?;
        self.store.put_vectors(generation(name), &[(2, vec![0.25, -1.5e-30])]).await
    }

    async fn publish(&self, run: &str, name: &str) -> Result<Published, StoreError> {
        self.store.publish_document(KEPT, &document(name), run).await
    }
}

pub(super) async fn a_dataset_exists_until_it_is_dropped_with_all_its_data(s: Subject) -> Outcome {
    same("nothing at the beginning", s.store.datasets().await?, Vec::new())?;
    holds("it is new", s.store.put_dataset(&dataset("1"), true).await?)?;
    holds("it is not new again", !s.store.put_dataset(&dataset("2"), true).await?)?;
    same("it is unchanged", s.store.datasets().await?, vec![dataset("1")])?;
    holds("it is changed", s.store.put_dataset(&dataset("3"), false).await?)?;
    same("it is changed", s.store.datasets().await?, vec![dataset("3")])?;
    let inner = DatasetRecord { id: "inner:x".into(), ..dataset("") };
    holds("one of another feature", s.store.put_dataset(&inner, true).await?)?;
    same("no list has it", s.store.datasets().await?, vec![dataset("3")])?;
    same("its id finds it", s.store.dataset("inner:x").await?, Some(inner))?;
    same("no other id", s.store.dataset("inner:y").await?, None)?;
    s.index("r1", "g1").await?;
    same("published", s.publish("r1", "g1").await?, Published::Published)?;
    s.index("r2", "g2").await?;
    holds("it is dropped", s.store.drop_dataset(KEPT).await?)?;
    holds("it is dropped once", !s.store.drop_dataset(KEPT).await?)?;
    same("nothing is left", s.store.documents(KEPT).await?.documents, Vec::new())?;
    same("nothing is indexed", s.store.indexing(KEPT).await?, Vec::new())?;
    same("nothing can be read", s.store.segments(generation("g1"), &[1, 2]).await?, Vec::new())?;
    same("the running indexer comes too late", s.publish("r2", "g2").await?, Published::NotNewest)
}

pub(super) async fn a_document_is_published_completely_and_once(s: Subject) -> Outcome {
    same("nothing yet", s.store.knowledge_version(KEPT).await?, 0)?;
    s.index("r1", "g1").await?;
    same("it is listed", s.store.indexing(KEPT).await?, vec![("d".into(), indexing("r1", 0))])?;
    holds("its progress is stored", s.store.note_indexing(KEPT, "d", &indexing("r1", 1)).await?)?;
    same("it is listed", s.store.indexing(KEPT).await?, vec![("d".into(), indexing("r1", 1))])?;
    same("not to be searched", s.store.documents(KEPT).await?.documents, Vec::new())?;
    same("published", s.publish("r1", "g1").await?, Published::Published)?;
    same("once", s.publish("r1", "g1").await?, Published::Before)?;
    same("nothing to be done", s.store.indexing(KEPT).await?, Vec::new())?;
    let list = s.store.documents(KEPT).await?;
    same("there", (list.version, list.documents), (1, vec![document("g1")]))?;
    same("only the version", s.store.knowledge_version(KEPT).await?, 1)?;
    let segments = s.store.segments(generation("g1"), &[2, 1, 3]).await?;
    let texts: Vec<&str> = segments.iter().map(|it| it.content.as_str()).collect();
    same("in the order that was asked for", texts, vec!["2 of g1", "1 of g1"])?;
    let vectors = s.store.vectors(generation("g1"), &[1, 2]).await?;
    same("numbers stay as they are", vectors, vec![None, Some(vec![0.25, -1.5e-30])])
}

pub(super) async fn only_the_newest_run_publishes(s: Subject) -> Outcome {
    s.index("r1", "g1").await?;
    same("the first", s.publish("r1", "g1").await?, Published::Published)?;
    s.index("r2", "g2").await?;
    s.index("r3", "g3").await?;
    same("is not the newest", s.publish("r2", "g2").await?, Published::NotNewest)?;
    holds("its progress is refused", !s.store.note_indexing(KEPT, "d", &indexing("r2", 2)).await?)?;
    same("searches find the old one", s.store.documents(KEPT).await?.documents, vec![document("g1")])?;
    same("the newest", s.publish("r3", "g3").await?, Published::Published)?;
    let list = s.store.documents(KEPT).await?;
    same("it replaces the old one", (list.version, list.documents), (2, vec![document("g3")]))?;
    let old = s.store.segments(generation("g1"), &[1]).await?.len();
    same("the old one can still be read", old, 1)?;
    s.store.begin_indexing(KEPT, "d", &indexing("r4", 0)).await?;
    same("no segments were stored", s.publish("r4", "g4").await?, Published::Gone)
}

pub(super) async fn a_removed_document_is_not_published_by_a_running_indexer(s: Subject) -> Outcome {
    holds("not there", !s.store.drop_document(KEPT, "d").await?)?;
    s.index("r1", "g1").await?;
    holds("before it is published", s.store.drop_document(KEPT, "d").await?)?;
    same("too late", s.publish("r1", "g1").await?, Published::NotNewest)?;
    s.index("r2", "g2").await?;
    same("published", s.publish("r2", "g2").await?, Published::Published)?;
    holds("removed", s.store.drop_document(KEPT, "d").await?)?;
    let list = s.store.documents(KEPT).await?;
    same("the version has changed", (list.version, list.documents), (2, Vec::new()))
}

pub(super) async fn hits_are_added_up(s: Subject) -> Outcome {
    s.store.count_hits(KEPT, &[]).await?;
    s.store.count_hits(KEPT, &[("s1".into(), 1), ("s2".into(), 2)]).await?;
    s.store.count_hits(KEPT, &[("s1".into(), 3)]).await?;
    let mut hits: Vec<_> = s.store.hits(KEPT).await?.into_iter().collect();
    hits.sort();
    same("all of them", hits, vec![("s1".to_owned(), 4), ("s2".to_owned(), 2)])
}
