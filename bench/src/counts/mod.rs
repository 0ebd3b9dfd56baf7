//! Counts the instructions that the engine needs for single operations, to notice when it gets slower.
//!
//! On a busy machine, times do not show a change of a few per cent. Instruction counts of valgrind hardly depend on
//! other programs. [`cases`] is the table of cases, [`story`] prepares their inputs, [`baseline`] has the earlier
//! counts. Each case runs in a separate process under callgrind, which counts only within [`counted_section`].

mod baseline;
mod cases;
mod story;
mod workflows;

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use baseline::Baseline;
use cases::{CASES, Case};

/// How often a case is prepared again. Each time its hash tables have other random seeds, which evens out their effect.
const BEGINNINGS: u64 = 10;
/// How often the case runs after each preparation. The count is the mean of all runs.
const REPEATS: u64 = 40;
/// The function within which callgrind counts; the pattern also matches its mangled name.
const TOGGLE: &str = "--toggle-collect=*counted_section*";

/// Runs a case. This is useful only under callgrind.
pub(crate) fn run_case(name: &str) -> Result<(), Error> {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| Error::Wrong(format!("there is no count named {name:?}")))?;
    (0..BEGINNINGS).try_for_each(|_| (case.run)(REPEATS))
}

/// Counts all cases, and compares them with the baseline or makes them the new one. `print_line` prints a line.
pub(crate) fn check(
    program: &Path,
    valgrind: &Path,
    file: &Path,
    writes: bool,
    print_line: impl Fn(&str),
) -> Result<(), Error> {
    let known = Baseline::read(file)?;
    if !writes {
        known.check_machine()?;
    }
    let mut counted = Vec::new();
    print_line(&format!("{:<18} {:>10} {:>10} {:>8}   what", "instructions", "baseline", "now", "change"));
    for case in &CASES {
        let now = count(program, valgrind, case)?;
        let before = known.counts.get(case.name).copied();
        let change = before.map_or("new".into(), |before| format!("{:+.2}%", baseline::change(before, now)));
        let before = before.map_or(String::new(), |before| before.to_string());
        print_line(&format!("{:<18} {before:>10} {now:>10} {change:>8}   {}", case.name, case.about));
        counted.push((case.name, now));
    }
    if writes { Baseline::of(&counted).write(file) } else { known.judge(&counted) }
}

/// Lets glibc reuse freed memory without searching. The time of a search depends on everything before it, so counts
/// would vary by half a per cent.
const EVEN_ALLOCATOR: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=20000:glibc.malloc.mxfast=0");

/// Returns the instructions of one run of a case.
fn count(program: &Path, valgrind: &Path, case: &Case) -> Result<u64, Error> {
    let output = Command::new(valgrind)
        .args(["--tool=callgrind", "--collect-atstart=no", TOGGLE, "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["count", case.name])
        // Settings of the developer for allocators and logs must have no influence.
        .env_clear()
        .env(EVEN_ALLOCATOR.0, EVEN_ALLOCATOR.1)
        .output()
        .map_err(|source| Error::Start { program: valgrind.display().to_string(), source })?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let wrong = |what: &str| Error::Wrong(format!("counting {:?}: {what}:\n{printed}", case.name));
    if !output.status.success() {
        return Err(wrong("valgrind failed"));
    }
    match collected(&printed) {
        Some(all) if all > 0 => Ok(all / (BEGINNINGS * REPEATS)),
        Some(_) | None => Err(wrong("nothing was counted")),
    }
}

/// Returns the number after `Collected :` in the output of callgrind.
fn collected(printed: &str) -> Option<u64> {
    let line = printed.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Does work that is counted, except in turn 0, which cleans up what the preparations left in the allocator.
fn counted<T>(turn: u64, work: impl FnOnce() -> T) -> T {
    if turn == 0 { work() } else { counted_section(work) }
}

/// Does the work that is counted. Its result is dropped outside.
#[inline(never)]
fn counted_section<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_and_has_a_baseline() {
        for case in &CASES {
            (case.run)(2).unwrap();
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json");
        let known = Baseline::read(&file).unwrap();
        let names: Vec<&str> = known.counts.keys().map(String::as_str).collect();
        assert_eq!(names, CASES.map(|case| case.name));
    }

    #[test]
    fn the_count_is_read_from_the_output_of_callgrind() {
        let printed = "==7== Events    : Ir\n==7== Collected : 21600\n==7== \n==7== I   refs:      21,600\n";
        assert_eq!(collected(printed), Some(21_600));
        assert_eq!(collected("valgrind: no such tool"), None);
    }
}
