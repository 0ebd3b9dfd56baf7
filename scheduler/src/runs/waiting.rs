//! The waits of a run's nodes in queues: since when, how many jobs come first, and whether a living worker serves the
//! queue. Read when a run is shown, because the engine knows no workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::NodeIx;
use tidemill_common::ids::{EntryId, FramePath, ShardId};
use tidemill_common::limits;
use tidemill_common::machine::state::run::{NodeStatus, RunState};
use tidemill_common::store::{JobHeld, LiveWorker, QueueState, Runs, StoreError};

/// The wait after which a queue that no living worker serves is a warning, in seconds. A worker that is just being
/// replaced is back by then.
const WARN_AFTER_SECONDS: f64 = 60.0;
/// Most waiting nodes of a run that are looked up.
const NODES_MAX: usize = 50;
/// The code of the warning.
pub const QUEUE_NOT_SERVED: &str = "run.queue_not_served";

/// The wait of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    pub queue: Arc<str>,
    /// The time at which its job was queued.
    pub since: Timestamp,
    /// Whether a living worker serves the queue; `None` when a worker of an older version may do so.
    pub is_served: Option<bool>,
    /// Jobs of the queue that wait longer.
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
            "since": self.since.seconds_f64(),
            "seconds": now.seconds_since(self.since),
            "served": self.is_served,
            "before": self.before,
            "before_is_least": self.is_least,
            "held_by": self.held_by,
        })
    }

    /// The warning for a wait that no worker ends, for the node of this id and title.
    pub fn warning(&self, id: &str, title: &str, now: Timestamp) -> Option<Json> {
        let seconds = now.seconds_since(self.since);
        if self.is_served != Some(false) || seconds < WARN_AFTER_SECONDS || self.held_by.is_some() {
            return None;
        }
        let (queue, minutes) = (&*self.queue, (seconds / 60.0).floor());
        let message = format!(
            "node {id} waits in queue {queue:?} for {minutes} min, and no living worker serves it: start one with \
             {queue:?} in worker.queues"
        );
        Some(json!({"code": QUEUE_NOT_SERVED, "node_id": id, "node_title": title, "queue": queue, "message": message}))
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
    let (workers, meta) = (store.fleet().workers().await?, store.meta().await?);
    let mut waits = Waits::new();
    for (queue, nodes) in queued {
        let entries: Vec<EntryId> = nodes.iter().map(|(_, entry)| *entry).collect();
        let asked = (0..meta.shards.max(run.id.shard().0 + 1)).map(|shard| {
            let (store, queue, entries) = (store.fleet(), queue.clone(), entries.clone());
            async move { store.queue_state(ShardId(shard), &queue, &entries).await }
        });
        let states = try_join_all(asked).await?;
        let is_served = is_served(&workers, &queue);
        for (at, (place, entry)) in nodes.into_iter().enumerate() {
            if let Some(wait) = wait(&queue, entry, at, is_served, (&states, run.id.shard())) {
                waits.insert(place, wait);
            }
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

/// Joins what the shards say about one job. `None` when its shard does not have it any more.
fn wait(
    queue: &Arc<str>,
    entry: EntryId,
    at: usize,
    is_served: Option<bool>,
    (states, own): (&[QueueState], ShardId),
) -> Option<Wait> {
    let of_own = states.get(usize::from(own.0))?.places.get(at)?;
    let held_by = match &of_own.held {
        JobHeld::Waits => None,
        JobHeld::By(worker) => Some(worker.clone()),
        JobHeld::Gone => return None,
    };
    let counts = || states.iter().filter_map(|state| state.places.get(at)).map(|place| place.before);
    let before = if held_by.is_some() { 0 } else { counts().sum() };
    let is_least = held_by.is_none() && counts().any(|count| count >= limits::JOBS_COUNTED_MAX as u64);
    let since = Timestamp::from_millis(i64::try_from(entry.major).unwrap_or(i64::MAX / 1000));
    Some(Wait { queue: queue.clone(), since, is_served, before, is_least, held_by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::store::JobPlace;
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

    #[test]
    fn older_jobs_of_all_shards_are_counted() {
        let state = |before, held| QueueState { places: vec![JobPlace { before, held }], ..QueueState::default() };
        let of = |states: &[QueueState]| {
            wait(&"gpu".into(), EntryId::new(60_000, 0), 0, Some(false), (states, ShardId(0)))
        };
        let waits = of(&[state(3, JobHeld::Waits), state(4, JobHeld::Gone)]).unwrap();
        assert_eq!((waits.before, waits.is_least, waits.held_by.as_deref()), (7, false, None));
        let most = limits::JOBS_COUNTED_MAX as u64;
        assert!(of(&[state(most, JobHeld::Waits), state(0, JobHeld::Gone)]).unwrap().is_least);
        let held = of(&[state(3, JobHeld::By("w".into()))]).unwrap();
        assert_eq!((held.before, held.held_by.as_deref()), (0, Some("w")));
        assert_eq!(of(&[state(3, JobHeld::Gone), state(4, JobHeld::Waits)]), None);
    }

    #[test]
    fn a_long_wait_in_a_queue_that_no_worker_serves_is_a_warning() {
        let states = [QueueState {
            places: vec![JobPlace { before: 0, held: JobHeld::Waits }],
            ..QueueState::default()
        }];
        let warns = |is_served, seconds: i64| {
            let wait = wait(&"gpu".into(), EntryId::new(0, 0), 0, is_served, (&states, ShardId(0))).unwrap();
            wait.warning("n", "Draw", Timestamp::from_millis(seconds * 1000))
        };
        let warning = warns(Some(false), 125).unwrap();
        let expected = "node n waits in queue \"gpu\" for 2 min, and no living worker serves it: start one with \"gpu\" \
            in worker.queues";
        assert_eq!((&warning["message"], &warning["code"]), (&json!(expected), &json!(QUEUE_NOT_SERVED)));
        for (is_served, seconds) in [(Some(false), 59), (Some(true), 125), (None, 125)] {
            assert_eq!(warns(is_served, seconds), None, "{is_served:?} {seconds}");
        }
    }
}
