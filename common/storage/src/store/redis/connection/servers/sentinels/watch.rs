//! Notices that another server is the master: by the message that a Sentinel publishes, by asking every half a second, and
//! by the role that the master itself says.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use redis::aio::PubSubStream;

use super::Sentinels;
use super::ask::{PATIENCE, is_master};

/// Published by a Sentinel that knows of a new master: `name old-host old-port new-host new-port`.
const SWITCHED: &str = "+switch-master";
/// Published before that, by the Sentinel that leads the fail-over, when the new master is one: `master name host port`.
const PROMOTED: &str = "+failover-state-reconf-slaves";
/// The shortest time between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The messages of one Sentinel.
struct Messages {
    of: Arc<str>,
    stream: PubSubStream,
}

/// Watches while the Sentinels are used.
pub(super) fn watch(sentinels: Weak<Sentinels>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut messages: Option<Messages> = None;
        loop {
            {
                let Some(sentinels) = sentinels.upgrade() else { return };
                if messages.as_ref().is_some_and(|it| sentinels.is_silent(&it.of)) {
                    messages = None;
                }
                if messages.is_none() {
                    messages = sentinels.subscribe().await;
                }
                sentinels.wait(&mut messages).await;
                sentinels.check().await;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    })
}

impl Sentinels {
    /// Subscribes at the first Sentinel that lets it.
    async fn subscribe(&self) -> Option<Messages> {
        let sentinels = self.read().sentinels.clone();
        for sentinel in sentinels.iter().filter(|it| !it.is_silent) {
            let subscribing = async {
                let mut pubsub = sentinel.node.open_pubsub().await.ok()?;
                pubsub.subscribe(SWITCHED).await.ok()?;
                // Without the right to this one, it is known a little later.
                drop(pubsub.subscribe(PROMOTED).await);
                Some(pubsub.into_on_message())
            };
            if let Ok(Some(stream)) = tokio::time::timeout(PATIENCE, subscribing).await {
                return Some(Messages { of: sentinel.node.address().clone(), stream });
            }
        }
        tracing::debug!("no Sentinel accepts a subscription; asking every {:?}", self.check_every);
        None
    }

    /// Waits until it is time to look, somebody wants it, or a Sentinel says that there is another master.
    async fn wait(&self, messages: &mut Option<Messages>) {
        let told = async {
            let Some(open) = messages else { return std::future::pending().await };
            loop {
                let Some(message) = open.stream.next().await else { break };
                let text = String::from_utf8_lossy(message.get_payload_bytes()).into_owned();
                if text.split(' ').take(2).any(|word| *word == *self.name) {
                    return;
                }
            }
            *messages = None;
        };
        tokio::select! {
            () = tokio::time::sleep(self.check_every) => {}
            () = self.is_wanted.notified() => {}
            () = told => {}
        }
    }

    async fn check(self: &Arc<Self>) {
        match self.look().await {
            // One that hangs may go on. One that was demoted is left, although the Sentinels may not know it yet.
            // Beside the watch, which must not wait for a server that hangs.
            Ok(master) => {
                let sentinels = self.clone();
                tokio::spawn(async move {
                    if let Ok(false) = is_master(&master).await {
                        sentinels.lose(&master);
                    }
                });
            }
            Err(error) => tracing::debug!(%error, "the Sentinels name no master yet; asking again"),
        }
    }

    fn is_silent(&self, place: &Arc<str>) -> bool {
        let view = self.read();
        view.sentinels.iter().any(|it| it.node.address() == place && it.is_silent)
    }
}
