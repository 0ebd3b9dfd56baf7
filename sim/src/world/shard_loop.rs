//! The loop of one shard, as in `scheduler/src/shards/shard_loop/`, cut at every place where its owner may stop:
//! facts are read, a commit is computed, sent, and answered. The decisions are made by the scheduler's own code.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use tidemill_common::clock::Timestamp;
use tidemill_common::graph::NodeIx;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::limits;
use tidemill_common::machine::RunState;
use tidemill_common::machine::fact::JobLost;
use tidemill_common::store::{CommitError, Shards, StoreError};
use tidemill_scheduler::shards::batch;
use tidemill_scheduler::shards::batch::{Batch, Input};
use tidemill_scheduler::shards::run_cache;
use tidemill_scheduler::shards::run_cache::{LoadError, RunCache};
use tidemill_scheduler::shards::step_buffers::StepBuffers;

use super::sabotage;
use super::shared::{QUEUE, Shared, at_once};
use super::store_gate::SharedOwner;
use crate::guards::Guard;

/// Number of facts waiting in memory at which reading pauses.
const QUEUE_MAX: usize = 512;
/// Timers read at once.
const TIMERS_MAX: usize = 64;

/// Why the loop of a shard ends.
#[derive(Debug)]
pub(crate) enum End {
    /// Its scheduler is dead.
    Died,
    /// Another scheduler owns the shard, or it must be taken again. Its data in memory is not valid any more.
    LetGo,
}

/// The loop of one shard with its state in memory.
pub(crate) struct ShardLoop {
    id: String,
    shard: ShardId,
    epoch: u64,
    number: u64,
    owner: SharedOwner,
    read_to: EntryId,
    /// All facts that were in the inbox at this time have been read.
    read_all_at: Timestamp,
    queue: VecDeque<Input>,
    cache: RunCache,
    buffers: StepBuffers,
    /// Computed but not sent: in the real loop, one commit is on its way and the next is computed.
    computed: VecDeque<(Batch, Vec<EntryId>)>,
    /// Jobs that one check found missing.
    suspects: BTreeSet<(RunId, EntryId)>,
    /// Jobs that two checks found missing, and when.
    lost: (Timestamp, Vec<Input>),
}

impl ShardLoop {
    /// Creates a loop that has read nothing.
    pub(crate) fn new(id: String, owner: SharedOwner, cache_bytes: usize) -> Self {
        let claim = owner.borrow().claim().clone();
        Self {
            id,
            shard: claim.shard,
            epoch: claim.epoch,
            number: claim.commit,
            owner,
            read_to: claim.cursor,
            read_all_at: Timestamp::default(),
            queue: VecDeque::new(),
            cache: RunCache::new(cache_bytes),
            buffers: StepBuffers::default(),
            computed: VecDeque::new(),
            suspects: BTreeSet::new(),
            lost: Default::default(),
        }
    }

    /// Returns true if the shard refuses requests now. Requests that wait for long end the loop.
    fn waits(&self, shared: &mut Shared) -> Result<bool, End> {
        let is_still = shared.is_still(self.shard);
        if is_still && shared.dice.percent(10) { Err(End::LetGo) } else { Ok(is_still) }
    }

    /// A fail-over has ended the owner's connection. Readers may connect again before the owner notices it.
    fn notices_fail_over(&self, shared: &mut Shared) -> Result<(), End> {
        let is_broken = self.owner.borrow().is_broken(shared.servers.life(self.shard));
        if is_broken && shared.off != Some(Guard::Line) && shared.dice.percent(50) {
            return Err(End::LetGo);
        }
        Ok(())
    }

    /// Reads facts after the last one that was read.
    pub(crate) fn read(&mut self, shared: &mut Shared) -> Result<(), End> {
        self.notices_fail_over(shared)?;
        if self.queue.len() >= QUEUE_MAX || self.waits(shared)? {
            return Ok(());
        }
        let (began, count) = (shared.now(), [1, 3, limits::COMMIT_FACTS_MAX][shared.dice.below(3)]);
        let Ok(mut reader) = at_once(shared.store.reader(self.shard)) else { return Err(End::LetGo) };
        let read = reader.read(self.read_to, count, std::time::Duration::ZERO);
        let Ok(facts) = at_once(read) else { return Err(End::LetGo) };
        if facts.len() < count {
            self.read_all_at = began;
        } else if let Some(last) = facts.last() {
            // There are more facts, but none from before this time.
            let before = i64::try_from(last.entry.major).unwrap_or(i64::MAX / 1000).saturating_sub(1);
            self.read_all_at = self.read_all_at.max(Timestamp::from_millis(before).min(began));
        }
        if let Some(last) = facts.last() {
            self.read_to = last.entry;
        }
        self.queue.extend(facts.into_iter().map(Input::Fact));
        Ok(())
    }

    /// Puts due timers into the queue after all facts of their time have been read.
    pub(crate) fn take_due_timers(&mut self, shared: &mut Shared) -> Result<(), End> {
        let is_quiet = self.queue.is_empty() && self.computed.is_empty();
        // Reading timers twice is allowed, and happens while facts keep arriving.
        if !is_quiet && shared.dice.percent(80) || self.waits(shared)? {
            return Ok(());
        }
        let due = shared.store.due(self.shard, None, self.read_all_at, TIMERS_MAX);
        let Ok(due) = at_once(due) else { return Err(End::LetGo) };
        for (_, member) in due.timers {
            if shared.gate.sees_timer(&member, shared.off) {
                self.queue.push_back(Input::Timer(member));
            }
        }
        Ok(())
    }

    /// Computes the next commit, while at most one other is computed.
    pub(crate) fn compute(&mut self, shared: &mut Shared) -> Result<(), End> {
        // Runs may have to be loaded.
        if self.computed.len() >= 2 || self.waits(shared)? {
            return Ok(());
        }
        if self.read_all_at > self.lost.0 {
            self.queue.extend(std::mem::take(&mut self.lost.1));
        }
        let most = [1, 2, 5, limits::COMMIT_FACTS_MAX][shared.dice.below(4)];
        let mut inputs: Vec<Input> = self.queue.drain(..most.min(self.queue.len())).collect();
        if inputs.is_empty() {
            return Ok(());
        }
        self.load_missing(&inputs, shared);
        sabotage::twist(&mut inputs, &self.cache, shared.off);
        let number = self.number + 1;
        match batch::decide(
            &inputs,
            &mut self.cache,
            &mut self.buffers,
            &HashMap::new(),
            number,
            shared.now(),
        ) {
            Ok(mut batch) => {
                batch.commit.shorten_questions();
                self.number = number;
                let entries = inputs.iter().filter_map(Input::entry).collect();
                self.computed.push_back((batch, entries));
                Ok(())
            }
            Err(panicked) => {
                shared.watch.found("SIM-12", format!("a step panicked: {}", panicked.reason));
                Err(End::LetGo)
            }
        }
    }

    fn load_missing(&mut self, inputs: &[Input], shared: &mut Shared) {
        let is_broken = self.owner.borrow().is_broken(shared.servers.life(self.shard));
        for id in batch::missing(inputs, &self.cache) {
            let start = batch::start_of(inputs, id);
            let made_of = start.as_ref().map(|(entry, _)| *entry);
            let loaded = match start {
                Some((_, head)) => {
                    let graph =
                        at_once(run_cache::graph_of(&shared.store, &shared.workflows, id, &head.graph));
                    graph.map(|graph| RunState::new(id, graph, *head))
                }
                None => at_once(run_cache::load(&shared.store, &shared.workflows, id)),
            };
            match loaded {
                Ok(run) if run.status.is_over() => self.cache.end(id),
                Ok(run) => match made_of {
                    Some(fact) => self.cache.insert_new(run, fact),
                    None => self.cache.insert(run),
                },
                Err(LoadError::NoRun(_)) => {}
                // A fail-over has lost what it read. Its next commit tells it so.
                Err(_) if is_broken => {}
                Err(error) => shared.watch.found("SIM-13", format!("a run cannot be loaded: {error}")),
            }
        }
    }

    /// Sends the oldest computed commit. The scheduler may die while sending, or never get an answer.
    pub(crate) fn send(&mut self, shared: &mut Shared) -> Result<(), End> {
        let Some((mut batch, entries)) = self.computed.pop_front() else { return Ok(()) };
        let mut commit = std::mem::take(&mut batch.commit);
        let dies = shared.strikes(|f| f.dies_at_commit);
        if dies && shared.dice.percent(50) {
            shared.log(|| format!("{} dies before it sends commit {}", self.id, commit.number));
            return Err(End::Died);
        }
        let is_unheard = shared.strikes(|f| f.answer_lost);
        let is_written = !is_unheard || shared.dice.percent(40);
        if is_unheard {
            shared.count("answers to commits lost");
        }
        if is_written {
            let way = shared.way(self.shard);
            let done = shared.gate.commit(&self.owner, &mut commit, way);
            if let Err(CommitError::NotDone(StoreError::Refused { .. })) = &done {
                // Nothing was written: the same commit is sent again later.
                shared.count("commits sent again");
                batch.commit = commit;
                self.computed.push_front((batch, entries));
                return Ok(());
            }
            shared.log(|| {
                let what = format!("{} inputs, up to {:?}", batch.inputs, commit.cursor);
                format!("{} commits {} on shard {} ({what}): {done:?}", self.id, commit.number, self.shard)
            });
            match &done {
                Ok(()) => shared.committed(self.shard, &commit, &entries),
                Err(CommitError::Lost(_)) => shared.count("commits refused"),
                Err(CommitError::NotDone(error)) => {
                    shared.log(|| error.to_string());
                    shared.count("commits refused");
                }
                Err(CommitError::Unknown(_)) => {}
            }
            if done.is_err() {
                return Err(End::LetGo);
            }
        } else if shared.dice.percent(50) {
            shared.log(|| format!("commit {} of {} is delayed on its way", commit.number, self.id));
            shared.hold_up(self.owner.clone(), commit, entries);
        }
        if dies {
            return Err(End::Died);
        }
        if is_unheard && shared.off != Some(Guard::Unknown) {
            return Err(End::LetGo);
        }
        self.after(&batch, shared);
        Ok(())
    }

    /// After a written commit, compares memory and store for the runs that no newer commit has changed.
    fn after(&mut self, batch: &Batch, shared: &mut Shared) {
        let busy: Vec<RunId> =
            self.computed.iter().flat_map(|(batch, _)| batch.touched.iter().copied()).collect();
        for id in batch.touched.iter().filter(|id| !busy.contains(id)) {
            if let Some(memory) = self.cache.get(id) {
                shared.compare(memory);
            }
        }
        for id in &batch.ended {
            self.cache.end(*id);
        }
        self.cache.settle(&batch.written, &busy);
    }

    /// Looks for lost jobs, or removes applied facts from the inbox.
    pub(crate) fn housekeeping(&mut self, shared: &mut Shared) -> Result<(), End> {
        if shared.is_still(self.shard) {
            return Ok(());
        }
        if shared.dice.percent(20) {
            return at_once(shared.store.trim_inbox(self.shard, self.epoch)).map_err(|_| End::LetGo);
        }
        if shared.off == Some(Guard::Repair) {
            return Ok(());
        }
        let uncommitted: HashSet<RunId> =
            self.computed.iter().flat_map(|(batch, _)| batch.touched.iter().copied()).collect();
        let Ok((runs, _)) = at_once(shared.store.open_runs(self.shard, 0, 100)) else {
            return Err(End::LetGo);
        };
        for id in runs.into_iter().filter(|id| !uncommitted.contains(id)) {
            let open = match self.cache.get(&id) {
                Some(run) => open_jobs(run),
                None => at_once(run_cache::load(&shared.store, &shared.workflows, id))
                    .map_or_else(|_| Vec::new(), |run| open_jobs(&run)),
            };
            self.judge(id, open, shared);
        }
        Ok(())
    }

    fn judge(&mut self, run: RunId, open: Vec<JobLost>, shared: &mut Shared) {
        let entries: Vec<EntryId> = open.iter().map(|job| job.entry).collect();
        let missed = at_once(shared.store.lost_jobs(self.shard, QUEUE, &entries)).unwrap_or_default();
        for job in open {
            let key = (run, job.entry);
            if !missed.contains(&job.entry) {
                self.suspects.remove(&key);
            } else if !self.suspects.remove(&key) {
                self.suspects.insert(key);
            } else {
                shared.log(|| format!("{} finds that job {} of {run} is lost", self.id, job.entry));
                shared.count("jobs found gone");
                self.lost.0 = shared.now();
                self.lost.1.push(Input::Lost(run, job));
            }
        }
    }
}

/// Returns the jobs that a run waits for.
fn open_jobs(run: &RunState) -> Vec<JobLost> {
    let of_frame =
        |(path, frame): (&tidemill_common::ids::FramePath, &tidemill_common::machine::state::run::Frame)| {
            let lost = |(at, entry)| JobLost { frame: path.clone(), node: NodeIx(at), entry };
            let jobs = (0..).zip(&frame.nodes).filter_map(|(at, node)| Some((at, node.job?)));
            jobs.map(lost).collect::<Vec<_>>()
        };
    run.frames.iter().flat_map(of_frame).collect()
}
