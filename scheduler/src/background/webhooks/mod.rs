//! Notifies the webhooks of apps about their runs: when a run ends, fails or begins to wait.
//!
//! The commit that changes a run of an app with a webhook orders a notice on the run's shard. The owner of the shard sends it,
//! again and again with growing pauses, until the receiver takes it or it is given up. The script that stores the result
//! removes the notice, so none is lost; a process that dies in between sends it again, under the same id.
//!
//! Each app of a shard is served by a task of its own, and an app has a share of what a process sends at the same time.

mod body;
mod known;
mod look;
mod pause;
mod send;
mod setting;
mod shown;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::store::{Notice, NoticePlace, NoticeTried, Runs, StoreError};
use tokio::sync::Notify;

pub(crate) use known::KnownWebhooks;
pub(crate) use send::{Sender, Untaken};
pub(crate) use setting::{OUTPUTS, Webhook, WebhookError};

use crate::metrics;
use crate::workflows::Workflows;
use body::{Bodies, BodyError};

/// Notices of an app that are read at once of each shard.
const PIECE: usize = 50;
/// How much the clock of the process that ordered a notice may differ from that of Redis.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

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
    /// The store failed. The inner error: the receiver did not take it.
    pub(crate) async fn test(&self, app: &str, to: &Webhook) -> Result<Result<u16, Untaken>, StoreError> {
        let Some(permit) = self.sender.permit_soon(app).await else {
            return Ok(Err(Untaken::because("other notices are being sent to it right now; try again")));
        };
        let now = self.store.time().await?;
        let id = format!("test-{}", uuid::Uuid::new_v4());
        let body =
            json!({"type": "webhook.test", "id": id, "timestamp": now.seconds_f64(), "data": {"app": app}});
        Ok(self.sender.send(&permit, to, &id, &body.to_string(), now.seconds()).await)
    }

    /// Sends notices of a place that are due. `surplus` notices are too many. Returns false when the place has to
    /// rest: the store failed, or it has no notice that can be read.
    async fn serve(self, place: NoticePlace, surplus: u64, now: Timestamp) -> bool {
        match self.serve_some(&place, surplus, now).await {
            Ok(has_some) => has_some,
            Err(error) => {
                tracing::warn!(%error, app = place.app, "notices for a webhook are tried again");
                false
            }
        }
    }

    async fn serve_some(
        &self,
        place: &NoticePlace,
        surplus: u64,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (mut left, mut has_some) = (usize::try_from(surplus).unwrap_or(usize::MAX), false);
        while left > 0 {
            let latest = self.store.latest_notices(place, left.min(PIECE)).await?;
            if latest.is_empty() {
                break;
            }
            left -= latest.len();
            has_some = true;
            for notice in &latest {
                self.drop_surplus(notice).await?;
            }
        }
        let due = self.store.due_notices(place, now, PIECE).await?;
        has_some |= !due.is_empty();
        let failed = OnceLock::<StoreError>::new();
        let noted = &failed;
        let all = stream::iter(due).for_each_concurrent(send::OF_APP_AT_ONCE, |notice| async move {
            // What cannot be stored would be sent again and again.
            if noted.get().is_none()
                && let Err(error) = self.deliver(&notice).await
            {
                let _ = noted.set(error);
            }
        });
        all.await;
        failed.into_inner().map_or(Ok(has_some), Err)
    }

    async fn drop_surplus(&self, notice: &Notice) -> Result<(), StoreError> {
        let max = self.config.webhooks.waiting_max;
        let error = format!("more than {max} notices of the app wait on this shard (webhooks.waiting_max)");
        let untaken = Untaken { is_final: true, ..Untaken::because(error) };
        self.failed(notice, &untaken).await
    }

    /// Tries to send a notice once, and stores the result.
    async fn deliver(&self, notice: &Notice) -> Result<(), StoreError> {
        // First, so that the webhook is that of the moment, and the time that is signed too.
        let permit = self.sender.permit(&notice.app).await;
        let webhook = match self.webhook(&notice.app).await? {
            Some(Ok(webhook)) => webhook,
            Some(Err(error)) => return self.failed(notice, &Untaken::because(error.to_string())).await,
            None => return self.settle(notice, &NoticeTried::Done).await,
        };
        // What is about a time before the webhook was set was for another one, which was removed.
        let is_of_another = notice.at.plus(CLOCKS_DIFFER) < webhook.created_at;
        if is_of_another || !webhook.events.contains(&notice.event.as_str()) {
            return self.settle(notice, &NoticeTried::Done).await;
        }
        let body = match self.bodies.of(notice, webhook.with_outputs).await {
            Ok(Some(body)) => body,
            // There is nothing left to say.
            Ok(None) => return self.settle(notice, &NoticeTried::Done).await,
            Err(BodyError::Store(error)) => return Err(error),
            Err(error) => return self.failed(notice, &Untaken::because(error.to_string())).await,
        };
        let now = self.store.time().await?.seconds();
        match self.sender.send(&permit, &webhook, &notice.id(), &body, now).await {
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
}

fn tries_of(record: Option<&str>) -> u32 {
    let record: Json = record.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    record["tries"].as_u64().and_then(|tries| tries.try_into().ok()).unwrap_or(0)
}
