//! Annotations: found by the key of their question, listed newest first, and removed with their uses.

use super::fixtures::run_id;
use super::{Outcome, Subject, holds, same};
use tidemill_common::annotations::{AnnotationRecord, HitRecord, JobRecord};
use tidemill_common::store::{Annotation, AnnotationAdded, App, Page, StoreError, TriggerChanges};

const APP: &str = "app, 应用";

fn record(question: &str, at: i64) -> AnnotationRecord {
    AnnotationRecord {
        question: question.into(),
        answer: format!("answer to {question}"),
        key: format!("key of {question}"),
        created_at: at,
        updated_at: at,
    }
}

fn hit(message: &str) -> HitRecord {
    HitRecord { message_id: message.into(), score: 0.5, ..HitRecord::default() }
}

fn ids(annotations: &[Annotation]) -> Vec<&str> {
    annotations.iter().map(|it| it.id.as_str()).collect()
}

impl Subject {
    async fn annotate(&self, id: &str, question: &str, at: i64) -> Result<AnnotationAdded, StoreError> {
        self.store.add_annotation(APP, id, &record(question, at), 3).await
    }

    /// The ids of the annotations that are found for these questions.
    async fn found(&self, questions: &[&str]) -> Result<Vec<Option<String>>, StoreError> {
        let keys: Vec<String> = questions.iter().map(|question| format!("key of {question}")).collect();
        let (found, _) = self.store.annotations_with(APP, &keys).await?;
        Ok(found.into_iter().map(|it| it.map(|it| it.id)).collect())
    }
}

pub(super) async fn annotations_are_listed_newest_first_up_to_their_most(s: Subject) -> Outcome {
    same("none", s.store.annotation_count(APP).await?, 0)?;
    for (id, question, at) in [("a", "one", 10), ("c", "two", 20), ("b", "three", 20)] {
        same(id, s.annotate(id, question, at).await?, AnnotationAdded::Added)?;
    }
    same("a fourth one", s.annotate("d", "four", 30).await?, AnnotationAdded::Full)?;
    same("again", s.annotate("a", "one", 10).await?, AnnotationAdded::Added)?;
    same("the number", s.store.annotation_count(APP).await?, 3)?;
    same("of another app", s.store.annotation_count("other").await?, 0)?;
    let all = s.store.annotation_page(APP, Page { from: 0, count: 10 }).await?;
    same("the order", ids(&all), vec!["c", "b", "a"])?;
    same("the content", all.last().map(|it| it.record.clone()), Some(record("one", 10)))?;
    same("by its id", s.store.annotation(APP, "a").await?.map(|it| it.record), Some(record("one", 10)))?;
    same("an unknown one", s.store.annotation(APP, "d").await?, None)?;
    let page = s.store.annotation_page(APP, Page { from: 1, count: 1 }).await?;
    same("a page", ids(&page), vec!["b"])?;
    same("an empty page", s.store.annotation_page(APP, Page { from: 0, count: 0 }).await?, Vec::new())?;
    same(
        "after the end",
        s.store.annotation_page(APP, Page { from: 9, count: usize::MAX }).await?,
        Vec::new(),
    )
}

pub(super) async fn an_annotation_is_found_by_the_key_of_its_present_question(s: Subject) -> Outcome {
    s.annotate("a", "one", 1).await?;
    s.annotate("b", "one", 2).await?;
    let some = |id: &str| Some(id.to_owned());
    same("the newest", s.found(&["one", "two"]).await?, vec![some("b"), None])?;
    same("no keys", s.store.annotations_with(APP, &[]).await?, (Vec::new(), 2))?;
    let changed = s.store.change_annotation(APP, "b", &record("two", 2)).await?;
    same("changed", changed.map(|it| it.record), Some(record("two", 2)))?;
    same("by the new question", s.found(&["one", "two"]).await?, vec![some("a"), some("b")])?;
    let other = AnnotationRecord { answer: "another".into(), ..record("two", 2) };
    let changed = s.store.change_annotation(APP, "b", &other).await?;
    same("another answer", changed.map(|it| it.record.answer), Some("another".into()))?;
    same("the same question", s.found(&["two"]).await?, vec![some("b")])?;
    same("an unknown one", s.store.change_annotation(APP, "x", &other).await?, None)?;
    holds("it is dropped", s.store.drop_annotation(APP, "b").await?)?;
    holds("it is dropped once", !s.store.drop_annotation(APP, "b").await?)?;
    same("only the other one", s.found(&["one", "two"]).await?, vec![some("a"), None])
}

pub(super) async fn uses_of_an_annotation_are_counted_and_go_with_it(s: Subject) -> Outcome {
    s.annotate("a", "one", 1).await?;
    let all = Page { from: 0, count: 10 };
    for message in ["m1", "m2", "m3"] {
        holds(message, s.store.hit_annotation(APP, "a", &hit(message), 2).await?)?;
    }
    same("the count", s.store.annotation_page(APP, all).await?.first().map(|it| it.hit_count), Some(3))?;
    same("the newest ones", s.store.annotation_hits(APP, "a", all).await?, vec![hit("m3"), hit("m2")])?;
    let second = Page { from: 1, count: 1 };
    same("a page", s.store.annotation_hits(APP, "a", second).await?, vec![hit("m2")])?;
    s.store.drop_annotation(APP, "a").await?;
    same("no uses are left", s.store.annotation_hits(APP, "a", all).await?, Vec::new())?;
    holds("it cannot be used", !s.store.hit_annotation(APP, "a", &hit("m4"), 2).await?)?;
    s.annotate("a", "one", 1).await?;
    same("the count", s.store.annotation_page(APP, all).await?.first().map(|it| it.hit_count), Some(0))
}

pub(super) async fn uses_by_removed_messages_are_taken_off_and_stay_counted(s: Subject) -> Outcome {
    let all = Page { from: 0, count: 10 };
    let message = |n: u8| run_id(n).to_string();
    for (id, question) in [("a", "one"), ("b", "two")] {
        s.annotate(id, question, 1).await?;
    }
    for (id, n) in [("a", 1), ("b", 2), ("a", 3), ("a", 4)] {
        holds(id, s.store.hit_annotation(APP, id, &hit(&message(n)), 3).await?)?;
    }
    let removed = [1, 2, 4, 9].map(run_id);
    for _ in 0..2 {
        s.store.forget_hits(APP, &removed).await?;
        same("the other message", s.store.annotation_hits(APP, "a", all).await?, vec![hit(&message(3))])?;
        same("none", s.store.annotation_hits(APP, "b", all).await?, Vec::new())?;
    }
    s.store.forget_hits("other", &[run_id(3)]).await?;
    s.store.forget_hits(APP, &[]).await?;
    same("of another app", s.store.annotation_hits(APP, "a", all).await?, vec![hit(&message(3))])?;
    let counts: Vec<u64> =
        s.store.annotation_page(APP, all).await?.into_iter().map(|it| it.hit_count).collect();
    same("the counts", counts, vec![1, 3])
}

pub(super) async fn the_annotation_reply_of_an_app_outlives_a_new_version(s: Subject) -> Outcome {
    let app = App { id: "one".into(), name: "1".into(), ..App::default() };
    s.store.put_app(&app, None, &TriggerChanges::default()).await?;
    same("nothing yet", s.store.app("one").await?.and_then(|it| it.annotation_reply), None)?;
    s.store.set_annotation_reply("one", "{}").await?;
    s.store.put_app(&App { name: "2".into(), ..app }, None, &TriggerChanges::default()).await?;
    let found = s.store.app("one").await?.map(|it| (it.name, it.annotation_reply));
    same("the setting", found, Some(("2".into(), Some("{}".into()))))?;
    let job = JobRecord { action: "enable".into(), runs: vec!["r".into()], error: String::new() };
    s.store.put_annotation_job("one", "j", &job).await?;
    same("the job", s.store.annotation_job("one", "j").await?, Some(job))?;
    same("of another app", s.store.annotation_job("two", "j").await?, None)
}
