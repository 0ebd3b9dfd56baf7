//! The map of jobs this worker holds, shared by all its parts. A job is in it from its delivery until its result is
//! accepted, the job is lost, or it is returned to its queue. Its permit lives exactly as long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_common::ids::{EntryId, ExecutionId, NodeId, RunId, ShardId};
use tidemill_common::wire::suspect::Suspect;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use crate::jobs::suspects::{Window, most_beside};

/// A stream of jobs: shard and queue.
pub(crate) type Stream = (ShardId, Arc<str>);

/// The queue entry of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct JobPlace {
    pub(crate) shard: ShardId,
    pub(crate) queue: Arc<str>,
    pub(crate) entry: EntryId,
}

#[derive(Debug)]
struct HeldJob {
    /// The delivery count of the entry.
    number: u32,
    execution: Option<ExecutionId>,
    /// Its run and node, for log lines.
    of: Option<(RunId, NodeId)>,
    /// The task that runs it; `None` if it ran directly in the read loop.
    task: Option<AbortHandle>,
    /// True when it has ended and its result is being sent.
    ended: bool,
    /// True if it was lost with a worker before, so that there is a record of it.
    is_recorded: bool,
    /// The most suspects that may be held beside it; `None` if it is not suspected.
    most_suspects: Option<usize>,
    _permit: OwnedSemaphorePermit,
}

impl HeldJob {
    fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The map of held jobs; see the module.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    held: Mutex<HashMap<JobPlace, HeldJob>>,
    /// True once the worker was dropped. It changes under the lock of `held`.
    closed: AtomicBool,
}

impl InFlight {
    /// Adds a job. An entry with an older delivery count is stopped: this worker took the job over from itself.
    pub(crate) fn insert(
        &self,
        place: JobPlace,
        number: u32,
        execution: Option<ExecutionId>,
        permit: OwnedSemaphorePermit,
        suspect: Option<&Suspect>,
    ) {
        let job = HeldJob {
            number,
            execution,
            of: None,
            task: None,
            ended: false,
            is_recorded: suspect.is_some(),
            most_suspects: suspect.and_then(most_beside),
            _permit: permit,
        };
        let mut held = self.lock();
        // Not held, its task is stopped by `attach`.
        if !self.closed.load(Ordering::Relaxed)
            && let Some(older) = held.insert(place, job)
        {
            older.abort();
        }
    }

    /// Notes the run and the node of a job, for log lines.
    pub(crate) fn describe(&self, place: &JobPlace, run: RunId, node: NodeId) {
        if let Some(job) = self.lock().get_mut(place) {
            job.of = Some((run, node));
        }
    }

    /// Returns the run and the node of a job.
    pub(crate) fn described(&self, place: &JobPlace) -> Option<(RunId, NodeId)> {
        self.lock().get(place)?.of.clone()
    }

    /// Sets the task that runs a job. If the job was lost meanwhile, the task is stopped.
    pub(crate) fn attach(&self, place: &JobPlace, number: u32, task: AbortHandle) {
        match self.lock().get_mut(place) {
            Some(job) if job.number == number => job.task = Some(task),
            Some(_) | None => task.abort(),
        }
    }

    /// Marks a job as ended; only its result is left to send.
    pub(crate) fn ended(&self, place: &JobPlace) {
        if let Some(job) = self.lock().get_mut(place) {
            job.ended = true;
        }
    }

    /// Stops the task of a job. The job stays held until its result is accepted.
    pub(crate) fn stop(&self, place: &JobPlace, number: u32) {
        match self.lock().get(place) {
            Some(job) if job.number == number => job.abort(),
            Some(_) | None => {}
        }
    }

    /// Releases a job whose result was answered. Returns true if there is a record of it as a suspect.
    pub(crate) fn settle(&self, place: &JobPlace, number: u32) -> bool {
        self.remove(place, number).is_some_and(|job| job.is_recorded)
    }

    /// The suspects that still run.
    pub(crate) fn window(&self) -> Window {
        let held = self.lock();
        let running = held.values().filter(|job| !job.ended).filter_map(|job| job.most_suspects);
        Window { held: running.clone().count(), most: running.min() }
    }

    /// Stops and removes a job this worker no longer owns. Returns false if it was not held.
    pub(crate) fn lose(&self, place: &JobPlace, number: u32) -> bool {
        let lost = self.remove(place, number);
        if let Some(job) = &lost {
            job.abort();
        }
        lost.is_some()
    }

    /// Stops and removes all jobs of a worker that was dropped, and takes no more: its read loop may be in the middle of a
    /// batch.
    pub(crate) fn close(&self) {
        let mut held = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        let stopped = std::mem::take(&mut *held);
        drop(held);
        stopped.values().for_each(HeldJob::abort);
    }

    /// Stops and removes jobs at shutdown: all of them, or only those without a result. Returns the entries to handle
    /// back.
    pub(crate) fn take(&self, with_results: bool) -> HashMap<Stream, Vec<(EntryId, u32)>> {
        let mut taken: HashMap<Stream, Vec<(EntryId, u32)>> = HashMap::new();
        self.lock().retain(|place, job| {
            let takes = with_results || !job.ended;
            if takes {
                job.abort();
                let stream = (place.shard, place.queue.clone());
                taken.entry(stream).or_default().push((place.entry, job.number));
            }
            !takes
        });
        taken
    }

    /// Returns true if a job runs here under this delivery count.
    pub(crate) fn runs(&self, place: &JobPlace, number: u32) -> bool {
        self.lock().get(place).is_some_and(|job| job.number == number && !job.ended)
    }

    /// Returns true if a job is held, with any delivery count.
    pub(crate) fn contains(&self, place: &JobPlace) -> bool {
        self.lock().contains_key(place)
    }

    /// All held jobs by stream, with their delivery counts.
    pub(crate) fn by_stream(&self) -> HashMap<Stream, Vec<(EntryId, u32)>> {
        let mut all: HashMap<Stream, Vec<(EntryId, u32)>> = HashMap::new();
        for (place, job) in self.lock().iter() {
            all.entry((place.shard, place.queue.clone())).or_default().push((place.entry, job.number));
        }
        all
    }

    /// The held jobs of an execution. There can be several, enqueued one after the other.
    pub(crate) fn of_execution(&self, execution: &ExecutionId) -> Vec<(JobPlace, u32)> {
        let held = self.lock();
        let of_it = held.iter().filter(|(_, job)| job.execution.as_ref() == Some(execution));
        of_it.map(|(place, job)| (place.clone(), job.number)).collect()
    }

    /// The number of held jobs.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn remove(&self, place: &JobPlace, number: u32) -> Option<HeldJob> {
        let mut held = self.lock();
        if held.get(place)?.number == number { held.remove(place) } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobPlace, HeldJob>> {
        // No code panics while it holds the lock.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn a_job_runs_under_one_delivery_count_until_it_has_ended() {
        let (held, permits) = (InFlight::default(), Arc::new(Semaphore::new(2)));
        let place = JobPlace { shard: ShardId(0), queue: "default".into(), entry: EntryId::new(1, 0) };
        assert!(!held.runs(&place, 1));
        for number in [1, 2] {
            let permit = permits.clone().try_acquire_owned().expect("there is one");
            held.insert(place.clone(), number, None, permit, None);
            assert!(held.runs(&place, number) && !held.runs(&place, number + 1));
        }
        assert!(!held.runs(&place, 1), "it was taken over");
        held.ended(&place);
        assert!(!held.runs(&place, 2));
    }

    #[tokio::test]
    async fn a_job_that_comes_after_the_end_of_its_worker_is_stopped() {
        let (held, permits) = (InFlight::default(), Arc::new(Semaphore::new(2)));
        let place = |entry: u64| JobPlace {
            shard: ShardId(0),
            queue: "default".into(),
            entry: EntryId { major: entry, minor: 0 },
        };
        let begin = |place: &JobPlace| {
            let permit = permits.clone().try_acquire_owned().expect("there is one");
            held.insert(place.clone(), 1, None, permit, None);
            let task = tokio::spawn(std::future::pending::<()>());
            held.attach(place, 1, task.abort_handle());
            task
        };
        let before = begin(&place(1));
        assert_eq!(held.len(), 1);
        held.close();
        let after = begin(&place(2));
        for task in [before, after] {
            assert!(task.await.is_err_and(|error| error.is_cancelled()));
        }
        assert_eq!((held.len(), permits.available_permits()), (0, 2));
    }
}
