//! A thousand stories, each of which must end as it must; and the same story twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_sim::{Settings, Verdict, simulate};

const SEEDS: u64 = 1000;
/// What must have happened in some of them, or they prove less than they say.
const MUST_HAPPEN: [&str; 16] = [
    "answers to commits lost",
    "answers to results lost",
    "commits refused",
    "facts repeated",
    "jobs deleted",
    "jobs found gone",
    "jobs given up",
    "jobs handed back",
    "jobs taken over",
    "late commits refused",
    "leases lost",
    "messages lost",
    "results refused",
    "schedulers frozen",
    "schedulers killed",
    "workers frozen",
];

#[test]
fn whatever_goes_wrong_every_run_comes_to_what_it_must() {
    let verdicts = play(SEEDS);
    if let Some(wrong) = verdicts.iter().find(|verdict| verdict.violation.is_some()) {
        let told = simulate(wrong.seed, Settings { tells: true, ..Settings::default() });
        let last = told.story.len().saturating_sub(30);
        panic!(
            "{}\n{:?}\nagain: make sim SEED={}",
            told.story[last..].join("\n"),
            wrong.violation,
            wrong.seed
        );
    }
    for what in MUST_HAPPEN {
        let count: u64 = verdicts.iter().filter_map(|verdict| verdict.tally.get(what)).sum();
        assert!(count > 0, "{what}: never, in {SEEDS} stories");
    }
}

#[test]
fn a_seed_tells_the_same_story_every_time() {
    for seed in 0..40 {
        let (once, again) = (simulate(seed, Settings::default()), simulate(seed, Settings::default()));
        assert_eq!((once.digest, once.tally), (again.digest, again.tally), "seed {seed}");
    }
}

/// Plays the first seeds on all cores.
fn play(seeds: u64) -> Vec<Verdict> {
    let (next, verdicts) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let verdict = simulate(seed, Settings::default());
                    verdicts.lock().unwrap().push(verdict);
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap();
    verdicts.sort_by_key(|verdict: &Verdict| verdict.seed);
    verdicts
}
