//! Turns a request into a scheduled run, for both surfaces of the API. Start at [`Submitter::submit`]: it prepares
//! (reads and checks the whole request, [`prepare`]), reserves the idempotency key, and creates the run.

pub(crate) mod annotations;
pub mod blobs;
pub(crate) mod chat;
mod clock;
pub mod commands;
pub(crate) mod conversation;
mod conversation_id;
mod durable;
mod end_users;
mod error;
pub(crate) mod files;
mod forgetting;
pub(crate) mod gate;
mod given;
pub(crate) mod history;
pub mod host;
mod import;
pub(crate) mod inner;
mod inputs;
pub(crate) mod naming;
mod options;
mod prepare;
pub(crate) mod remote_files;
mod request;
pub(crate) mod system_values;
#[cfg(test)]
mod tests;
pub(crate) mod uploads;
mod warnings;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::config::Config;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::dsl::moderation::OutputRules;
use tidemill_common::graph::Graph;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::state::run::{RunHead, RunStatus};
use tidemill_common::store::{
    AppState, ConversationRef, Created, LABELS_FIELD, Labels, Meta, NewRun, Reserved, RunOwner, Runs,
    StoreError, scheduled_run,
};
use tidemill_common::wire;
use tidemill_common::wire::conversation::conversation_copies;

use self::clock::StoreClock;
use self::end_users::EndUsers;
use self::error::unknown_option;
use self::gate::Gate;
use self::inner::BuiltIn;
use self::prepare::Prepared;
use self::remote_files::RemoteFiles;
use self::uploads::UploadPlace;
use crate::background::budgets::Budgets;
use crate::background::limits::{Limited, Limiter, TakenPlace};
use crate::background::turns::{SettleError, TurnSettler};
use crate::background::webhooks::KnownWebhooks;
use crate::namespace::Namespace;
use crate::runs::record::PUBLISHED_FIELD;
use crate::submit::blobs::BlobWriter;
use crate::workflows::Workflows;

pub use crate::submit::system_values::SystemValues;
pub use error::{SubmitError, USER_CHARS_MAX};
pub use import::Retry;
pub use request::{CalledBy, Idempotency, Submission, Submitted, WorkflowSource};

/// Creates runs.
pub struct Submitter {
    store: Arc<dyn Runs>,
    config: Arc<Config>,
    workflows: Arc<Workflows>,
    /// The number of shards; the loop that takes shards keeps it up to date.
    pub(crate) namespace: Arc<Namespace>,
    clock: StoreClock,
    gate: Gate,
    turns: TurnSettler,
    /// Knows which API keys have spent their budget.
    pub budgets: Budgets,
    /// Knows the limits of apps and keys.
    pub limiter: Arc<Limiter>,
    /// Knows which apps have a webhook.
    pub(crate) webhooks: KnownWebhooks,
    /// Asks what the remote files of requests and answers are.
    pub(crate) remote_files: RemoteFiles,
    end_users: Arc<EndUsers>,
    /// The storage of uploads.
    pub(crate) uploads: UploadPlace,
    /// Built-in files that are ready for runs.
    built_in: BuiltIn,
}

impl Submitter {
    /// Creates it for this store and these settings.
    pub fn new(store: Arc<dyn Runs>, config: Arc<Config>, workflows: Arc<Workflows>) -> Self {
        let turns = TurnSettler::new(store.clone(), workflows.clone(), config.clone());
        let budgets = Budgets::new(store.clone());
        let limiter = Arc::new(Limiter::new(store.clone(), &config.scheduler));
        let webhooks = KnownWebhooks::new(store.clone());
        let (remote_files, clock) = (RemoteFiles::new(&config), StoreClock::default());
        let (uploads, gate) = (UploadPlace::new(&config.files), Gate::default());
        let built_in = BuiltIn::default();
        let end_users = Arc::new(EndUsers::new(store.clone(), &config));
        Self {
            budgets,
            limiter,
            webhooks,
            store,
            config,
            workflows,
            namespace: Arc::default(),
            clock,
            gate,
            turns,
            remote_files,
            end_users,
            uploads,
            built_in,
        }
    }

    /// Creates the run, or finds the one that the same request created before. See [`Self::submit`].
    async fn create_or_find(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        // A sub-workflow run is started by its caller, not by the user.
        let app = match &submission.workflow {
            WorkflowSource::App(app) if submission.called.is_none() => app.clone(),
            WorkflowSource::App(_) | WorkflowSource::Text(_) | WorkflowSource::BuiltIn(_) => {
                return Box::pin(self.submit_noted(submission)).await;
            }
        };
        let user = submission.user.clone();
        let submitted = Box::pin(self.submit_noted(submission)).await?;
        if self.end_users.is_due(&app, &user) {
            // Not waited for: the answer does not need it.
            let at = self.clock.now(&*self.store).await;
            tokio::spawn(self.end_users.clone().note(app, user, at));
        }
        Ok(submitted)
    }

    async fn submit_noted(&self, mut submission: Submission) -> Result<Submitted, SubmitError> {
        if submission.idempotency.is_none() {
            refuse_closed(&submission.workflow)?;
        }
        if let WorkflowSource::App(app) = &submission.workflow
            && submission.called.is_none()
            // A run with an id may exist; a webhook has asked before it stored its files.
            && submission.schedule.is_none()
            && submission.run.is_none()
        {
            let (key, idempotency) = (submission.key.as_deref(), submission.idempotency.as_ref());
            self.check_room(&app.id, key, idempotency).await?;
        }
        let prepared = self.prepare(&mut submission).await?;
        let run = match self.reserve(&submission).await? {
            Reservation::New(run) => run,
            Reservation::Created { run, status, conversation_id } => {
                let Prepared { workflow, warnings, .. } = prepared;
                return Ok(Submitted { run, is_new: false, status, workflow, conversation_id, warnings });
            }
        };
        // Not before: a repeated request finds its run, also when the app is off since.
        refuse_closed(&submission.workflow)?;
        let mut place = self.place_for(&submission, run).await?;
        let submitted = Box::pin(self.create_in_place(submission, prepared, (run, place.as_mut()))).await;
        let may_work = matches!(
            submitted,
            Ok(Submitted { is_new: true, .. }) | Err(SubmitError::Store(_) | SubmitError::Unconfirmed { .. })
        );
        if let Some(place) = place
            && !may_work
        {
            self.limiter.not_used(place).await;
        }
        submitted
    }

    /// Refuses a run of a full app or key before anything is read or stored for it, unless the same request has created it
    /// before. Taking the place decides; this makes most refusals cheap.
    pub(crate) async fn check_room(
        &self,
        app: &str,
        key: Option<&str>,
        idempotency: Option<&Idempotency>,
    ) -> Result<(), SubmitError> {
        let Some((by, max)) = self.limiter.full(app, key).await? else { return Ok(()) };
        if let Some(idempotency) = idempotency
            && let Some(run) = self.store.app_records().reserved(&idempotency.key_hash).await?
            && self.status(run).await?.is_some()
        {
            return Ok(());
        }
        Err(SubmitError::OverLimit(self.limiter.refused(Limited::Runs, by, (app, key), max)))
    }

    /// Takes the place of a run of an app with limits. A sub-workflow run is a part of its caller.
    async fn place_for(
        &self,
        submission: &Submission,
        run: RunId,
    ) -> Result<Option<TakenPlace>, SubmitError> {
        match &submission.workflow {
            WorkflowSource::App(app) if submission.called.is_none() => {
                self.limiter.take(&app.id, submission.key.as_deref(), run).await
            }
            WorkflowSource::App(_) | WorkflowSource::Text(_) | WorkflowSource::BuiltIn(_) => Ok(None),
        }
    }

    /// Creates a run that has its place.
    async fn create_in_place(
        &self,
        mut submission: Submission,
        mut prepared: Prepared,
        run: InPlace<'_>,
    ) -> Result<Submitted, SubmitError> {
        self.pass_gate(&mut submission, &mut prepared).await?;
        self.reply_from_annotation(&submission, &mut prepared).await?;
        self.create(submission, prepared, run).await
    }

    /// Creates the run. If it does not exist then, it leaves no copies of uploads.
    async fn create(
        &self,
        mut submission: Submission,
        mut prepared: Prepared,
        (run, place): InPlace<'_>,
    ) -> Result<Submitted, SubmitError> {
        if !prepared.uploads.is_empty() {
            self.note_early_files(run).await?;
        }
        let copies = self.uploads.adopt(&mut prepared, &run).await?;
        if !copies.is_empty() {
            crash::pass(CrashPoint::EarlyFilesKept);
        }
        submission.has_files |= !copies.is_empty();
        let created = self.create_with_files(submission, prepared, (run, place)).await;
        // After a failure of the store the run may exist, and need them.
        let may_exist = matches!(created, Ok(Submitted { is_new: true, .. }) | Err(SubmitError::Store(_)));
        if !may_exist {
            self.uploads.discard(copies).await;
        }
        created
    }

    /// The id of the run, under its idempotency key if it has one.
    async fn reserve(&self, submission: &Submission) -> Result<Reservation, SubmitError> {
        let given = submission.called.as_ref().map(|by| by.call.run).or(submission.run);
        let run = match (&submission.schedule, given) {
            (Some(from), _) => scheduled_run(&from.trigger, from.at, self.meta().await?),
            (None, Some(run)) => run,
            (None, None) => RunId::generate(self.shard_for(submission.conversation_id.as_deref()).await?),
        };
        let Some(key) = &submission.idempotency else { return Ok(Reservation::New(run)) };
        match self.store.reserve(&key.key_hash, &key.request_hash, run).await? {
            Reserved::Ours => {
                crash::pass(CrashPoint::KeyReserved);
                Ok(Reservation::New(run))
            }
            Reserved::Other => Err(SubmitError::KeyTaken),
            // The process that reserved the key may have died before the run was created: then it is created now.
            Reserved::Same(run) => Ok(match self.status(run).await? {
                Some((status, conversation_id)) => Reservation::Created { run, status, conversation_id },
                None => Reservation::New(run),
            }),
        }
    }

    async fn create_with_files(
        &self,
        mut submission: Submission,
        mut prepared: Prepared,
        (run, place): InPlace<'_>,
    ) -> Result<Submitted, SubmitError> {
        let hit = prepared.annotation.take().map(|it| it.hit(run, &submission));
        let (workflow, warnings) = (prepared.run_workflow().clone(), prepared.warnings.clone());
        let answered_by = prepared.preset.as_ref().map(|preset| preset.field());
        let (inline_bytes_max, value_bytes_max) =
            (prepared.options.inline_bytes_max, self.config.run.value_bytes_max);
        let mut blobs = BlobWriter::new(self.store.clone(), run.shard(), inline_bytes_max, value_bytes_max);
        let head = self.head(&submission, prepared, run, &mut blobs).await?;
        let begins_conversation = submission.conversation_id.as_deref() == Some("");
        let host = std::mem::take(&mut submission.host);
        let handed =
            if submission.is_of_operator { inputs::runs_of_files(&submission) } else { Default::default() };
        let graph = &workflow.graph;
        let new = NewRun {
            id: run,
            graph: (graph.hash.to_string(), workflow.document.clone()),
            fields: wire::state::head_fields(&head, graph)
                .into_iter()
                .chain(host)
                .chain(RunOwner::handed_field(&handed))
                .chain(answered_by)
                .chain(published(&submission.workflow, graph))
                .chain(labels(&submission.labels))
                .chain(self.output_rules(&submission, graph))
                .collect(),
            kind: wire::fact::kind::START,
            start: wire::fact::start_body(&head),
            queues: graph.queues(),
            blobs: blobs.into_blobs(),
            created_at: head.created_at,
            schedule: submission.schedule,
            called: submission.called.map(|by| by.call),
            has_files: submission.has_files,
            takes_messages: head.conversation_id.clone().filter(|_| head.takes_messages),
        };
        if let Some(place) = place {
            self.limiter.keep(place).await?;
            place.is_sent();
        }
        let mut created = self.store.create_run(&new).await?;
        if let (Created::Closed(_), Some(app)) = (created, new.app())
            && self.store.removals().reopen_app(app).await?
        {
            created = self.store.create_run(&new).await?;
        }
        if created == Created::Closed(AppState::Removing)
            || (created == Created::Passed && begins_conversation && self.is_alone(&head, run).await?)
        {
            self.leave(&head, graph, run).await?;
        }
        let is_new = is_new(created, head.app.as_deref())?;
        crash::pass(CrashPoint::RunCreated);
        if let Some(hit) = hit.filter(|_| is_new) {
            self.count_hit(hit, &head).await;
        }
        tracing::info!(run = %run, app = head.app.as_deref().unwrap_or(""), is_new, "run submitted");
        let conversation_id = head.conversation_id;
        Ok(Submitted { run, is_new, status: RunStatus::Scheduled, workflow, conversation_id, warnings })
    }

    /// Builds the head of the run. Joins its conversation, and stores large values.
    async fn head(
        &self,
        submission: &Submission,
        prepared: Prepared,
        run: RunId,
        blobs: &mut BlobWriter,
    ) -> Result<RunHead, SubmitError> {
        let created_at = self.clock.now(&*self.store).await?;
        let (graph, version) = (&prepared.workflow.graph, prepared.run_version());
        let is_of_app = prepared.preset.is_none();
        let joined = self.join(submission, &prepared, run, created_at).await?;
        let about = system_values::About {
            run,
            user: &prepared.user,
            // A run of a schedule that starts late has the time it was scheduled for.
            at: submission.schedule.as_ref().map_or(created_at, |from| from.at),
            source: &submission.workflow,
            files: prepared.files,
            conversation_id: joined.id.as_deref(),
            query: &submission.query,
            dialogue: joined.position.as_ref().map_or(1, |position| position.dialogue),
            inputs: &prepared.inputs,
            given: &submission.inputs,
            host: &submission.host,
        };
        let mut sys = system_values::values(graph, submission.sys.clone(), about);
        sys.extend(prepared.preset.as_ref().map(|preset| preset.variable()));
        let history = match (prepared.history, &joined.position) {
            (Some(given), _) => Some(given),
            (None, Some(position)) => history::history(&position.turns)?,
            (None, None) => None,
        };
        Ok(RunHead {
            graph: version,
            app: submission.workflow.app_id(),
            root: (is_of_app && prepared.root != graph.root).then(|| graph.node(prepared.root).id.clone()),
            inputs: blobs.named(prepared.inputs).await?,
            sys: blobs.named(sys).await?,
            conversation: blobs.named(if is_of_app { joined.variables } else { Vec::new() }).await?,
            leaves_turn: joined.position.is_some(),
            takes_messages: is_of_app && joined.has_messages && joined.position.is_some(),
            history: match history {
                Some(turns) => Some(blobs.value(history::NAME, turns).await?),
                None => None,
            },
            conversation_id: joined.id,
            caller: submission.called.as_ref().map(|by| Box::new(by.caller.clone())),
            call_depth: submission.call_depth,
            key: submission.key.clone(),
            webhook: self.webhook(submission).await?,
            commands: commands::stored_breakpoints(prepared.breakpoints, blobs).await?,
            user: prepared.user,
            options: prepared.options,
            created_at,
        })
    }

    /// Whether a conversation has only this run, which was not created, also not by another scheduler.
    async fn is_alone(&self, head: &RunHead, run: RunId) -> Result<bool, StoreError> {
        let Some(id) = &head.conversation_id else { return Ok(false) };
        let fields = self.store.app_records().fields_of_runs(&[run], &["status"]).await?;
        let conversation = self.store.conversation(run.shard(), id).await?;
        let is_last = conversation.get("last").is_some_and(|last| *last == run.to_string());
        Ok(is_last && fields.iter().all(HashMap::is_empty))
    }

    /// Removes the conversation that a run which is not created has just entered: a run of a removed app, because the removal
    /// may have looked for conversations before, or a called one whose caller has dropped the order.
    async fn leave(&self, head: &RunHead, graph: &Graph, run: RunId) -> Result<(), StoreError> {
        let Some(id) = head.conversation_id.clone().filter(|_| head.leaves_turn) else { return Ok(()) };
        let of = ConversationRef {
            shard: run.shard(),
            copies: conversation_copies(graph, &id),
            id,
            app: head.app.clone().unwrap_or_default(),
            user: head.user.clone(),
        };
        self.store.drop_conversation(&of).await.map(|_| ())
    }

    /// The events of a run for the webhook of its app. A sub-workflow run is a part of its caller.
    async fn webhook(&self, submission: &Submission) -> Result<Option<String>, StoreError> {
        match submission.workflow.app_id().filter(|_| submission.called.is_none()) {
            Some(app) => self.webhooks.events_of(&app).await,
            None => Ok(None),
        }
    }

    /// The rules by which the outputs of a called run are cleaned for its caller.
    fn output_rules(&self, submission: &Submission, graph: &Graph) -> Option<(&'static str, String)> {
        submission.called.as_ref()?;
        let rules = OutputRules::of(&self.workflows.moderation(&graph.features)?)?;
        // Serialising texts cannot fail.
        Some((OutputRules::FIELD, serde_json::to_string(&rules).unwrap_or_default()))
    }

    /// The shard for a run of this conversation. An empty id stands for a new conversation.
    async fn shard_for(&self, conversation: Option<&str>) -> Result<ShardId, SubmitError> {
        match conversation {
            None | Some("") => Ok(self.some_shard().await?),
            Some(id) => {
                conversation::check(id)?;
                let meta = self.meta().await?;
                // Another scheduler may have learned of more shards first, and begun a conversation there.
                let meta = if conversation::is_beyond(id, meta) { self.read_meta().await? } else { meta };
                Ok(conversation::shard_of(id, meta))
            }
        }
    }

    /// The shard of a conversation.
    ///
    /// # Errors
    /// The id is invalid, or the store failed.
    pub async fn shard_of_conversation(&self, id: &str) -> Result<ShardId, SubmitError> {
        self.shard_for(Some(id)).await
    }

    /// Adds the turn of an ended run to its conversation, unless this was done before. Does not wait for moderation.
    ///
    /// # Errors
    /// As [`TurnSettler::settle`].
    pub async fn settle_turn(&self, run: RunId) -> Result<(), SettleError> {
        self.turns.settle(run, self, Duration::ZERO).await
    }

    async fn meta(&self) -> Result<Meta, StoreError> {
        match self.namespace.known() {
            Some(meta) => Ok(meta),
            None => self.read_meta().await,
        }
    }

    async fn read_meta(&self) -> Result<Meta, StoreError> {
        let meta = self.store.meta().await?;
        self.namespace.note(meta);
        Ok(meta)
    }

    /// Reads the settings of the namespace again, after they were changed here.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn namespace_changed(&self) -> Result<(), StoreError> {
        self.read_meta().await.map(|_| ())
    }

    /// A random shard, for a run without a conversation.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn some_shard(&self) -> Result<ShardId, StoreError> {
        let meta = self.meta().await?;
        let random = uuid::Uuid::new_v4().as_u128() % u128::from(meta.shards.max(1));
        Ok(ShardId(u16::try_from(random).unwrap_or(0)))
    }

    /// Status and conversation of a run, or `None` when it does not exist.
    async fn status(&self, run: RunId) -> Result<Option<(RunStatus, Option<String>)>, StoreError> {
        let Some(fields) = self.store.run_fields(run).await? else { return Ok(None) };
        let status = fields.get("status").and_then(|s| RunStatus::from_name(s));
        Ok(Some((status.unwrap_or(RunStatus::Scheduled), fields.get("conversation_id").cloned())))
    }
}

/// The version of the app that a run is of, if its options have added steps around that.
fn published(source: &WorkflowSource, graph: &Graph) -> Option<(&'static str, String)> {
    match source {
        WorkflowSource::App(app) if app.version != *graph.hash.0 => {
            Some((PUBLISHED_FIELD, app.version.clone()))
        }
        WorkflowSource::App(_) | WorkflowSource::Text(_) | WorkflowSource::BuiltIn(_) => None,
    }
}

/// The field with the labels of a run, if it has any.
fn labels(labels: &Labels) -> Option<(&'static str, String)> {
    // Serialising texts cannot fail.
    (!labels.is_empty()).then(|| (LABELS_FIELD, serde_json::to_string(labels).unwrap_or_default()))
}

/// The id of a run, and the place that it has taken if its app or key is limited.
type InPlace<'a> = (RunId, Option<&'a mut TakenPlace>);

/// The result of reserving the idempotency key.
enum Reservation {
    /// The run must be created under this id.
    New(RunId),
    /// The same request created it earlier.
    Created { run: RunId, status: RunStatus, conversation_id: Option<String> },
}

/// Refuses an app that accepts no runs.
fn refuse_closed(workflow: &WorkflowSource) -> Result<(), SubmitError> {
    match workflow {
        WorkflowSource::App(app) => SubmitError::of_state(&app.id, app.state).map_or(Ok(()), Err),
        WorkflowSource::Text(_) | WorkflowSource::BuiltIn(_) => Ok(()),
    }
}

/// True when the run was created now, false when it existed before.
fn is_new(created: Created, app: Option<&str>) -> Result<bool, SubmitError> {
    match created {
        Created::Closed(AppState::Off | AppState::On) => {
            Err(SubmitError::AppOff(app.unwrap_or_default().to_owned()))
        }
        Created::Closed(AppState::Removing) => {
            Err(SubmitError::AppRemoved(app.unwrap_or_default().to_owned()))
        }
        Created::Created => Ok(true),
        Created::Exists => Ok(false),
        Created::Passed => Err(SubmitError::Passed),
        Created::Busy => Err(SubmitError::Busy),
        Created::QueueFull => Err(SubmitError::QueueFull),
        Created::BlobMissing => Err(SubmitError::BlobGone),
    }
}
