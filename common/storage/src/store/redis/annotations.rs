//! Annotations in Redis: for each app a hash of records, their order, and the keys of their questions.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{Annotation, AnnotationAdded, Annotations, Page, StoreError};
use tidemill_base::ids::RunId;
use tidemill_base::limits::ANNOTATION_JOB_SECONDS;
use tidemill_wire::annotations::{AnnotationRecord, HitRecord, JobRecord, read, text};

/// The most hash fields in one command, so that it does not block the server for long.
const FIELDS_AT_ONCE: usize = 256;

impl RedisStore {
    /// Adds an annotation with its creation, or changes one.
    async fn put_annotation(
        &self,
        doing: &'static str,
        (app, id): (&str, &str),
        record: &AnnotationRecord,
        (created_us, max): (String, u64),
    ) -> Result<String, StoreError> {
        let keys = ["records", "order", "questions"].map(|kind| self.keys.annotations(app, kind));
        let args = args![id, text(record), &record.key, created_us, max];
        self.connector.run(doing, &self.scripts.put_annotation, &keys, &args).await
    }

    /// The annotations with these ids, in order; `None` for one that was removed meanwhile.
    async fn annotations_of(
        &self,
        doing: &'static str,
        app: &str,
        ids: &[String],
    ) -> Result<Vec<Option<Annotation>>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(FIELDS_AT_ONCE) {
            let mut pipe = redis::pipe();
            for kind in ["records", "counts"] {
                pipe.cmd("HMGET").arg(self.keys.annotations(app, kind)).arg(some);
            }
            let (records, counts): (Vec<Option<String>>, Vec<Option<u64>>) =
                self.connector.ask_all(doing, &pipe).await?;
            for ((id, record), count) in some.iter().zip(records).zip(counts) {
                let record = record.map(|text| {
                    read("an annotation", &text).map_err(|error| unexpected(doing, error.to_string()))
                });
                let of = |record| Annotation { id: id.clone(), record, hit_count: count.unwrap_or(0) };
                found.push(record.transpose()?.map(of));
            }
        }
        Ok(found)
    }
}

impl RedisStore {
    async fn forget_some_hits(&self, app: &str, messages: &[RunId]) -> Result<(), StoreError> {
        const DOING: &str = "removing uses of annotations";
        let index = self.keys.annotations(app, "messages");
        let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
        let mut command = redis::cmd("HMGET");
        command.arg(&index).arg(&messages);
        let annotations: Vec<Option<String>> = self.connector.ask(DOING, &command).await?;
        let found = messages.into_iter().zip(annotations).filter_map(|(message, id)| Some((message, id?)));
        let found: HashMap<String, String> = found.collect();
        if found.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for id in found.values().collect::<BTreeSet<_>>() {
            let key = self.keys.annotation(app, "hits", id);
            let mut command = redis::cmd("LRANGE");
            command.arg(&key).arg(0).arg(-1);
            let hits: Vec<String> = self.connector.ask(DOING, &command).await?;
            let is_meant = |hit: &&String| {
                read::<HitRecord>("a hit", hit).is_ok_and(|hit| found.contains_key(&hit.message_id))
            };
            for hit in hits.iter().filter(is_meant) {
                pipe.cmd("LREM").arg(&key).arg(0).arg(hit).ignore();
            }
        }
        // Last, so that a repetition finds what is left.
        pipe.cmd("HDEL").arg(&index).arg(found.keys().collect::<Vec<_>>()).ignore();
        self.connector.ask_all(DOING, &pipe).await
    }
}

#[async_trait]
impl Annotations for RedisStore {
    async fn add_annotation(
        &self,
        app: &str,
        id: &str,
        record: &AnnotationRecord,
        max: u64,
    ) -> Result<AnnotationAdded, StoreError> {
        const DOING: &str = "adding an annotation";
        let created_us = record.created_at.saturating_mul(1000).to_string();
        match self.put_annotation(DOING, (app, id), record, (created_us, max)).await?.as_str() {
            "KEPT" => Ok(AnnotationAdded::Added),
            "FULL" => Ok(AnnotationAdded::Full),
            other => Err(unexpected(DOING, other)),
        }
    }

    async fn change_annotation(
        &self,
        app: &str,
        id: &str,
        record: &AnnotationRecord,
    ) -> Result<Option<Annotation>, StoreError> {
        const DOING: &str = "changing an annotation";
        match self.put_annotation(DOING, (app, id), record, (String::new(), 0)).await?.as_str() {
            "KEPT" => Ok(self.annotations_of(DOING, app, &[id.to_owned()]).await?.pop().flatten()),
            "NONE" => Ok(None),
            other => Err(unexpected(DOING, other)),
        }
    }

    async fn drop_annotation(&self, app: &str, id: &str) -> Result<bool, StoreError> {
        const DOING: &str = "removing an annotation";
        let kinds = ["records", "order", "questions", "counts"];
        let mut keys: Vec<String> = kinds.iter().map(|kind| self.keys.annotations(app, kind)).collect();
        keys.push(self.keys.annotation(app, "hits", id));
        keys.push(self.keys.annotations(app, "messages"));
        let word: String =
            self.connector.run(DOING, &self.scripts.drop_annotation, &keys, &args![id]).await?;
        match word.as_str() {
            "DROPPED" => Ok(true),
            "NONE" => Ok(false),
            other => Err(unexpected(DOING, other)),
        }
    }

    async fn annotation(&self, app: &str, id: &str) -> Result<Option<Annotation>, StoreError> {
        Ok(self.annotations_of("reading an annotation", app, &[id.to_owned()]).await?.pop().flatten())
    }

    async fn annotation_page(&self, app: &str, page: Page) -> Result<Vec<Annotation>, StoreError> {
        const DOING: &str = "listing annotations";
        let Some((from, last)) = bounds(page) else { return Ok(Vec::new()) };
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.keys.annotations(app, "order")).arg(from).arg(last);
        let ids: Vec<String> = self.connector.ask(DOING, &command).await?;
        Ok(self.annotations_of(DOING, app, &ids).await?.into_iter().flatten().collect())
    }

    async fn annotation_count(&self, app: &str) -> Result<u64, StoreError> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.keys.annotations(app, "order"));
        self.connector.ask("counting annotations", &command).await
    }

    async fn annotations_with(
        &self,
        app: &str,
        keys: &[String],
    ) -> Result<(Vec<Option<Annotation>>, u64), StoreError> {
        const DOING: &str = "looking up annotations";
        if keys.is_empty() {
            return Ok((Vec::new(), self.annotation_count(app).await?));
        }
        let mut pipe = redis::pipe();
        pipe.cmd("HMGET").arg(self.keys.annotations(app, "questions")).arg(keys);
        pipe.cmd("ZCARD").arg(self.keys.annotations(app, "order"));
        let (ids, count): (Vec<Option<String>>, u64) = self.connector.ask_all(DOING, &pipe).await?;
        let newest = |ids: &String| ids.split_whitespace().last().map(str::to_owned);
        let ids: Vec<Option<String>> = ids.iter().map(|ids| ids.as_ref().and_then(newest)).collect();
        let wanted: Vec<String> = ids.iter().flatten().cloned().collect();
        let found = self.annotations_of(DOING, app, &wanted).await?;
        let found: HashMap<String, Annotation> =
            found.into_iter().flatten().map(|it| (it.id.clone(), it)).collect();
        let of = |id: Option<String>| found.get(&id?).cloned();
        Ok((ids.into_iter().map(of).collect(), count))
    }

    async fn hit_annotation(
        &self,
        app: &str,
        id: &str,
        hit: &HitRecord,
        kept: usize,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "counting a use of an annotation";
        let [records, counts, messages] =
            ["records", "counts", "messages"].map(|kind| self.keys.annotations(app, kind));
        let keys = [records, counts, self.keys.annotation(app, "hits", id), messages];
        let args = args![id, text(hit), kept.max(1) as u64, &hit.message_id];
        let word: String = self.connector.run(DOING, &self.scripts.hit_annotation, &keys, &args).await?;
        match word.as_str() {
            "COUNTED" => Ok(true),
            "NONE" => Ok(false),
            other => Err(unexpected(DOING, other)),
        }
    }

    async fn annotation_hits(&self, app: &str, id: &str, page: Page) -> Result<Vec<HitRecord>, StoreError> {
        const DOING: &str = "listing uses of an annotation";
        let Some((from, last)) = bounds(page) else { return Ok(Vec::new()) };
        let mut command = redis::cmd("LRANGE");
        command.arg(self.keys.annotation(app, "hits", id)).arg(from).arg(last);
        let hits: Vec<String> = self.connector.ask(DOING, &command).await?;
        let hit = |text: &String| read("a hit", text).map_err(|error| unexpected(DOING, error.to_string()));
        hits.iter().map(hit).collect()
    }

    async fn forget_hits(&self, app: &str, messages: &[RunId]) -> Result<(), StoreError> {
        for some in messages.chunks(FIELDS_AT_ONCE) {
            self.forget_some_hits(app, some).await?;
        }
        Ok(())
    }

    async fn set_annotation_reply(&self, app: &str, setting: &str) -> Result<(), StoreError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.keys.app(app)).arg("annotation_reply").arg(setting);
        self.connector.ask("setting the annotation reply of an app", &command).await
    }

    async fn put_annotation_job(&self, app: &str, id: &str, job: &JobRecord) -> Result<(), StoreError> {
        let mut command = redis::cmd("SET");
        command.arg(self.keys.annotation(app, "job", id)).arg(text(job));
        command.arg("EX").arg(ANNOTATION_JOB_SECONDS);
        self.connector.ask("storing a job of annotations", &command).await
    }

    async fn annotation_job(&self, app: &str, id: &str) -> Result<Option<JobRecord>, StoreError> {
        const DOING: &str = "reading a job of annotations";
        let mut command = redis::cmd("GET");
        command.arg(self.keys.annotation(app, "job", id));
        let found: Option<String> = self.connector.ask(DOING, &command).await?;
        found
            .map(|text| read("a job", &text).map_err(|error| unexpected(DOING, error.to_string())))
            .transpose()
    }
}

/// The first and the last index of a page; `None` for an empty one.
fn bounds(page: Page) -> Option<(usize, usize)> {
    let last = page.from.saturating_add(page.count.checked_sub(1)?);
    // Redis takes no larger numbers.
    let most = usize::try_from(i64::MAX).unwrap_or(usize::MAX);
    Some((page.from.min(most), last.min(most)))
}
