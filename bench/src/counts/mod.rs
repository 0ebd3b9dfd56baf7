//! How many instructions the engine takes for one thing: a guard against growing slower unnoticed.
//!
//! Times on a busy machine say little about a change of a few per cent; instructions counted by valgrind hardly depend
//! on what else runs. [`cases`] is the table of what is counted, [`story`] makes their inputs, [`baseline`] knows what was
//! counted before. Each case runs in a process of its own, under callgrind, which counts within [`counted_section`] alone.

mod baseline;
mod cases;
mod story;
mod workflows;

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use baseline::Baseline;
use cases::{CASES, Case};

/// How often a case begins anew: every beginning seeds its tables of hashes otherwise, and their luck evens out.
const BEGINNINGS: u64 = 10;
/// How often it does its work then; the count is the mean over all.
const REPEATS: u64 = 40;
/// The function within which callgrind counts, however its name is mangled.
const TOGGLE: &str = "--toggle-collect=*counted_section*";

/// Runs a case; only of use under callgrind.
pub(crate) fn run_case(name: &str) -> Result<(), Error> {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| Error::Wrong(format!("there is no count named {name:?}")))?;
    (0..BEGINNINGS).try_for_each(|_| (case.run)(REPEATS))
}

/// Counts everything, and holds it against the baseline or makes it the new one. `told` takes a line each.
pub(crate) fn check(
    program: &Path,
    valgrind: &Path,
    file: &Path,
    writes: bool,
    told: impl Fn(&str),
) -> Result<(), Error> {
    let known = Baseline::read(file)?;
    if !writes {
        known.check_machine()?;
    }
    let mut counted = Vec::new();
    told(&format!("{:<18} {:>10} {:>10} {:>8}   what", "instructions", "baseline", "now", "change"));
    for case in &CASES {
        let now = count(program, valgrind, case)?;
        let before = known.counts.get(case.name).copied();
        let change = before.map_or("new".into(), |before| format!("{:+.2}%", baseline::change(before, now)));
        let before = before.map_or(String::new(), |before| before.to_string());
        told(&format!("{:<18} {before:>10} {now:>10} {change:>8}   {}", case.name, case.about));
        counted.push((case.name, now));
    }
    if writes { Baseline::of(&counted).write(file) } else { known.judge(&counted) }
}

/// Lets glibc hand out again what was freed without looking for it: how long that search takes depends on everything
/// before, and makes counts wobble by half a per cent.
const EVEN_ALLOCATOR: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=20000:glibc.malloc.mxfast=0");

/// Instructions of one time.
fn count(program: &Path, valgrind: &Path, case: &Case) -> Result<u64, Error> {
    let output = Command::new(valgrind)
        .args(["--tool=callgrind", "--collect-atstart=no", TOGGLE, "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["count", case.name])
        // What a developer has set for allocators and logs stays out of it.
        .env_clear()
        .env(EVEN_ALLOCATOR.0, EVEN_ALLOCATOR.1)
        .output()
        .map_err(|source| Error::Start { program: valgrind.display().to_string(), source })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let wrong = |what: &str| Error::Wrong(format!("counting {:?}: {what}:\n{said}", case.name));
    if !output.status.success() {
        return Err(wrong("valgrind failed"));
    }
    match collected(&said) {
        Some(all) if all > 0 => Ok(all / (BEGINNINGS * REPEATS)),
        Some(_) | None => Err(wrong("nothing was counted")),
    }
}

/// The number behind `Collected :` in what callgrind says at its end.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Does work that is counted, but for the first turn: it tidies up what the allocator has left from the preparations.
fn counted<T>(turn: u64, work: impl FnOnce() -> T) -> T {
    if turn == 0 { work() } else { counted_section(work) }
}

/// The work that is counted. What it makes is dropped outside.
#[inline(never)]
fn counted_section<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_can_be_run_and_has_a_baseline() {
        for case in &CASES {
            (case.run)(2).unwrap();
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json");
        let known = Baseline::read(&file).unwrap();
        let names: Vec<&str> = known.counts.keys().map(String::as_str).collect();
        assert_eq!(names, CASES.map(|case| case.name));
    }

    #[test]
    fn the_count_is_read_from_what_callgrind_says() {
        let said = "==7== Events    : Ir\n==7== Collected : 21600\n==7== \n==7== I   refs:      21,600\n";
        assert_eq!(collected(said), Some(21_600));
        assert_eq!(collected("valgrind: no such tool"), None);
    }
}
