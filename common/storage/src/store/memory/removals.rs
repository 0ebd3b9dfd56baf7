//! States of apps, and the removal of apps and users, in memory. It must behave like `store/redis/removals.rs`; the contract
//! suite runs on both.

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{
    AppState, ConversationRef, REMOVED_FIELD, Removals, StateSet, StoreError, TriggerChanges,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};
use tidemill_wire::conversation::{conversation_copy, variable_of_field};

#[async_trait]
impl Removals for MemoryStore {
    async fn set_app_state(&self, app: &str, state: AppState) -> Result<StateSet, StoreError> {
        let mut space = self.inner.lock();
        if state == AppState::Removing && !space.removals.contains_key(app) {
            return Ok(StateSet::Over);
        }
        let Some(known) = space.apps.get_mut(app) else { return Ok(StateSet::Unknown) };
        if known.state == AppState::Removing && state != AppState::Removing {
            return Ok(StateSet::Removing);
        }
        known.state = state;
        match state {
            AppState::On => space.closed_apps.remove(app),
            AppState::Off | AppState::Removing => space.closed_apps.insert(app.to_owned(), state),
        };
        Ok(StateSet::Done)
    }

    async fn reopen_app(&self, app: &str) -> Result<bool, StoreError> {
        let mut space = self.inner.lock();
        let is_on = space.apps.get(app).is_some_and(|app| app.state == AppState::On);
        if is_on {
            space.closed_apps.remove(app);
        }
        Ok(is_on)
    }

    async fn open_app(&self, app: &str) -> Result<(), StoreError> {
        self.inner.lock().closed_apps.remove(app);
        Ok(())
    }

    async fn move_removal(
        &self,
        id: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<bool, StoreError> {
        let removals = &mut self.inner.lock().removals;
        if removals.get(id).map(String::as_str) != before {
            return Ok(false);
        }
        match after {
            Some(after) => removals.insert(id.to_owned(), after.to_owned()),
            None => removals.remove(id),
        };
        Ok(true)
    }

    async fn removals_under_way(&self) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.inner.lock().removals.clone().into_iter().collect())
    }

    async fn discard_runs(&self, runs: &[RunId]) -> Result<usize, StoreError> {
        let mut space = self.inner.lock();
        let mut hidden = 0;
        for run in runs {
            let Some(known) = space.shard(run.shard()).runs.get_mut(run) else { continue };
            hidden += usize::from(known.fields.insert(REMOVED_FIELD.into(), "1".into()).is_none());
            known.ended_at = known.ended_at.map(|_| Timestamp::from_micros(0));
        }
        Ok(hidden)
    }

    async fn have_called(&self, callers: &[RunId]) -> Result<Vec<bool>, StoreError> {
        let mut space = self.inner.lock();
        let mut has_called = |caller: &RunId| {
            let runs = &space.shard(caller.shard()).runs;
            runs.get(caller).is_some_and(|run| run.calls.iter().any(|(called, _)| runs.contains_key(called)))
        };
        Ok(callers.iter().map(&mut has_called).collect())
    }

    async fn some_called(&self, caller: RunId, _: &str) -> Result<(Vec<RunId>, Option<String>), StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(caller.shard()).runs.get(&caller);
        Ok((known.into_iter().flat_map(|run| run.calls.keys().copied()).collect(), None))
    }

    async fn conversations_of_app(
        &self,
        app: &str,
        _: &str,
    ) -> Result<(Vec<ConversationRef>, Option<String>), StoreError> {
        let space = self.inner.lock();
        let mut found = Vec::new();
        for (shard, of_shard) in &space.shards {
            for (id, kept) in &of_shard.conversations {
                if kept.fields.get("app").is_none_or(|of| of != app) {
                    continue;
                }
                let names = kept.fields.keys().filter_map(|field| variable_of_field(field));
                found.push(ConversationRef {
                    shard: *shard,
                    id: id.clone(),
                    app: app.to_owned(),
                    user: kept.fields.get("user").cloned().unwrap_or_default(),
                    copies: names.map(|name| conversation_copy(id, name)).collect(),
                });
            }
        }
        Ok((found, None))
    }

    async fn drop_some_users(&self, app: &str, _: &str) -> Result<Option<String>, StoreError> {
        let mut space = self.inner.lock();
        space.records_of_apps.drop_users(|user| user.app == app);
        space.uploads.retain(|(of, user), _| of != app || user.is_none());
        Ok(None)
    }

    async fn some_reserved(&self, _: &str) -> Result<(Vec<(String, RunId)>, Option<String>), StoreError> {
        let space = self.inner.lock();
        let found = space.reserved.iter().map(|(key, reserved)| (key.clone(), reserved.run)).collect();
        Ok((found, None))
    }

    async fn drop_reserved(&self, keys: &[String]) -> Result<(), StoreError> {
        self.inner.lock().reserved.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    async fn drop_variables(&self, shard: ShardId, conversation: &str) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        let shard = space.shard(shard);
        if shard.conversations.get(conversation).is_some_and(|kept| !kept.fields.contains_key("app")) {
            shard.forget_conversation(conversation);
        }
        Ok(())
    }

    async fn drop_user(&self, id: &str) -> Result<(), StoreError> {
        self.inner.lock().records_of_apps.drop_user(id);
        Ok(())
    }

    async fn give_back_uploads(
        &self,
        app: &str,
        user: &str,
        until: &str,
        kept: u64,
    ) -> Result<(), StoreError> {
        self.inner.lock().give_back(app, user, until, kept);
        Ok(())
    }

    async fn drop_triggers(&self, app: &str) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        let all = space.all_triggers(self.inner.meta());
        let own = all.into_iter().filter(|it| it.trigger.app == app).map(|it| it.trigger.id);
        let changes = TriggerChanges { removed: own.collect(), ..TriggerChanges::default() };
        space.change_triggers(&changes, self.inner.meta());
        Ok(())
    }

    async fn drop_annotations(&self, app: &str) -> Result<(), StoreError> {
        self.inner.lock().annotations.remove(app);
        Ok(())
    }

    async fn drop_lists(&self, app: &str) -> Result<(), StoreError> {
        self.inner.lock().uploads.remove(&(app.to_owned(), None));
        Ok(())
    }

    async fn drop_applied(&self) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        for shard in space.shards.values_mut() {
            let cursor = shard.fence.cursor;
            shard.inbox.trim_through(cursor);
        }
        Ok(())
    }

    async fn drop_app(&self, app: &str, removal: &str) -> Result<bool, StoreError> {
        let mut space = self.inner.lock();
        if space.removals.get(app).is_none_or(|stored| stored != removal) {
            return Ok(false);
        }
        space.removals.remove(app);
        space.records_of_apps.drop_versions(app);
        space.apps.remove(app);
        Ok(true)
    }
}
