//! Annotations in memory, with the behaviour of Redis.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{Annotation, AnnotationAdded, Annotations, Page, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::RunId;
use tidemill_base::limits::ANNOTATION_JOB_SECONDS;
use tidemill_wire::annotations::{AnnotationRecord, HitRecord, JobRecord};

/// The annotations of an app.
#[derive(Default)]
pub(super) struct OfApp {
    records: BTreeMap<String, AnnotationRecord>,
    /// The ids of each question's key, the newest last.
    questions: BTreeMap<String, Vec<String>>,
    /// The creation of each.
    order: BTreeMap<String, i64>,
    /// The number of uses, and the newest of them first.
    hits: BTreeMap<String, (u64, Vec<HitRecord>)>,
    /// Each with its end.
    jobs: BTreeMap<String, (JobRecord, Timestamp)>,
}

impl OfApp {
    fn put(&mut self, id: &str, record: &AnnotationRecord) {
        let before = self.records.insert(id.into(), record.clone()).map(|before| before.key);
        if before.as_ref() == Some(&record.key) {
            return;
        }
        if let Some(before) = before {
            self.forget_key(&before, id);
        }
        self.questions.entry(record.key.clone()).or_default().push(id.into());
    }

    fn forget_key(&mut self, key: &str, id: &str) {
        let Some(ids) = self.questions.get_mut(key) else { return };
        ids.retain(|known| known != id);
        if ids.is_empty() {
            self.questions.remove(key);
        }
    }

    fn annotation(&self, id: &str) -> Option<Annotation> {
        let record = self.records.get(id)?.clone();
        let hit_count = self.hits.get(id).map_or(0, |(count, _)| *count);
        Some(Annotation { id: id.into(), record, hit_count })
    }

    fn with_key(&self, key: &str) -> Option<Annotation> {
        self.annotation(self.questions.get(key)?.last()?)
    }
}

impl MemoryStore {
    fn of_app<T>(&self, app: &str, change: impl FnOnce(&mut OfApp) -> T) -> T {
        change(self.inner.lock().annotations.entry(app.to_owned()).or_default())
    }
}

#[async_trait]
impl Annotations for MemoryStore {
    async fn add_annotation(
        &self,
        app: &str,
        id: &str,
        record: &AnnotationRecord,
        max: u64,
    ) -> Result<AnnotationAdded, StoreError> {
        Ok(self.of_app(app, |of| {
            if !of.records.contains_key(id) && of.order.len() as u64 >= max {
                return AnnotationAdded::Full;
            }
            of.put(id, record);
            of.order.entry(id.into()).or_insert(record.created_at);
            AnnotationAdded::Added
        }))
    }

    async fn change_annotation(
        &self,
        app: &str,
        id: &str,
        record: &AnnotationRecord,
    ) -> Result<Option<Annotation>, StoreError> {
        Ok(self.of_app(app, |of| {
            if of.records.contains_key(id) {
                of.put(id, record);
            }
            of.annotation(id)
        }))
    }

    async fn drop_annotation(&self, app: &str, id: &str) -> Result<bool, StoreError> {
        Ok(self.of_app(app, |of| {
            let Some(record) = of.records.remove(id) else { return false };
            of.forget_key(&record.key, id);
            of.order.remove(id);
            of.hits.remove(id);
            true
        }))
    }

    async fn annotation(&self, app: &str, id: &str) -> Result<Option<Annotation>, StoreError> {
        Ok(self.of_app(app, |of| of.annotation(id)))
    }

    async fn annotation_page(&self, app: &str, page: Page) -> Result<Vec<Annotation>, StoreError> {
        Ok(self.of_app(app, |of| {
            let mut order: Vec<(i64, &String)> = of.order.iter().map(|(id, at)| (*at, id)).collect();
            order.sort_by(|a, b| b.cmp(a));
            let page = order.into_iter().skip(page.from).take(page.count);
            page.filter_map(|(_, id)| of.annotation(id)).collect()
        }))
    }

    async fn annotation_count(&self, app: &str) -> Result<u64, StoreError> {
        Ok(self.of_app(app, |of| of.order.len() as u64))
    }

    async fn annotations_with(
        &self,
        app: &str,
        keys: &[String],
    ) -> Result<(Vec<Option<Annotation>>, u64), StoreError> {
        Ok(self.of_app(app, |of| (keys.iter().map(|key| of.with_key(key)).collect(), of.order.len() as u64)))
    }

    async fn hit_annotation(
        &self,
        app: &str,
        id: &str,
        hit: &HitRecord,
        kept: usize,
    ) -> Result<bool, StoreError> {
        Ok(self.of_app(app, |of| {
            if !of.records.contains_key(id) {
                return false;
            }
            let (count, hits) = of.hits.entry(id.into()).or_default();
            *count += 1;
            hits.insert(0, hit.clone());
            hits.truncate(kept.max(1));
            true
        }))
    }

    async fn annotation_hits(&self, app: &str, id: &str, page: Page) -> Result<Vec<HitRecord>, StoreError> {
        Ok(self.of_app(app, |of| {
            let hits = of.hits.get(id).into_iter().flat_map(|(_, hits)| hits);
            hits.skip(page.from).take(page.count).cloned().collect()
        }))
    }

    async fn forget_hits(&self, app: &str, messages: &[RunId]) -> Result<(), StoreError> {
        let messages: BTreeSet<String> = messages.iter().map(ToString::to_string).collect();
        self.of_app(app, |of| {
            of.hits.values_mut().for_each(|(_, hits)| hits.retain(|hit| !messages.contains(&hit.message_id)));
        });
        Ok(())
    }

    async fn set_annotation_reply(&self, app: &str, setting: &str) -> Result<(), StoreError> {
        if let Some(app) = self.inner.lock().apps.get_mut(app) {
            app.annotation_reply = Some(setting.into());
        }
        Ok(())
    }

    async fn put_annotation_job(&self, app: &str, id: &str, job: &JobRecord) -> Result<(), StoreError> {
        let until = self.inner.now().plus(std::time::Duration::from_secs(ANNOTATION_JOB_SECONDS));
        self.of_app(app, |of| of.jobs.insert(id.into(), (job.clone(), until)));
        Ok(())
    }

    async fn annotation_job(&self, app: &str, id: &str) -> Result<Option<JobRecord>, StoreError> {
        let now = self.inner.now();
        Ok(self.of_app(app, |of| {
            let (job, until) = of.jobs.get(id)?;
            (*until > now).then(|| job.clone())
        }))
    }
}
