//! The loop of one shard: read facts, apply them, commit. The next commit is computed while one is in flight.
//!
//! Timers due at T fire after all facts received up to T.

pub(crate) mod housekeeping;
mod loading;
pub(crate) mod poison;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::Files;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::limits;
use tidemill_common::machine::RunStatus;
use tidemill_common::store::{Claim, Commit, CommitError, FactReader, Owner, RawFact, StoreError};
use tokio::sync::{Notify, watch};

use crate::background::budgets::Meter;
use crate::metrics::Counts;
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

/// The longest wait for facts: the loop turns at least this often.
const READ_BLOCK: Duration = Duration::from_millis(1000);
/// Reading pauses while this many facts wait in memory.
const QUEUE_MAX: usize = 512;
/// Due timers that are read at once.
const TIMERS_MAX: usize = 64;
/// The pause between two reads of due timers while facts keep coming.
const TIMERS_PAUSE: Duration = Duration::from_millis(100);

/// The parts that the loop of a shard needs.
pub struct LoopContext {
    pub store: Arc<dyn ShardStore>,
    /// The workflow versions of the process.
    pub workflows: Arc<Workflows>,
    /// The limit of run states in memory for this shard, in bytes.
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
    /// Notified when a commit has stored orders for sub-workflow runs.
    pub ordered: Arc<Notify>,
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
    next_timer: Option<Timestamp>,
    timers_looked_at: Instant,
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
        let began = (context.store.time().await?, began);
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
            cache: RunCache::new(context.cache_bytes),
            buffers: StepBuffers::default(),
            over: Vec::new(),
            queue: VecDeque::new(),
            owner: Some(owner),
            reader: Some(context.store.reader(claim.shard).await?),
            reading: None,
            read_all_at: Timestamp::default(),
            committing: None,
            next: None,
            next_timer: context.store.next_timer(claim.shard).await?,
            timers_looked_at: Instant::now(),
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
            let waits_for_timer = self.timer_wait();
            let happened = tokio::select! {
                biased;
                _ = stop.changed() => Ok(()),
                done = poll(&mut self.committing) => self.committed(done),
                done = poll_reading(&mut self.reading) => self.facts_came(done),
                done = poll_housekeeping(&mut self.housekeeping) => { self.housekeeping_done(done); Ok(()) }
                () = tokio::time::sleep(waits_for_timer) => Ok(()),
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
        let inputs = self.take_inputs();
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
        let (number, now) = (self.number + 1, self.now());
        match batch::decide(&inputs, &mut self.cache, &mut self.buffers, &gone, number, now) {
            Ok(batch) => {
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

    /// Queues due timers when all facts up to their time have been applied.
    async fn take_due_timers(&mut self) -> Result<(), StoreError> {
        let Some(due) = self.next_timer else { return Ok(()) };
        if self.read_all_at < due {
            return Ok(());
        }
        // A commit in flight may clear some of them; reading them then is harmless but useless. While facts keep coming
        // there is no better moment, so the pause limits it.
        let is_quiet = self.queue.is_empty() && self.committing.is_none();
        if !is_quiet && self.timers_looked_at.elapsed() < TIMERS_PAUSE {
            return Ok(());
        }
        self.timers_looked_at = Instant::now();
        let timers = self.context.store.due_timers(self.shard, self.read_all_at, TIMERS_MAX).await?;
        if !timers.is_empty() {
            crash::pass(CrashPoint::TimersRead);
        }
        self.queue.extend(timers.into_iter().map(|(_, member)| Input::Timer(member)));
        if is_quiet && self.queue.is_empty() {
            self.next_timer = self.context.store.next_timer(self.shard).await?;
        }
        Ok(())
    }

    fn timer_wait(&self) -> Duration {
        let Some(due) = self.next_timer else { return READ_BLOCK };
        let wait = due.micros() - self.now().micros();
        Duration::from_micros(wait.max(0).unsigned_abs()).clamp(Duration::from_millis(1), READ_BLOCK)
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
        for write in &commit.writes {
            for (due, _) in &write.timers_set {
                self.next_timer = Some(self.next_timer.map_or(*due, |known| known.min(*due)));
            }
            if let Some(spent) = &write.charges {
                self.context.meter.count(spent);
            }
            if write.calls.is_some() {
                self.context.ordered.notify_one();
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
        let now = self.now();
        let block = match self.next_timer {
            Some(due) if due <= now => Duration::ZERO,
            Some(_) | None => self.timer_wait(),
        };
        let after = self.read_to;
        let future = Box::pin(async move {
            let facts = reader.read(after, limits::COMMIT_FACTS_MAX, block).await;
            (reader, facts)
        });
        self.reading = Some((now, future));
    }

    fn facts_came(&mut self, done: Read) -> Result<(), End> {
        let (began, reader, facts) = done;
        self.reader = Some(reader);
        let facts = facts.map_err(End::Retake)?;
        if let Some(last) = facts.last() {
            crash::pass(CrashPoint::FactsRead);
            self.read_to = last.entry;
        }
        if facts.len() < limits::COMMIT_FACTS_MAX {
            self.read_all_at = began;
        } else if let Some(last) = facts.last() {
            // There are more facts, but none from before the time of this one.
            let before = i64::try_from(last.entry.major).unwrap_or(i64::MAX / 1000).saturating_sub(1);
            self.read_all_at = self.read_all_at.max(Timestamp::from_millis(before).min(began));
        }
        self.queue.extend(facts.into_iter().map(Input::Fact));
        Ok(())
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
