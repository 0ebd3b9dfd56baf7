//! Patterns of keys and of channels, and what the keys that fit them say.

use super::{Keys, escaped};
use tidemill_base::ids::ShardId;

impl Keys {
    /// pattern of the jobs streams of all queues and shards
    pub(in crate::store::redis) fn all_jobs(&self) -> String {
        format!("{}:jobs:*", self.glob())
    }
    /// The shard and the queue of a jobs stream.
    pub(in crate::store::redis) fn shard_and_queue<'a>(&self, key: &'a str) -> Option<(ShardId, &'a str)> {
        let (shard, queue) = key.strip_prefix(&self.namespace)?.strip_prefix(":{")?.split_once("}:jobs:")?;
        Some((ShardId(shard.parse().ok()?), queue))
    }
    /// The beginning of a pattern of keys of all shards.
    fn glob(&self) -> String {
        format!("{}:{{*}}", escaped(&self.namespace))
    }
    /// pattern of the conversations of all shards, and of their parts
    pub(in crate::store::redis) fn all_conversations(&self) -> String {
        format!("{}:conversation:*", self.glob())
    }
    /// The shard and the id of a conversation; `None` for the key of a part of one.
    pub(in crate::store::redis) fn shard_and_conversation<'a>(
        &self,
        key: &'a str,
    ) -> Option<(ShardId, &'a str)> {
        let rest = key.strip_prefix(&self.namespace)?.strip_prefix(":{")?;
        let (shard, id) = rest.split_once("}:conversation:")?;
        // An id has no colon.
        Some((ShardId(shard.parse().ok()?), id)).filter(|(_, id)| !id.contains(':'))
    }
    /// pattern of the idempotency keys of all shards
    pub(in crate::store::redis) fn all_idempotency(&self) -> String {
        format!("{}:idem:*", self.glob())
    }
    /// pattern of all users of apps
    pub(in crate::store::redis) fn all_end_users(&self) -> String {
        format!("{}:end_user:*", escaped(&self.common))
    }
    /// pattern of what counts the uploads of the users of an app
    pub(in crate::store::redis) fn uploads_of_users(&self, app: &str) -> String {
        format!("{}:uploads:{{{}}}:user:*", escaped(&self.namespace), escaped(app))
    }
    /// pattern of all tick channels
    pub fn ticks(&self) -> String {
        self.own("{*}:tick")
    }
    /// pattern of all cancel channels
    pub fn cancels(&self) -> String {
        self.own("{*}:cancel")
    }
}
