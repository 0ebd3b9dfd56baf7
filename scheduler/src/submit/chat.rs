//! Lets a run join its chat: it becomes the newest run of the conversation, and gets the turns before it.

use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::graph::{AppMode, Graph, SimpleMode};
use tidemill_common::ids::RunId;
use tidemill_common::limits::HISTORY_TURNS_MAX;
use tidemill_common::machine::state::run::RunHead;
use tidemill_common::store::{ConversationRef, Entered, Entering};
use tidemill_common::value::{JsonMap, Segment, Stored};
use tidemill_common::wire::conversation::conversation_copies;

use crate::background::turns::{SettleError, earlier_turns};
use crate::submit::prepare::Prepared;
use crate::submit::{Submission, SubmitError, Submitter, SystemValues, conversation, naming};

/// Longest wait for the verdict of moderation about the answer before. Then the message is answered without that turn.
const PREVIOUS_WAIT_MAX: Duration = Duration::from_secs(5);

/// The place of a run in its conversation.
pub(super) struct ConversationPosition {
    pub(super) id: String,
    /// The number of the turn, from 1.
    pub(super) dialogue: u64,
    /// The turns before it, oldest first.
    pub(super) turns: Vec<Json>,
}

/// The conversation of a run, and its variables.
pub(super) struct JoinedConversation {
    pub(super) id: Option<String>,
    /// `None` for runs of workflows, and for callers that keep the conversation themselves.
    pub(super) position: Option<ConversationPosition>,
    /// Conversation variables: those of the request, then those that the conversation remembers.
    pub(super) variables: Vec<(String, Segment)>,
    /// The conversation has a list of messages.
    pub(super) has_messages: bool,
}

impl Submitter {
    /// Joins the conversation that the submission names, or begins one.
    pub(super) async fn join(
        &self,
        submission: &Submission,
        prepared: &Prepared,
        run: RunId,
        at: Timestamp,
    ) -> Result<JoinedConversation, SubmitError> {
        let graph = &prepared.workflow.graph;
        let id = match submission.conversation_id.as_deref() {
            None => None,
            Some("") => Some(conversation::new_id(run, self.meta().await?)),
            Some(id) => Some(id.to_owned()),
        };
        let position = self.position(graph, submission, run, id.as_deref(), &prepared.inputs, at).await?;
        let id = position.as_ref().map(|position| position.id.clone()).or(id);
        let given = &prepared.conversation;
        let (variables, has_messages) = match &id {
            Some(id) => conversation::variables(&*self.store, run.shard(), id, graph, given).await?,
            None => (given.clone(), false),
        };
        Ok(JoinedConversation { id, position, variables, has_messages })
    }

    /// Enters the conversation of a chat's run. Returns `None` for runs of workflows, and for callers that keep the
    /// conversation themselves (they give the system variables).
    async fn position(
        &self,
        graph: &Graph,
        submission: &Submission,
        run: RunId,
        id: Option<&str>,
        inputs: &[(String, Segment)],
        at: Timestamp,
    ) -> Result<Option<ConversationPosition>, SubmitError> {
        // A completion's message can be rated, so it is kept as the only one of a conversation.
        let keeps = graph.mode == AppMode::Chat || graph.front.mode == Some(SimpleMode::Completion);
        let is_chat = keeps && matches!(submission.sys, SystemValues::Standard);
        let Some(id) = id.filter(|_| is_chat) else { return Ok(None) };
        let name = match submission.is_nameless {
            true => naming::NAMELESS.to_string(),
            false => naming::name_of(&submission.query),
        };
        let inputs = inputs.iter().map(|(name, segment)| (name.clone(), segment.value.clone())).collect();
        let reference = |id: String| ConversationRef {
            shard: run.shard(),
            copies: conversation_copies(graph, &id),
            id,
            app: submission.workflow.app_id().unwrap_or_default(),
            user: submission.user.clone(),
        };
        let entering = Entering {
            conversation: reference(id.to_owned()),
            run,
            must_exist: submission.only_known_conversation
                && submission.conversation_id.as_deref() == Some(id),
            at,
            begins: naming::of_beginning(graph, name, inputs),
        };
        let (id, entered) = match self.store.enter_conversation(&entering).await? {
            // As on Dify: a client that names a conversation of another user begins a new one.
            Entered::Unknown if submission.only_known_conversation && submission.called.is_none() => {
                let id = conversation::new_id(run, self.meta().await?);
                let fresh = Entering { conversation: reference(id.clone()), must_exist: false, ..entering };
                (id, self.store.enter_conversation(&fresh).await?)
            }
            entered @ (Entered::Unknown | Entered::Entered { .. }) => (entering.conversation.id, entered),
        };
        crash::pass(CrashPoint::ConversationEntered);
        let Entered::Entered { dialogue, previous, unsettled } = entered else {
            return Err(SubmitError::ForeignConversation);
        };
        for earlier in unsettled.into_iter().chain(previous) {
            self.settle(earlier).await?;
        }
        let turns = self.store.turns(run.shard(), &id, HISTORY_TURNS_MAX).await?;
        Ok(Some(ConversationPosition { id, dialogue, turns: earlier_turns(&turns) }))
    }

    /// Enters the conversation of an imported run, so that its turn is stored there.
    pub(super) async fn talk_on(
        &self,
        graph: &Graph,
        run: RunId,
        head: &RunHead,
        must_exist: bool,
    ) -> Result<(), SubmitError> {
        let Some(id) = head.conversation_id.as_ref().filter(|_| head.leaves_turn) else { return Ok(()) };
        let query = head.sys.iter().find(|(name, _)| name == "query").map(|(_, stored)| stored);
        let name = match query {
            Some(Stored::Inline(query)) => naming::name_of(query.value.as_str().unwrap_or_default()),
            Some(Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_)) | None => {
                naming::NAMELESS.to_string()
            }
        };
        let entering = Entering {
            conversation: ConversationRef {
                shard: run.shard(),
                copies: conversation_copies(graph, id),
                id: id.clone(),
                app: head.app.clone().unwrap_or_default(),
                user: head.user.clone(),
            },
            run,
            must_exist,
            at: head.created_at,
            begins: naming::of_beginning(graph, name, JsonMap::new()),
        };
        // If the conversation was removed or belongs to another user here, no turn is stored, but the run continues.
        let entered = self.store.enter_conversation(&entering).await?;
        tracing::debug!(%run, ?entered, "imported run joined its conversation");
        Ok(())
    }

    /// Adds the turn of an earlier run, which may have ended a moment ago.
    async fn settle(&self, earlier: RunId) -> Result<(), SubmitError> {
        match self.turns.settle(earlier, self, PREVIOUS_WAIT_MAX).await {
            Ok(()) => Ok(()),
            Err(SettleError::Unchecked) => {
                tracing::info!(run = %earlier, "a conversation continues without its last turn, whose answer is not checked yet");
                Ok(())
            }
            Err(SettleError::Store(error)) => Err(error.into()),
            Err(error @ (SettleError::Graph(_) | SettleError::Unreadable(_))) => {
                tracing::warn!(run = %earlier, %error, "a conversation continues without a turn, which cannot be read");
                Ok(())
            }
        }
    }
}
