//! What API keys spend: sums on each shard, counted by the commits; whoever asks adds them up.

use std::collections::BTreeMap;

use super::RedisStore;
use super::keys::Keys;
use super::line::Request;
use crate::ids::ShardId;
use crate::limits;
use crate::store::{KeySpent, Runs, StoreError, day_of};
use crate::wire::commit::SpentWrite;

/// Between a key's id and the day.
fn on_day(key: &str, day: &str) -> String {
    format!("{key}:{day}")
}

/// Writes into a commit what a run's model calls cost its key, in all and on their day.
pub(super) fn write(request: &mut Request, keys: &Keys, shard: ShardId, spent: &SpentWrite) {
    let Some(key) = &spent.key else { return };
    let Some(at) = spent.calls.last().map(|call| call.at) else { return };
    let day = keys.spent(shard, &on_day(key, &day_of(at)));
    for of in [&keys.spent(shard, key), &day] {
        for (name, count) in KeySpent::of(spent).0 {
            request.command("HINCRBY", 3).word(of).word(name).word(count);
        }
    }
    request.command("EXPIRE", 2).word(&day).word(limits::KEY_DAYS_SECONDS);
}

impl RedisStore {
    pub(super) async fn all_spent(&self, key: &str, day: Option<&str>) -> Result<KeySpent, StoreError> {
        let of = day.map_or_else(|| key.to_string(), |day| on_day(key, day));
        let mut pipe = redis::pipe();
        for shard in 0..Runs::meta(self).await?.shards {
            pipe.cmd("HGETALL").arg(self.keys.spent(ShardId(shard), &of));
        }
        let parts: Vec<BTreeMap<String, u64>> =
            self.connector.ask_all("asking what a key has spent", &pipe).await?;
        let mut sum = KeySpent::default();
        parts.into_iter().for_each(|part| sum.merge(&KeySpent(part)));
        Ok(sum)
    }

    pub(super) async fn hash_of(&self, key: String) -> Result<Vec<(String, String)>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(key);
        let all: BTreeMap<String, String> = self.connector.ask("reading about keys", &command).await?;
        Ok(all.into_iter().collect())
    }

    pub(super) async fn put_budget(&self, key: &str, budget: Option<&str>) -> Result<(), StoreError> {
        let mut command = redis::cmd(if budget.is_some() { "HSET" } else { "HDEL" });
        command.arg(self.keys.key_budgets()).arg(key);
        if let Some(budget) = budget {
            command.arg(budget);
        }
        let _: u64 = self.connector.ask("setting the budget of a key", &command).await?;
        Ok(())
    }
}
