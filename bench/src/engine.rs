//! Tidemill, running: one scheduler, one worker, and a load that is put straight into the store.
//!
//! The load does not go through HTTP: runs are created by the same store call that the API makes, many at once over one
//! connection, so that submitting is never what is measured. Ends are seen in the index of ended runs, looked at in short
//! intervals: that costs Redis two small commands a look, where following each run would cost one a step.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::config::Config;
use tidemill_common::graph::{self, Graph};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::run::{RunHead, RunOptions};
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Created, NewRun, Runs};
use tidemill_common::value::{Segment, Stored};
use tidemill_common::wire;

use crate::check;
use crate::error::Error;
use crate::floor::PAYLOAD;
use crate::measure::{Figure, Load, median};
use crate::process::{Cpu, Process};
use crate::programs::Programs;
use crate::server::{Server, free_port};
use crate::workloads::Workload;

/// Between two looks at the ends of a single run, and of many.
const LOOK_EVERY: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(2)];
/// The share of the fastest time seen that a single run is left alone: looking takes its part of a small machine.
const UNWATCHED: f64 = 0.8;
/// After this long without an end the run is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A scheduler and a worker on an empty server, and the workflow that they run.
pub(crate) struct Engine {
    scheduler: Process,
    worker: Process,
    logs: TempDir,
    server_pid: u32,
    store: Arc<RedisStore>,
    connection: MultiplexedConnection,
    shards: u16,
    graph: Graph,
    document: Arc<str>,
    steps: usize,
    submitted: Vec<RunId>,
}

impl Engine {
    /// Starts both.
    pub(crate) async fn start(
        server: &Server,
        programs: &Programs,
        workload: &Workload,
    ) -> Result<Self, Error> {
        let url = server.url();
        let logs = tempfile::tempdir().map_err(Error::io("making a directory for logs"))?;
        let start = |program: &Path, name: &str| -> Result<Process, Error> {
            let log = File::create(logs.path().join(name)).map_err(Error::io("making a log"))?;
            let listen = format!("127.0.0.1:{}", free_port()?);
            Process::start(program, &["--redis-url", &url, "--listen", &listen], Some(&log))
        };
        let scheduler = start(&programs.scheduler, "scheduler.log")?;
        let worker = start(&programs.worker, "worker.log")?;
        let mut config = Config::default();
        config.redis.url.clone_from(&url);
        let store = RedisStore::from_config(&config)?;
        let shards = store.meta().await?.shards;
        let client = redis::Client::open(url)?;
        let mut imported = graph::import(workload.workflow().as_bytes());
        let document = imported.seal(None).ok().flatten().unwrap_or_default();
        let graph = imported.graph.ok_or_else(|| {
            Error::Wrong(format!("the workflow of {} is refused: {:?}", workload.name, imported.diagnostics))
        })?;
        Ok(Self {
            scheduler,
            worker,
            logs,
            server_pid: server.pid(),
            store,
            connection: client.get_multiplexed_async_connection().await?,
            shards,
            graph,
            document: document.into(),
            steps: workload.shape.steps(),
            submitted: Vec::new(),
        })
    }

    /// Runs a load and checks what it left behind.
    pub(crate) async fn measure(&mut self, load: Load) -> Result<Figure, Error> {
        match self.try_measure(load).await {
            Ok(figure) => Ok(figure),
            Err(error) => Err(Error::Wrong(format!("{error}{}", self.last_words()))),
        }
    }

    async fn try_measure(&mut self, load: Load) -> Result<Figure, Error> {
        for _ in 0..load.warm_up {
            self.turn(1, 1, Duration::ZERO).await?;
        }
        let before = self.cpu()?;
        let mut times: Vec<f64> = Vec::with_capacity(load.times);
        for _ in 0..load.times {
            let fastest = times.iter().copied().reduce(f64::min).unwrap_or_default();
            times.push(
                self.turn(load.runs, load.in_flight, Duration::from_secs_f64(fastest * UNWATCHED)).await?,
            );
        }
        let cpu = self.cpu()?.map_with(before, |after, before| after - before);
        check::all_went_well(&self.store, &mut self.connection, self.shards, &self.submitted, self.steps)
            .await?;
        let steps = (load.times * load.runs * self.steps) as f64;
        Ok(Figure { seconds: median(&mut times), cpu_us_per_step: cpu.map(|s| s * 1e6 / steps) })
    }

    /// Seconds from the first submit to the last end of `runs` runs, at most `in_flight` of them at once. A single run is
    /// left alone for the first time `unwatched`.
    async fn turn(&mut self, runs: usize, in_flight: usize, unwatched: Duration) -> Result<f64, Error> {
        let ended_before = self.ended().await?;
        let is_single = in_flight == 1;
        let look_every = LOOK_EVERY[usize::from(!is_single)];
        let (began, mut moved) = (Instant::now(), Instant::now());
        let (mut submitted, mut ended) = (0, 0);
        while ended < runs {
            let more = (runs - submitted).min(in_flight - (submitted - ended));
            if more > 0 {
                self.submit(more).await?;
                submitted += more;
            }
            let wait = if is_single && more > 0 { unwatched.max(look_every) } else { look_every };
            // The timer of the runtime knows milliseconds only, and nothing else runs on this thread.
            std::thread::sleep(wait);
            let now_ended = self.ended().await? - ended_before;
            if now_ended > ended {
                (ended, moved) = (now_ended, Instant::now());
            } else if moved.elapsed() > PATIENCE {
                return Err(Error::Wrong(format!("Tidemill stands still: {ended} of {runs} runs ended")));
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    async fn submit(&mut self, count: usize) -> Result<(), Error> {
        let runs: Vec<NewRun> = (0..count).map(|at| self.new_run(self.submitted.len() + at)).collect();
        for created in try_join_all(runs.iter().map(|run| self.store.create_run(run))).await? {
            if created != Created::Created {
                return Err(Error::Wrong(format!("a run was not created: {created:?}")));
            }
        }
        self.submitted.extend(runs.iter().map(|run| run.id));
        Ok(())
    }

    fn new_run(&self, number: usize) -> NewRun {
        let shard = ShardId(u16::try_from(number % usize::from(self.shards)).unwrap_or(0));
        let head = RunHead {
            graph: self.graph.hash.clone(),
            app: None,
            user: "bench".into(),
            inputs: vec![("text".into(), Stored::Inline(Segment::string(PAYLOAD)))],
            sys: Vec::new(),
            conversation: Vec::new(),
            conversation_id: None,
            commands: Vec::new(),
            options: RunOptions::default(),
            created_at: SystemClock.now(),
        };
        NewRun {
            id: RunId::generate(shard),
            graph: (self.graph.hash.to_string(), self.document.clone()),
            fields: wire::state::head_fields(&head, &self.graph),
            kind: wire::fact::kind::START,
            start: wire::fact::start_body(&head),
            queues: Vec::new(),
            blobs: Vec::new(),
            created_at: head.created_at,
        }
    }

    /// Runs that are over, on all shards.
    async fn ended(&mut self) -> Result<usize, Error> {
        let mut pipe = redis::pipe();
        for shard in (0..self.shards).map(ShardId) {
            pipe.zcard(self.store.keys().ended(shard));
        }
        let counts: Vec<usize> = pipe.query_async(&mut self.connection).await?;
        Ok(counts.into_iter().sum())
    }

    fn cpu(&self) -> Result<Cpu, Error> {
        Cpu::of(self.server_pid, self.scheduler.pid(), self.worker.pid())
    }

    /// The ends of both logs.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for name in ["scheduler.log", "worker.log"] {
            let log = fs::read_to_string(self.logs.path().join(name)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(10)..];
            words.push_str(&format!("\n--- the end of {name}\n{}", last.join("\n")));
        }
        words
    }
}
