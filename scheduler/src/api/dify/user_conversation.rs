//! Finds a conversation of the caller: of the app that the key belongs to, and of the user in the request.
//! Conversations of other users are not found.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::limits::CONVERSATION_TURNS_MAX;
use tidemill_common::store::{App, ConversationRef, ConversationsBy, ListConversations, OPEN_FIELD};
use tidemill_common::wire::conversation::conversation_copies;

use super::find;
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::background::turns::{SettleError, in_order};
use crate::runs::record::RunRecord;
use crate::workflows::Workflow;

/// The most conversations of a user that are searched for a message whose run was removed.
const LOOKED_THROUGH_MAX: usize = 200;
/// The largest difference of the clocks that create ids of messages, in ms.
const CLOCKS_APART_MS: i64 = 600_000;

pub(super) struct UserConversation {
    pub(super) of: ConversationRef,
    pub(super) fields: HashMap<String, String>,
    /// The app's current workflow.
    pub(super) workflow: Arc<Workflow>,
}

impl UserConversation {
    /// Returns the conversation, or 404 in Dify's words.
    pub(super) async fn get(state: &ApiState, app: &App, user: &str, id: &str) -> Result<Self, ApiError> {
        Self::find(state, app, user, id).await?.ok_or_else(gone)
    }

    async fn find(state: &ApiState, app: &App, user: &str, id: &str) -> Result<Option<Self>, ApiError> {
        let id = spelled(id);
        let Ok(shard) = state.submitter.shard_of_conversation(&id).await else { return Ok(None) };
        let fields = state.store.conversation(shard, &id).await?;
        let is = |name: &str, value: &str| fields.get(name).is_some_and(|known| known == value);
        if !is("app", &app.id) || !is("user", user) {
            return Ok(None);
        }
        let workflow = state.workflows.of_document(&app.version, &app.document)?;
        let copies = conversation_copies(&workflow.graph, &id);
        let of = ConversationRef { shard, id, app: app.id.clone(), user: user.to_string(), copies };
        Ok(Some(Self { of, fields, workflow }))
    }

    /// Returns the conversation of a message: from its run, or, if that was removed, by a search through the
    /// conversations that the user had at that time.
    pub(super) async fn of_message(
        state: &ApiState,
        app: &App,
        user: &str,
        message: RunId,
    ) -> Result<Option<Self>, ApiError> {
        if let Some(record) = find(state, app, message).await? {
            let id = record.conversation_id.filter(|_| record.user == user);
            return match id {
                Some(id) => Self::find(state, app, user, &id).await,
                None => Ok(None),
            };
        }
        for id in existed_then(state, app, user, message).await? {
            if let Some(user_conversation) = Self::find(state, app, user, &id).await? {
                let id = message.to_string();
                if user_conversation.turns(state).await?.iter().any(|turn| turn["id"] == id.as_str()) {
                    return Ok(Some(user_conversation));
                }
            }
        }
        Ok(None)
    }

    /// The turns of the conversation, sorted by the time of their question.
    pub(super) async fn turns(&self, state: &ApiState) -> Result<Vec<Json>, ApiError> {
        let turns = state.store.turns(self.of.shard, &self.of.id, CONVERSATION_TURNS_MAX).await?;
        Ok(in_order(&turns))
    }

    /// The runs of the turns that are kept, and those whose turns may not be stored yet.
    pub(super) async fn runs(&self, state: &ApiState) -> Result<Vec<RunId>, ApiError> {
        let turns = self.turns(state).await?;
        let of_turns = turns.iter().filter_map(|turn| turn["id"].as_str()?.parse().ok());
        let runs: BTreeSet<RunId> = of_turns.chain(self.open_runs()).collect();
        Ok(runs.into_iter().collect())
    }

    /// The runs whose turns may not be stored yet, oldest first: those that are noted, and the newest two, which are all
    /// that a conversation of an older release names.
    fn open_runs(&self) -> BTreeSet<RunId> {
        let ids = [OPEN_FIELD, "before", "last"].into_iter().filter_map(|name| self.fields.get(name));
        ids.flat_map(|ids| ids.split(' ')).filter_map(|id| id.parse().ok()).collect()
    }

    /// Stores the turns of open runs that have ended, and returns the records of those that have not, or whose answer is being
    /// checked.
    pub(super) async fn settle(&self, state: &ApiState, app: &App) -> Result<Vec<RunRecord>, ApiError> {
        let mut under_way = Vec::new();
        for run in self.open_runs() {
            let Some(record) = find(state, app, run).await? else { continue };
            if !record.status.is_over() {
                under_way.push(record);
                continue;
            }
            match state.submitter.settle_turn(run).await {
                Err(SettleError::Store(error)) => return Err(error.into()),
                Err(SettleError::Unchecked) => under_way.push(record),
                // An unreadable turn is left out, as in the conversation itself.
                Ok(()) | Err(SettleError::Graph(_) | SettleError::Unreadable(_)) => {}
            }
        }
        Ok(under_way)
    }
}

/// The stored form of an id: a UUID in lower case, others unchanged.
pub(super) fn spelled(id: &str) -> String {
    if uuid::Uuid::try_parse(id).is_ok() { id.to_ascii_lowercase() } else { id.to_string() }
}

/// The error for a conversation that does not exist or belongs to another user.
pub(super) fn gone() -> ApiError {
    ApiError::not_found("Conversation Not Exists.")
}

/// The user's conversations on the shard of the message that existed at its time and were used at or after it.
async fn existed_then(
    state: &ApiState,
    app: &App,
    user: &str,
    message: RunId,
) -> Result<Vec<String>, ApiError> {
    let query = ListConversations {
        app: app.id.clone(),
        user: user.to_string(),
        by: ConversationsBy::Use,
        newest_first: true,
        after: None,
        limit: LOOKED_THROUGH_MAX,
    };
    let said_at = message.uuid().get_timestamp().map_or(0, |at| at.to_unix().0.cast_signed() * 1000);
    let lived = |shard: ShardId, fields: &HashMap<String, String>| {
        let at = |name: &str| fields.get(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        shard == message.shard()
            && at("created_at") <= said_at + CLOCKS_APART_MS
            && at("updated_at") >= said_at - CLOCKS_APART_MS
    };
    let found = state.store.conversations(&query).await?.unwrap_or_default();
    Ok(found.into_iter().filter(|it| lived(it.shard, &it.fields)).map(|it| it.id).collect())
}
