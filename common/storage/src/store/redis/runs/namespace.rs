//! The settings of the namespace, and whether its servers accept writes.

use redis::Value;

use crate::store::redis::RedisStore;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{Meta, Runs, StoreError};
use tidemill_base::ids::ShardId;

impl RedisStore {
    /// A field of the namespace that is written once: stores `fresh` unless it exists.
    pub(in crate::store::redis) async fn settle_once(
        &self,
        doing: &'static str,
        field: &str,
        fresh: &str,
    ) -> Result<String, StoreError> {
        let mut read = redis::cmd("HGET");
        read.arg(self.keys.meta()).arg(field);
        // A full Redis refuses even a write that changes nothing, so read first.
        if let Some(known) = self.connector.ask::<Option<String>>(doing, &read).await? {
            return Ok(known);
        }
        let mut pipe = redis::pipe();
        pipe.cmd("HSETNX").arg(self.keys.meta()).arg(field).arg(fresh).ignore();
        pipe.add_command(read);
        let (settled,): (String,) = self.connector.ask_all(doing, &pipe).await?;
        Ok(settled)
    }

    pub(super) async fn read_meta(&self) -> Result<Meta, StoreError> {
        const DOING: &str = "reading the namespace's settings";
        let key = self.keys.meta();
        let mut read = redis::cmd("HMGET");
        read.arg(&key).arg("v").arg("shards").arg("shards_first");
        // A full Redis refuses even a write that changes nothing, so write only when something is missing.
        let known: (Option<u64>, Option<u16>, Option<u16>) = self.connector.ask(DOING, &read).await?;
        let (version, shards, shards_first) = match known {
            (Some(version), Some(shards), Some(first)) => (version, shards, first),
            (version, _, _) => {
                let shards = self.limits.shards;
                let mut pipe = redis::pipe();
                pipe.cmd("HSETNX").arg(&key).arg("v").arg(version.unwrap_or(1)).ignore();
                pipe.cmd("HSETNX").arg(&key).arg("shards").arg(shards).ignore();
                pipe.cmd("HSETNX").arg(&key).arg("shards_first").arg(shards).ignore();
                pipe.add_command(read);
                let (settings,): ((u64, u16, u16),) = self.connector.ask_all(DOING, &pipe).await?;
                settings
            }
        };
        let Some(version) = u32::try_from(version).ok().filter(|it| *it <= tidemill_wire::VERSION) else {
            return Err(self.refused_version(version).await);
        };
        if shards == 0 || shards > ShardId::COUNT_MAX {
            return Err(unexpected(DOING, format!("{key} says shards {shards}")));
        }
        Ok(Meta { version, shards, shards_first })
    }

    /// Writes a probe to each server, and returns what was refused. The flag says that the store cannot be used at all: one
    /// server of a cluster that takes no writes stops its own shards only, unless it has the namespace's keys.
    ///
    /// # Errors
    /// The number of shards of a cluster cannot be read.
    pub async fn refusals(&self) -> Result<Vec<(bool, StoreError)>, StoreError> {
        const DOING: &str = "writing a probe";
        let mut pipe = redis::pipe();
        let mut probe = |key: String| {
            pipe.cmd("SET").arg(key).arg(1).arg("EX").arg(60);
        };
        probe(self.keys.probe());
        let shards = if self.connector.is_cluster() { Runs::meta(self).await?.shards } else { 0 };
        (0..shards).map(ShardId).for_each(|shard| probe(self.keys.probe_of(shard)));
        let bare = self.connector.without_shards(shards).await?;
        bare.iter().for_each(|shard| probe(self.keys.probe_of(*shard)));
        let mut answers = self.connector.ask_each(DOING, &pipe).await.into_iter();
        let of_namespace = answers.next().and_then(Result::err).map(|error| (true, error));
        let of_shards: Vec<Result<Value, StoreError>> = answers.by_ref().take(usize::from(shards)).collect();
        let all_fail = !of_shards.is_empty() && of_shards.iter().all(Result::is_err);
        let of_shards = of_shards.into_iter().filter_map(Result::err).map(|error| (all_fail, error));
        let of_others = answers.filter_map(Result::err).map(|error| (false, error));
        Ok(of_namespace.into_iter().chain(of_shards).chain(of_others).collect())
    }
}
