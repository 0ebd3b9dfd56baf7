//! The floor: the speed of this machine when it runs nothing but the bare loop.
//!
//! Two processes do the least that moves a step durably through Redis: job, result, commit, next job. They have no
//! graph, no JSON, no fence and no leases. The processes are this program itself, started as `floor-worker` and
//! `floor-owner`. Tidemill's figures are given as ratios to the floor, because both depend on the machine in the same
//! way.

pub(crate) mod owner;
mod wire;
pub(crate) mod worker;

use std::path::Path;
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamPendingReply;

use crate::error::Error;
use crate::measure::{Figure, Load, median};
use crate::process::{Cpu, Process};
use crate::server::Server;
use wire::{DONE, GROUP, JOBS};

/// Longest time without an ended run. Ten thousand steps, one after the other, may take some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The text that each step passes to the next: 54 bytes.
pub(crate) const PAYLOAD: &str = "a small string that one step hands on to the next one.";

/// The shape of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// So many steps, one after the other.
    Chain(usize),
    /// One step, then so many parallel steps, then one step.
    Fan(usize),
}

impl Shape {
    /// Number of steps of a run.
    pub(crate) fn steps(self) -> usize {
        match self {
            Self::Chain(length) => length,
            Self::Fan(width) => width + 2,
        }
    }

    fn run_name(self, number: usize) -> String {
        match self {
            Self::Chain(length) => format!("chain-{length}-{number}"),
            Self::Fan(width) => format!("fan-{width}-{number}"),
        }
    }

    fn of_run(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let (kind, size) = (parts.next()?, parts.next()?.parse().ok()?);
        match kind {
            "chain" => Some(Self::Chain(size)),
            "fan" => Some(Self::Fan(size)),
            _ => None,
        }
    }
}

/// Returns the median round trip of PING over a connection like those of the loop, in microseconds.
pub(crate) async fn ping(server: &Server, count: usize) -> Result<f64, Error> {
    let mut connection = wire::connect(&server.url()).await?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        redis::cmd("PING").exec_async(&mut connection).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&mut times))
}

/// The running loop.
pub(crate) struct Floor {
    connection: MultiplexedConnection,
    worker: [Process; 1],
    owner: [Process; 1],
    server_pid: u32,
    /// Position in the stream of ended runs up to which it has been read.
    done: String,
    /// Number of runs started so far.
    started: usize,
}

impl Floor {
    /// Starts the loop on an empty server.
    pub(crate) async fn start(server: &Server, program: &Path) -> Result<Self, Error> {
        let url = server.url();
        let mut connection = wire::connect(&url).await?;
        connection.xgroup_create_mkstream::<_, _, _, ()>(JOBS, GROUP, "0").await?;
        let process = |role: &str| Process::start(program, &[role, "--redis-url", &url], None);
        let (worker, owner) = ([process("floor-worker")?], [process("floor-owner")?]);
        Ok(Self { connection, worker, owner, server_pid: server.pid(), done: "0".into(), started: 0 })
    }

    /// Runs a load and checks the result.
    pub(crate) async fn measure(&mut self, shape: Shape, load: Load) -> Result<Figure, Error> {
        for _ in 0..load.warm_up {
            self.turn(shape, 1, 1).await?;
        }
        let before = self.cpu()?;
        let mut times = Vec::with_capacity(load.times);
        for _ in 0..load.times {
            times.push(self.turn(shape, load.runs, load.in_flight).await?);
        }
        let cpu = self.cpu()?.map_with(before, |after, before| after - before);
        self.check(shape).await?;
        let steps = (load.times * load.runs * shape.steps()) as f64;
        Ok(Figure { seconds: median(&mut times), cpu_us_per_step: cpu.map(|s| s * 1e6 / steps) })
    }

    /// Returns the seconds from the first submission to the last end of `runs` runs, at most `in_flight` of them at
    /// once.
    async fn turn(&mut self, shape: Shape, runs: usize, in_flight: usize) -> Result<f64, Error> {
        let began = Instant::now();
        let (mut submitted, mut ended, mut last_end) = (0, 0, Instant::now());
        while ended < runs {
            let more = (runs - submitted).min(in_flight - (submitted - ended));
            if more > 0 {
                self.submit(shape, more).await?;
                submitted += more;
            }
            let over = wire::read_after(&mut self.connection, DONE, &self.done).await?;
            if let Some(last) = over.last() {
                self.done.clone_from(&last.entry);
                (ended, last_end) = (ended + over.len(), Instant::now());
            } else if last_end.elapsed() > PATIENCE {
                return Err(Error::Wrong(format!(
                    "the bare loop is stuck: only {ended} of {runs} runs ended"
                )));
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    async fn submit(&mut self, shape: Shape, count: usize) -> Result<(), Error> {
        let mut pipe = redis::pipe();
        for _ in 0..count {
            let name = shape.run_name(self.started);
            self.started += 1;
            pipe.hset(format!("run:{name}"), "status", "running").ignore();
            pipe.xadd(JOBS, "*", &[("r", name.as_str()), ("n", "0"), ("p", PAYLOAD)]).ignore();
        }
        Ok(pipe.exec_async(&mut self.connection).await?)
    }

    /// Checks that the last run has all its steps and events, and that nothing is pending.
    async fn check(&mut self, shape: Shape) -> Result<(), Error> {
        let name = shape.run_name(self.started - 1);
        let fields: usize = self.connection.hlen(format!("run:{name}")).await?;
        let events: usize = self.connection.xlen(format!("events:{name}")).await?;
        let steps = shape.steps();
        if fields != 2 * steps + 2 || events != 2 * steps {
            return Err(Error::Wrong(format!(
                "{name} has {fields} fields and {events} events for {steps} steps"
            )));
        }
        let pending: StreamPendingReply = self.connection.xpending(JOBS, GROUP).await?;
        let pending = pending.count();
        if pending > 0 {
            return Err(Error::Wrong(format!("{pending} jobs of the bare loop are still pending")));
        }
        Ok(())
    }

    fn cpu(&self) -> Result<Cpu, Error> {
        Cpu::of(self.server_pid, &self.owner, &self.worker)
    }
}
