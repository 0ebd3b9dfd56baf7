//! An idle fleet in simulated time: the loops of real schedulers (shards, leases, work in the background) and workers over
//! one memory store, which counts requests. Tokio's clock stands still while anything works, and jumps to the next timer
//! otherwise, so a minute of a thousand workers takes seconds.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::{Clock, Timestamp};
use tidemill_common::config::Config;
use tidemill_common::files;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::telemetry;
use tidemill_scheduler::api::ApiState;
use tidemill_scheduler::background::budgets::Meter;
use tidemill_scheduler::parts::begin_background;
use tidemill_scheduler::sealing::Sealing;
use tidemill_scheduler::shards::keeper::ShardKeeper;
use tidemill_scheduler::shards::lease::Lease;
use tidemill_scheduler::shards::liveness::Liveness;
use tidemill_scheduler::shards::repair::Findings;
use tidemill_scheduler::stopping::Stage;
use tidemill_scheduler::workflows::Workflows;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Size, worker};

/// Until the shares of the shards are even and the lists of live processes are complete.
const SETTLE: Duration = Duration::from_secs(60);
/// How long requests are counted: many rounds of every loop.
const COUNT: Duration = Duration::from_secs(240);
/// The longest wait for anything.
const WAIT: Duration = Duration::from_secs(120);

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Requests per second of all workers.
    pub workers: f64,
    /// Requests per second of all schedulers.
    pub schedulers: f64,
    /// Seconds from the kill of a scheduler until all shards had an owner again.
    pub take_over: f64,
}

/// The time of Tokio's clock, which is simulated here.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_754_339_718_000).plus(self.0.elapsed())
    }
}

/// Runs a fleet and kills one of its schedulers.
///
/// # Errors
/// Tokio gives no runtime, the files of the schedulers have no place, or the shards get no owner.
pub fn measure(size: Size) -> Result<Measured, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|error| error.to_string())?.block_on(play(size))
}

async fn play(size: Size) -> Result<Measured, String> {
    let store = MemoryStore::with(Arc::new(TokioClock(Instant::now())), size.shards, 100_000);
    let mut schedulers =
        (0..size.schedulers).map(|number| scheduler(&store, number)).collect::<Result<Vec<_>, _>>()?;
    all_have_owners(&store, size, "").await?;
    sleep(SETTLE).await;
    let of_schedulers = count(&store).await;
    let mut workers = JoinSet::new();
    for number in 0..size.workers {
        workers.spawn(worker::run(store.clone(), number));
        // They did not all start at one moment.
        sleep(Duration::from_millis(3)).await;
    }
    sleep(SETTLE).await;
    let of_all = count(&store).await;
    // The first scheduler dies: it does nothing more, and tells nobody.
    drop(schedulers.swap_remove(0));
    let killed = Instant::now();
    all_have_owners(&store, size, &name(0)).await?;
    let take_over = killed.elapsed().as_secs_f64();
    Ok(Measured { workers: of_all - of_schedulers, schedulers: of_schedulers, take_over })
}

/// Waits until each shard has an owner, and none is the dead one.
async fn all_have_owners(store: &MemoryStore, size: Size, dead: &str) -> Result<(), String> {
    let since = Instant::now();
    loop {
        let owners = store.owners();
        if owners.len() == usize::from(size.shards) && !owners.iter().any(|owner| owner == dead) {
            return Ok(());
        }
        if since.elapsed() > WAIT {
            return Err(format!("{} of the shards have an owner after {WAIT:?}", owners.len()));
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn name(scheduler: u16) -> String {
    format!("s-{scheduler:03}")
}

/// Requests per second.
async fn count(store: &MemoryStore) -> f64 {
    let before = store.requests();
    sleep(COUNT).await;
    (store.requests() - before) as f64 / COUNT.as_secs_f64()
}

/// A scheduler that runs. Its tasks end when this is dropped.
struct Running {
    _tasks: JoinSet<()>,
    _background: JoinSet<()>,
    _stop: watch::Sender<bool>,
    _stage: watch::Sender<Stage>,
}

/// Starts a scheduler without listeners.
fn scheduler(store: &MemoryStore, number: u16) -> Result<Running, String> {
    let (config, id): (_, Arc<str>) = (Config::default(), name(number).into());
    let (lease_ms, renew_ms) = (config.scheduler.shard_lease_ms, config.scheduler.shard_renew_ms);
    let lease = Arc::new(Lease::new(id.clone(), lease_ms, renew_ms));
    let liveness = Arc::new(Liveness::default());
    let workflows = Arc::new(Workflows::new(&config, None));
    let (ordered, store) = (Arc::new(Notify::new()), Arc::new(store.clone()));
    let (stop, stopped) = watch::channel(false);
    let (stage, stages) = watch::channel(Stage::Serving);
    let settings = Arc::new(config.clone());
    let metrics = telemetry::start_metrics();
    let state =
        ApiState::new(store.clone(), settings, metrics, liveness.clone(), stages, workflows.clone(), None);
    let keeper = ShardKeeper {
        id,
        store: store.clone(),
        config: config.scheduler.clone(),
        files: files::open(&config.files).map_err(|error| error.to_string())?,
        workflows,
        liveness,
        lease: lease.clone(),
        ordered: ordered.clone(),
        noticed: Arc::default(),
        meter: Arc::new(Meter::new(config.scheduler.spending_series_max)),
        limiter: state.submitter.limiter.clone(),
        findings: Findings::default(),
        sealing: Sealing::new(None),
        namespace: Arc::default(),
    };
    let background = begin_background(&state, &lease, ordered, &stopped);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { keeper.run(stopped).await });
    tasks.spawn(async move { lease.run(store).await });
    Ok(Running { _tasks: tasks, _background: background, _stop: stop, _stage: stage })
}
