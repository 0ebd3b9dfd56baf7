//! The gate before a run: what is decided about a question before the workflow of an app begins.
//!
//! When the gate answers a chat, the workflow is not run. The answer is still a run of the same app and conversation, so
//! that it is a message like any, survives the process and can be followed: a run of the small workflow `preset.yml`, whose
//! hash has the field [`ANSWERED_BY`]. The projection shows it as Dify does, without events of a workflow.
//!
//! For an app without such features the gate only looks at the features in memory.

mod annotation;
mod asking;
mod input;
mod output;

pub(crate) use self::output::{AnswerVerdict, NoVerdict};

use std::sync::Arc;

use tidemill_common::graph::{AppMode, GraphHash, SimpleMode};
use tidemill_common::value::Segment;
use tokio::sync::OnceCell;

use self::input::Verdict;
pub(super) use self::output::output_check;
use super::prepare::Prepared;
use super::{Submission, SubmitError, Submitter, SystemValues};
use crate::runs::answered::{ANSWERED_BY, AnsweredBy};
use crate::workflows::{Workflow, import};

/// The workflow that records an answer of the gate.
const PRESET: &str = include_str!("preset.yml");
/// The system variable with the answer, in that workflow.
const PRESET_ANSWER: &str = "preset_answer";
/// The answer of the gate, and the workflow that records it.
pub(super) struct Preset {
    pub(super) by: AnsweredBy,
    pub(super) text: String,
    pub(super) workflow: Arc<Workflow>,
}

impl Preset {
    /// The answer as a system variable of the run that records it.
    pub(super) fn variable(&self) -> (String, Segment) {
        (PRESET_ANSWER.to_owned(), Segment::string(self.text.clone()))
    }

    /// The field of the run's hash.
    pub(super) fn field(&self) -> (&'static str, String) {
        (ANSWERED_BY, self.by.to_text())
    }
}

/// What the gate keeps between requests.
#[derive(Default)]
pub(super) struct Gate {
    preset: OnceCell<Arc<Workflow>>,
}

impl Submitter {
    /// Decides about a run before it is created. May change its inputs and its question, or set the answer that the run
    /// gives in place of its workflow.
    ///
    /// # Errors
    /// [`SubmitError::Moderated`] for flagged inputs of a workflow, which has no chat to answer in.
    pub(super) async fn pass_gate(
        &self,
        submission: &mut Submission,
        prepared: &mut Prepared,
    ) -> Result<(), SubmitError> {
        let Some(moderation) = self.workflows.moderation(&prepared.workflow.graph.features) else {
            return Ok(());
        };
        let query = question(submission);
        match self.check_inputs(&moderation, &prepared.inputs, &query, submission).await? {
            Verdict::Passed => Ok(()),
            Verdict::Overridden { inputs, query } => {
                prepared.inputs =
                    inputs.into_iter().map(|(name, value)| (name, Segment::restore_files(value))).collect();
                set_question(submission, query);
                Ok(())
            }
            Verdict::Flagged(text) => self.answer_with(prepared, AnsweredBy::InputModeration, text).await,
        }
    }

    /// Sets the answer that the run gives in place of its workflow.
    pub(super) async fn answer_with(
        &self,
        prepared: &mut Prepared,
        by: AnsweredBy,
        text: String,
    ) -> Result<(), SubmitError> {
        let graph = &prepared.workflow.graph;
        // A completion has a message, too, although it runs as a workflow.
        if graph.mode != AppMode::Chat && graph.front.mode != Some(SimpleMode::Completion) {
            return Err(SubmitError::Moderated(text));
        }
        let preset = self.gate.preset.get_or_try_init(async || {
            let (workflow, _) = import(&self.workflows, PRESET.as_bytes().to_vec()).await?;
            Ok::<_, SubmitError>(workflow)
        });
        prepared.preset = Some(Preset { by, text, workflow: preset.await?.clone() });
        // They wait for nodes of a workflow that does not run.
        prepared.breakpoints.clear();
        Ok(())
    }
}

impl Prepared {
    /// The workflow that the run executes: the app's, or the one that records the answer of the gate.
    pub(super) fn run_workflow(&self) -> &Arc<Workflow> {
        self.preset.as_ref().map_or(&self.workflow, |preset| &preset.workflow)
    }

    /// The hash of that workflow.
    pub(super) fn run_version(&self) -> GraphHash {
        self.run_workflow().graph.hash.clone()
    }
}

/// The question of a chat, empty if there is none.
fn question(submission: &Submission) -> String {
    match &submission.sys {
        SystemValues::Standard => submission.query.clone(),
        SystemValues::Exactly(values) => {
            values.get("query").and_then(|query| query.as_str()).unwrap_or_default().to_owned()
        }
    }
}

fn set_question(submission: &mut Submission, query: String) {
    if let SystemValues::Exactly(values) = &mut submission.sys
        && values.contains_key("query")
    {
        values.insert("query".into(), query.clone().into());
    }
    submission.query = query;
}
