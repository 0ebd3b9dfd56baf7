//! Versions, users and ratings of apps in memory. It must behave like `store/redis/app_records.rs`; the contract suite
//! runs on both.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::app_records::newest_first;
use crate::store::{
    App, AppRecords, AppVersion, ConversationRef, EndUser, Feedback, INNER_FIELD, Page, REMOVED_FIELD,
    StoreError,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};
use tidemill_base::limits::FEEDBACKS_MAX;

/// The records of all apps.
#[derive(Default)]
pub(super) struct Records {
    /// Time and document by app and version.
    versions: BTreeMap<(String, String), (Timestamp, String)>,
    users: BTreeMap<String, EndUser>,
}

impl Records {
    pub(super) fn drop_users(&mut self, is_meant: impl Fn(&EndUser) -> bool) {
        self.users.retain(|_, user| !is_meant(user));
    }

    pub(super) fn drop_user(&mut self, id: &str) {
        self.users.remove(id);
    }

    pub(super) fn drop_versions(&mut self, app: &str) {
        self.versions.retain(|(of, _), _| of != app);
    }
}

#[async_trait]
impl AppRecords for MemoryStore {
    async fn keep_version(&self, app: &App, at: Timestamp) -> Result<(), StoreError> {
        let key = (app.id.clone(), app.version.clone());
        let mut space = self.inner.lock();
        // As in Redis, times are whole milliseconds.
        let at = Timestamp::from_millis(at.millis());
        space.records_of_apps.versions.entry(key).or_insert_with(|| (at, app.document.clone()));
        Ok(())
    }

    async fn versions(&self, app: &str) -> Result<Vec<AppVersion>, StoreError> {
        let space = self.inner.lock();
        let of_app = space.records_of_apps.versions.iter().filter(|((of, _), _)| of == app);
        let mut found: Vec<AppVersion> = of_app
            .map(|((_, version), (at, _))| AppVersion { version: version.clone(), published_at: *at })
            .collect();
        newest_first(&mut found);
        Ok(found)
    }

    async fn version_document(&self, app: &str, version: &str) -> Result<Option<String>, StoreError> {
        let key = (app.to_string(), version.to_string());
        Ok(self.inner.lock().records_of_apps.versions.get(&key).map(|(_, document)| document.clone()))
    }

    async fn drop_version(&self, app: &str, version: &str) -> Result<bool, StoreError> {
        let key = (app.to_string(), version.to_string());
        Ok(self.inner.lock().records_of_apps.versions.remove(&key).is_some())
    }

    async fn runs_of_versions(&self, versions: &[String]) -> Result<Vec<u64>, StoreError> {
        let space = self.inner.lock();
        let of_version = |version| {
            let graphs = space.shards.values().filter_map(|shard| shard.graphs.get(version));
            graphs.map(|graph| graph.runs as u64).sum()
        };
        Ok(versions.iter().map(of_version).collect())
    }

    async fn fields_of_runs(
        &self,
        runs: &[RunId],
        names: &[&'static str],
    ) -> Result<Vec<HashMap<String, String>>, StoreError> {
        let mut space = self.inner.lock();
        let fields = |run: &RunId| {
            let known = space.shard(run.shard()).runs.get(run);
            let wanted = names.iter().filter_map(|name| Some((*name, known?.fields.get(*name)?.clone())));
            wanted.map(|(name, value)| (name.to_string(), value)).collect()
        };
        Ok(runs.iter().map(fields).collect())
    }

    async fn feedbacks(&self, app: &str, page: Page) -> Result<Vec<Feedback>, StoreError> {
        let now = self.inner.now();
        let space = self.inner.lock();
        let mut found = Vec::new();
        for shard in space.shards.values() {
            for (id, kept) in &shard.conversations {
                if kept.until.is_some_and(|until| until <= now)
                    || kept.fields.get("app").is_none_or(|of| of != app)
                {
                    continue;
                }
                found.extend(kept.ratings.iter().filter_map(|(message, rating)| {
                    let created_at = kept.rated_at.get(message).copied()?;
                    let message = message.parse().ok()?;
                    Some(Feedback { conversation: id.clone(), message, created_at, rating: rating.clone() })
                }));
            }
        }
        found.sort_by(|one, other| {
            let place = |it: &Feedback| (it.created_at, it.conversation.clone(), it.message.to_string());
            place(other).cmp(&place(one))
        });
        found.truncate(FEEDBACKS_MAX);
        Ok(found.into_iter().skip(page.from).take(page.count).collect())
    }

    async fn note_end_user(
        &self,
        id: &str,
        app: &str,
        user: &str,
        at: Timestamp,
        _seconds: u64,
    ) -> Result<(), StoreError> {
        let at = Timestamp::from_millis(at.millis());
        let (app, user) = (app.to_string(), user.to_string());
        let mut space = self.inner.lock();
        let fresh = EndUser { app, user, created_at: at, updated_at: at };
        space.records_of_apps.users.entry(id.to_string()).or_insert(fresh).updated_at = at;
        Ok(())
    }

    async fn end_user(&self, id: &str) -> Result<Option<EndUser>, StoreError> {
        Ok(self.inner.lock().records_of_apps.users.get(id).cloned())
    }

    async fn forget_runs(&self, it: &ConversationRef, runs: &[RunId]) -> Result<(), StoreError> {
        self.forget(it.shard, runs, |fields| fields.get("conversation_id") == Some(&it.id));
        Ok(())
    }

    async fn forget_inner_runs(&self, shard: ShardId, runs: &[RunId]) -> Result<(), StoreError> {
        self.forget(shard, runs, |fields| fields.contains_key(INNER_FIELD));
        Ok(())
    }
}

impl MemoryStore {
    fn forget(&self, shard: ShardId, runs: &[RunId], is_meant: impl Fn(&HashMap<String, String>) -> bool) {
        let mut space = self.inner.lock();
        let shard = space.shard(shard);
        for run in runs {
            let Some(known) = shard.runs.get_mut(run).filter(|run| is_meant(&run.fields)) else { continue };
            known.fields.insert(REMOVED_FIELD.into(), "1".into());
            known.ended_at = known.ended_at.map(|_| Timestamp::from_micros(0));
        }
    }
}
