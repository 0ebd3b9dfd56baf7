//! `sim`: plays stories by their seeds, and prints the first that goes wrong.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use tidemill_sim::guards::Guard;
use tidemill_sim::{Settings, Verdict, simulate};

/// Plays stories of a fleet to which everything happens, and says which of them end as they must not.
#[derive(Parser)]
struct Arguments {
    /// How many seeds to play
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Play this one alone and tell its last lines
    #[arg(long)]
    seed: Option<u64>,
    /// Take a guard away
    #[arg(long)]
    without: Option<String>,
}

#[allow(clippy::print_stdout, reason = "what it found is what this program is for")]
#[allow(clippy::print_stderr, reason = "a wrong word on the command line")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let off = match arguments.without.as_deref().map(|name| (name, Guard::from_name(name))) {
        None => None,
        Some((_, Some(guard))) => Some(guard),
        Some((name, None)) => {
            let known: Vec<&str> = Guard::ALL.iter().map(|guard| guard.name()).collect();
            eprintln!("there is no guard {name:?}; there are {}", known.join(", "));
            return ExitCode::from(2);
        }
    };
    let settings = Settings { off, ..Settings::default() };
    if let Some(seed) = arguments.seed {
        let verdict = simulate(seed, Settings { tells: true, ..settings });
        verdict.story.iter().for_each(|line| println!("{line}"));
        return finish(&verdict);
    }
    let (worst, tally) = play(arguments.from..arguments.from + arguments.seeds, settings);
    for (what, count) in &tally {
        println!("{count:>10} {what}");
    }
    match worst {
        None => {
            println!("{:>10} stories ended as they must", arguments.seeds);
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

#[allow(clippy::print_stdout, reason = "what it found is what this program is for")]
fn finish(verdict: &Verdict) -> ExitCode {
    match &verdict.violation {
        None => {
            println!("seed {} ends as it must", verdict.seed);
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("{}: {}\nagain: make sim SEED={}", violation.id, violation.found, verdict.seed);
            ExitCode::FAILURE
        }
    }
}

/// Plays seeds on all cores; answers the smallest that went wrong, and how often what happened.
fn play(seeds: std::ops::Range<u64>, settings: Settings) -> (Option<u64>, BTreeMap<String, u64>) {
    let next = AtomicU64::new(seeds.start);
    let found: Mutex<(Option<u64>, BTreeMap<String, u64>)> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let verdict = simulate(seed, settings);
                    let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    for (what, count) in verdict.tally {
                        *found.1.entry(what).or_default() += count;
                    }
                    if verdict.violation.is_some() {
                        found.0 = Some(found.0.map_or(seed, |known| known.min(seed)));
                        // What lies ahead is of no interest any more.
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
