//! A thousand stories, each of which must end as it must; and the same story twice.

use tidemill_sim::play::play;
use tidemill_sim::{Settings, simulate};

const SEEDS: u64 = 1000;
/// What must have happened in some of them, or they prove less than they say.
const MUST_HAPPEN: [&str; 28] = [
    "answers to commits lost",
    "answers to results lost",
    "commits refused",
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
    "told graph_run_failed",
    "told graph_run_partial_succeeded",
    "told graph_run_paused",
    "told node_run_human_input_form_timeout",
    "told node_run_iteration_failed",
    "told node_run_iteration_next",
    "told node_run_loop_next",
    "told node_run_retry",
    "told node_run_stream_replaced",
    "workers frozen",
];

#[test]
fn whatever_goes_wrong_every_run_comes_to_what_it_must() {
    let played = play(0..SEEDS, Settings::default());
    if let Some(seed) = played.wrong {
        let told = simulate(seed, Settings { tells: true, ..Settings::default() });
        let last = told.story.len().saturating_sub(30);
        panic!("{}\n{:?}\nagain: make sim SEED={seed}", told.story[last..].join("\n"), told.violation);
    }
    for what in MUST_HAPPEN {
        assert!(played.tally.contains_key(what), "{what}: never, in {SEEDS} stories");
    }
}

#[test]
fn a_seed_tells_the_same_story_every_time() {
    for seed in 0..30 {
        let (once, again) = (simulate(seed, Settings::default()), simulate(seed, Settings::default()));
        assert_eq!((once.digest, once.tally), (again.digest, again.tally), "seed {seed}");
    }
}
