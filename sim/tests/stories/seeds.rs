//! Three hundred stories that must all end as expected, and the same story twice.

use tidemill_common::machine::state::transitions::{NODES, RUNS};
use tidemill_sim::play::play;
use tidemill_sim::{Settings, simulate};

const SEEDS: u64 = 300;
/// Things that must happen in some of the stories; otherwise the stories prove too little.
const MUST_HAPPEN: [&str; 38] = [
    "acknowledged runs lost",
    "answers to commits lost",
    "answers to results lost",
    "commits refused",
    "commits sent again",
    "fail-overs with loss",
    "fail-overs without loss",
    "followers told: gone",
    "followers told: reset",
    "jobs adopted",
    "requests sent again",
    "slots moved",
    "submissions that a fail-over interrupted",
    "facts repeated",
    "forms answered",
    "jobs deleted",
    "jobs found gone",
    "jobs given up",
    "jobs handed back",
    "jobs taken over",
    "late commits refused",
    "leases lost",
    "messages lost",
    "results refused",
    "runs paused",
    "runs stopped",
    "schedulers frozen",
    "schedulers killed",
    "event graph_run_failed",
    "event graph_run_partial_succeeded",
    "event graph_run_paused",
    "event node_run_human_input_form_timeout",
    "event node_run_iteration_failed",
    "event node_run_iteration_next",
    "event node_run_loop_next",
    "event node_run_retry",
    "event node_run_stream_replaced",
    "workers frozen",
];

#[test]
fn every_run_ends_as_expected_in_spite_of_all_faults() {
    let played = play(0..SEEDS, Settings::default());
    if let Some(seed) = played.wrong {
        let verdict = simulate(seed, Settings { tells: true, ..Settings::default() });
        let last = verdict.story.len().saturating_sub(30);
        panic!("{}\n{:?}\nagain: make sim SEED={seed}", verdict.story[last..].join("\n"), verdict.violation);
    }
    for what in MUST_HAPPEN {
        assert!(played.tally.contains_key(what), "{what}: never, in {SEEDS} stories");
    }
    let nodes = NODES.iter().map(|row| format!("node {} → {}", row.from.name(), row.to.name()));
    let runs = RUNS.iter().map(|row| format!("run {} → {}", row.from.name(), row.to.name()));
    let mut not_taken: Vec<String> =
        nodes.chain(runs).filter(|row| !played.tally.contains_key(row)).collect();
    not_taken.sort();
    assert_eq!(not_taken, NOT_IN_STORIES);
}

#[test]
fn a_seed_gives_the_same_story_every_time() {
    for seed in 0..30 {
        let (once, again) = (simulate(seed, Settings::default()), simulate(seed, Settings::default()));
        assert_eq!((once.digest, once.tally), (again.digest, again.tally), "seed {seed}");
    }
}

/// Changes of statuses that these stories do not make. Tests of the engine make each of them
/// (`common/engine/tests/machine/transitions.rs`).
const NOT_IN_STORIES: &[&str] = &[
    "node body → ready",
    "node queued → body",
    "node queued → exception",
    "node queued → failed",
    "node queued → succeeded",
    "node retrying → failed",
    "node retrying → succeeded",
    "node retrying → waiting",
    "node running → ready",
    "node running → retrying",
    "node unknown → running",
    "node unknown → stopped",
    "node waiting → exception",
    "node waiting → failed",
    "node waiting → ready",
    "run paused → failed",
    "run scheduled → failed",
    "run scheduled → stopped",
];
