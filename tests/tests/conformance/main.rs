//! Runs every conformance case on real processes; `tests/conformance/README.md` says how to run it and what it
//! prints.
//!
//! In the order of a case: [`case`] reads it, [`mock`] plays the other servers, [`forwarder`] connects the worker
//! with the mock, [`drive`] submits the case to a [`fleet`], an [`embedded`] engine or one in [`python`] and follows its run, [`observed`] reads the results in the form of the
//! cases, [`compare`] compares them.
#![allow(clippy::print_stdout, reason = "the verdicts are what this program is for")]

mod case;
mod compare;
mod drive;
mod embedded;
mod events;
mod fleet;
mod forwarder;
mod mock;
mod observed;
mod python;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_tests::workspace;

use case::Case;
use drive::{System, Values};

/// The longest time for one case.
const CASE_TIME_MAX: Duration = Duration::from_secs(60);
/// The most characters of a reason that are printed.
const REASON_CHARS_MAX: usize = 400;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    // `cargo test` passes its own arguments to every program; arguments without a dash choose cases.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let folder = path_from("CONFORMANCE_DIR").unwrap_or_else(|| workspace().join("tests/conformance/cases"));
    let mut names = names_in(&folder);
    if let Some(list) = path_from("CONFORMANCE_ONLY") {
        names = listed(&list, &names);
    }
    if !wanted.is_empty() {
        names.retain(|name| wanted.iter().any(|word| name.contains(word)));
    }
    // Each way of storing values has its own system, and they run side by side, because a case mostly waits.
    let passes = Values::of_environment().into_iter().map(|values| play(values, &folder, &names));
    let (mut passed, mut failed) = (0, 0);
    for (of_pass, failed_in_pass) in join_all(passes).await {
        passed += of_pass;
        failed += failed_in_pass;
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs these cases one after the other and prints a line for each. Returns how many passed and how many failed.
async fn play(values: Values, folder: &Path, names: &BTreeSet<String>) -> (usize, usize) {
    let cases: Vec<(&String, Result<Case, String>)> =
        names.iter().map(|name| (name, Case::read(&folder.join(name)))).collect();
    let mut system = System::start(values, cases.iter().filter_map(|(_, case)| case.as_ref().ok())).await;
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in cases {
        let label = format!("{name}{}", values.label());
        match verdict(&mut system, case, &label).await {
            Ok(()) => {
                passed += 1;
                println!("PASS {label}");
            }
            Err(reason) => {
                failed += 1;
                println!("FAIL {label}: {}", on_a_line(&reason));
            }
        }
    }
    (passed, failed)
}

async fn verdict(system: &mut System, case: Result<Case, String>, name: &str) -> Result<(), String> {
    let mut details = String::new();
    let case = case?;
    let running = drive::run(system, &case, &mut details);
    let verdict = tokio::time::timeout(CASE_TIME_MAX, running).await;
    let verdict = verdict.unwrap_or_else(|_| Err(format!("did not end within {CASE_TIME_MAX:?}")));
    if let Err(reason) = &verdict {
        system.look_after().await;
        keep(name, &format!("{reason}\n\n{details}"));
    }
    verdict
}

/// Writes the details of a failure to a file.
fn keep(name: &str, details: &str) {
    let folder = target_folder().join("conformance");
    let kept = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(format!("{name}.txt")), details));
    if let Err(error) = kept {
        println!("(details of {name} cannot be kept: {error})");
    }
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Cargo runs tests in the folder of their package, but people give paths from the root of the workspace.
fn path_from(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(|path| workspace().join(path))
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|e| panic!("no cases in {}: {e}", folder.display()));
    let cases = entries.flatten().filter(|entry| entry.path().join("case.json").is_file());
    cases.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The names in a file, one a line. Every name must belong to a case.
fn listed(file: &Path, known: &BTreeSet<String>) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names: BTreeSet<String> = lines.map(str::to_string).collect();
    let unknown: Vec<_> = names.difference(known).collect();
    assert!(unknown.is_empty(), "{} names cases that do not exist: {unknown:?}", file.display());
    names
}

fn on_a_line(reason: &str) -> String {
    let line: String = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
