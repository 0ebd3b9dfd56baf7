//! Measures Tidemill and, in the same call, a bare loop on the same machine (the floor). `counts` counts instructions
//! instead. `README.md` explains what is measured and how.

mod campaign;
mod check;
mod counting_proxy;
mod counts;
mod engine;
mod error;
mod fleet;
mod floor;
mod lab;
mod measure;
mod process;
mod programs;
mod report;
mod server;
mod sse_load;
mod target;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use campaign::Extent;
use error::Error;
use programs::Programs;

/// Measures Tidemill and the floor of this machine: redis-server, one scheduler, one worker and the load, all on it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Number of repeats; the table shows the medians
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// One repeat with fewer runs: shows that everything works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Measure only the bare loop
    #[arg(long)]
    floor_only: bool,
    /// Measure only these workloads, for example W1,W3
    #[arg(long, value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// Fail when a row misses its target
    #[arg(long)]
    strict: bool,
    /// Use the existing programs instead of building them first
    #[arg(long)]
    no_build: bool,
    /// A `tidemill` of an earlier build, for the rows `first/earlier`
    #[arg(long)]
    earlier: Option<PathBuf>,
    /// The redis-server to use
    #[arg(long, default_value = "redis-server")]
    redis_server: PathBuf,
    /// File for the figures, one JSON object per line
    #[arg(long, default_value = "target/bench.json")]
    out: PathBuf,
    #[command(subcommand)]
    role: Option<Role>,
}

/// Other processes of a measurement; this program starts them itself.
#[derive(Subcommand)]
enum Role {
    /// Worker of the bare loop
    #[command(hide = true)]
    FloorWorker {
        #[arg(long)]
        redis_url: String,
    },
    /// Count instructions under valgrind and compare them with the baseline
    Counts {
        /// Make the new counts the baseline
        #[arg(long)]
        write: bool,
        /// File with the baseline
        #[arg(long, default_value = "bench/baseline.json")]
        baseline: PathBuf,
        /// The valgrind to use
        #[arg(long, default_value = "valgrind")]
        valgrind: PathBuf,
    },
    /// Run one case, for valgrind
    #[command(hide = true)]
    Count { name: String },
    /// Model of W7
    #[command(hide = true)]
    SseModel {
        #[arg(long)]
        listen: String,
    },
    /// Owner of the bare loop
    #[command(hide = true)]
    FloorOwner {
        #[arg(long)]
        redis_url: String,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.role {
        Some(Role::FloorWorker { redis_url }) => floor::worker::run(redis_url).await,
        Some(Role::FloorOwner { redis_url }) => floor::owner::run(redis_url).await,
        Some(Role::SseModel { listen }) => sse_load::model::run(listen).await,
        Some(Role::Count { name }) => counts::run_case(name),
        Some(Role::Counts { write, baseline, valgrind }) => {
            let print_line = |line: &str| print(&format!("{line}\n"));
            Programs::find()
                .and_then(|programs| counts::check(&programs.own, valgrind, baseline, *write, print_line))
        }
        None => until_stopped(measure(&arguments)).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("tidemill-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The names of all workloads.
fn names() -> PossibleValuesParser {
    let named = workloads::WORKLOADS.map(|workload| workload.name);
    PossibleValuesParser::new(named.into_iter().chain([workloads::w7::NAME]))
}

/// Ends the work on Ctrl-C or SIGTERM. Dropping it ends its child processes.
async fn until_stopped(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let handle = |kind| signal(kind).map_err(Error::io("listening for signals"));
    let (mut interrupt, mut terminate) = (handle(SignalKind::interrupt())?, handle(SignalKind::terminate())?);
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Error::Wrong("stopped".into())),
        _ = terminate.recv() => Err(Error::Wrong("stopped".into())),
    }
}

async fn measure(arguments: &Arguments) -> Result<(), Error> {
    if !arguments.no_build && !arguments.floor_only {
        programs::build()?;
    }
    let programs = Programs { earlier: arguments.earlier.clone(), ..Programs::find()? };
    let extent = Extent {
        repeats: if arguments.quick { 1 } else { arguments.repeats.max(1) },
        is_quick: arguments.quick,
        floor_only: arguments.floor_only,
        only: arguments.only.clone(),
    };
    let rows = campaign::run(&arguments.redis_server, &programs, &extent, say).await?;
    print(&report::table(&rows));
    report::write(&rows, Path::new(&arguments.out))?;
    let missed = report::missed(&rows);
    if arguments.strict && !missed.is_empty() {
        return Err(Error::Wrong(format!("targets are missed: {}", missed.join(", "))));
    }
    Ok(())
}

#[allow(clippy::print_stdout)] // This program exists to print the table.
fn print(table: &str) {
    print!("{table}");
}

#[allow(clippy::print_stderr)] // Progress and errors, separate from the table.
fn say(line: &str) {
    eprintln!("{line}");
}
