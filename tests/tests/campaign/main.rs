//! The fault campaign: real workflows under steady load, on real processes and a real Redis. A seed decides which
//! faults happen meanwhile. Then a checker looks whether any client could notice.
//!
//! A campaign is a series of rounds. A round has its own Redis and fleet ([`round`]), a number of runs in flight
//! ([`load`]) of the files in [`workflows`], and a plan of faults from its seed ([`faults`]). At its end, when every
//! run has ended, the checks of `tests/src/checker` look at it. `tests/README.md` says how to run a campaign;
//! [`settings`] lists the variables that it reads.
#![allow(clippy::print_stdout, reason = "its report is what this program is for")]

mod faults;
mod load;
mod model;
mod round;
mod settings;
mod workflows;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use round::Outcome;
use settings::Settings;
use tidemill_tests::outside::Outside;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let settings = Settings::of_environment();
    let outside = Outside::start().await;
    let (workflows, skipped) = workflows::of_folders(&settings.folders, &outside.base_url);
    for reason in skipped {
        println!("left out: {reason}");
    }
    println!("seed {}: {}", settings.seed, settings.plan());
    let names: Vec<&str> = workflows.iter().map(|workflow| workflow.name.as_str()).collect();
    println!("workflows: {}", names.join(", "));

    let began = Instant::now();
    let references = load::references(&workflows).await;
    let (mut total, mut rounds, mut violations) = (Outcome::default(), 0, 0);
    while !settings.is_over(rounds, total.kills, began.elapsed()) {
        let seed = settings.seed + rounds;
        rounds += 1;
        let outcome = round::play(seed, &settings, &workflows, &references, &outside).await;
        println!("{}", outcome.line(seed));
        for (check, what) in &outcome.violations {
            println!("VIOLATION {check}: {what}");
        }
        if !outcome.violations.is_empty() {
            violations += outcome.violations.len();
            println!("  logs of this round: {}", outcome.logs.display());
            println!("  again: {}", settings.again(seed));
        }
        total.add(outcome);
    }
    println!("{}", table(&total.faults));
    println!("{rounds} rounds in {} s: {}", began.elapsed().as_secs(), total.sums());
    println!("{violations} violations");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The number of times that each fault happened.
fn table(happened: &BTreeMap<&'static str, usize>) -> String {
    let width = faults::FAULTS.iter().map(|fault| fault.name().len()).max().unwrap_or(0);
    let row = |fault: &&dyn faults::Fault| {
        let times = happened.get(fault.name()).copied().unwrap_or(0);
        format!("  {:width$} {times:5}  {}", fault.name(), fault.what())
    };
    faults::FAULTS.iter().map(row).collect::<Vec<_>>().join("\n")
}
