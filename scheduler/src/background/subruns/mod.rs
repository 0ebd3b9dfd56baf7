//! Starts sub-workflow runs: workflows that are called as tools. Each order that a run's commit stored becomes a run on
//! the same shard.
//!
//! The script that creates the run removes the order. So one order becomes one run, however many schedulers look at it,
//! and no run when the caller has removed the order. An order that can never become a run is refused, and the caller's
//! node gets the reason. The owner of a shard looks when a commit has stored an order, and every few seconds in any
//! case. Each order is served by a task of its own, because one may have to wait for a server: moderation checks the inputs.

mod order;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::graph::AppMode;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::nodes::tool::{APP_NOT_FOUND, APP_NOT_PUBLISHED};
use tidemill_common::store::{App, Refusal, Runs, StoreError, WaitingCall};
use tidemill_common::wire::fact::between_runs;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::background::subruns::order::Order;
use crate::shards::lease::Lease;
use crate::submit::{CalledBy, Submission, SubmitError, Submitter, SystemValues, WorkflowSource};

/// The pause between two looks for orders that were not announced.
const POLL_PAUSE: Duration = Duration::from_secs(10);
/// The pause while an order has to wait, such as when the shard is too busy.
const BUSY_PAUSE: Duration = Duration::from_millis(200);
/// Runs that are created concurrently. Most of them may wait for a server.
const AT_ONCE: usize = 256;
/// Orders that one look reads of each shard besides those that may be in work already.
const PIECE: usize = 100;

/// The reason why an order has not become a run.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    /// It may succeed later.
    #[error("{0}")]
    Temporary(String),
    /// It will never succeed.
    #[error("{0}")]
    Permanent(String),
}

impl From<StoreError> for OrderError {
    fn from(error: StoreError) -> Self {
        if error.is_passing() {
            Self::Temporary(error.to_string())
        } else {
            Self::Permanent(error.to_string())
        }
    }
}

impl From<SubmitError> for OrderError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Busy
            | SubmitError::QueueFull
            | SubmitError::OverLimit(_)
            | SubmitError::BlobGone => Self::Temporary(error.to_string()),
            other => Self::Permanent(other.to_string()),
        }
    }
}

/// The runs that are being created.
#[derive(Default)]
struct Tasks {
    tasks: JoinSet<bool>,
    runs: HashMap<tokio::task::Id, RunId>,
}

impl Tasks {
    fn is_full(&self) -> bool {
        self.runs.len() >= AT_ONCE
    }

    /// The orders of each shard that a look must read, the oldest first: the orders in work stay stored until their runs
    /// exist, so the younger ones come after them.
    fn look(&self) -> usize {
        self.runs.len() + PIECE
    }

    /// Begins to create a run, unless that has begun. The task returns true when the order is left for later.
    fn begin(&mut self, run: RunId, task: impl Future<Output = bool> + Send + 'static) {
        if !self.runs.values().any(|known| *known == run) {
            let id = self.tasks.spawn(task).id();
            self.runs.insert(id, run);
        }
    }

    /// Waits for the end of a task. Returns true when its order is left for later, and `None` when there is no task.
    async fn ended(&mut self) -> Option<bool> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, is_left) = ended.unwrap_or_else(|error| (error.id(), true));
        self.runs.remove(&id);
        Some(is_left)
    }
}

/// Creates runs from orders.
#[derive(Clone)]
pub struct SubrunStarter {
    store: Arc<dyn Runs>,
    submitter: Arc<Submitter>,
    ordered: Arc<Notify>,
}

impl SubrunStarter {
    /// Creates it. `ordered` is notified when a commit has stored an order.
    pub fn new(store: Arc<dyn Runs>, submitter: Arc<Submitter>, ordered: Arc<Notify>) -> Self {
        Self { store, submitter, ordered }
    }

    /// Serves the shards that this process owns, until `stop` is set. What is being created then stays ordered.
    pub async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let mut tasks = Tasks::default();
        while !*stop.borrow() {
            let shards = lease.shards();
            let looked = self.begin_waiting(&shards, &mut tasks).await;
            let mut wake = Instant::now() + POLL_PAUSE;
            if let Err(error) = looked {
                tracing::warn!(%error, "sub-workflow runs cannot be created yet");
                wake = Instant::now() + BUSY_PAUSE;
            }
            // A look is due early when an order was left, or when there is room for another one.
            loop {
                let was_full = tasks.is_full();
                tokio::select! {
                    _ = stop.changed() => break,
                    () = self.ordered.notified() => break,
                    () = tokio::time::sleep_until(wake) => break,
                    Some(is_left) = tasks.ended() => {
                        if is_left || was_full {
                            wake = wake.min(Instant::now() + BUSY_PAUSE);
                        }
                    }
                }
            }
        }
    }

    /// Begins to create the runs that wait, except those that are being created.
    async fn begin_waiting(&self, shards: &[ShardId], tasks: &mut Tasks) -> Result<(), StoreError> {
        if shards.is_empty() {
            return Ok(());
        }
        for call in self.store.waiting_calls(shards, tasks.look()).await? {
            if tasks.is_full() {
                break;
            }
            let (starter, run) = (self.clone(), call.run);
            tasks.begin(run, async move { starter.create(call).await });
        }
        Ok(())
    }

    /// Creates one run. Returns true when the order is left for later.
    async fn create(&self, call: WaitingCall) -> bool {
        let (run, caller) = (call.run, call.caller);
        let error = match self.submit(&call).await {
            Ok(()) => return false,
            Err(error) => error,
        };
        match error {
            OrderError::Temporary(reason) => {
                tracing::debug!(%run, %caller, reason, "a sub-workflow run cannot be created yet");
                true
            }
            OrderError::Permanent(reason) => match self.refuse(&call, &reason).await {
                Ok(()) => false,
                Err(error) => {
                    tracing::warn!(%run, %caller, %error, "an order for a sub-workflow run cannot be refused yet");
                    true
                }
            },
        }
    }

    async fn submit(&self, call: &WaitingCall) -> Result<(), OrderError> {
        let order = self.store.call_order(call.caller, call.run).await?;
        let order = order.ok_or_else(|| OrderError::Permanent("the order of the call is gone".into()))?;
        let mut order = Order::read(&order).map_err(OrderError::Permanent)?;
        let inputs = order.open(&*self.store, call.caller.shard()).await?;
        let app = self.app(&order.app).await?;
        let caller = order.caller(call.caller);
        let (is_chat, chat) = (inputs.chat.is_some(), inputs.chat.unwrap_or_default());
        if is_chat && app.mode == AppMode::Workflow.name() {
            // It was published again since the plugin has asked.
            return Err(OrderError::Permanent(format!("the app {} is no chat any more", app.id)));
        }
        self.check_shard(&chat.conversation, call.caller.shard()).await?;
        let submission = Submission {
            files: inputs.files,
            only_known_conversation: !chat.conversation.is_empty(),
            conversation_id: is_chat.then_some(chat.conversation),
            query: chat.query,
            call_depth: order.depth,
            user: order.user,
            key: order.key,
            called: Some(CalledBy { call: call.clone(), caller, budget: order.budget }),
            ..Submission::of(WorkflowSource::App(Arc::new(app)), SystemValues::Standard, inputs.inputs)
        };
        match self.submitter.submit(submission).await {
            // Another scheduler was faster, or the caller has removed the order.
            Ok(_) | Err(SubmitError::Passed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A called run is on the shard of its caller, and a run is on the shard of its conversation.
    async fn check_shard(&self, conversation: &str, shard: ShardId) -> Result<(), OrderError> {
        if conversation.is_empty() || self.submitter.shard_of_conversation(conversation).await? == shard {
            return Ok(());
        }
        Err(OrderError::Permanent(format!(
            "the conversation {conversation} is on another shard than the run that asks for it, so it cannot be continued \
             from there; without conversation_id, a new one begins"
        )))
    }

    /// Finds an app by its id, or else by its name. The errors have Dify's words.
    async fn app(&self, wanted: &str) -> Result<App, OrderError> {
        let published = |app: App| match app.document.is_empty() {
            true => Err(OrderError::Permanent(APP_NOT_PUBLISHED.into())),
            false => Ok(app),
        };
        if let Some(app) = self.store.app(wanted).await? {
            return published(app);
        }
        let mut named = Vec::new();
        for id in self.store.apps().await? {
            named.extend(self.store.app(&id).await?.filter(|app| app.name == wanted));
        }
        match named.len() {
            0 => Err(OrderError::Permanent(format!(
                "{APP_NOT_FOUND}: no app has the id or the name {wanted}; for a UUID of Dify, publish its export with \
                 `tidemill apps add FILE --new-id {wanted}`"
            ))),
            1 => published(named.remove(0)),
            count => Err(OrderError::Permanent(format!(
                "{count} apps are called {wanted}; name one by its id instead"
            ))),
        }
    }

    async fn refuse(&self, call: &WaitingCall, reason: &str) -> Result<(), StoreError> {
        let order = self.store.call_order(call.caller, call.run).await?.unwrap_or_default();
        let (order, caller) = order::refused(&order, call.caller, reason);
        let why = Refusal { order, fact: between_runs::call_ended_body(&caller, call.run) };
        let is_refused = self.store.refuse_call(call, &why).await?;
        tracing::info!(run = %call.run, caller = %call.caller, reason, is_refused, "a sub-workflow run cannot be created");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;
    use tidemill_common::clock::SystemClock;
    use tidemill_common::config::Config;
    use tidemill_common::graph::GraphHash;
    use tidemill_common::ids::FramePath;
    use tidemill_common::machine::state::run::Caller;
    use tidemill_common::store::memory::MemoryStore;
    use tidemill_common::store::{Commit, ConversationsBy, ListConversations, Shards, TriggerChanges};
    use tidemill_common::value::JsonMap;
    use tidemill_common::wire::commit::{CallsWrite, RunWrite};

    use super::*;
    use crate::workflows::Workflows;

    #[tokio::test]
    async fn younger_orders_are_found_while_the_older_ones_are_in_work() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let (shard, config) = (ShardId(0), Arc::new(Config::default()));
        let caller = RunId::generate(shard);
        let ordered: Vec<RunId> = (0..PIECE + 5).map(|_| RunId::generate(shard)).collect();
        let calls = CallsWrite {
            ordered: ordered.iter().map(|run| (*run, "{}".to_owned())).collect(),
            ..CallsWrite::default()
        };
        let write =
            RunWrite { calls: Some(Box::new(calls)), ..RunWrite::nothing(caller, GraphHash("g".into())) };
        let mut owner = store.claim(shard, "s", Duration::from_secs(5)).await.unwrap().unwrap();
        let number = owner.claim().commit + 1;
        owner.commit(&Commit { number, writes: vec![write], ..Commit::default() }).await.unwrap();

        let workflows = Arc::new(Workflows::new(&config, None));
        let submitter = Arc::new(Submitter::new(store.clone(), config, workflows));
        let starter = SubrunStarter::new(store.clone(), submitter, Arc::default());
        let mut tasks = Tasks::default();
        for call in store.waiting_calls(&[shard], PIECE).await.unwrap() {
            tasks.begin(call.run, std::future::pending());
        }
        assert_eq!(tasks.runs.len(), PIECE);
        starter.begin_waiting(&[shard], &mut tasks).await.unwrap();
        let begun: HashSet<RunId> = tasks.runs.values().copied().collect();
        assert_eq!(begun, ordered.into_iter().collect());
    }

    #[tokio::test]
    async fn a_called_chat_continues_only_a_conversation_of_the_shard_of_its_caller() {
        let store = Arc::new(MemoryStore::with(Arc::new(SystemClock), 8, 100));
        let config = Arc::new(Config::default());
        let workflows = Arc::new(Workflows::new(&config, None));
        let submitter = Arc::new(Submitter::new(store.clone(), config, workflows));
        let starter = SubrunStarter::new(store, submitter.clone(), Arc::default());
        let its = submitter.shard_of_conversation("conv-1").await.unwrap();
        for number in 0..8 {
            let shard = ShardId(number);
            assert!(starter.check_shard("", shard).await.is_ok(), "a new one");
            let checked = starter.check_shard("conv-1", shard).await;
            assert_eq!(checked.is_ok(), shard == its, "{number}: {checked:?}");
        }
        let wrong = starter.check_shard("a:b", its).await;
        assert!(matches!(wrong, Err(OrderError::Permanent(_))), "{wrong:?}");
    }

    /// A starter for a namespace of one shard with the apps `flow` and `chat`.
    async fn with_apps() -> (Arc<MemoryStore>, SubrunStarter) {
        let store = Arc::new(MemoryStore::with(Arc::new(SystemClock), 1, 100));
        let config = Arc::new(Config::default());
        let workflows = Arc::new(Workflows::new(&config, None));
        for (id, mode, end) in [
            ("flow", "workflow", "{id: e, data: {type: end, title: e, outputs: []}}"),
            ("chat", "advanced-chat", "{id: e, data: {type: answer, title: e, answer: hi}}"),
        ] {
            let text = format!(
                "kind: app\nversion: 0.6.0\napp: {{mode: {mode}, name: {id}}}\nworkflow:\n  graph:\n    nodes:\n    \
                 - {{id: s, data: {{type: start, title: s, variables: []}}}}\n    - {end}\n    edges:\n    \
                 - {{id: x, source: s, target: e, sourceHandle: source, targetHandle: target}}\n"
            );
            let (workflow, _) = workflows.import(text.as_bytes()).unwrap();
            let app = App {
                id: id.into(),
                name: id.into(),
                mode: mode.into(),
                version: workflow.graph.hash.to_string(),
                document: workflow.document.to_string(),
                ..App::default()
            };
            store.put_app(&app, None, &TriggerChanges::default()).await.unwrap();
        }
        let submitter = Arc::new(Submitter::new(store.clone(), config, workflows));
        (store.clone(), SubrunStarter::new(store, submitter, Arc::default()))
    }

    #[tokio::test]
    async fn a_chat_is_refused_when_its_app_or_its_conversation_is_not_the_one_that_was_called() {
        let (store, starter) = with_apps().await;
        let caller = RunId::generate(ShardId(0));
        let unknown = json!({"query": "hi", "conversation_id": "0198a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"});
        let orders = [("flow", json!({"query": "hi"})), ("chat", unknown)].map(|(app, given)| {
            let order = json!({"app": app, "node": "t", "depth": 1, "user": "ada", "given": given});
            (RunId::generate(ShardId(0)), order.to_string())
        });
        let calls = CallsWrite { ordered: orders.to_vec(), ..CallsWrite::default() };
        let write =
            RunWrite { calls: Some(Box::new(calls)), ..RunWrite::nothing(caller, GraphHash("g".into())) };
        let mut owner = store.claim(ShardId(0), "s", Duration::from_secs(5)).await.unwrap().unwrap();
        let number = owner.claim().commit + 1;
        owner.commit(&Commit { number, writes: vec![write], ..Commit::default() }).await.unwrap();
        let mut refused = Vec::new();
        for (run, _) in orders {
            let error = starter.submit(&WaitingCall { run, caller, since: number }).await.unwrap_err();
            assert!(matches!(error, OrderError::Permanent(_)), "{error}");
            refused.push(error.to_string());
        }
        assert_eq!(refused[0], "the app flow is no chat any more");
        assert!(refused[1].contains("names a conversation of another app or user"), "{refused:?}");
    }

    #[tokio::test]
    async fn a_chat_whose_order_was_dropped_leaves_no_conversation() {
        let (store, starter) = with_apps().await;
        let [run, caller] = [0; 2].map(|shard| RunId::generate(ShardId(shard)));
        let app = store.app("chat").await.unwrap().unwrap();
        let called = CalledBy {
            call: WaitingCall { run, caller, since: 1 },
            caller: Caller { run: caller, frame: FramePath::root(), node: "t".into() },
            budget: None,
        };
        let source = WorkflowSource::App(Arc::new(app));
        let submission = Submission {
            conversation_id: Some(String::new()),
            query: "hi".into(),
            user: "ada".into(),
            called: Some(called),
            ..Submission::of(source, SystemValues::Standard, JsonMap::new())
        };
        let outcome = starter.submitter.submit(submission).await;
        assert!(matches!(outcome, Err(SubmitError::Passed)), "{:?}", outcome.err());
        let query = ListConversations {
            app: "chat".into(),
            user: "ada".into(),
            by: ConversationsBy::Begin,
            newest_first: false,
            after: None,
            limit: 10,
        };
        assert!(store.conversations(&query).await.unwrap().unwrap_or_default().is_empty());
    }

    #[tokio::test]
    async fn a_run_is_created_by_one_task_at_a_time_and_a_slow_one_delays_no_other() {
        let (slow, quick) = (RunId::generate(ShardId(0)), RunId::generate(ShardId(0)));
        let mut tasks = Tasks::default();
        tasks.begin(slow, std::future::pending());
        tasks.begin(slow, async { true });
        tasks.begin(quick, async { false });
        assert_eq!(tasks.ended().await, Some(false));
        assert_eq!(tasks.runs.values().copied().collect::<Vec<_>>(), [slow]);
    }
}
