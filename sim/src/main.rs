//! The program `sim`: simulates stories by their seeds and prints the first one that fails.

use std::process::ExitCode;

use clap::Parser;
use tidemill_sim::guards::Guard;
use tidemill_sim::plan::{self, Size};
use tidemill_sim::play::play;
use tidemill_sim::{Settings, Verdict, simulate};

/// Simulates stories of a fleet with faults, and prints the first story that breaks an invariant.
#[derive(Parser)]
struct Arguments {
    /// Number of seeds to simulate
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Simulate only this seed and print the last lines of its story
    #[arg(long)]
    seed: Option<u64>,
    /// Remove this guard
    #[arg(long)]
    without: Option<String>,
    /// Print what a fleet costs that does nothing: workers, shards, schedulers, and masters of a cluster if it has one
    #[arg(long, num_args = 3..=4, value_names = ["WORKERS", "SHARDS", "SCHEDULERS", "MASTERS"])]
    plan: Option<Vec<u16>>,
}

#[allow(clippy::print_stdout, reason = "this program exists to print what it found")]
#[allow(clippy::print_stderr, reason = "reports a wrong argument")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(size) = &arguments.plan {
        return print_plan(size);
    }
    let off = match arguments.without.as_deref().map(|name| (name, Guard::from_name(name))) {
        None => None,
        Some((_, Some(guard))) => Some(guard),
        Some((name, None)) => {
            let known: Vec<&str> = Guard::ALL.iter().map(|guard| guard.name()).collect();
            eprintln!("there is no guard {name:?}; the guards are {}", known.join(", "));
            return ExitCode::from(2);
        }
    };
    let settings = off.map_or_else(Settings::default, Settings::without);
    if let Some(seed) = arguments.seed {
        let verdict = simulate(seed, Settings { tells: true, ..settings });
        verdict.story.iter().for_each(|line| println!("{line}"));
        return finish(&verdict);
    }
    let played = play(arguments.from..arguments.from.saturating_add(arguments.seeds), settings);
    for (what, count) in &played.tally {
        println!("{count:>10} {what}");
    }
    match played.wrong {
        None => {
            println!("{:>10} stories ended as expected", arguments.seeds);
            ExitCode::SUCCESS
        }
        Some(seed) => {
            let verdict = simulate(seed, Settings { tells: true, ..settings });
            let from = verdict.story.len().saturating_sub(30);
            verdict.story[from..].iter().for_each(|line| println!("{line}"));
            finish(&verdict)
        }
    }
}

#[allow(clippy::print_stdout, reason = "this program exists to print what it found")]
#[allow(clippy::print_stderr, reason = "reports what prevents it")]
fn print_plan(numbers: &[u16]) -> ExitCode {
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    let size = Size { workers: at(0), shards: at(1), schedulers: at(2), masters: at(3) };
    if size.shards == 0 || size.schedulers < 2 {
        eprintln!("a plan needs a shard and two schedulers, of which one is killed");
        return ExitCode::from(2);
    }
    match plan::fleet::measure(size) {
        Ok(measured) => {
            println!("{}", plan::table(size, &measured));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "this program exists to print what it found")]
fn finish(verdict: &Verdict) -> ExitCode {
    match &verdict.violation {
        None => {
            println!("seed {} ends as expected", verdict.seed);
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("{}: {}\nagain: make sim SEED={}", violation.id, violation.found, verdict.seed);
            ExitCode::FAILURE
        }
    }
}
