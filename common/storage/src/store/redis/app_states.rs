//! States of apps in Redis: the app's field, and on each shard a mark that makes `create_run` refuse its runs.

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{AppState, Runs, StateSet, StoreError};

/// How long the id of a removed app accepts no runs: longer than any request that has read the app before.
const CLOSED_SECONDS: u64 = 24 * 3600;

impl RedisStore {
    pub(super) async fn set_state(&self, app: &str, state: AppState) -> Result<StateSet, StoreError> {
        const DOING: &str = "setting the state of an app";
        let args = args![state.name(), app];
        let keys = [self.keys.common_nothing(), self.keys.app(app), self.keys.removals()];
        let word: String = self.connector.run(DOING, &self.scripts.set_app_state, &keys, &args).await?;
        match word.as_str() {
            "SET" => self.settle_marks(app, state).await.map(|()| StateSet::Done),
            "REMOVING" => Ok(StateSet::Removing),
            "NONE" => Ok(StateSet::Unknown),
            "OVER" => Ok(StateSet::Over),
            other => Err(unexpected(DOING, other)),
        }
    }

    /// Removes the marks of an app that is on. They stay when a process dies between the state and the marks.
    pub(super) async fn reopen(&self, app: &str) -> Result<bool, StoreError> {
        if self.state_of(app).await? != Some(AppState::On) {
            return Ok(false);
        }
        self.settle_marks(app, AppState::On).await?;
        Ok(true)
    }

    /// Sets the marks of an app that got this state. When another process has set another state since, its marks and these
    /// may mix: then the marks of that state are set, so the process that writes last leaves the right ones.
    async fn settle_marks(&self, app: &str, mut state: AppState) -> Result<(), StoreError> {
        loop {
            self.close(app, state).await?;
            match self.state_of(app).await? {
                Some(now) if now != state => state = now,
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// The state of an app; `None` when there is no such app.
    async fn state_of(&self, app: &str) -> Result<Option<AppState>, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.app(app)).arg("version").arg("state");
        let (version, state): (Option<String>, Option<String>) =
            self.connector.ask("reading the state of an app", &command).await?;
        Ok(version.map(|_| AppState::named(state.as_deref().unwrap_or_default())))
    }

    /// Marks or unmarks an app on each shard, for `create_run`.
    pub(super) async fn close(&self, app: &str, state: AppState) -> Result<(), StoreError> {
        const DOING: &str = "setting whether an app accepts runs";
        let meta = Runs::meta(self).await?;
        let seconds = match state {
            AppState::On => {
                let mut pipe = redis::Pipeline::with_capacity(usize::from(meta.shards));
                for shard in Self::shards_of(meta) {
                    pipe.cmd("DEL").arg(self.keys.closed(shard, app)).ignore();
                }
                return self.connector.ask_all(DOING, &pipe).await;
            }
            AppState::Off => 0,
            AppState::Removing => CLOSED_SECONDS,
        };
        let args = args![state.name(), seconds];
        for shard in Self::shards_of(meta) {
            let keys = [self.keys.nothing(shard), self.keys.closed(shard, app)];
            let _: String = self.connector.run(DOING, &self.scripts.close_app, &keys, &args).await?;
        }
        Ok(())
    }
}
