//! A run that goes on with a chat: it becomes the newest of its conversation, and is told what was said before.

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, Place};
use tidemill_common::graph::{AppMode, Graph};
use tidemill_common::ids::RunId;
use tidemill_common::limits::HISTORY_TURNS_MAX;
use tidemill_common::store::{ConversationRef, Entered, Entering};
use tidemill_common::value::Segment;
use tidemill_common::wire::commit::conversation_copies;

use super::{Submission, SubmitError, Submitter, SystemValues, conversation, naming};
use crate::turns::{SettleError, said_before};

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
        inputs: &[(String, Segment)],
        at: Timestamp,
    ) -> Result<Option<Talk>, SubmitError> {
        let is_chat = graph.mode == AppMode::Chat && matches!(submission.sys, SystemValues::Standard);
        let Some(id) = id.filter(|_| is_chat) else { return Ok(None) };
        let called = |id: String| ConversationRef {
            shard: run.shard(),
            copies: conversation_copies(graph, &id),
            id,
            app: submission.workflow.app_id().unwrap_or_default(),
            user: submission.user.clone(),
        };
        let entering = Entering {
            conversation: called(id.to_owned()),
            run,
            must_exist: submission.only_known_conversation
                && submission.conversation_id.as_deref() == Some(id),
            at,
            begins: naming::of_beginning(graph, submission, inputs),
        };
        let (id, entered) = match self.store.enter_conversation(&entering).await? {
            // As on Dify: who names a conversation that is not his begins one.
            Entered::Unknown if submission.only_known_conversation => {
                let id = conversation::new_id(run);
                let fresh =
                    Entering { conversation: called(id.clone()), must_exist: false, ..entering };
                (id, self.store.enter_conversation(&fresh).await?)
            }
            entered @ (Entered::Unknown | Entered::Entered { .. }) => (entering.conversation.id, entered),
        };
        crash::pass(Place::ConversationEntered);
        let Entered::Entered { dialogue, previous } = entered else {
            return Err(SubmitError::ForeignConversation);
        };
        if let Some(previous) = previous {
            self.settle(previous).await?;
        }
        let turns = self.store.turns(run.shard(), &id, HISTORY_TURNS_MAX).await?;
        Ok(Some(Talk { id, dialogue, turns: said_before(&turns) }))
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
