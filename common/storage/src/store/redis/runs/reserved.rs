//! Idempotency keys.

use crate::store::redis::RedisStore;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{Reserved, Runs, StoreError};
use tidemill_base::ids::{RunId, ShardId};
use tidemill_base::limits;

impl RedisStore {
    pub(super) async fn reserve_for(
        &self,
        key_hash: &str,
        request: &str,
        run: RunId,
    ) -> Result<Reserved, StoreError> {
        const DOING: &str = "reserving an idempotency key";
        let key = self.idempotency_key(key_hash).await?;
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&key).arg(format!("{run} {request}")).arg("NX").arg("EX");
        pipe.arg(limits::IDEMPOTENCY_SECONDS).ignore();
        pipe.cmd("GET").arg(&key);
        let (held,): (Option<String>,) = self.connector.ask_all(DOING, &pipe).await?;
        let held = held.ok_or_else(|| unexpected(DOING, "the key vanished"))?;
        match held.split_once(' ') {
            Some((id, same)) if same == request => {
                let id: RunId = id.parse().map_err(|_| unexpected(DOING, "not a run id"))?;
                Ok(if id == run { Reserved::Ours } else { Reserved::Same(id) })
            }
            _ => Ok(Reserved::Other),
        }
    }

    /// The key of an idempotency key. Its shard stays the same when the namespace gets more shards.
    pub(in crate::store::redis) async fn idempotency_key(
        &self,
        key_hash: &str,
    ) -> Result<String, StoreError> {
        let first = Runs::meta(self).await?.shards_first.max(1);
        let number = u64::from_str_radix(key_hash.get(..8).unwrap_or("0"), 16).unwrap_or(0);
        let shard = ShardId(u16::try_from(number % u64::from(first)).unwrap_or(0));
        Ok(self.keys.idempotency(shard, key_hash))
    }
}
