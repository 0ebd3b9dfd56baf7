//! Helpers for the cases: small runs, jobs and commits.

use std::sync::Arc;
use std::time::Duration;

use super::{Broken, Outcome, Subject, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::{BlobId, EntryId, ExecutionId, FramePath, RunId, ShardId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{
    Commit, CommitError, Created, Delivered, NewRun, Note, Owner, RawFact, StaleJob, Store, TakeOver,
};
use tidemill_common::wire::commit::{ConversationWrite, JobEntry, RunWrite, TakeBack};
use tidemill_common::wire::fact::kind;

pub(super) const SHARD: ShardId = ShardId(0);
pub(super) const QUEUE: &str = "default";
pub(super) const GRAPH: &str = "3b5d5c3712955042212316173ccf37be80000000000000000000000000000000";
/// A wait that ends as soon as there is something.
pub(super) const LONG: Duration = Duration::from_secs(10);
pub(super) const NOW: Duration = Duration::ZERO;

const FIRST_MS: i64 = 1_754_339_718_000;

/// The submission time of the `n`-th run.
pub(super) fn created_at(n: u8) -> Timestamp {
    Timestamp::from_millis(FIRST_MS + i64::from(n) * 1000)
}

pub(super) fn run_id(n: u8) -> RunId {
    RunId::new(created_at(n).millis().unsigned_abs(), u128::from(n) << 20, SHARD)
}

pub(super) fn execution(n: u8) -> ExecutionId {
    ExecutionId::derive(&run_id(n), &FramePath::root(), &"node".into())
}

pub(super) fn new_run(n: u8) -> NewRun {
    NewRun {
        id: run_id(n),
        graph: (GRAPH.to_string(), Arc::from("{\"nodes\":[]}")),
        fields: vec![
            ("status", RunStatus::Scheduled.name().to_string()),
            ("version", GRAPH.to_string()),
            ("created_at", created_at(n).micros().to_string()),
        ],
        kind: "start",
        start: format!("{{\"graph\":\"{GRAPH}\",\"user\":\"u{n}\"}}"),
        queues: vec![QUEUE.into()],
        blobs: Vec::new(),
        created_at: created_at(n),
        schedule: None,
        called: None,
        has_files: false,
        takes_messages: None,
    }
}

/// A write to a conversation without large values.
pub(super) fn conversation_write(id: &str, fields: Vec<(String, String)>) -> ConversationWrite {
    let id = id.to_string();
    ConversationWrite {
        id,
        fields,
        copies: Vec::new(),
        dropped: Vec::new(),
        kept: Vec::new(),
        messages: None,
    }
}

/// An empty write.
pub(super) fn write(n: u8) -> RunWrite {
    RunWrite { created_at: created_at(n), ..RunWrite::nothing(run_id(n), GraphHash(GRAPH.into())) }
}

/// A write that moves a run from one status to another.
pub(super) fn moved(n: u8, from: RunStatus, to: RunStatus) -> RunWrite {
    RunWrite { status: Some((from, to)), fields: vec![("status", to.name().to_string())], ..write(n) }
}

/// A write that ends a running run.
pub(super) fn ended(n: u8, at: Timestamp) -> RunWrite {
    RunWrite { ended_at: Some(at), ..moved(n, RunStatus::Running, RunStatus::Succeeded) }
}

/// One event of an entry.
pub(super) fn event(kind: &'static str, seq: u64) -> (&'static str, String) {
    (kind, format!("{{\"seq\":{seq},\"ts\":1754339718000}}"))
}

/// A job that a commit adds.
pub(super) fn job(n: u8, entry: EntryId) -> JobEntry {
    JobEntry { queue: QUEUE.into(), entry, run: run_id(n), body: format!("{{\"node\":\"n{n}\"}}") }
}

/// The cancellation of a job.
pub(super) fn take_back(n: u8, entry: EntryId) -> TakeBack {
    TakeBack { queue: QUEUE.to_string(), entry, execution: execution(n) }
}

/// A request to take over a job as it was seen.
pub(super) fn taken(job: &StaleJob, note: Note) -> TakeOver {
    let (entry, holder, number) = (job.entry, job.holder.clone(), job.number);
    TakeOver { entry, holder, number, new_number: Some(number + 1), note }
}

/// An owner that numbers its commits.
pub(super) struct Owning {
    pub(super) owner: Box<dyn Owner>,
    last: u64,
}

impl Owning {
    /// The number of the next commit.
    pub(super) fn next(&self) -> u64 {
        self.last + 1
    }
    pub(super) fn epoch(&self) -> u64 {
        self.owner.claim().epoch
    }
    /// Commits under the next number.
    pub(super) async fn commit(&mut self, commit: Commit) -> Result<(), CommitError> {
        self.last += 1;
        self.owner.commit(&Commit { number: self.last, ..commit }).await
    }
    /// Commits only writes.
    pub(super) async fn write(&mut self, writes: Vec<RunWrite>) -> Result<(), CommitError> {
        self.commit(Commit { writes, ..Commit::default() }).await
    }
    /// Adds jobs of runs; returns their entries.
    pub(super) async fn add_jobs(&mut self, of: &[u8]) -> Result<Vec<EntryId>, CommitError> {
        let entry = |at: usize| EntryId::new(self.next(), at as u64);
        let entries: Vec<EntryId> = (0..of.len()).map(entry).collect();
        let writes = of.iter().zip(&entries);
        let writes = writes.map(|(n, entry)| RunWrite { jobs: vec![job(*n, *entry)], ..write(*n) });
        self.write(writes.collect()).await?;
        Ok(entries)
    }
}

impl Subject {
    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Claims the shard; fails the case when it is not free.
    pub(super) async fn own(&self, id: &str) -> Result<Owning, Broken> {
        let claimed = self.store.claim(SHARD, id, self.control.lease()).await?;
        let owner =
            claimed.ok_or_else(|| Broken::Promise(format!("{id} cannot take a shard that is free")))?;
        let last = owner.claim().commit;
        Ok(Owning { owner, last })
    }

    pub(super) async fn create(&self, n: u8) -> Outcome {
        same("creating a run", self.store.create_run(&new_run(n)).await?, Created::Created)
    }

    /// A shard with these running runs.
    pub(super) async fn running(&self, runs: &[u8]) -> Result<Owning, Broken> {
        for n in runs {
            self.create(*n).await?;
        }
        let mut owning = self.own("a").await?;
        let started = runs.iter().map(|n| moved(*n, RunStatus::Scheduled, RunStatus::Running)).collect();
        owning.write(started).await?;
        Ok(owning)
    }

    /// A shard with one running run, so many jobs of it, and their entries.
    pub(super) async fn with_jobs(&self, jobs: usize) -> Result<(Owning, Vec<EntryId>), Broken> {
        let mut owning = self.running(&[1]).await?;
        let entries = owning.add_jobs(&vec![1; jobs]).await?;
        Ok((owning, entries))
    }

    /// All facts of the inbox.
    pub(super) async fn facts(&self) -> Result<Vec<RawFact>, Broken> {
        Ok(self.store.reader(SHARD).await?.read(EntryId::ZERO, 1000, NOW).await?)
    }

    /// Reads the queue once, without waiting.
    pub(super) async fn deliver(&self, consumer: &str, count: usize) -> Result<Vec<Delivered>, Broken> {
        let mut reader = self.store.job_reader(consumer).await?;
        Ok(reader.read(&[(SHARD, QUEUE.into())], count, NOW).await?)
    }

    /// Takes over the oldest jobs without a sign of life for `idle`, and notes nothing.
    pub(super) async fn take_over(
        &self,
        consumer: &str,
        idle: Duration,
        count: usize,
    ) -> Result<Vec<Delivered>, Broken> {
        let stale = self.store.stale(&[(SHARD, QUEUE.into())], idle).await?;
        let asked: Vec<TakeOver> = stale.jobs.iter().take(count).map(|job| taken(job, Note::Leave)).collect();
        Ok(self.store.take_over(SHARD, QUEUE, consumer, idle, &asked).await?)
    }

    /// Reports facts about a run, with these bodies.
    pub(super) async fn report(&self, n: u8, bodies: &[&str]) -> Outcome {
        let fact = |body: &&str| (run_id(n), kind::STARTED, (*body).to_string());
        Ok(self.store.report(SHARD, &bodies.iter().map(fact).collect::<Vec<_>>()).await?)
    }

    /// A new blob that nothing has accepted yet.
    pub(super) async fn blob(&self, text: &str) -> Result<BlobId, Broken> {
        let id = BlobId::generate();
        self.store.put_blob(SHARD, &id, text).await?;
        Ok(id)
    }

    pub(super) async fn status(&self, n: u8) -> Result<Option<String>, Broken> {
        Ok(self.store.run_fields(run_id(n)).await?.and_then(|fields| fields.get("status").cloned()))
    }
}
