//! The program `sim`: simulates stories by their seeds and prints the first one that fails.

use std::process::ExitCode;

use clap::Parser;
use tidemill_sim::guards::Guard;
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
}

#[allow(clippy::print_stdout, reason = "this program exists to print what it found")]
#[allow(clippy::print_stderr, reason = "reports a wrong argument")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
