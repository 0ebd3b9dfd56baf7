//! Notifies the webhooks of apps about their runs: when a run ends, fails or begins to wait.
//!
//! The commit that changes a run of an app with a webhook orders a notice on the run's shard. The owner of the shard sends it,
//! again and again with growing pauses, until the receiver takes it or it is given up. The script that stores the result
//! removes the notice, so none is lost; a process that dies in between sends it again, under the same id.
//!
//! Notices of one app wait for those of no other: each app of a shard is served by a task of its own.

mod body;
mod known;
mod pause;
mod send;
mod setting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::ids::ShardId;
use tidemill_common::store::{Notice, NoticeTried, Runs, StoreError, WaitingNotices};
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use known::KnownWebhooks;
pub(crate) use send::{Sender, Untaken};
pub(crate) use setting::{OUTPUTS, Webhook, WebhookError};

use crate::metrics;
use crate::shards::lease::Lease;
use crate::workflows::Workflows;
use body::{Bodies, BodyError};

/// The pause between two looks when nothing was announced. Only the owner of a shard orders notices, so a look is needed when
/// a shard was taken over.
const POLL_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a failure of the store, and after newly taken shards were not yet looked at.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause between two looks.
const GATHER: Duration = Duration::from_millis(50);
/// Notices of an app that one look reads of each shard.
const PIECE: usize = 50;
/// Notices of an app that are sent at the same time, from each shard.
const OF_APP_AT_ONCE: usize = 4;

/// Sends notices.
#[derive(Clone)]
pub(crate) struct Notifier {
    store: Arc<dyn Runs>,
    config: Arc<Config>,
    key: Option<SealingKey>,
    sender: Arc<Sender>,
    bodies: Arc<Bodies>,
    /// Notified when a commit has ordered a notice.
    noticed: Arc<Notify>,
}

/// The apps that are being served.
#[derive(Default)]
struct Tasks {
    tasks: JoinSet<()>,
    served: HashMap<tokio::task::Id, (ShardId, String)>,
}

impl Tasks {
    fn serves(&self, shard: ShardId, app: &str) -> bool {
        self.served.values().any(|(served, of)| *served == shard && of == app)
    }

    async fn ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.served.remove(&id);
        Some(())
    }
}

impl Notifier {
    /// Creates it.
    pub(crate) fn new(
        store: Arc<dyn Runs>,
        config: Arc<Config>,
        workflows: Arc<Workflows>,
        key: Option<SealingKey>,
    ) -> Self {
        let sender = Arc::new(Sender::new(&config));
        let bodies = Arc::new(Bodies { store: store.clone(), workflows, config: config.clone() });
        Self { store, config, key, sender, bodies, noticed: Arc::default() }
    }

    /// What is notified when a commit has ordered a notice.
    pub(crate) fn noticed(&self) -> Arc<Notify> {
        self.noticed.clone()
    }

    /// The key that seals webhooks.
    pub(crate) fn key(&self) -> Option<&SealingKey> {
        self.key.as_ref()
    }

    /// The webhook of an app.
    ///
    /// # Errors
    /// The store failed; or the stored webhook cannot be used.
    pub(crate) async fn webhook(
        &self,
        app: &str,
    ) -> Result<Option<Result<Webhook, WebhookError>>, StoreError> {
        let stored = self.store.webhook(app).await?;
        Ok(stored.map(|text| Webhook::open(app, &text, self.key.as_ref())))
    }

    /// Sends a test to a webhook.
    ///
    /// # Errors
    /// The receiver did not take it.
    pub(crate) async fn test(&self, app: &str, to: &Webhook, now: Timestamp) -> Result<u16, Untaken> {
        let id = format!("test-{}", uuid::Uuid::new_v4());
        let body =
            json!({"type": "webhook.test", "id": id, "timestamp": now.seconds_f64(), "data": {"app": app}});
        self.sender.send(to, &id, &body.to_string(), now.seconds()).await
    }

    /// Serves the shards that this process owns, until `stop` is set. What is being sent then is sent again by the next owner.
    pub(crate) async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let (mut tasks, mut looked_at) = (Tasks::default(), Vec::new());
        while !*stop.borrow() {
            let shards = lease.shards();
            let pause = match self.begin_waiting(&shards, &mut tasks).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "notices for webhooks cannot be sent yet");
                    SHORT_PAUSE
                }
            };
            looked_at.clone_from(&shards);
            // What many commits order within this time is read in one look.
            tokio::time::sleep(GATHER).await;
            let wake = Instant::now() + pause;
            loop {
                // Another process may have left notices on a shard that was taken over.
                let next = wake.min(Instant::now() + SHORT_PAUSE);
                tokio::select! {
                    _ = stop.changed() => break,
                    () = self.noticed.notified() => break,
                    Some(()) = tasks.ended() => break,
                    () = tokio::time::sleep_until(next) => {
                        if Instant::now() >= wake || lease.shards() != looked_at {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Begins to serve the apps whose notices are due. Returns the pause until the next one is.
    async fn begin_waiting(&self, shards: &[ShardId], tasks: &mut Tasks) -> Result<Duration, StoreError> {
        if shards.is_empty() {
            return Ok(POLL_PAUSE);
        }
        let found = self.store.waiting_notices(shards, PIECE).await?;
        let waiting: u64 = found.iter().map(|of_app| of_app.count).sum();
        ::metrics::gauge!(metrics::NOTICES_WAITING.name).set(waiting as f64);
        if found.is_empty() {
            return Ok(POLL_PAUSE);
        }
        let now = self.store.time().await?;
        let mut next = POLL_PAUSE;
        for of_app in found {
            if tasks.serves(of_app.shard, &of_app.app) {
                continue;
            }
            let surplus = of_app.count.saturating_sub(self.config.webhooks.waiting_max);
            let surplus = usize::try_from(surplus).unwrap_or(PIECE);
            let later = of_app.first.iter().skip(surplus).find(|notice| notice.due > now);
            next = later.map_or(next, |notice| next.min(between(now, notice.due)));
            let place = (of_app.shard, of_app.app.clone());
            let is_due =
                |(at, notice): (usize, Notice)| (at < surplus || notice.due <= now).then_some((at, notice));
            let due: Vec<(usize, Notice)> = of_app.first.into_iter().enumerate().filter_map(is_due).collect();
            if !due.is_empty() {
                let serving = self.clone().serve(due, surplus);
                tasks.served.insert(tasks.tasks.spawn(serving).id(), place);
            }
        }
        Ok(next)
    }

    /// Sends notices of one app. The first `surplus` of them are too many.
    async fn serve(self, due: Vec<(usize, Notice)>, surplus: usize) {
        let this = &self;
        let all = stream::iter(due).for_each_concurrent(OF_APP_AT_ONCE, |(at, notice)| async move {
            let done =
                if at < surplus { this.drop_surplus(&notice).await } else { this.deliver(&notice).await };
            if let Err(error) = done {
                tracing::warn!(%error, app = notice.app, "a notice for a webhook is tried again");
                tokio::time::sleep(SHORT_PAUSE).await;
            }
        });
        all.await;
    }

    async fn drop_surplus(&self, notice: &Notice) -> Result<(), StoreError> {
        let max = self.config.webhooks.waiting_max;
        let error = format!("more than {max} notices of the app wait on this shard (webhooks.waiting_max)");
        let untaken = Untaken { is_final: true, ..Untaken::because(error) };
        self.failed(notice, &untaken).await
    }

    /// Tries to send a notice once, and stores the result.
    async fn deliver(&self, notice: &Notice) -> Result<(), StoreError> {
        let now = self.store.time().await?;
        let webhook = match self.webhook(&notice.app).await? {
            Some(Ok(webhook)) => webhook,
            Some(Err(error)) => return self.failed(notice, &Untaken::because(error.to_string())).await,
            None => return self.settle(notice, &NoticeTried::Done).await,
        };
        if !webhook.events.contains(&notice.event.as_str()) {
            return self.settle(notice, &NoticeTried::Done).await;
        }
        let body = match self.bodies.of(notice, webhook.with_outputs).await {
            Ok(Some(body)) => body,
            // There is nothing left to say.
            Ok(None) => return self.settle(notice, &NoticeTried::Done).await,
            Err(BodyError::Store(error)) => return Err(error),
            Err(error) => return self.failed(notice, &Untaken::because(error.to_string())).await,
        };
        match self.sender.send(&webhook, &notice.id(), &body, now.seconds()).await {
            Ok(_) => {
                ::metrics::counter!(metrics::NOTICES_SENT.name).increment(1);
                self.settle(notice, &NoticeTried::Done).await
            }
            Err(untaken) => self.failed(notice, &untaken).await,
        }
    }

    async fn failed(&self, notice: &Notice, untaken: &Untaken) -> Result<(), StoreError> {
        // The pause begins with the end of the try.
        let now = self.store.time().await?;
        let config = &self.config.webhooks;
        let tries = tries_of(notice.record.as_deref()) + 1;
        let record = json!({
            "id": notice.id(), "event": notice.event, "run": notice.run.to_string(), "tries": tries,
            "error": untaken.error, "status": untaken.status, "at": now.millis(),
        });
        let (app, id, error) = (&notice.app, notice.id(), &untaken.error);
        ::metrics::counter!(metrics::NOTICES_FAILED.name).increment(1);
        if untaken.is_final || tries >= config.tries_max {
            tracing::warn!(app, id, tries, error, "a notice for a webhook is given up");
            ::metrics::counter!(metrics::NOTICES_GIVEN_UP.name).increment(1);
            return self.settle(notice, &NoticeTried::GivenUp(record.to_string(), config.given_up_max)).await;
        }
        tracing::debug!(app, id, tries, error, "a notice for a webhook was not taken");
        let longest = Duration::from_secs(config.pause_seconds_max);
        let random = uuid::Uuid::new_v4().as_u64_pair().1;
        let due = now.plus(pause::pause(tries, longest, untaken.asked, random));
        self.settle(notice, &NoticeTried::Later(due, record.to_string())).await
    }

    async fn settle(&self, notice: &Notice, tried: &NoticeTried) -> Result<(), StoreError> {
        self.store.settle_notice(notice, tried).await.map(|_| ())
    }

    /// The notices of an app as the API shows them: those that wait, and those that were given up.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn shown(&self, app: &str, most: usize) -> Result<Json, StoreError> {
        let (waiting, given_up) = self.store.notices_of(app, most).await?;
        let count: u64 = waiting.iter().map(|of_shard| of_shard.count).sum();
        Ok(json!({
            "waiting": count,
            "data": in_order(waiting, most),
            "given_up": latest(&given_up, most),
        }))
    }
}

fn between(now: Timestamp, later: Timestamp) -> Duration {
    Duration::from_micros(later.micros().saturating_sub(now.micros()).max(0).unsigned_abs())
}

fn tries_of(record: Option<&str>) -> u32 {
    let record: Json = record.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    record["tries"].as_u64().and_then(|tries| tries.try_into().ok()).unwrap_or(0)
}

/// The notices that wait, the next one first.
fn in_order(waiting: Vec<WaitingNotices>, most: usize) -> Vec<Json> {
    let mut all: Vec<Notice> = waiting.into_iter().flat_map(|of_shard| of_shard.first).collect();
    all.sort_by_key(|notice| (notice.due, notice.id()));
    all.truncate(most);
    let shown = |notice: &Notice| {
        let record: Option<Json> = notice.record.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let failed = record.as_ref().map(shown_record).unwrap_or_default();
        json!({
            "id": notice.id(), "event": notice.event, "run": notice.run.to_string(),
            "next_at": notice.due.seconds_f64(), "tries": failed["tries"].as_u64().unwrap_or(0),
            "error": failed["error"], "status": failed["status"], "last_at": failed["last_at"],
        })
    };
    all.iter().map(shown).collect()
}

/// The records of those that were given up, the newest first.
fn latest(texts: &[String], most: usize) -> Vec<Json> {
    let mut records: Vec<Json> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    records.sort_by_key(|record| std::cmp::Reverse(record["at"].as_i64()));
    records.truncate(most);
    records.iter().map(shown_record).collect()
}

fn shown_record(record: &Json) -> Json {
    let at = record["at"].as_i64().map(|at| Timestamp::from_millis(at).seconds_f64());
    json!({
        "id": record["id"], "event": record["event"], "run": record["run"], "tries": record["tries"],
        "error": record["error"], "status": record["status"], "last_at": at,
    })
}
