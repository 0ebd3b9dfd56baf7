//! A run that goes on with a chat: it becomes the newest of its conversation, and is told what was said before.

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{AppMode, Graph};
use tidemill_common::ids::RunId;
use tidemill_common::limits::HISTORY_TURNS_MAX;
use tidemill_common::store::{Entered, Entering};

use super::{Submission, SubmitError, Submitter, SystemValues, conversation};
use crate::turns::SettleError;

/// What a run is told of its conversation.
pub(super) struct Talk {
    /// The conversation.
    pub(super) id: String,
    /// Which turn of it the run is, from 1.
    pub(super) dialogue: u64,
    /// The turns before it, oldest first.
    pub(super) turns: Vec<Json>,
}

impl Submitter {
    /// Enters the conversation of a chat's run; none for runs of workflows, and for callers who keep the conversation
    /// themselves (they give the system variables).
    pub(super) async fn talk(
        &self,
        graph: &Graph,
        submission: &Submission,
        run: RunId,
        id: Option<&str>,
        at: Timestamp,
    ) -> Result<Option<Talk>, SubmitError> {
        let is_chat = graph.mode == AppMode::Chat && matches!(submission.sys, SystemValues::Standard);
        let Some(id) = id.filter(|_| is_chat) else { return Ok(None) };
        let entering = Entering {
            id: id.to_owned(),
            run,
            app: submission.workflow.app_id().unwrap_or_default(),
            user: submission.user.clone(),
            must_exist: submission.only_known_conversation
                && submission.conversation_id.as_deref() == Some(id),
            at,
        };
        let (id, entered) = match self.store.enter_conversation(&entering).await? {
            // As on Dify: who names a conversation that is not his begins one.
            Entered::Unknown if submission.only_known_conversation => {
                let id = conversation::new_id(run.shard());
                let fresh = Entering { id: id.clone(), must_exist: false, ..entering };
                (id, self.store.enter_conversation(&fresh).await?)
            }
            entered @ (Entered::Unknown | Entered::Entered { .. }) => (entering.id, entered),
        };
        let Entered::Entered { dialogue, previous } = entered else {
            return Err(SubmitError::ForeignConversation);
        };
        if let Some(previous) = previous {
            self.settle(previous).await?;
        }
        let turns = self.store.turns(run.shard(), &id, HISTORY_TURNS_MAX).await?;
        let turns = turns.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        Ok(Some(Talk { id, dialogue, turns }))
    }

    /// The run before this one may have ended a moment ago.
    async fn settle(&self, previous: RunId) -> Result<(), SubmitError> {
        match self.turns.settle(previous).await {
            Ok(()) => Ok(()),
            Err(SettleError::Store(error)) => Err(error.into()),
            Err(error @ (SettleError::Graph(_) | SettleError::Unreadable(_))) => {
                tracing::warn!(run = %previous, %error, "a conversation goes on without what was said last");
                Ok(())
            }
        }
    }
}
