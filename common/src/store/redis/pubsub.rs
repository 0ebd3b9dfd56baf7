//! Hints by publish and subscribe: which runs a commit touched, which executions to stop. Nothing relies on them;
//! whoever waits looks again after a while in any case.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::aio::PubSubStream;
use tokio::sync::watch;

use super::connection::Connector;
use crate::ids::{RunId, ShardId};
use crate::store::{Hint, Hints, StoreError};

type Followed = Arc<Mutex<HashMap<RunId, watch::Sender<u64>>>>;

/// Who follows which run.
pub(super) struct Ticks {
    followed: Followed,
    started: std::sync::Once,
}

impl Default for Ticks {
    fn default() -> Self {
        Self { followed: Followed::default(), started: std::sync::Once::new() }
    }
}

impl Ticks {
    /// A receiver that changes when the run may have new events.
    pub(super) fn follow(&self, connector: &Connector, pattern: String, run: RunId) -> watch::Receiver<u64> {
        self.started.call_once(|| {
            tokio::spawn(listen(connector.clone(), pattern, Arc::downgrade(&self.followed)));
        });
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        // No tick comes for a run that is over: whoever read its events would stay in here for ever.
        if followed.len() == followed.capacity() {
            followed.retain(|_, sender| !sender.is_closed());
        }
        followed.entry(run).or_insert_with(|| watch::channel(0).0).subscribe()
    }
}

/// Passes ticks on until the store is gone; connects again whenever the connection breaks.
async fn listen(
    connector: Connector,
    pattern: String,
    followed: std::sync::Weak<Mutex<HashMap<RunId, watch::Sender<u64>>>>,
) {
    let mut pause = Duration::from_millis(50);
    while followed.strong_count() > 0 {
        let subscribed = async {
            let mut pubsub = connector.open_pubsub().await?;
            let subscribed = pubsub.psubscribe(&pattern).await;
            subscribed.map_err(|e| connector.error("subscribing", &e))?;
            Ok::<_, StoreError>(pubsub.into_on_message())
        };
        match subscribed.await {
            Ok(mut messages) => {
                pause = Duration::from_millis(50);
                // What was published before this subscription may have been missed: all look once.
                if let Some(followed) = followed.upgrade() {
                    wake(&followed, None);
                }
                while let Some(message) = messages.next().await {
                    let Some(followed) = followed.upgrade() else { return };
                    wake(&followed, Some(&String::from_utf8_lossy(message.get_payload_bytes())));
                }
            }
            Err(error) => tracing::debug!(%error, "no ticks for now"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// Wakes the followers of the runs named, or all; forgets runs that nobody follows any more.
fn wake(followed: &Mutex<HashMap<RunId, watch::Sender<u64>>>, named: Option<&str>) {
    let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(named) = named else {
        followed.retain(|_, sender| !sender.is_closed());
        followed.values().for_each(|sender| sender.send_modify(|n| *n += 1));
        return;
    };
    for run in named.split(' ').filter_map(|id| id.parse::<RunId>().ok()) {
        if let Some(sender) = followed.get(&run) {
            if sender.is_closed() {
                followed.remove(&run);
            } else {
                sender.send_modify(|n| *n += 1);
            }
        }
    }
}

/// Hints for workers, as they are published: ids of executions to stop, or the word of `hand_back.lua`.
pub(super) struct HintMessages {
    messages: PubSubStream,
    waiting: Vec<Hint>,
}

impl HintMessages {
    pub(super) async fn open(connector: &Connector, pattern: &str) -> Result<Self, StoreError> {
        let mut pubsub = connector.open_pubsub().await?;
        let subscribed = pubsub.psubscribe(pattern).await;
        subscribed.map_err(|e| connector.error("subscribing", &e))?;
        Ok(Self { messages: pubsub.into_on_message(), waiting: Vec::new() })
    }
}

#[async_trait]
impl Hints for HintMessages {
    async fn next(&mut self) -> Option<Hint> {
        loop {
            if let Some(hint) = self.waiting.pop() {
                return Some(hint);
            }
            let message = self.messages.next().await?;
            let text = String::from_utf8_lossy(message.get_payload_bytes()).into_owned();
            self.waiting = match shard_of(message.get_channel_name()) {
                Some(shard) if text == "handed-back" => vec![Hint::HandedBack(shard)],
                _ => text.split(' ').filter_map(|id| id.parse().ok()).map(Hint::Stop).collect(),
            };
        }
    }
}

/// The shard of a channel, which is the number in its braces.
fn shard_of(channel: &str) -> Option<ShardId> {
    let (_, rest) = channel.split_once('{')?;
    rest.split_once('}')?.0.parse().ok().map(ShardId)
}
