//! The states of apps, and the removal of apps and of users of apps. A removal is a text that is stored until all is removed:
//! its progress. Each method removes a bounded part, or what one app has of one kind, and may be repeated.

use async_trait::async_trait;

use super::{ConversationRef, StoreError};
use tidemill_base::ids::{RunId, ShardId};

/// Whether an app accepts runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AppState {
    /// It does.
    #[default]
    On,
    /// It was switched off.
    Off,
    /// It is being removed, or was.
    Removing,
}

impl AppState {
    /// Its name, as it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Removing => "removing",
        }
    }

    /// The state of this name; an app without one is on.
    pub fn named(name: &str) -> Self {
        match name {
            "off" => Self::Off,
            "removing" => Self::Removing,
            _ => Self::On,
        }
    }
}

/// The result of setting the state of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateSet {
    /// It has this state now, or had it before.
    Done,
    /// It is being removed, so it stays in that state.
    Removing,
    /// There is no such app.
    Unknown,
    /// No removal of the app is stored, so it is not being removed. It may be a new app with the id of one that was removed.
    Over,
}

/// The store of states and removals.
#[async_trait]
pub trait Removals: Send + Sync {
    /// Sets the state of an app. When it returns, [`super::Runs::create_run`] refuses runs of an app that is not on. Only while
    /// a removal is stored under the app's id, [`AppState::Removing`] can be set.
    async fn set_app_state(&self, app: &str, state: AppState) -> Result<StateSet, StoreError>;
    /// Lets an app that is on accept runs again, if [`super::Runs::create_run`] refuses them still because a process has died;
    /// `false` when the app is not on.
    async fn reopen_app(&self, app: &str) -> Result<bool, StoreError>;
    /// Lets an id be the id of a new app: what refuses the runs of a removed one goes.
    async fn open_app(&self, app: &str) -> Result<(), StoreError>;
    /// Stores a removal (`before` is `None`), its progress, or that it is done (`after` is `None`); `false` when the stored
    /// text is not `before`, so that two processes do not disturb each other.
    async fn move_removal(
        &self,
        id: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<bool, StoreError>;
    /// The removals that are under way: id and text, sorted by id.
    async fn removals_under_way(&self) -> Result<Vec<(String, String)>, StoreError>;
    /// Hides these runs, and lets the owners of their shards remove those that have ended. Returns the number of those that
    /// were not hidden before.
    async fn discard_runs(&self, runs: &[RunId]) -> Result<usize, StoreError>;
    /// Of each of these runs, whether a sub-workflow run of it exists.
    async fn have_called(&self, callers: &[RunId]) -> Result<Vec<bool>, StoreError>;
    /// Some of the sub-workflow runs that a run has ordered, also those that do not exist any more, from a position on (empty:
    /// from the begin); and the next position.
    async fn some_called(
        &self,
        caller: RunId,
        from: &str,
    ) -> Result<(Vec<RunId>, Option<String>), StoreError>;
    /// Some conversations of an app, from a position on (empty: from the begin); and the next position. It looks at a bounded
    /// number of conversations of all apps.
    async fn conversations_of_app(
        &self,
        app: &str,
        from: &str,
    ) -> Result<(Vec<ConversationRef>, Option<String>), StoreError>;
    /// Removes some users of an app, likewise. Returns the next position.
    async fn drop_some_users(&self, app: &str, from: &str) -> Result<Option<String>, StoreError>;
    /// Some idempotency keys with their runs, likewise. The texts are for [`Self::drop_reserved`].
    async fn some_reserved(&self, from: &str) -> Result<(Vec<(String, RunId)>, Option<String>), StoreError>;
    /// Removes idempotency keys.
    async fn drop_reserved(&self, keys: &[String]) -> Result<(), StoreError>;
    /// Removes what a conversation keeps that belongs to no app and user: variables of runs that the native API started.
    async fn drop_variables(&self, shard: ShardId, conversation: &str) -> Result<(), StoreError>;
    /// Removes the record of a user with this id.
    async fn drop_user(&self, id: &str) -> Result<(), StoreError>;
    /// Gives back what the uploads of a user count, for the user and for the app: of all days until this one, except `kept`
    /// bytes of this one. Only what was counted for the user is given back, so it may be repeated.
    async fn give_back_uploads(
        &self,
        app: &str,
        user: &str,
        until: &str,
        kept: u64,
    ) -> Result<(), StoreError>;
    /// Removes the triggers of an app.
    async fn drop_triggers(&self, app: &str) -> Result<(), StoreError>;
    /// Removes the annotations of an app with their uses.
    async fn drop_annotations(&self, app: &str) -> Result<(), StoreError>;
    /// Removes the list of ratings of an app, and what counts its uploads.
    async fn drop_lists(&self, app: &str) -> Result<(), StoreError>;
    /// Removes the facts that were applied from the inboxes of all shards: the last one of each would stay until the next
    /// one is applied, with what a client has given to its run.
    async fn drop_applied(&self) -> Result<(), StoreError>;
    /// Removes the versions of an app, the app itself, and its removal, all at once; `false`, and nothing is removed, when
    /// `removal` is not the text that is stored under the app's id.
    async fn drop_app(&self, app: &str, removal: &str) -> Result<bool, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_is_named_and_an_app_without_one_is_on() {
        for state in [AppState::On, AppState::Off, AppState::Removing] {
            assert_eq!(AppState::named(state.name()), state);
        }
        assert_eq!(AppState::named(""), AppState::On);
    }
}
