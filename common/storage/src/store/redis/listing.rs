//! Lists a user's conversations from the lists of all shards. A script writes the lists together with the
//! conversation. They may still name expired ones; a listing that meets one removes it.

use std::collections::HashMap;

use super::RedisStore;
use crate::store::{ConversationRef, FIELDS_LISTED, ListConversations, ListedConversation, Runs, StoreError};
use tidemill_base::ids::ShardId;

const DOING: &str = "listing conversations";
/// The most conversations of one shard with the same time at the edge of a page.
const TIED: usize = 8;

/// A position in the list: time (µs), conversation id, shard.
type ListPosition = (i64, String, ShardId);

impl RedisStore {
    pub(super) async fn list_conversations(
        &self,
        query: &ListConversations,
    ) -> Result<Option<Vec<ListedConversation>>, StoreError> {
        let shards = Runs::meta(self).await?.shards;
        let mut after = None;
        if let Some((shard, id)) = &query.after {
            let Some(position) = self.position_of(query, *shard, id).await? else { return Ok(None) };
            after = Some(position);
        }
        let mut found = Vec::new();
        loop {
            let wanted = query.limit - found.len();
            let page = self.page(query, after.as_ref(), wanted, shards).await?;
            let is_last = page.len() < wanted;
            after = page.last().cloned();
            for (position, fields) in page.iter().zip(self.fields_of(&page).await?) {
                match fields {
                    Some(fields) if is_of(query, &fields) => {
                        found.push(ListedConversation { shard: position.2, id: position.1.clone(), fields });
                    }
                    Some(_) | None => self.take_off(query, position).await?,
                }
            }
            if is_last || found.len() >= query.limit {
                return Ok(Some(found));
            }
        }
    }

    async fn position_of(
        &self,
        query: &ListConversations,
        shard: ShardId,
        id: &str,
    ) -> Result<Option<ListPosition>, StoreError> {
        let mut command = redis::cmd("ZSCORE");
        command.arg(self.keys.conversations(shard, &query.app, &query.user, query.by)).arg(id);
        let score: Option<f64> = self.connector.ask(DOING, &command).await?;
        let Some(score) = score else { return Ok(None) };
        let position = (score as i64, id.to_string(), shard);
        let fields = self.fields_of(std::slice::from_ref(&position)).await?.pop().flatten();
        Ok(fields.is_some_and(|fields| is_of(query, &fields)).then_some(position))
    }

    /// At most `wanted` positions after one, from all shards.
    async fn page(
        &self,
        query: &ListConversations,
        after: Option<&ListPosition>,
        wanted: usize,
        shards: u16,
    ) -> Result<Vec<ListPosition>, StoreError> {
        let shards: Vec<ShardId> = (0..shards).map(ShardId).collect();
        let from = after.map(|(at, ..)| at.to_string());
        let mut pipe = redis::Pipeline::with_capacity(shards.len());
        for shard in &shards {
            let key = self.keys.conversations(*shard, &query.app, &query.user, query.by);
            let (name, begin, end) = match query.newest_first {
                true => ("ZREVRANGEBYSCORE", "+inf", "-inf"),
                false => ("ZRANGEBYSCORE", "-inf", "+inf"),
            };
            pipe.cmd(name).arg(key).arg(from.as_deref().unwrap_or(begin)).arg(end);
            pipe.arg("WITHSCORES").arg("LIMIT").arg(0).arg(wanted + TIED);
        }
        let listed: Vec<Vec<(String, f64)>> = self.connector.ask_all(DOING, &pipe).await?;
        let mut positions: Vec<ListPosition> = Vec::new();
        for (shard, of_shard) in shards.iter().zip(listed) {
            positions.extend(of_shard.into_iter().map(|(id, score)| (score as i64, id, *shard)));
        }
        positions.sort();
        if query.newest_first {
            positions.reverse();
        }
        if let Some(after) = after {
            positions.retain(|position| if query.newest_first { position < after } else { position > after });
        }
        positions.truncate(wanted);
        Ok(positions)
    }

    async fn fields_of(
        &self,
        positions: &[ListPosition],
    ) -> Result<Vec<Option<HashMap<String, String>>>, StoreError> {
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::Pipeline::with_capacity(positions.len());
        for (_, id, shard) in positions {
            pipe.cmd("HMGET").arg(self.keys.conversation(*shard, id)).arg(&FIELDS_LISTED);
        }
        let values: Vec<Vec<Option<String>>> = self.connector.ask_all(DOING, &pipe).await?;
        let named = |values: Vec<Option<String>>| {
            let fields = FIELDS_LISTED.iter().zip(values);
            let fields = fields.filter_map(|(name, value)| Some(((*name).to_string(), value?)));
            let fields: HashMap<String, String> = fields.collect();
            fields.contains_key("last").then_some(fields)
        };
        Ok(values.into_iter().map(named).collect())
    }

    async fn take_off(&self, query: &ListConversations, position: &ListPosition) -> Result<(), StoreError> {
        let gone = ConversationRef {
            shard: position.2,
            id: position.1.clone(),
            app: query.app.clone(),
            user: query.user.clone(),
            copies: Vec::new(),
        };
        self.remove(&gone, true).await.map(|_| ())
    }
}

fn is_of(query: &ListConversations, fields: &HashMap<String, String>) -> bool {
    fields.get("app") == Some(&query.app) && fields.get("user") == Some(&query.user)
}
