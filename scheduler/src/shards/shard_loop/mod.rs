//! The loop of one shard: read facts, apply them, commit. The next commit is computed while one is in flight.
//!
//! Timers due at T fire after all facts received up to T.
//!
//! Nothing here waits for Redis to end a blocked read in time, because an idle server does that up to 100 ms late. When
//! a timer is due while a read waits, the loop's own clock starts one more read that does not wait, together with the
//! read of the timers.

pub(crate) mod housekeeping;
mod loading;
pub(crate) mod poison;
mod signs;
mod timers;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::Files;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::limits;
use tidemill_common::machine::RunStatus;
use tidemill_common::store::{Claim, Commit, CommitError, FactReader, Owner, RawFact, StoreError};
use tidemill_common::wire::asked::QUESTIONS_ONCE;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::background::budgets::Meter;
use crate::background::limits::Limiter;
use crate::metrics::Counts;
use crate::namespace::Namespace;
use crate::shards::batch;
use crate::shards::batch::{Batch, Input};
use crate::shards::liveness::Liveness;
use crate::shards::repair::{Repair, ShardFindings};
use crate::shards::retention::{Retention, Swept};
use crate::shards::run_cache::RunCache;
use crate::shards::step_buffers::StepBuffers;
use crate::stores::ShardStore;
use crate::workflows::Workflows;

use crate::shards::shard_loop::housekeeping::poll_housekeeping;
use crate::shards::shard_loop::poison::{POISON_CHECK_AFTER, POISON_CHECK_FACTS};
use crate::shards::shard_loop::timers::Timers;

/// The longest wait for facts: the loop turns at least this often.
const READ_BLOCK: Duration = Duration::from_millis(1000);
/// Reading pauses while this many facts wait in memory.
const QUEUE_MAX: usize = 512;

/// The parts that the loop of a shard needs.
pub struct LoopContext {
    pub store: Arc<dyn ShardStore>,
    /// The workflow versions of the process.
    pub workflows: Arc<Workflows>,
    /// The limit of run states in memory for all shards of the namespace together, in bytes.
    pub cache_bytes: usize,
    /// Gets a beat at each turn of the loop.
    pub liveness: Arc<Liveness>,
    /// The pause between two searches for lost jobs.
    pub repair_every: Duration,
    /// The findings about lost jobs so far.
    pub found: Arc<Mutex<ShardFindings>>,
    /// Says when ended runs are removed.
    pub retention: Retention,
    /// Holds the files of the runs.
    pub files: Arc<dyn Files>,
    pub meter: Arc<Meter>,
    /// Follows the places of runs.
    pub limiter: Arc<Limiter>,
    /// The settings of the namespace, which may grow.
    pub namespace: Arc<Namespace>,
    /// Notified when a commit has stored orders for sub-workflow runs.
    pub ordered: Arc<Notify>,
    /// Notified when a commit has ordered a notice for a webhook.
    pub noticed: Arc<Notify>,
}

/// The reason why a loop ended.
#[derive(Debug)]
pub enum End {
    /// The process stops or gives the shard up.
    Stopped,
    /// Another scheduler owns the shard.
    Lost,
    /// The shard must be taken again: it is unknown what was written, or the store is down.
    Retake(StoreError),
}

impl LoopContext {
    /// The limit of run states in memory for one shard, in bytes.
    fn cache_share(&self) -> usize {
        let shards = self.namespace.known().map_or(1, |meta| meta.shards.max(1));
        self.cache_bytes / usize::from(shards)
    }

    /// Runs the loop of a shard until `stop` is set or the shard is lost.
    pub async fn run(&self, owner: Box<dyn Owner>, stop: watch::Receiver<bool>) -> End {
        let claim = owner.claim().clone();
        match ShardLoop::new(self, owner, &claim, stop.clone()).await {
            Ok(mut shard_loop) => shard_loop.run(stop).await,
            Err(error) => End::Retake(error),
        }
    }
}

type Reading = BoxFuture<'static, (Box<dyn FactReader>, Result<Vec<RawFact>, StoreError>)>;
type Committing = BoxFuture<'static, (Box<dyn Owner>, Commit, Result<(), CommitError>)>;

struct ShardLoop<'a> {
    context: &'a LoopContext,
    shard: ShardId,
    epoch: u64,
    /// The number of the last computed commit.
    number: u64,
    /// The last fact that was read.
    read_to: EntryId,
    /// Redis's time at the beginning. Time is counted from there, because the machine's clock may change.
    began: (Timestamp, Instant),
    stop: watch::Receiver<bool>,
    cache: RunCache,
    buffers: StepBuffers,
    /// Runs in `cache` that had ended when they were loaded.
    over: Vec<RunId>,
    queue: VecDeque<Input>,
    owner: Option<Box<dyn Owner>>,
    reader: Option<Box<dyn FactReader>>,
    reading: Option<(Timestamp, Reading)>,
    /// All facts received up to this time have been read.
    read_all_at: Timestamp,
    committing: Option<(Instant, Batch, Committing)>,
    /// The commit that is computed and not sent.
    next: Option<Batch>,
    timers: Timers,
    /// Jobs that were found to be lost, and when. Facts received before may still report their results.
    lost: (Timestamp, Vec<Input>),
    since_trim: usize,
    trimmed_at: Instant,
    /// The number of inputs to apply one by one, because their batch has failed.
    singly: usize,
    /// The number of facts to note and apply one by one.
    poison_checks: usize,
    tried: HashMap<EntryId, usize>,
    repair: Repair,
    housekeeping: Option<BoxFuture<'static, Result<Swept, StoreError>>>,
    /// The time of the next search for runs to remove.
    sweep_at: Instant,
    /// The time of the next look at runs of earlier versions, to list them by app; `None` when all are listed.
    index_at: Option<Instant>,
    counts: Counts,
}

impl<'a> ShardLoop<'a> {
    async fn new(
        context: &'a LoopContext,
        owner: Box<dyn Owner>,
        claim: &Claim,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, StoreError> {
        let began = Instant::now();
        let began = (context.store.time_at(claim.shard).await?, began);
        let mut tried = HashMap::new();
        for fact in &claim.trying {
            *tried.entry(*fact).or_insert(0) += 1;
        }
        let poison_checks = if claim.takeovers > POISON_CHECK_AFTER { POISON_CHECK_FACTS } else { 0 };
        if poison_checks > 0 {
            tracing::warn!(shard = %claim.shard, takeovers = claim.takeovers, "the shard was taken several times without progress: facts are applied one by one");
        }
        Ok(Self {
            shard: claim.shard,
            epoch: claim.epoch,
            number: claim.commit,
            read_to: claim.cursor,
            began,
            stop,
            cache: RunCache::new(context.cache_share()),
            buffers: StepBuffers::default(),
            over: Vec::new(),
            queue: VecDeque::new(),
            owner: Some(owner),
            reader: Some(context.store.reader(claim.shard).await?),
            reading: None,
            read_all_at: Timestamp::default(),
            committing: None,
            next: None,
            timers: Timers::new(context.store.next_timer(claim.shard).await?),
            lost: Default::default(),
            // Facts of earlier owners are trimmed too.
            since_trim: 1,
            trimmed_at: Instant::now(),
            singly: 0,
            poison_checks,
            tried,
            repair: Repair::new(context.repair_every, context.found.clone()),
            housekeeping: None,
            sweep_at: Instant::now(),
            index_at: Some(Instant::now()),
            counts: Counts::default(),
            context,
        })
    }

    fn now(&self) -> Timestamp {
        let (began, since) = self.began;
        began.plus(since.elapsed())
    }

    async fn run(&mut self, mut stop: watch::Receiver<bool>) -> End {
        loop {
            self.context.liveness.beat();
            if *stop.borrow() && self.committing.is_none() {
                return End::Stopped;
            }
            if !*stop.borrow()
                && let Err(end) = self.prepare().await
            {
                return end;
            }
            self.send();
            self.read();
            self.start_housekeeping();
            let wait = self.wait();
            let happened = tokio::select! {
                biased;
                _ = stop.changed() => Ok(()),
                done = poll(&mut self.committing) => self.committed(done),
                done = poll_reading(&mut self.reading) => self.facts_came(done),
                done = poll_housekeeping(&mut self.housekeeping) => { self.housekeeping_done(done); Ok(()) }
                () = tokio::time::sleep(wait) => Ok(()),
            };
            if let Err(end) = happened {
                return end;
            }
        }
    }

    /// Computes the next commit, unless there is one already.
    async fn prepare(&mut self) -> Result<(), End> {
        if self.next.is_some() {
            return Ok(());
        }
        if !self.lost.1.is_empty() && self.read_all_at > self.lost.0 {
            self.queue.extend(std::mem::take(&mut self.lost.1));
        }
        self.take_due_timers().await.map_err(End::Retake)?;
        let mut inputs = self.take_inputs();
        if inputs.is_empty() {
            return Ok(());
        }
        if self.poison_checks > 0
            && let Some(batch) = self.check_for_poison(&inputs).await?
        {
            self.next = Some(batch);
            return Ok(());
        }
        let gone = self.load_missing(&inputs).await?;
        self.look_for_signs(&mut inputs).await?;
        let (number, now) = (self.number + 1, self.now());
        match batch::decide(&inputs, &mut self.cache, &mut self.buffers, &gone, number, now) {
            Ok(mut batch) => {
                if self.context.namespace.known().is_some_and(|meta| meta.version >= QUESTIONS_ONCE) {
                    batch.commit.shorten_questions();
                }
                self.number = number;
                for id in self.over.drain(..).filter(|id| !batch.touched.contains(id)) {
                    self.cache.end(id);
                }
                crash::pass(CrashPoint::CommitComputed);
                self.next = (batch.commit.cursor.is_some()
                    || !batch.commit.writes.is_empty()
                    || !batch.commit.timers_cleared.is_empty())
                .then_some(batch);
                Ok(())
            }
            Err(panicked) => self.after_panic(inputs, panicked).await,
        }
    }

    /// Takes the inputs of one commit, limited by number and bytes.
    fn take_inputs(&mut self) -> Vec<Input> {
        let most = if self.singly > 0 || self.poison_checks > 0 { 1 } else { limits::COMMIT_FACTS_MAX };
        self.singly = self.singly.saturating_sub(1);
        let mut inputs = Vec::with_capacity(most.min(self.queue.len()));
        let mut bytes = 0;
        while inputs.len() < most && bytes < limits::COMMIT_BYTES_MAX {
            let Some(input) = self.queue.pop_front() else { break };
            bytes += input.size();
            inputs.push(input);
        }
        inputs
    }

    /// Queues due timers after all facts that were received up to their time.
    async fn take_due_timers(&mut self) -> Result<(), StoreError> {
        let (now, is_quiet) = (self.now(), self.is_quiet());
        if is_quiet {
            self.timers.none_is_queued(now);
        }
        let Some(due) = self.timers.due(now, is_quiet) else { return Ok(()) };
        let has_read = self.read_all_at >= due;
        if !has_read && self.queue.len() >= QUEUE_MAX {
            return Ok(());
        }
        let facts = (!has_read).then_some((self.read_to, limits::COMMIT_FACTS_MAX));
        let until = if has_read { self.read_all_at } else { now };
        let found = self.context.store.due(self.shard, facts, until, self.timers.ask()).await?;
        if facts.is_some() {
            self.take_facts(now, found.facts);
        }
        let due = self.timers.found(found.timers, found.next, self.read_all_at, now);
        if !due.is_empty() {
            crash::pass(CrashPoint::TimersRead);
        }
        for (due, member) in due {
            timers::queue(&mut self.queue, due, member);
        }
        Ok(())
    }

    /// True when nothing that was read waits to be written.
    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.committing.is_none() && self.next.is_none()
    }

    /// The time until the loop has to turn although nothing happens.
    fn wait(&self) -> Duration {
        // No other commit is computed before the next one is sent, and the end of the commit in flight turns the loop.
        let at = if self.next.is_none() { self.timers.look_at(self.is_quiet()) } else { None };
        let wait = at.map(|at| at.micros() - self.now().micros());
        let wait = wait.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs()));
        wait.unwrap_or(READ_BLOCK).clamp(Duration::from_millis(1), READ_BLOCK)
    }

    /// Sends the computed commit, unless one is in flight.
    fn send(&mut self) {
        if self.committing.is_some() || self.next.is_none() {
            return;
        }
        let (Some(mut batch), Some(mut owner)) = (self.next.take(), self.owner.take()) else { return };
        let commit = std::mem::take(&mut batch.commit);
        let (shard, stop) = (self.shard, self.stop.clone());
        let future = Box::pin(async move {
            let mut pause = Duration::from_millis(50);
            loop {
                crash::pass(CrashPoint::CommitSent);
                let done = owner.commit(&commit).await;
                crash::pass(CrashPoint::CommitAnswered);
                let Err(CommitError::NotDone(error)) = &done else { return (owner, commit, done) };
                if *stop.borrow() {
                    return (owner, commit, done);
                }
                // Nothing was written: Redis is full, loading or failing over. The same commit is sent again later.
                tracing::warn!(%shard, %error, "a commit was refused and is tried again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        });
        self.committing = Some((Instant::now(), batch, future));
    }

    fn committed(&mut self, done: Done) -> Result<(), End> {
        let (began, mut batch, owner, commit, result) = done;
        self.owner = Some(owner);
        match result {
            Ok(()) => {}
            Err(CommitError::Lost(_)) => return Err(End::Lost),
            Err(CommitError::Unknown(error) | CommitError::NotDone(error)) => return Err(End::Retake(error)),
        }
        self.counts.committed(batch.inputs, began.elapsed());
        batch.failures.log();
        self.timers.written(&commit.timers_cleared, []);
        for write in &commit.writes {
            self.timers.written(&write.timers_cleared, write.timers_set.iter().map(|(due, _)| *due));
            if let Some(spent) = &write.charges {
                self.context.meter.count(spent);
            }
            if write.calls.is_some() {
                self.context.ordered.notify_one();
            }
            if write.notice.is_some() {
                self.context.noticed.notify_one();
            }
            if let (Some((from, to)), Some(run)) = (write.status, self.cache.get(&write.run)) {
                self.context.limiter.moved(write.run, &run.head, from, to);
            }
            if let (Some((_, to)), true) = (write.status, write.ended_at.is_some()) {
                self.counts.ended(to);
            }
        }
        // A commit has at most `COMMIT_FACTS_MAX` runs: a linear search is cheaper than a table.
        let busy = self.next.as_ref().map_or(&[][..], |next| &next.touched);
        // A run that the next commit writes too stays until then.
        for run in batch.ended.drain(..).filter(|run| !busy.contains(run)) {
            self.cache.end(run);
        }
        // A run that waits for a person may wait for long: it is dropped from memory and loaded again when needed.
        let waits = commit.writes.iter().filter(|write| matches!(write.status, Some((_, RunStatus::Paused))));
        waits.filter(|write| !busy.contains(&write.run)).for_each(|write| self.cache.remove(&write.run));
        self.cache.limit(self.context.cache_share());
        self.cache.settle(&batch.written, busy);
        self.since_trim += batch.inputs;
        Ok(())
    }

    /// Starts a read, unless one is running or the queue is full.
    fn read(&mut self) {
        if self.queue.len() >= QUEUE_MAX || self.reading.is_some() {
            return;
        }
        let Some(mut reader) = self.reader.take() else { return };
        let (now, after) = (self.now(), self.read_to);
        let future = Box::pin(async move {
            let facts = reader.read(after, limits::COMMIT_FACTS_MAX, READ_BLOCK).await;
            (reader, facts)
        });
        self.reading = Some((now, future));
    }

    fn facts_came(&mut self, done: Read) -> Result<(), End> {
        let (began, reader, facts) = done;
        self.reader = Some(reader);
        self.take_facts(began, facts.map_err(End::Retake)?);
        Ok(())
    }

    /// Queues the facts of a read that began then. Some may be known: the read of timers reads facts, too, while
    /// another read is in flight.
    fn take_facts(&mut self, began: Timestamp, facts: Vec<RawFact>) {
        if facts.len() < limits::COMMIT_FACTS_MAX {
            self.read_all_at = self.read_all_at.max(began);
        } else if let Some(last) = facts.last() {
            // There are more facts, but none from before the time of this one.
            let before = i64::try_from(last.entry.major).unwrap_or(i64::MAX / 1000).saturating_sub(1);
            self.read_all_at = self.read_all_at.max(Timestamp::from_millis(before).min(began));
        }
        let known = self.read_to;
        let mut facts = facts.into_iter().filter(|fact| fact.entry > known).peekable();
        if facts.peek().is_some() {
            crash::pass(CrashPoint::FactsRead);
        }
        for fact in facts {
            self.read_to = fact.entry;
            self.queue.push_back(Input::Fact(fact));
        }
    }
}

type Done = (Instant, Batch, Box<dyn Owner>, Commit, Result<(), CommitError>);
type Read = (Timestamp, Box<dyn FactReader>, Result<Vec<RawFact>, StoreError>);

/// Waits for the commit in flight; for ever when there is none.
async fn poll(committing: &mut Option<(Instant, Batch, Committing)>) -> Done {
    let Some((_, _, future)) = committing.as_mut() else { return std::future::pending().await };
    let (owner, commit, result) = future.await;
    match committing.take() {
        Some((began, batch, _)) => (began, batch, owner, commit, result),
        None => std::future::pending().await,
    }
}

async fn poll_reading(reading: &mut Option<(Timestamp, Reading)>) -> Read {
    let Some((began, future)) = reading.as_mut() else { return std::future::pending().await };
    let (began, (reader, facts)) = (*began, future.await);
    *reading = None;
    (began, reader, facts)
}
