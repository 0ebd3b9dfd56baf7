//! The spending of API keys: sums per shard, updated by the commits and added up by readers.

use std::collections::BTreeMap;

use super::RedisStore;
use super::keys::Keys;
use crate::store::redis::connection::wire_connection::Request;
use crate::store::{KeyCost, Runs, StoreError, day_of};
use tidemill_base::ids::ShardId;
use tidemill_base::limits;
use tidemill_wire::commit::ChargeWrite;

/// The key id with the day.
fn on_day(key: &str, day: &str) -> String {
    format!("{key}:{day}")
}

/// Adds the cost of a run's model calls to its key's sums: in total and per day.
pub(super) fn write(request: &mut Request, keys: &Keys, shard: ShardId, charges: &ChargeWrite) {
    let Some(key) = &charges.key else { return };
    let Some(at) = charges.calls.last().map(|call| call.at) else { return };
    let day = keys.key_costs(shard, &on_day(key, &day_of(at)));
    for of in [&keys.key_costs(shard, key), &day] {
        for (name, count) in KeyCost::of(charges).0 {
            request.command("HINCRBY", 3).word(of).word(name).word(count);
        }
    }
    request.command("EXPIRE", 2).word(&day).word(limits::KEY_DAYS_SECONDS);
}

impl RedisStore {
    pub(super) async fn all_costs(&self, key: &str, day: Option<&str>) -> Result<KeyCost, StoreError> {
        let of = day.map_or_else(|| key.to_string(), |day| on_day(key, day));
        let mut pipe = redis::pipe();
        for shard in 0..Runs::meta(self).await?.shards {
            pipe.cmd("HGETALL").arg(self.keys.key_costs(ShardId(shard), &of));
        }
        let parts: Vec<BTreeMap<String, u64>> =
            self.connector.ask_all("reading the spending of a key", &pipe).await?;
        let mut sum = KeyCost::default();
        parts.into_iter().for_each(|part| sum.merge(&KeyCost(part)));
        Ok(sum)
    }

    pub(super) async fn hash_of(&self, key: String) -> Result<Vec<(String, String)>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(key);
        let all: BTreeMap<String, String> = self.connector.ask("reading key data", &command).await?;
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
