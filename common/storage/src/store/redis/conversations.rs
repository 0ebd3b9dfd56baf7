//! Conversations and their turns.

use super::RedisStore;
use super::connection::{Arg, args};
use crate::store::redis::connection::replies::unexpected;
use crate::store::{
    ConversationChange, ConversationRef, ConversationsBy, Entered, Entering, Rated, Rating, Settling,
    StoreError,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};
use tidemill_base::limits;

/// The most runs of a shard that one call returns.
const UNSETTLED_PIECE: usize = 50;

/// The index of the first copy among the keys of a conversation.
const COPIES_BEGIN: usize = 5;

impl RedisStore {
    pub(super) async fn enter(&self, it: &Entering) -> Result<Entered, StoreError> {
        const DOING: &str = "entering a conversation";
        let of = &it.conversation;
        let mut list = Vec::from(args![
            it.run.to_string(),
            &of.app,
            &of.user,
            it.at.millis(),
            self.limits.conversation_seconds,
            u64::from(it.must_exist),
            &of.id,
            it.at.micros(),
            self.list_forgets_before(it.at),
            limits::CONVERSATION_OPEN_MAX,
        ]);
        list.extend(it.begins.iter().flat_map(|(field, value)| [Arg::from(*field), Arg::from(value)]));
        let mut keys = self.keys_of(of);
        keys.insert(COPIES_BEGIN, self.keys.unsettled(it.run.shard()));
        let answer: Vec<String> =
            self.connector.run(DOING, &self.scripts.enter_conversation, &keys, &list).await?;
        let mut answer = answer.into_iter();
        let Some(turn) = answer.next() else { return Ok(Entered::Unknown) };
        let dialogue = turn.parse().map_err(|_| unexpected(DOING, "a turn has no number"))?;
        let previous = answer.next().and_then(|run| run.parse().ok());
        Ok(Entered::Entered {
            dialogue,
            previous,
            unsettled: answer.filter_map(|run| run.parse().ok()).collect(),
        })
    }

    /// The keys of a conversation, in the order of its scripts: itself, turns, ratings, both lists, copies,
    /// messages.
    fn keys_of(&self, it: &ConversationRef) -> Vec<String> {
        let (keys, shard) = (&self.keys, it.shard);
        let listed = |by| keys.conversations(shard, &it.app, &it.user, by);
        let mut all = vec![
            keys.conversation(shard, &it.id),
            keys.turns(shard, &it.id),
            keys.ratings(shard, &it.id),
            listed(ConversationsBy::Use),
            listed(ConversationsBy::Begin),
        ];
        all.extend(it.copies.iter().map(|copy| keys.blob(shard, copy)));
        all.push(keys.messages(shard, &it.id));
        all
    }

    /// The lists keep entries twice as long as an unused conversation, because a running run may extend the
    /// life of an old one.
    fn list_forgets_before(&self, now: Timestamp) -> i64 {
        let seconds = i64::try_from(self.limits.conversation_seconds).unwrap_or(i64::MAX);
        now.micros().saturating_sub(seconds.saturating_mul(2_000_000))
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

    pub(super) async fn settle(&self, it: &Settling) -> Result<bool, StoreError> {
        let of = &it.conversation;
        let mut keys = vec![self.keys.unsettled(it.run.shard())];
        keys.extend(self.keys_of(of));
        let list = args![
            it.run.to_string(),
            &it.turn,
            limits::CONVERSATION_TURNS_MAX,
            self.limits.conversation_seconds,
            &of.app,
            &of.id,
            &of.user,
        ];
        let word: String =
            self.connector.run("storing a turn", &self.scripts.settle_turn, &keys, &list).await?;
        Ok(word == "SETTLED")
    }

    pub(super) async fn change(&self, it: &ConversationChange) -> Result<bool, StoreError> {
        let of = &it.conversation;
        let mut keys = self.keys_of(of);
        let (word, content) = match &it.copy {
            None => ("", ""),
            Some((copy, content)) => {
                keys.insert(COPIES_BEGIN, self.keys.blob(of.shard, copy));
                content.as_deref().map_or(("drop", ""), |content| ("set", content))
            }
        };
        let used = it.used_at.map_or_else(String::new, |at| at.micros().to_string());
        let seconds = self.limits.conversation_seconds;
        let mut list = Vec::from(args![&of.app, &of.user, &of.id, seconds, used, word, content]);
        list.extend(it.fields.iter().flat_map(|(field, value)| [Arg::from(field), Arg::from(value)]));
        let word: String = self
            .connector
            .run("changing a conversation", &self.scripts.change_conversation, &keys, &list)
            .await?;
        Ok(word == "CHANGED")
    }

    /// Removes a conversation. With `is_gone`, only removes an expired one from the lists.
    pub(super) async fn remove(&self, it: &ConversationRef, is_gone: bool) -> Result<bool, StoreError> {
        let list = args![&it.app, &it.user, &it.id, u64::from(is_gone)];
        let keys = self.keys_of(it);
        let word: String = self
            .connector
            .run("removing a conversation", &self.scripts.drop_conversation, &keys, &list)
            .await?;
        Ok(word == "DROPPED")
    }

    pub(super) async fn rate(&self, it: &Rating) -> Result<Rated, StoreError> {
        let of = &it.conversation;
        let (keys, shard) = (&self.keys, of.shard);
        let keys =
            [keys.conversation(shard, &of.id), keys.ratings(shard, &of.id), keys.feedbacks(shard, &of.app)];
        let (message, rating) = (it.message.to_string(), it.rating.as_deref().unwrap_or_default());
        let member = format!("{} {message}", of.id);
        let list = args![&of.app, &of.user, message, rating, member, it.at.millis(), limits::FEEDBACKS_MAX];
        let word: String =
            self.connector.run("rating a message", &self.scripts.rate_message, &keys, &list).await?;
        match word.as_str() {
            "DONE" => Ok(Rated::Done),
            "ABSENT" => Ok(Rated::Absent),
            "NONE" => Ok(Rated::Unknown),
            other => Err(unexpected("rating a message", other)),
        }
    }

    pub(super) async fn rated(
        &self,
        shard: ShardId,
        id: &str,
        messages: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.ratings(shard, id)).arg(messages);
        self.connector.ask("reading ratings", &command).await
    }

    pub(super) async fn some_unsettled(&self, shards: &[ShardId]) -> Result<Vec<RunId>, StoreError> {
        let mut pipe = redis::Pipeline::with_capacity(shards.len());
        for shard in shards {
            pipe.cmd("SRANDMEMBER").arg(self.keys.unsettled(*shard)).arg(UNSETTLED_PIECE);
        }
        let ids: Vec<Vec<String>> = self.connector.ask_those("looking for turns to settle", &pipe).await?;
        Ok(ids.iter().flatten().filter_map(|id| id.parse().ok()).collect())
    }

    pub(super) async fn forget_unsettled(&self, run: RunId) -> Result<(), StoreError> {
        let mut command = redis::cmd("SREM");
        command.arg(self.keys.unsettled(run.shard())).arg(run.to_string());
        let _: u64 = self.connector.ask("removing a turn", &command).await?;
        Ok(())
    }
}
