//! Reads the jobs of one consumer over one connection: on one server of all shards, in a cluster of one shard.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisError;

use super::connection::Connector;
use super::keys::{GROUP, Keys};
use crate::store::redis::connection::replies::unexpected;
use crate::store::redis::connection::wire_connection::{Line, Replies, Request, entries};
use crate::store::{Delivered, JobReader, StoreError};
use tidemill_base::ids::ShardId;

/// Reads jobs for one consumer.
pub(super) struct StreamReader {
    /// The server's id of the connection.
    id: u64,
    line: Line,
    /// Reused for its buffer.
    request: Request,
    connector: Connector,
    keys: Keys,
    consumer: String,
}

impl StreamReader {
    /// Opens a connection to the server of this key.
    pub(super) async fn open(connector: &Connector, consumer: &str, key: &str) -> Result<Self, StoreError> {
        let mut reader = Self {
            id: 0,
            line: connector.open_line(key).await?,
            request: Request::default(),
            connector: connector.clone(),
            keys: connector.keys().clone(),
            consumer: consumer.to_string(),
        };
        reader.request.command("CLIENT", 1).word("ID");
        let id = match reader.line.ask(&reader.request, Duration::ZERO).await.and_then(Replies::checked) {
            Ok(mut replies) => replies.text().and_then(|id| id.parse().ok()),
            Err(error) => return Err(connector.error("connecting", &error)),
        };
        reader.id = id.ok_or_else(|| unexpected("connecting", "the connection has no id"))?;
        Ok(reader)
    }

    async fn ask(
        &mut self,
        wanted: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<(), RedisError> {
        let request = &mut self.request;
        request.clear();
        let words = 6 + if block.is_zero() { 0 } else { 2 } + wanted.len() * 2;
        request.command("XREADGROUP", words).word("GROUP").word(GROUP).word(&self.consumer);
        request.word("COUNT").word(count);
        if !block.is_zero() {
            request.word("BLOCK").word(block.as_millis().max(1));
        }
        request.word("STREAMS");
        for (shard, queue) in wanted {
            request.word(self.keys.jobs(*shard, queue));
        }
        for _ in wanted {
            request.word(">");
        }
        self.line.ask(request, block).await?.checked().map(drop)
    }

    /// Creates missing groups at the stream's beginning, so that no existing entry is skipped.
    async fn make_groups(&mut self, wanted: &[(ShardId, Arc<str>)]) -> Result<(), StoreError> {
        for (shard, queue) in wanted {
            self.request.clear();
            self.request.command("XGROUP", 5).word("CREATE").word(self.keys.jobs(*shard, queue));
            self.request.word(GROUP).word("0").word("MKSTREAM");
            let made = self.line.ask(&self.request, Duration::ZERO).await.and_then(Replies::checked);
            match made {
                Ok(_) => {}
                Err(error) if error.code() == Some("BUSYGROUP") => {}
                Err(error) => return Err(self.connector.error("creating a consumer group", &error)),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl JobReader for StreamReader {
    fn id(&self) -> u64 {
        self.id
    }

    async fn read(
        &mut self,
        wanted: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError> {
        const DOING: &str = "reading jobs";
        let mut asked = self.ask(wanted, count, block).await;
        if asked.as_ref().is_err_and(|e| e.code() == Some("NOGROUP")) {
            self.make_groups(wanted).await?;
            asked = self.ask(wanted, count, block).await;
        }
        asked.map_err(|e| self.connector.error(DOING, &e))?;
        let mut jobs = Vec::new();
        let mut of: Option<(String, &(ShardId, Arc<str>))> = None;
        let whole = entries(&mut self.line.replies(), ["run", "job"], |stream, entry, [run, body]| {
            // The entries of a stream come together.
            if of.as_ref().is_none_or(|(name, _)| name != stream) {
                let named = |wanted: &&(ShardId, Arc<str>)| self.keys.jobs(wanted.0, &wanted.1) == stream;
                of = wanted.iter().find(named).map(|wanted| (stream.to_owned(), wanted));
            }
            let Some((_, (shard, queue))) = &of else { return };
            let (shard, queue, run, body) = (*shard, queue.clone(), run.into_owned(), body.into_owned());
            jobs.push(Delivered { shard, queue, entry, number: 1, run, body });
        });
        whole.ok_or_else(|| unexpected(DOING, "not a list of streams"))?;
        Ok(jobs)
    }
}
