//! Conversations and their turns.

use super::RedisStore;
use super::connection::args;
use super::replies::unexpected;
use crate::ids::{RunId, ShardId};
use crate::limits;
use crate::store::{Entered, Entering, StoreError};

/// Runs of a shard that one look finds at most.
const UNSETTLED_PIECE: usize = 50;

impl RedisStore {
    pub(super) async fn enter(&self, it: &Entering) -> Result<Entered, StoreError> {
        const DOING: &str = "entering a conversation";
        let keys = [self.keys.conversation(it.run.shard(), &it.id)];
        let list = args![
            it.run.to_string(),
            &it.app,
            &it.user,
            it.at.millis(),
            self.limits.conversation_seconds,
            u64::from(it.must_exist),
        ];
        let answer: Vec<String> =
            self.connector.run(DOING, &self.scripts.enter_conversation, &keys, &list).await?;
        let mut answer = answer.into_iter();
        let Some(turn) = answer.next() else { return Ok(Entered::Unknown) };
        let dialogue = turn.parse().map_err(|_| unexpected(DOING, "a turn without a number"))?;
        Ok(Entered::Entered { dialogue, previous: answer.next().and_then(|run| run.parse().ok()) })
    }

    pub(super) async fn last_turns(
        &self,
        shard: ShardId,
        id: &str,
        count: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("LRANGE");
        let from = -i64::try_from(count).unwrap_or(i64::MAX);
        command.arg(self.keys.turns(shard, id)).arg(from).arg(-1);
        self.connector.ask("reading a conversation", &command).await
    }

    pub(super) async fn has_unsettled(&self, run: RunId) -> Result<bool, StoreError> {
        let mut command = redis::cmd("SISMEMBER");
        command.arg(self.keys.unsettled(run.shard())).arg(run.to_string());
        self.connector.ask("looking for a turn to settle", &command).await
    }

    pub(super) async fn settle(&self, run: RunId, id: &str, turn: &str) -> Result<bool, StoreError> {
        let shard = run.shard();
        let keys =
            [self.keys.unsettled(shard), self.keys.turns(shard, id), self.keys.conversation(shard, id)];
        let list =
            args![run.to_string(), turn, limits::CONVERSATION_TURNS_MAX, self.limits.conversation_seconds];
        let word: String =
            self.connector.run("keeping a turn", &self.scripts.settle_turn, &keys, &list).await?;
        Ok(word == "SETTLED")
    }

    pub(super) async fn some_unsettled(&self, shards: &[ShardId]) -> Result<Vec<RunId>, StoreError> {
        let mut pipe = redis::Pipeline::with_capacity(shards.len());
        for shard in shards {
            pipe.cmd("SRANDMEMBER").arg(self.keys.unsettled(*shard)).arg(UNSETTLED_PIECE);
        }
        let ids: Vec<Vec<String>> = self.connector.ask_all("looking for turns to settle", &pipe).await?;
        Ok(ids.iter().flatten().filter_map(|id| id.parse().ok()).collect())
    }

    pub(super) async fn forget_unsettled(&self, run: RunId) -> Result<(), StoreError> {
        let mut command = redis::cmd("SREM");
        command.arg(self.keys.unsettled(run.shard())).arg(run.to_string());
        let _: u64 = self.connector.ask("forgetting a turn", &command).await?;
        Ok(())
    }
}
