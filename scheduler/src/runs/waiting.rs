//! The waits of a run's nodes in queues: since when, how many jobs come first, and whether a living worker serves the
//! queue. Read when a run is shown, because the engine knows no workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::NodeIx;
use tidemill_common::ids::{EntryId, FramePath};
use tidemill_common::limits;
use tidemill_common::machine::state::run::{NodeStatus, RunState};
use tidemill_common::store::{JobHeld, JobPlace, LiveWorker, Runs, StoreError};
use tidemill_common::warning::{QUEUE_NOT_SERVED, Warning};

/// The wait after which a queue that no living worker serves is a warning, in seconds. A worker that is just being
/// replaced is back by then.
const WARN_AFTER_SECONDS: f64 = 60.0;
/// Most waiting nodes of a run that are looked up.
const NODES_MAX: usize = 50;

/// The wait of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    pub queue: Arc<str>,
    /// The time at which its job was queued; `None` for a job of an older version.
    pub since: Option<Timestamp>,
    /// Whether a living worker serves the queue; `None` when a worker of an older version may do so.
    pub is_served: Option<bool>,
    /// Older jobs of the queue that wait, on the same shard.
    pub before: u64,
    /// True when there may be more of them: not all were counted.
    pub is_least: bool,
    /// The worker that holds the job and has not reported its start yet.
    pub held_by: Option<String>,
}

impl Wait {
    /// Its JSON form.
    pub fn to_json(&self, now: Timestamp) -> Json {
        json!({
            "queue": &*self.queue,
            "since": self.since.map(Timestamp::seconds_f64),
            "seconds": self.since.map(|since| now.seconds_since(since)),
            "served": self.is_served,
            "before": self.before,
            "before_is_least": self.is_least,
            "held_by": self.held_by,
        })
    }

    /// The warning for a wait that no worker ends.
    pub fn warning(&self, now: Timestamp) -> Option<Warning> {
        let seconds = now.seconds_since(self.since?);
        if self.is_served != Some(false) || seconds < WARN_AFTER_SECONDS || self.held_by.is_some() {
            return None;
        }
        let (queue, minutes) = (&*self.queue, (seconds / 60.0).floor());
        let message =
            format!("it waits in queue {queue:?} for {minutes} min, and no living worker serves the queue");
        let hint = format!("start a worker with {queue:?} in worker.queues");
        Some(Warning::new(QUEUE_NOT_SERVED, message).about("queue", queue).hint(hint))
    }
}

/// Nodes that wait in a queue, with their waits.
pub type Waits = BTreeMap<(FramePath, NodeIx), Wait>;

/// Reads the waits of a run's nodes, at most [`NODES_MAX`].
///
/// # Errors
/// An error of the store.
pub async fn waits(store: &dyn Runs, run: &RunState) -> Result<Waits, StoreError> {
    let queued = queued(run);
    if queued.is_empty() {
        return Ok(Waits::new());
    }
    let workers = store.fleet().workers().await?;
    let mut waits = Waits::new();
    for (queue, nodes) in queued {
        let entries: Vec<EntryId> = nodes.iter().map(|(_, entry)| *entry).collect();
        let state = store.fleet().queue_state(run.id.shard(), &queue, &entries).await?;
        let is_served = is_served(&workers, &queue);
        for ((place, _), of_job) in nodes.into_iter().zip(&state.places) {
            waits.extend(wait(&queue, is_served, of_job).map(|wait| (place, wait)));
        }
    }
    Ok(waits)
}

type Queued = BTreeMap<Arc<str>, Vec<((FramePath, NodeIx), EntryId)>>;

/// The nodes that have a job and no reported start, by queue.
fn queued(run: &RunState) -> Queued {
    let mut queued = Queued::new();
    let nodes = run.frames.iter().flat_map(|(path, frame)| {
        run.graph.nodes.iter().zip(&frame.nodes).enumerate().map(move |(ix, node)| (path, ix, node))
    });
    let waiting = nodes.filter_map(|(path, ix, (node, state))| {
        let job = state.job.filter(|_| state.status == NodeStatus::Queued)?;
        Some((path, NodeIx(u32::try_from(ix).ok()?), node.settings.queue.clone(), job))
    });
    for (path, ix, queue, job) in waiting.take(NODES_MAX) {
        queued.entry(queue).or_default().push(((path.clone(), ix), job));
    }
    queued
}

/// Whether a living worker serves the queue; `None` when only a worker without a record may do so.
pub fn is_served(workers: &[LiveWorker], queue: &str) -> Option<bool> {
    let answers = || workers.iter().map(|worker| worker.serves(queue));
    if answers().any(|answer| answer == Some(true)) {
        return Some(true);
    }
    answers().all(|answer| answer.is_some()).then_some(false)
}

/// The wait of one job; `None` when it is gone.
fn wait(queue: &Arc<str>, is_served: Option<bool>, place: &JobPlace) -> Option<Wait> {
    let held_by = match &place.held {
        JobHeld::Waits => None,
        JobHeld::By(worker) => Some(worker.clone()),
        JobHeld::Gone => return None,
    };
    let is_least = place.before >= limits::JOBS_COUNTED_MAX as u64;
    let (queue, since, before) = (queue.clone(), place.queued_at, place.before);
    Some(Wait { queue, since, is_served, before, is_least, held_by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::wire::worker::AboutWorker;

    fn worker(queues: Option<&[&str]>) -> LiveWorker {
        let about = |queues: &[&str]| {
            let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
            Arc::new(AboutWorker { queues, ..AboutWorker::default() })
        };
        let (name, seen_at) = ("w".into(), Timestamp::from_millis(0));
        LiveWorker { name, seen_at, held: None, about: queues.map(about) }
    }

    #[test]
    fn a_queue_is_served_when_a_record_names_it() {
        for (workers, expected) in [
            (vec![], Some(false)),
            (vec![worker(Some(&["a"]))], Some(false)),
            (vec![worker(Some(&["a"])), worker(Some(&["b", "gpu"]))], Some(true)),
            (vec![worker(None)], None),
            (vec![worker(None), worker(Some(&["gpu"]))], Some(true)),
        ] {
            assert_eq!(is_served(&workers, "gpu"), expected);
        }
    }

    fn place(before: u64, held: JobHeld) -> JobPlace {
        JobPlace { before, held, queued_at: Some(Timestamp::from_millis(0)) }
    }

    #[test]
    fn a_job_waits_is_held_or_is_gone() {
        let of = |before, held| wait(&"gpu".into(), Some(false), &place(before, held));
        let waits = of(3, JobHeld::Waits).unwrap();
        assert_eq!((waits.before, waits.is_least, waits.held_by.as_deref()), (3, false, None));
        assert!(of(limits::JOBS_COUNTED_MAX as u64, JobHeld::Waits).unwrap().is_least);
        assert_eq!(of(0, JobHeld::By("w".into())).unwrap().held_by.as_deref(), Some("w"));
        assert_eq!(of(0, JobHeld::Gone), None);
    }

    #[test]
    fn a_long_wait_in_a_queue_that_no_worker_serves_is_a_warning() {
        let warns = |is_served, seconds: i64| {
            let wait = wait(&"gpu".into(), is_served, &place(0, JobHeld::Waits)).unwrap();
            wait.warning(Timestamp::from_millis(seconds * 1000))
        };
        let warning = warns(Some(false), 125).unwrap();
        assert_eq!(
            warning.message,
            "it waits in queue \"gpu\" for 2 min, and no living worker serves the queue"
        );
        assert_eq!((&*warning.code, warning.hint.contains("gpu")), (QUEUE_NOT_SERVED, true));
        for (is_served, seconds) in [(Some(false), 59), (Some(true), 125), (None, 125)] {
            assert_eq!(warns(is_served, seconds), None, "{is_served:?} {seconds}");
        }
    }
}
