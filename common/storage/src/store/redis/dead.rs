//! Dead letters: list, read, delete and put back.

use redis::Value;

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::{array, entry, unexpected};
use crate::store::{DeadFact, DeadId, DeadLetter, ListDead, PutBack, Runs, StoreError};
use tidemill_base::ids::ShardId;
use tidemill_engine::state::run::RunStatus;

impl RedisStore {
    /// See [`Runs::dead_letters`].
    pub(super) async fn list_dead(&self, query: &ListDead) -> Result<Vec<DeadLetter>, StoreError> {
        const DOING: &str = "listing dead letters";
        let meta = Runs::meta(self).await?;
        let shards: Vec<ShardId> = (0..meta.shards).map(ShardId).collect();
        let mut pipe = redis::pipe();
        for shard in &shards {
            let from = query.before.map_or("+".to_string(), |before| {
                // Of letters with the same entry id, the highest shard comes first.
                let is_behind = *shard < before.shard;
                format!("{}{}", if is_behind { "" } else { "(" }, before.entry)
            });
            pipe.cmd("XREVRANGE").arg(self.keys.dead(*shard)).arg(from).arg("-");
            pipe.arg("COUNT").arg(query.limit);
        }
        let found: Vec<Value> = self.connector.ask_all(DOING, &pipe).await?;
        let mut letters = Vec::new();
        for (shard, value) in shards.into_iter().zip(found) {
            let entries = array(value).ok_or_else(|| unexpected(DOING, "not a list"))?;
            letters.extend(entries.into_iter().filter_map(|value| read(shard, value)));
        }
        letters.sort_by_key(|letter| std::cmp::Reverse(letter.id));
        letters.truncate(query.limit);
        Ok(letters)
    }

    /// See [`Runs::dead_letter`].
    pub(super) async fn find_dead(&self, id: DeadId) -> Result<Option<DeadLetter>, StoreError> {
        let mut command = redis::cmd("XRANGE");
        command.arg(self.keys.dead(id.shard)).arg(id.entry.to_string()).arg(id.entry.to_string());
        let found: Value = self.connector.ask("reading a dead letter", &command).await?;
        Ok(array(found).and_then(|mut entries| read(id.shard, entries.pop()?)))
    }

    /// See [`Runs::drop_dead_letter`].
    pub(super) async fn drop_dead(&self, id: DeadId) -> Result<bool, StoreError> {
        let mut command = redis::cmd("XDEL");
        command.arg(self.keys.dead(id.shard)).arg(id.entry.to_string());
        let dropped: u64 = self.connector.ask("deleting a dead letter", &command).await?;
        Ok(dropped > 0)
    }

    /// See [`Runs::put_back`].
    pub(super) async fn put_fact_back(&self, fact: DeadFact<'_>) -> Result<PutBack, StoreError> {
        const DOING: &str = "putting a fact back";
        let k = &self.keys;
        let keys = [k.dead(fact.id.shard), k.run(fact.run), k.inbox(fact.run.shard())];
        let args = args![fact.id.entry.to_string(), fact.run.to_string(), fact.kind, fact.body];
        let word: String = self.connector.run(DOING, &self.scripts.put_back, &keys, &args).await?;
        match word.as_str() {
            "DONE" => Ok(PutBack::Done),
            "GONE" => Ok(PutBack::Gone),
            "NORUN" => Ok(PutBack::NoRun),
            status => {
                RunStatus::from_name(status).map(PutBack::Over).ok_or_else(|| unexpected(DOING, status))
            }
        }
    }
}

fn read(shard: ShardId, value: Value) -> Option<DeadLetter> {
    let (id, fields) = entry(value)?;
    Some(DeadLetter::from_fields(DeadId { entry: id, shard }, &fields))
}
