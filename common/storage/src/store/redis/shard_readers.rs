//! Reads the jobs of one consumer in a cluster, where one command reads one shard only. Each shard has a connection and a
//! task that waits on it. A read returns with the first jobs; the other connections are woken then, so that no job is
//! handed out that the worker did not ask for. A server that does not answer holds up nothing but its own shards.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connection::Connector;
use super::connection::servers::{Lane, Node};
use super::job_reader::StreamReader;
use super::jobs::wake;
use super::keys::Keys;
use crate::store::{Delivered, JobReader, Outages, StoreError};
use tidemill_base::ids::ShardId;

/// How much longer than it may block a server may take to answer, before its shards are read without it.
const GRACE: Duration = Duration::from_millis(1000);
/// How long a read that has jobs waits for the connections that it has woken.
const WOKEN: Duration = Duration::from_millis(300);
/// The pause after a failed read of a shard; it doubles up to the next one.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a read is repeated at once because the slot of its shard has moved. Nothing was read then.
const MOVES_MAX: usize = 3;

/// A jobs stream.
type Stream = (ShardId, Arc<str>);

/// Connections on which the readers of this process may be waiting.
#[derive(Default)]
pub(super) struct Sleepers {
    readers: Mutex<HashMap<u64, Weak<Waiting>>>,
    next: AtomicU64,
}

/// The connection of each shard of a reader: its server, and the server's id of it.
#[derive(Default)]
struct Waiting(Mutex<HashMap<ShardId, (Arc<Node>, u64)>>);

impl Sleepers {
    /// Wakes a reader.
    pub(super) fn wake(&self, keys: &Keys, reader: u64) {
        let waiting = locked(&self.readers).get(&reader).and_then(Weak::upgrade);
        waiting.into_iter().for_each(|waiting| waiting.wake(keys, |_| true));
    }

    fn add(&self, waiting: &Arc<Waiting>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut readers = locked(&self.readers);
        readers.retain(|_, waiting| waiting.strong_count() > 0);
        readers.insert(id, Arc::downgrade(waiting));
        id
    }
}

impl Waiting {
    /// Ends the wait of the connections of these shards. Nothing relies on it: they end by themselves.
    fn wake(&self, keys: &Keys, is_meant: impl Fn(ShardId) -> bool) {
        for (shard, (node, connection)) in locked(&self.0).iter().filter(|(shard, _)| is_meant(**shard)) {
            let (node, mut pipe) = (node.clone(), redis::pipe());
            pipe.cmd("MULTI");
            wake(&mut pipe, &keys.probe_of(*shard), *connection);
            pipe.cmd("EXEC");
            tokio::spawn(async move { drop(node.send(Lane::Short, "waking a reader of jobs", &pipe).await) });
        }
    }
}

/// What the task of a shard has to read.
struct Ask {
    streams: Vec<Stream>,
    count: usize,
    block: Duration,
}

type Answer = (ShardId, Result<Vec<Delivered>, StoreError>);

/// The connection of one shard.
struct Lent {
    asks: UnboundedSender<Ask>,
    /// It reads, and has not answered yet.
    is_busy: bool,
    /// It failed, or did not answer in time.
    is_silent: bool,
    task: AbortHandle,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The readers of all shards.
pub(super) struct ShardReaders {
    id: u64,
    connector: Connector,
    consumer: Arc<str>,
    shards: BTreeMap<ShardId, Lent>,
    answer: UnboundedSender<Answer>,
    answers: UnboundedReceiver<Answer>,
    waiting: Arc<Waiting>,
    /// Shards that can be read again.
    back: BTreeSet<ShardId>,
    failed: Option<StoreError>,
}

impl ShardReaders {
    pub(super) fn new(connector: &Connector, consumer: &str, sleepers: &Sleepers) -> Self {
        let (answer, answers) = unbounded_channel();
        let waiting = Arc::default();
        Self {
            id: sleepers.add(&waiting),
            connector: connector.clone(),
            consumer: consumer.into(),
            shards: BTreeMap::new(),
            answer,
            answers,
            waiting,
            back: BTreeSet::new(),
            failed: None,
        }
    }

    /// Asks the shards that are free. Returns those whose answers are worth waiting for.
    fn ask(&mut self, streams: &[Stream], count: usize, block: Duration) -> BTreeSet<ShardId> {
        let mut of_shards: BTreeMap<ShardId, Vec<Stream>> = BTreeMap::new();
        streams.iter().for_each(|stream| of_shards.entry(stream.0).or_default().push(stream.clone()));
        let mut awaited = BTreeSet::new();
        for (shard, streams) in of_shards {
            let lent = self.shards.entry(shard).or_insert_with(|| {
                let (asks, asked) = unbounded_channel();
                let reader = ShardReader {
                    shard,
                    connector: self.connector.clone(),
                    consumer: self.consumer.clone(),
                    waiting: self.waiting.clone(),
                    reader: None,
                };
                let task = tokio::spawn(reader.serve(asked, self.answer.clone())).abort_handle();
                Lent { asks, is_busy: false, is_silent: false, task }
            });
            if !lent.is_busy {
                lent.is_busy = lent.asks.send(Ask { streams, count, block }).is_ok();
                if !lent.is_silent {
                    awaited.insert(shard);
                }
            }
        }
        awaited
    }

    fn take(&mut self, (shard, answer): Answer, jobs: &mut Vec<Delivered>) {
        let Some(lent) = self.shards.get_mut(&shard) else { return };
        lent.is_busy = false;
        match answer {
            Ok(found) => {
                if std::mem::take(&mut lent.is_silent) {
                    self.back.insert(shard);
                }
                jobs.extend(found);
            }
            Err(error) => {
                tracing::debug!(%shard, %error, "the jobs of a shard cannot be read yet");
                lent.is_silent = true;
                self.failed = Some(error);
            }
        }
    }

    async fn wait(&mut self, mut awaited: BTreeSet<ShardId>, block: Duration) -> Vec<Delivered> {
        let (mut jobs, mut is_woken) = (Vec::new(), false);
        let mut until = Instant::now() + block + GRACE;
        if awaited.is_empty() {
            // All wait for silent servers. Their answers end this too.
            until = Instant::now() + block.max(PAUSE);
        }
        loop {
            let answer = tokio::time::timeout_at(until, self.answers.recv()).await;
            let Ok(Some(answer)) = answer else {
                let late = awaited.iter().filter(|_| !is_woken);
                late.for_each(|shard| {
                    self.shards.get_mut(shard).into_iter().for_each(|lent| lent.is_silent = true);
                });
                return jobs;
            };
            awaited.remove(&answer.0);
            self.take(answer, &mut jobs);
            if awaited.is_empty() {
                return jobs;
            }
            if !jobs.is_empty() && !std::mem::replace(&mut is_woken, true) {
                until = until.min(Instant::now() + WOKEN);
                self.waiting.wake(self.connector.keys(), |shard| awaited.contains(&shard));
            }
        }
    }
}

#[async_trait]
impl JobReader for ShardReaders {
    fn id(&self) -> u64 {
        self.id
    }

    async fn read(
        &mut self,
        wanted: &[Stream],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError> {
        // Jobs that came after the last read had ended.
        let mut jobs = Vec::new();
        while let Ok(answer) = self.answers.try_recv() {
            self.take(answer, &mut jobs);
        }
        if !jobs.is_empty() {
            return Ok(jobs);
        }
        let awaited = self.ask(wanted, count, block);
        let jobs = self.wait(awaited, block).await;
        let all_are_silent = !self.shards.is_empty() && self.shards.values().all(|lent| lent.is_silent);
        match self.failed.take() {
            Some(error) if jobs.is_empty() && all_are_silent => Err(error),
            _ => Ok(jobs),
        }
    }

    fn outages(&mut self) -> Outages {
        let silent = self.shards.iter().filter(|(_, lent)| lent.is_silent).map(|(shard, _)| *shard);
        Outages { silent: silent.collect(), back: std::mem::take(&mut self.back) }
    }
}

/// Reads the jobs of one shard.
struct ShardReader {
    shard: ShardId,
    connector: Connector,
    consumer: Arc<str>,
    waiting: Arc<Waiting>,
    reader: Option<StreamReader>,
}

impl ShardReader {
    async fn serve(mut self, mut asked: UnboundedReceiver<Ask>, answers: UnboundedSender<Answer>) {
        let mut pause = PAUSE;
        while let Some(ask) = asked.recv().await {
            let answer = self.read(&ask).await;
            if answer.is_ok() {
                pause = PAUSE;
            } else {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            if answers.send((self.shard, answer)).is_err() {
                return;
            }
        }
    }

    async fn read(&mut self, ask: &Ask) -> Result<Vec<Delivered>, StoreError> {
        let mut moves = 0;
        loop {
            let error = match self.read_once(ask).await {
                Ok(jobs) => return Ok(jobs),
                Err(error) => error,
            };
            self.reader = None;
            locked(&self.waiting.0).remove(&self.shard);
            moves += 1;
            if !matches!(error, StoreError::Refused { .. }) || moves > MOVES_MAX {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read_once(&mut self, ask: &Ask) -> Result<Vec<Delivered>, StoreError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let key = self.connector.keys().inbox(self.shard);
                let node = self.connector.server_of(&key).await?;
                let reader = none.insert(StreamReader::open(&self.connector, &self.consumer, &key).await?);
                locked(&self.waiting.0).insert(self.shard, (node, reader.id()));
                reader
            }
        };
        reader.read(&ask.streams, ask.count, ask.block).await
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
