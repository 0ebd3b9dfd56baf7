//! Reads and checks a whole submission before anything is written, so that a wrong request reserves no idempotency key.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::dsl::Diagnostic;
use tidemill_common::files::UploadId;
use tidemill_common::graph::{AppMode, Graph, NodeIx};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::ExecutionType;
use tidemill_common::value::Segment;

use super::annotations::Matched;
use super::commands::Order;
use super::gate::Preset;
use super::uploads::Owner;
use crate::background::limits::TakenPlace;
use crate::submit::{
    Submission, SubmitError, Submitter, USER_CHARS_MAX, WorkflowSource, commands, files, history, inputs,
    options, warnings,
};
use crate::workflows::{Workflow, read};

/// A checked submission.
pub(super) struct Prepared {
    pub(super) workflow: Arc<Workflow>,
    /// Warnings about a workflow that came as text.
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) user: String,
    pub(super) options: RunOptions,
    /// The node where the run begins.
    pub(super) root: NodeIx,
    pub(super) inputs: Vec<(String, Segment)>,
    /// The files of the request, as `sys.files`.
    pub(super) files: Vec<Json>,
    /// The uploads among all these files, which the run must adopt.
    pub(super) uploads: BTreeSet<UploadId>,
    /// Conversation variables that the request sets.
    pub(super) conversation: Vec<(String, Segment)>,
    /// Earlier turns that the request brings.
    pub(super) history: Option<Segment>,
    /// Commands, each with the id of the node that it waits for.
    pub(super) breakpoints: Vec<(String, Order)>,
    /// The answer that the gate gives in place of the workflow.
    pub(super) preset: Option<Preset>,
    /// The annotation of that answer.
    pub(super) annotation: Option<Box<Matched>>,
    /// The place that the run takes among those of its app, if that is limited.
    pub(super) place: Option<TakenPlace>,
}

impl Submitter {
    /// Reads and checks a submission. Takes its commands out of it.
    pub(super) async fn prepare(&self, submission: &mut Submission) -> Result<Prepared, SubmitError> {
        let (workflow, warnings) = self.workflow(submission).await?;
        let user = user(&submission.user)?;
        let mut options = options::resolve(&self.config, &workflow.options, &submission.options)?;
        let workflow = match options.choices.as_deref() {
            Some(choices) if choices.summary_before || choices.facts_after => {
                self.workflows.with_steps_around(&workflow, choices)?
            }
            Some(_) | None => workflow,
        };
        if let Some(left) = submission.called.as_ref().and_then(|by| by.budget.clone()) {
            let own = options.budget.take().map(|own| *own).unwrap_or_default();
            options.budget = Some(Box::new(own.tighter(*left)));
        }
        let graph = &workflow.graph;
        let root = root(graph, submission.root.as_deref())?;
        let features =
            (&graph.features, self.workflows.served(), self.workflows.leaves_moderation_out(graph));
        options.warnings =
            warnings::of_submission(graph.node(root), submission, features, options.warnings_max);
        let answers = self.remote_files.ask(inputs::remote_files(graph, root, submission)).await;
        let app = submission.workflow.app_id();
        let owner = Owner { app: app.as_deref(), user: &user };
        let is_for_a_client = is_for_a_client(submission);
        if is_for_a_client {
            self.check_files(inputs::runs_of_files(submission), owner).await?;
        }
        let named = inputs::uploads(graph, root, submission);
        self.check_count(named.len(), "uploads")?;
        let uploads = self.uploads.find(named, owner).await?;
        let found = uploads.keys().copied().collect();
        let answers = answers.with_uploads(uploads).for_a_client(is_for_a_client);
        // Dify compares types only where a workflow is run, not in chats and completions.
        let answers = answers.trusting_types(graph.app_mode() != AppMode::Workflow.name());
        let prepared = Prepared {
            inputs: inputs::of_run(graph, root, submission, &answers)?,
            files: files::of_request(&graph.features, &submission.files, &answers)?,
            conversation: inputs::of_conversation(graph, &submission.conversation, &answers)?,
            history: history::history(&submission.memory)?,
            breakpoints: commands::read_breakpoints(std::mem::take(&mut submission.commands), graph)?,
            uploads: found,
            workflow,
            warnings,
            user,
            options,
            root,
            preset: None,
            annotation: None,
            place: None,
        };
        if let Some(reason) = submission.key.as_deref().and_then(|key| self.budgets.exceeded(key)) {
            return Err(SubmitError::OverBudget(reason));
        }
        let depth_max = self.config.run.call_depth_max;
        if submission.call_depth > depth_max {
            return Err(SubmitError::CallDepth(depth_max));
        }
        Ok(prepared)
    }

    async fn workflow(
        &self,
        submission: &Submission,
    ) -> Result<(Arc<Workflow>, Vec<Diagnostic>), SubmitError> {
        match &submission.workflow {
            WorkflowSource::App(app) => {
                let workflow = self.workflows.of_document(&app.version, &app.document)?;
                self.workflows.check_moderation(&workflow.graph)?;
                Ok((workflow, Vec::new()))
            }
            WorkflowSource::BuiltIn(workflow) => Ok((workflow.clone(), Vec::new())),
            WorkflowSource::Text(text) => {
                Ok(read(&self.workflows, text.clone().into_bytes(), submission.seals).await?)
            }
        }
    }
}

/// Returns true when values come from a client with an app's key, so that files in them are checked. A run whose files are
/// stored already was made by this process, as was the reference to them; so are the runs of built-in files, whose values
/// were checked with the run that they are for.
fn is_for_a_client(submission: &Submission) -> bool {
    let is_of_this_process =
        matches!(submission.workflow, WorkflowSource::BuiltIn(_)) || submission.has_files;
    submission.key.is_some() && submission.called.is_none() && !is_of_this_process
}

/// The node where the run begins.
fn root(graph: &Graph, given: Option<&str>) -> Result<NodeIx, SubmitError> {
    let Some(given) = given else { return Ok(graph.root) };
    let found = graph.find(given).filter(|at| {
        let node = graph.node(*at);
        node.kind.spec().execution == ExecutionType::Root && node.parent.is_none()
    });
    found.ok_or_else(|| SubmitError::Root(given.to_string()))
}

fn user(given: &str) -> Result<String, SubmitError> {
    if given.chars().count() > USER_CHARS_MAX {
        return Err(SubmitError::User);
    }
    Ok(given.replace('\0', ""))
}
