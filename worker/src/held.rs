//! The jobs in this worker's hands: the one map that all its parts share. A job is in it from the moment it is read
//! until its result is answered, it is lost, or it is handed back; its permit lives as long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_common::ids::{EntryId, ExecutionId, ShardId};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

/// A stream of jobs: shard and queue.
pub(crate) type Stream = (ShardId, Arc<str>);

/// Where a job lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) shard: ShardId,
    pub(crate) queue: Arc<str>,
    pub(crate) entry: EntryId,
}

#[derive(Debug)]
struct HeldJob {
    /// Which handing-out of the entry it is.
    number: u32,
    execution: Option<ExecutionId>,
    /// What runs it; none when it was done on the spot.
    task: Option<AbortHandle>,
    /// It has ended, and its result is on its way.
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl HeldJob {
    fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<HashMap<Place, HeldJob>>);

impl Held {
    /// Takes a job in. One that was held already under an older number is dropped: this worker took it over from itself.
    pub(crate) fn insert(
        &self,
        place: Place,
        number: u32,
        execution: Option<ExecutionId>,
        permit: OwnedSemaphorePermit,
    ) {
        let job = HeldJob { number, execution, task: None, ended: false, _permit: permit };
        if let Some(older) = self.lock().insert(place, job) {
            older.abort();
        }
    }

    /// Names the task that runs a job; a job that was lost meanwhile is stopped.
    pub(crate) fn attach(&self, place: &Place, number: u32, task: AbortHandle) {
        match self.lock().get_mut(place) {
            Some(job) if job.number == number => job.task = Some(task),
            Some(_) | None => task.abort(),
        }
    }

    /// The job has ended; what is left is its result.
    pub(crate) fn ended(&self, place: &Place) {
        if let Some(job) = self.lock().get_mut(place) {
            job.ended = true;
        }
    }

    /// Stops what runs a job, which stays held until its result is answered.
    pub(crate) fn stop(&self, place: &Place, number: u32) {
        match self.lock().get(place) {
            Some(job) if job.number == number => job.abort(),
            Some(_) | None => {}
        }
    }

    /// Lets go of a job whose result was answered.
    pub(crate) fn settle(&self, place: &Place, number: u32) {
        drop(self.remove(place, number));
    }

    /// Drops and stops a job that is not this worker's any more. False when it was not there.
    pub(crate) fn lose(&self, place: &Place, number: u32) -> bool {
        let lost = self.remove(place, number);
        if let Some(job) = &lost {
            job.abort();
        }
        lost.is_some()
    }

    /// Stops and lets go of jobs at the end: all of them, or those without a result. Answers what to hand back.
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

    /// Whether a job is held, under any number.
    pub(crate) fn contains(&self, place: &Place) -> bool {
        self.lock().contains_key(place)
    }

    /// Everything that is held, by stream, with the numbers under which it is.
    pub(crate) fn by_stream(&self) -> HashMap<Stream, Vec<(EntryId, u32)>> {
        let mut all: HashMap<Stream, Vec<(EntryId, u32)>> = HashMap::new();
        for (place, job) in self.lock().iter() {
            all.entry((place.shard, place.queue.clone())).or_default().push((place.entry, job.number));
        }
        all
    }

    /// The jobs of an execution: one, or several that were enqueued one after the other.
    pub(crate) fn of_execution(&self, execution: &ExecutionId) -> Vec<(Place, u32)> {
        let held = self.lock();
        let of_it = held.iter().filter(|(_, job)| job.execution.as_ref() == Some(execution));
        of_it.map(|(place, job)| (place.clone(), job.number)).collect()
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn remove(&self, place: &Place, number: u32) -> Option<HeldJob> {
        let mut held = self.lock();
        if held.get(place)?.number == number { held.remove(place) } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, HeldJob>> {
        // Nothing that panics is done under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
