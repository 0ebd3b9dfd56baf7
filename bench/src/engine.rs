//! Tidemill under load: a fleet, a workflow, and runs that are created directly in the store.
//!
//! The load does not use HTTP: it creates runs with the same store call as the API, many at once over one connection,
//! so that submission is not what is measured. It finds ended runs in the index of ended runs, which it reads in short
//! intervals: that costs Redis two small commands each time. Following every run would cost one command per step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use serde_json::Value as Json;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::config::Config;
use tidemill_common::graph::{self, Graph};
use tidemill_common::ids::{BlobId, RunId, ShardId};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::run::RunHead;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Created, NewRun, Runs};
use tidemill_common::value::{BlobRef, Segment, Stored, blob_text};
use tidemill_common::wire;

use crate::check::{self, Ended};
use crate::error::Error;
use crate::fleet::{Fleet, Plan};
use crate::measure::{Figure, Load, median};
use crate::programs::Programs;
use crate::server::{Server, connect};

/// Time between two looks for ended runs: for a single run, and for many.
const LOOK_EVERY: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(2)];
/// Share of the fastest time so far in which a single run is not looked at, because looking takes time of a small
/// machine.
const UNWATCHED: f64 = 0.8;
/// Time without an ended run after which the load fails. Each step of a run adds [`PATIENCE_PER_STEP`], because a long
/// run on a busy machine is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_PER_STEP: Duration = Duration::from_millis(20);

/// The workflow and inputs of the runs.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The content of the workflow file.
    pub(crate) workflow: String,
    /// Inputs of its start node.
    pub(crate) inputs: Vec<(&'static str, Json)>,
    /// Options of the runs, as a request may give them.
    pub(crate) options: RunOptions,
    /// Number of steps to divide the time by.
    pub(crate) steps: usize,
    /// Number of steps that Tidemill counts.
    pub(crate) counted: usize,
}

/// A fleet on an empty server, and the runs for it.
pub(crate) struct Engine {
    pub(crate) fleet: Fleet,
    /// The store, at the address of the load.
    pub(crate) store: Arc<RedisStore>,
    /// A connection to the same address.
    pub(crate) connection: MultiplexedConnection,
    /// Number of shards of the namespace.
    pub(crate) shards: u16,
    graph: Graph,
    document: Arc<str>,
    job: Job,
    submitted: Vec<Ended>,
    /// Number of runs with deadlines.
    parked: usize,
}

impl Engine {
    /// Starts a fleet for runs of this job.
    pub(crate) async fn start(
        server: &Server,
        programs: &Programs,
        plan: &Plan,
        job: Job,
    ) -> Result<Self, Error> {
        let fleet = Fleet::start(server, programs, plan).await?;
        let mut config = Config::default();
        config.redis.url = plan.load_url.as_str().into();
        let store = RedisStore::new(&config.redis, config.store_limits())?;
        let shards = store.meta().await?.shards;
        let (graph, document) = imported(&job)?;
        Ok(Self {
            fleet,
            store,
            connection: connect(&plan.load_url).await?,
            shards,
            graph,
            document,
            job,
            submitted: Vec::new(),
            parked: 0,
        })
    }

    /// Sets another workflow for the next runs.
    pub(crate) fn change(&mut self, job: Job) -> Result<(), Error> {
        (self.graph, self.document) = imported(&job)?;
        self.job = job;
        Ok(())
    }

    /// Sets other inputs for the next runs, with their number of steps.
    pub(crate) fn take(&mut self, inputs: Vec<(&'static str, Json)>, steps: usize) {
        self.job = Job { inputs, steps, ..self.job.clone() };
    }

    /// Sets the `max_steps` of the next runs.
    pub(crate) fn allow_steps(&mut self, steps: usize) {
        self.job.options.steps_max = self.job.options.steps_max.max(steps as u64);
    }

    /// Runs the warm-up of a load.
    pub(crate) async fn warm_up(&mut self, load: &Load) -> Result<(), Error> {
        for _ in 0..load.warm_up {
            let done = self.turn(1, 1, Duration::ZERO).await;
            self.explained(done)?;
        }
        Ok(())
    }

    /// Runs a load, and checks all runs so far.
    pub(crate) async fn measure(&mut self, load: &Load) -> Result<Figure, Error> {
        let before = self.fleet.cpu()?;
        let mut times = self.run_only(load).await?;
        let cpu = self.fleet.cpu()?.map_with(before, |after, before| after - before);
        self.check().await?;
        let steps = (load.times * load.runs * self.job.steps) as f64;
        Ok(Figure { seconds: median(&mut times), cpu_us_per_step: cpu.map(|s| s * 1e6 / steps) })
    }

    /// Runs a load without a check; the caller has to call [`Engine::check`].
    pub(crate) async fn run_only(&mut self, load: &Load) -> Result<Vec<f64>, Error> {
        let done = self.turns(load).await;
        self.explained(done)
    }

    /// Checks the state of all runs so far.
    pub(crate) async fn check(&mut self) -> Result<(), Error> {
        let done =
            check::all_went_well(&self.store, &mut self.connection, self.shards, &self.submitted).await;
        self.explained(done)
    }

    fn explained<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        done.map_err(|error| Error::Wrong(format!("{error}{}", self.fleet.last_words())))
    }

    /// Returns the seconds of each time.
    async fn turns(&mut self, load: &Load) -> Result<Vec<f64>, Error> {
        let mut times: Vec<f64> = Vec::with_capacity(load.times);
        for _ in 0..load.times {
            let fastest = times.iter().copied().reduce(f64::min).unwrap_or_default();
            times.push(
                self.turn(load.runs, load.in_flight, Duration::from_secs_f64(fastest * UNWATCHED)).await?,
            );
        }
        Ok(times)
    }

    /// Returns the seconds from the first submission to the last end of `runs` runs, at most `in_flight` of them at
    /// once. A single run is not looked at for the first `unwatched`.
    async fn turn(&mut self, runs: usize, in_flight: usize, unwatched: Duration) -> Result<f64, Error> {
        let ended_before = self.ended().await?;
        let is_single = in_flight == 1;
        let look_every = LOOK_EVERY[usize::from(!is_single)];
        let patience = PATIENCE + PATIENCE_PER_STEP * u32::try_from(self.job.steps).unwrap_or(u32::MAX);
        let (began, mut moved) = (Instant::now(), Instant::now());
        let (mut submitted, mut ended) = (0_usize, 0);
        while ended < runs {
            // Runs with deadlines may end meanwhile, too.
            let in_flight_now = submitted.saturating_sub(ended);
            let more = (runs - submitted).min(in_flight.saturating_sub(in_flight_now));
            if more > 0 {
                self.submit(more).await?;
                submitted += more;
            }
            let wait = if is_single && more > 0 { unwatched.max(look_every) } else { look_every };
            // The timer of the runtime has steps of a millisecond, and this thread has nothing else to do.
            std::thread::sleep(wait);
            let now_ended = self.ended().await? - ended_before;
            if now_ended > ended {
                (ended, moved) = (now_ended, Instant::now());
            } else if moved.elapsed() > patience {
                return Err(Error::Wrong(format!("Tidemill is stuck: only {ended} of {runs} runs ended")));
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// Submits a run that has to end within this time. It is not among the runs that are checked.
    pub(crate) async fn submit_with_deadline(&mut self, deadline: Duration) -> Result<(), Error> {
        self.parked += 1;
        self.job.options.deadline_ms = Some(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
        let run = self.new_run(self.parked).await?;
        match self.store.create_run(&run).await? {
            Created::Created => Ok(()),
            other => Err(Error::Wrong(format!("a run was not created: {other:?}"))),
        }
    }

    async fn submit(&mut self, count: usize) -> Result<(), Error> {
        let first = self.submitted.len();
        let runs = try_join_all((0..count).map(|at| self.new_run(first + at))).await?;
        for created in try_join_all(runs.iter().map(|run| self.store.create_run(run))).await? {
            if created != Created::Created {
                return Err(Error::Wrong(format!("a run was not created: {created:?}")));
            }
        }
        self.submitted.extend(runs.iter().map(|run| Ended { run: run.id, steps: self.job.counted }));
        Ok(())
    }

    async fn new_run(&self, number: usize) -> Result<NewRun, Error> {
        let shard = ShardId(u16::try_from(number % usize::from(self.shards)).unwrap_or(0));
        let (inputs, blobs) = self.inputs(shard).await?;
        let head = RunHead {
            graph: self.graph.hash.clone(),
            app: None,
            root: None,
            user: "bench".into(),
            inputs,
            sys: Vec::new(),
            conversation: Vec::new(),
            history: None,
            leaves_turn: false,
            takes_messages: false,
            caller: None,
            call_depth: 0,
            key: None,
            webhook: None,
            conversation_id: None,
            commands: Vec::new(),
            options: self.job.options.clone(),
            created_at: SystemClock.now(),
        };
        Ok(NewRun {
            id: RunId::generate(shard),
            graph: (self.graph.hash.to_string(), self.document.clone()),
            fields: wire::state::head_fields(&head, &self.graph),
            kind: wire::fact::kind::START,
            start: wire::fact::start_body(&head),
            queues: Vec::new(),
            blobs,
            created_at: head.created_at,
            schedule: None,
            called: None,
            has_files: false,
            takes_messages: None,
        })
    }

    /// Returns the inputs as the API stores them, large ones as blobs, with the names and sizes of the blobs.
    async fn inputs(&self, shard: ShardId) -> Result<(Vec<(String, Stored)>, Vec<(BlobId, u64)>), Error> {
        let (mut inputs, mut blobs) = (Vec::with_capacity(self.job.inputs.len()), Vec::new());
        for (name, value) in &self.job.inputs {
            let segment = Segment::infer(value.clone());
            let text = blob_text(value);
            let stored = if text.len() <= self.job.options.inline_bytes_max {
                Stored::Inline(segment)
            } else {
                let blob = BlobRef::to(BlobId::generate(), &segment, &text);
                self.store.put_blob(shard, &blob.id, &text).await?;
                blobs.push((blob.id.clone(), blob.size));
                Stored::Blob(blob)
            };
            inputs.push(((*name).to_string(), stored));
        }
        Ok((inputs, blobs))
    }

    /// Number of ended runs on all shards.
    async fn ended(&mut self) -> Result<usize, Error> {
        let mut pipe = redis::pipe();
        for shard in (0..self.shards).map(ShardId) {
            pipe.zcard(self.store.keys().ended(shard));
        }
        let counts: Vec<usize> = pipe.query_async(&mut self.connection).await?;
        Ok(counts.into_iter().sum())
    }
}

/// Imports the workflow of a job; returns its graph and document.
fn imported(job: &Job) -> Result<(Graph, Arc<str>), Error> {
    let mut imported = graph::import(job.workflow.as_bytes());
    let document = imported.seal(None).ok().flatten().unwrap_or_default();
    let refused = || Error::Wrong(format!("the workflow is refused: {:?}", imported.diagnostics));
    Ok((imported.graph.ok_or_else(refused)?, document.into()))
}
