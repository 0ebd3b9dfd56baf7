//! Lists and counts runs.

use tidemill_base::ids::{RunId, ShardId};

use crate::store::redis::RedisStore;
use crate::store::{ListRuns, Runs, StoreError};

impl RedisStore {
    pub(super) async fn runs_listed(&self, query: &ListRuns) -> Result<Vec<RunId>, StoreError> {
        let (keys, [before, since]) = (self.keys_of_list(query).await?, bounds_of(query));
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::Pipeline::with_capacity(keys.len());
        for key in keys {
            pipe.cmd("ZREVRANGEBYSCORE").arg(key).arg(&before).arg(&since).arg("WITHSCORES");
            pipe.arg("LIMIT").arg(0).arg(query.limit);
        }
        let shards: Vec<Vec<(String, f64)>> = self.connector.ask_all("listing runs", &pipe).await?;
        let mut runs: Vec<(f64, RunId)> =
            shards.into_iter().flatten().filter_map(|(id, score)| Some((score, id.parse().ok()?))).collect();
        runs.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        runs.truncate(query.limit);
        Ok(runs.into_iter().map(|(_, id)| id).collect())
    }

    pub(super) async fn runs_counted(&self, query: &ListRuns) -> Result<u64, StoreError> {
        let (keys, [before, since]) = (self.keys_of_list(query).await?, bounds_of(query));
        let mut pipe = redis::Pipeline::with_capacity(keys.len());
        for key in keys {
            pipe.cmd("ZCOUNT").arg(key).arg(&since).arg(&before);
        }
        if pipe.is_empty() {
            return Ok(0);
        }
        let counts: Vec<u64> = self.connector.ask_all("counting runs", &pipe).await?;
        Ok(counts.into_iter().sum())
    }

    /// The keys of the list that a query reads, one for each shard that it wants.
    async fn keys_of_list(&self, query: &ListRuns) -> Result<Vec<String>, StoreError> {
        let meta = Runs::meta(self).await?;
        let wanted = |shard: &ShardId| query.shards.as_ref().is_none_or(|shards| shards.contains(shard));
        let key = |shard| self.key_of_list(query, shard);
        Ok((0..meta.shards).map(ShardId).filter(wanted).map(key).collect())
    }

    /// The key of the list that a query reads on a shard.
    pub(in crate::store::redis) fn key_of_list(&self, query: &ListRuns, shard: ShardId) -> String {
        let of_label = query.label.as_deref().map(|label| self.keys.runs_of_label(shard, label));
        let of_app = || self.keys.runs_of_app(shard, query.app.as_deref());
        let of_status = || query.status.map(|status| self.keys.runs_of(shard, status));
        of_label.or_else(of_app).or_else(of_status).unwrap_or_else(|| self.keys.runs(shard))
    }
}

/// The newest and the oldest time of a query, as Redis takes them.
fn bounds_of(query: &ListRuns) -> [String; 2] {
    let before = query.before.map_or_else(|| "+inf".to_owned(), |at| format!("({}", at.micros()));
    let since = query.since.map_or_else(|| "-inf".to_owned(), |at| at.micros().to_string());
    [before, since]
}
