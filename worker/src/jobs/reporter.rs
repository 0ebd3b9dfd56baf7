//! Step 11 of a run, the report: sends facts and results to the store, through one queue per shard. A queue sends
//! everything that is ready in one request, facts before results, and repeats the request until it is answered. So a
//! thousand short jobs need few round trips, and the facts of a job reach the inbox before its result.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_common::crash::{self, CrashPoint as Crash};
use tidemill_common::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_common::store::{Accepted, Completion, Jobs, StoreError};
use tidemill_common::wire::job::node_in;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::jobs::backoff::{Backoff, Condition};
use crate::jobs::in_flight::{InFlight, JobPlace};
use crate::jobs::takeover::HandedBack;
use crate::metrics;

/// Most messages per request; larger batches gain nothing.
const BATCH_MAX: usize = 64;
/// With more waiting messages, chunks are gathered longer.
const BUSY_AT: usize = 256;
/// Most tries of a single result that the store rejects.
const NONSENSE_MAX: u32 = 3;
/// Most times missing blobs are stored again before the result is dropped.
const BLOBLESS_MAX: u32 = 5;

/// A result to send.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) queue: Arc<str>,
    pub(crate) completion: Completion,
    /// Texts of the blobs it refers to. They are kept until it is accepted, because the stored blobs may expire first.
    pub(crate) blobs: Vec<(BlobId, String)>,
}

#[derive(Debug)]
enum Message {
    Fact(RunId, &'static str, String),
    /// The sender is notified when all earlier facts are in the inbox.
    Passed(oneshot::Sender<()>),
    Result(Box<Finished>),
}

/// The sending end of one shard's queue. It keeps the order.
#[derive(Debug, Clone)]
pub(crate) struct ReportQueue {
    sender: UnboundedSender<Message>,
    waiting: Arc<AtomicUsize>,
}

impl ReportQueue {
    /// Sends a fact.
    pub(crate) fn report(&self, run: RunId, kind: &'static str, body: String) {
        self.send(Message::Fact(run, kind, body));
    }
    /// Sends a result.
    pub(crate) fn send_result(&self, finished: Finished) {
        self.send(Message::Result(Box::new(finished)));
    }
    /// Returns when all earlier facts are in the inbox or were given up.
    pub(crate) async fn passed(&self) {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Passed(sender));
        // A closed queue sends nothing more, so the error does not matter.
        drop(receiver.await);
    }
    /// Returns true when the store does not keep up.
    pub(crate) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > BUSY_AT
    }
    fn send(&self, message: Message) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // A queue closes only when the worker ends; later messages are not needed.
        drop(self.sender.send(message));
    }
}

/// All report queues, one per shard. A queue is opened when it is first used.
pub(crate) struct Reporter {
    jobs: Arc<dyn Jobs>,
    consumer: Arc<str>,
    in_flight: Arc<InFlight>,
    handed_back: Arc<HandedBack>,
    open: Mutex<HashMap<ShardId, (ReportQueue, JoinHandle<()>)>>,
}

impl Reporter {
    pub(crate) fn new(
        jobs: Arc<dyn Jobs>,
        consumer: Arc<str>,
        in_flight: Arc<InFlight>,
        handed_back: Arc<HandedBack>,
    ) -> Self {
        Self { jobs, consumer, in_flight, handed_back, open: Mutex::default() }
    }
    /// Returns the queue of a shard.
    pub(crate) fn of(&self, shard: ShardId) -> ReportQueue {
        let open = || {
            let (sender, receiver) = unbounded_channel();
            let waiting = Arc::new(AtomicUsize::new(0));
            let hands = ReportSender {
                jobs: self.jobs.clone(),
                consumer: self.consumer.clone(),
                in_flight: self.in_flight.clone(),
                handed_back: self.handed_back.clone(),
                shard,
                waiting: waiting.clone(),
                reporting: Condition::new("reporting"),
                completing: Condition::new("sending results"),
            };
            (ReportQueue { sender, waiting }, tokio::spawn(hands.run(receiver)))
        };
        self.lock().entry(shard).or_insert_with(open).0.clone()
    }
    /// Closes all queues. Each ends when its messages are answered and no job uses it.
    pub(crate) fn close(&self) -> Vec<JoinHandle<()>> {
        self.lock().drain().map(|(_, (_, task))| task).collect()
    }
    fn lock(&self) -> MutexGuard<'_, HashMap<ShardId, (ReportQueue, JoinHandle<()>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn blobs_vanish() -> StoreError {
    let reason = "large values are gone as soon as they are stored; is Redis evicting keys?".into();
    StoreError::Unexpected { doing: "sending results", reason }
}

/// The receiving end of a report queue.
struct ReportSender {
    jobs: Arc<dyn Jobs>,
    consumer: Arc<str>,
    in_flight: Arc<InFlight>,
    handed_back: Arc<HandedBack>,
    shard: ShardId,
    waiting: Arc<AtomicUsize>,
    reporting: Condition,
    completing: Condition,
}

impl ReportSender {
    async fn run(self, mut receiver: UnboundedReceiver<Message>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let taken = batch.len();
            let (mut facts, mut waiting) = (Vec::new(), Vec::new());
            let mut results: Vec<(Arc<str>, Vec<Finished>)> = Vec::new();
            for message in batch.drain(..) {
                match message {
                    Message::Fact(run, kind, body) => facts.push((run, kind, body)),
                    Message::Passed(sender) => waiting.push(sender),
                    Message::Result(it) => match results.iter_mut().find(|(queue, _)| *queue == it.queue) {
                        Some((_, of_queue)) => of_queue.push(*it),
                        None => results.push((it.queue.clone(), vec![*it])),
                    },
                }
            }
            self.report(&facts).await;
            // The waiting task may be gone.
            for sender in waiting {
                let _ = sender.send(());
            }
            for (queue, of_queue) in results {
                self.send_result(&queue, of_queue).await;
            }
            self.waiting.fetch_sub(taken, Ordering::Relaxed);
        }
    }

    /// Facts can be repeated safely: a chunk has an offset, and a start is sent only once.
    async fn report(&self, facts: &[(RunId, &'static str, String)]) {
        if facts.is_empty() {
            return;
        }
        let mut backoff = Backoff::default();
        let mut nonsense = 0;
        crash::pass(Crash::ReportBegun);
        while let Err(error) = self.jobs.report(self.shard, facts).await {
            self.reporting.failed(&error);
            nonsense += u32::from(!error.is_passing());
            if nonsense >= NONSENSE_MAX {
                // The result contains what the facts would have reported.
                tracing::error!(shard = %self.shard, %error, facts = facts.len(), "reports are dropped");
                return;
            }
            backoff.wait().await;
        }
        crash::pass(Crash::ReportDone);
        self.reporting.works();
    }

    async fn send_result(&self, queue: &Arc<str>, finished: Vec<Finished>) {
        match self.try_until_answered(queue, finished).await {
            Ok(()) => {}
            Err((alone, error)) if alone.len() == 1 => self.drop_results(queue, alone, &error),
            // The store rejects one of them. Send each alone, so that the others get through.
            Err((all, _)) => {
                for one in all {
                    if let Err((one, error)) = self.try_until_answered(queue, vec![one]).await {
                        self.drop_results(queue, one, &error);
                    }
                }
            }
        }
    }

    /// Repeats the request until each result is answered. Returns the results the store rejects.
    async fn try_until_answered(
        &self,
        queue: &Arc<str>,
        mut finished: Vec<Finished>,
    ) -> Result<(), (Vec<Finished>, StoreError)> {
        let mut backoff = Backoff::default();
        let (mut nonsense, mut blobless) = (0, 0);
        while !finished.is_empty() {
            let (completions, blobs): (Vec<_>, Vec<_>) =
                finished.into_iter().map(|it| (it.completion, it.blobs)).unzip();
            crash::pass(Crash::HandInBegun);
            let answer = self.jobs.complete(self.shard, queue, &self.consumer, &completions).await;
            crash::pass(Crash::HandInDone);
            let again = completions.into_iter().zip(blobs).map(|(completion, blobs)| Finished {
                queue: queue.clone(),
                completion,
                blobs,
            });
            match answer {
                Ok(answers) => {
                    self.completing.works();
                    metrics::BATCHES.count();
                    finished = self.settle(again, &answers).await;
                    if !finished.is_empty() {
                        blobless += 1;
                        if blobless >= BLOBLESS_MAX {
                            return Err((finished, blobs_vanish()));
                        }
                        backoff.wait().await;
                    }
                }
                Err(error) => {
                    self.completing.failed(&error);
                    finished = again.collect();
                    nonsense += u32::from(!error.is_passing());
                    if nonsense > 0 && (finished.len() > 1 || nonsense >= NONSENSE_MAX) {
                        return Err((finished, error));
                    }
                    backoff.wait().await;
                }
            }
        }
        Ok(())
    }

    /// Releases answered results. A result with a missing blob has it stored again and remains.
    async fn settle(&self, results: impl Iterator<Item = Finished>, answers: &[Accepted]) -> Vec<Finished> {
        let (mut remaining, mut suspects) = (Vec::new(), Vec::new());
        let mut queue: Option<Arc<str>> = None;
        for (it, answer) in results.zip(answers) {
            match answer {
                Accepted::Stored => metrics::RESULTS.count_for("stored"),
                Accepted::NotYours => {
                    metrics::RESULTS.count_for("not_yours");
                    tracing::debug!(run = %it.completion.run, entry = %it.completion.entry, "the result is stale and was refused");
                }
                Accepted::BlobMissing => {
                    metrics::RESULTS.count_for("blob_missing");
                    for (id, text) in &it.blobs {
                        if let Err(error) = self.jobs.store_blob(self.shard, id, text).await {
                            self.completing.failed(&error);
                        }
                    }
                    remaining.push(it);
                    continue;
                }
            }
            if self.in_flight.settle(&self.place(&it), it.completion.number) {
                suspects.push(it.completion.entry);
                queue = Some(it.queue);
            }
        }
        if let Some(queue) = queue {
            self.forget(&queue, &suspects).await;
        }
        remaining
    }

    /// Removes the records of suspects that have ended, and makes room for others. A record that stays expires.
    async fn forget(&self, queue: &str, suspects: &[EntryId]) {
        if let Err(error) = self.jobs.forget_suspects(self.shard, queue, suspects).await {
            tracing::debug!(shard = %self.shard, %error, "records of suspects stay until they expire");
        }
        self.handed_back.suspects_ended(&*self.jobs).await;
    }

    /// Releases results that cannot be sent. Their leases expire, and another worker tries the jobs.
    fn drop_results(&self, queue: &Arc<str>, results: Vec<Finished>, error: &StoreError) {
        for it in results {
            metrics::RESULTS.count_for("dropped");
            let node = node_in(&it.completion.body);
            tracing::error!(run = %it.completion.run, node, %queue, entry = %it.completion.entry, %error, "result cannot be sent; its lease expires and another worker runs its job");
            self.in_flight.settle(&self.place(&it), it.completion.number);
        }
    }

    fn place(&self, it: &Finished) -> JobPlace {
        JobPlace { shard: self.shard, queue: it.queue.clone(), entry: it.completion.entry }
    }
}
