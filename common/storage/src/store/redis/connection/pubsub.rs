//! Hints for workers by publish and subscribe: executions to stop, shards with returned jobs. Nothing relies
//! on them; workers also look once in a while.

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::Msg;
use redis::aio::PubSubStream;
use tokio::sync::watch;

use crate::store::redis::connection::Connector;
use crate::store::{Hint, Hints, StoreError};
use tidemill_base::ids::ShardId;

/// Published messages. In a cluster one server has those of all, because the servers pass them on to each other.
pub(in crate::store::redis) struct Messages {
    messages: PubSubStream,
    /// Becomes true when the server is no longer the master.
    left: watch::Receiver<bool>,
}

impl Messages {
    /// Subscribes to the channels of a pattern.
    pub(in crate::store::redis) async fn of(
        connector: &Connector,
        pattern: &str,
    ) -> Result<Self, StoreError> {
        let server = connector.any_server().await?;
        let mut pubsub = server.open_pubsub().await?;
        let subscribed = pubsub.psubscribe(pattern).await;
        subscribed.map_err(|e| connector.error("subscribing", &e))?;
        Ok(Self { messages: pubsub.into_on_message(), left: server.left() })
    }

    /// The next message; `None` when the connection has ended.
    pub(in crate::store::redis) async fn next(&mut self) -> Option<Msg> {
        tokio::select! {
            message = self.messages.next() => message,
            _ = self.left.wait_for(|left| *left) => None,
        }
    }
}

/// Published hints: ids of executions to stop, or the word of `hand_back.lua`.
pub(in crate::store::redis) struct HintMessages {
    messages: Messages,
    waiting: Vec<Hint>,
}

impl HintMessages {
    pub(in crate::store::redis) async fn open(
        connector: &Connector,
        pattern: &str,
    ) -> Result<Self, StoreError> {
        Ok(Self { messages: Messages::of(connector, pattern).await?, waiting: Vec::new() })
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

/// The shard of a channel: the number in braces.
fn shard_of(channel: &str) -> Option<ShardId> {
    let (_, rest) = channel.split_once('{')?;
    rest.split_once('}')?.0.parse().ok().map(ShardId)
}
