//! Versions and users of apps in Redis, and reads over many runs.

use std::collections::HashMap;

use async_trait::async_trait;

use super::RedisStore;
use super::connection::{Arg, args};
use crate::store::app_records::newest_first;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{App, AppRecords, AppVersion, ConversationRef, EndUser, Feedback, Page, Runs, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};

/// The most runs in one command or script.
const RUNS_AT_ONCE: usize = 100;

#[async_trait]
impl AppRecords for RedisStore {
    async fn keep_version(&self, app: &App, at: Timestamp) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        // The document comes first: a listed version always has one.
        let document = self.keys.app_version(&app.id, &app.version);
        pipe.cmd("SET").arg(document).arg(&app.document).arg("NX").ignore();
        pipe.cmd("HSETNX").arg(self.keys.app_versions(&app.id)).arg(&app.version).arg(at.millis()).ignore();
        self.connector.ask_all("storing a version of an app", &pipe).await
    }

    async fn versions(&self, app: &str) -> Result<Vec<AppVersion>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.app_versions(app));
        let found: HashMap<String, i64> =
            self.connector.ask("listing the versions of an app", &command).await?;
        let version =
            |(version, at): (String, i64)| AppVersion { version, published_at: Timestamp::from_millis(at) };
        let mut found: Vec<AppVersion> = found.into_iter().map(version).collect();
        newest_first(&mut found);
        Ok(found)
    }

    async fn version_document(&self, app: &str, version: &str) -> Result<Option<String>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.app_version(app, version));
        self.connector.ask("reading a version of an app", &command).await
    }

    async fn drop_version(&self, app: &str, version: &str) -> Result<bool, StoreError> {
        let mut pipe = redis::pipe();
        // The document goes last: a listed version always has one.
        pipe.cmd("HDEL").arg(self.keys.app_versions(app)).arg(version);
        pipe.cmd("UNLINK").arg(self.keys.app_version(app, version)).ignore();
        let (removed,): (u64,) = self.connector.ask_all("removing a version of an app", &pipe).await?;
        Ok(removed > 0)
    }

    async fn runs_of_versions(&self, versions: &[String]) -> Result<Vec<u64>, StoreError> {
        let mut counts = vec![0; versions.len()];
        if versions.is_empty() {
            return Ok(counts);
        }
        let shards = Runs::meta(self).await?.shards;
        let mut pipe = redis::Pipeline::with_capacity(usize::from(shards));
        for shard in (0..shards).map(ShardId) {
            pipe.cmd("HMGET").arg(self.keys.graphs(shard)).arg(versions);
        }
        let found: Vec<Vec<Option<u64>>> =
            self.connector.ask_all("counting the runs of versions", &pipe).await?;
        for of_shard in found {
            counts.iter_mut().zip(of_shard).for_each(|(sum, count)| *sum += count.unwrap_or(0));
        }
        Ok(counts)
    }

    async fn fields_of_runs(
        &self,
        runs: &[RunId],
        names: &[&'static str],
    ) -> Result<Vec<HashMap<String, String>>, StoreError> {
        let mut found = Vec::with_capacity(runs.len());
        for some in runs.chunks(RUNS_AT_ONCE) {
            let mut pipe = redis::Pipeline::with_capacity(some.len());
            for run in some {
                pipe.cmd("HMGET").arg(self.keys.run(*run)).arg(names);
            }
            let values: Vec<Vec<Option<String>>> = self.connector.ask_all("reading runs", &pipe).await?;
            found.extend(values.into_iter().map(|values| {
                let fields = names.iter().zip(values);
                fields.filter_map(|(name, value)| Some(((*name).to_string(), value?))).collect()
            }));
        }
        Ok(found)
    }

    async fn reserved(&self, key_hash: &str) -> Result<Option<RunId>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.idempotency_key(key_hash).await?);
        let held: Option<String> = self.connector.ask("reading an idempotency key", &command).await?;
        Ok(held.and_then(|held| held.split_once(' ')?.0.parse().ok()))
    }

    async fn feedbacks(&self, app: &str, page: Page) -> Result<Vec<Feedback>, StoreError> {
        self.page_of_ratings(app, page).await
    }

    async fn note_end_user(
        &self,
        id: &str,
        app: &str,
        user: &str,
        at: Timestamp,
        seconds: u64,
    ) -> Result<(), StoreError> {
        let (key, at) = (self.keys.end_user(id), at.millis());
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("HSETNX").arg(&key).arg("created_at").arg(at).ignore();
        pipe.cmd("HSET").arg(&key).arg("app").arg(app).arg("user").arg(user);
        pipe.arg("updated_at").arg(at).ignore();
        match seconds {
            0 => pipe.cmd("PERSIST").arg(&key).ignore(),
            seconds => pipe.cmd("EXPIRE").arg(&key).arg(seconds).ignore(),
        };
        self.connector.ask_all("noting a user", &pipe).await
    }

    async fn end_user(&self, id: &str) -> Result<Option<EndUser>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.end_user(id));
        let mut fields: HashMap<String, String> = self.connector.ask("reading a user", &command).await?;
        let time =
            |text: Option<&String>| Timestamp::from_millis(text.and_then(|at| at.parse().ok()).unwrap_or(0));
        let (created_at, updated_at) = (time(fields.get("created_at")), time(fields.get("updated_at")));
        let Some((app, user)) = fields.remove("app").zip(fields.remove("user")) else { return Ok(None) };
        Ok(Some(EndUser { app, user, created_at, updated_at }))
    }

    async fn forget_runs(&self, it: &ConversationRef, runs: &[RunId]) -> Result<(), StoreError> {
        if !it.id.is_empty() {
            self.forget(it.shard, &it.id, runs).await?;
        }
        Ok(())
    }

    async fn forget_inner_runs(&self, shard: ShardId, runs: &[RunId]) -> Result<(), StoreError> {
        self.forget(shard, "", runs).await?;
        Ok(())
    }
}

impl RedisStore {
    /// Hides runs of this conversation, inner runs if it is empty, or all of these runs if it is `*`. Returns the number of
    /// those that were not hidden before.
    pub(super) async fn forget(
        &self,
        shard: ShardId,
        conversation: &str,
        runs: &[RunId],
    ) -> Result<usize, StoreError> {
        const DOING: &str = "removing runs";
        let mut hidden = 0;
        for some in runs.chunks(RUNS_AT_ONCE) {
            let mut keys = vec![self.keys.ended(shard), self.keys.nothing(shard)];
            keys.extend(some.iter().map(|run| self.keys.run(*run)));
            let mut list = Vec::from(args![conversation]);
            list.extend(some.iter().map(|run| Arg::from(run.to_string())));
            let word: String = self.connector.run(DOING, &self.scripts.forget_runs, &keys, &list).await?;
            hidden += word.parse::<usize>().map_err(|_| unexpected(DOING, &word))?;
        }
        Ok(hidden)
    }
}
