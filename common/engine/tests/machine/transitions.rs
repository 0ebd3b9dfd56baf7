//! The table of statuses (`state/transitions.rs`): every row is taken by some test, and docs/lifecycle.md holds the same
//! rows. That no change of a status lacks a row is asserted by the engine itself, in every test.

use std::fmt::Write as _;

use super::{
    asked, bounds, budgets, charges, children, interactions, late_hooks, messages, pauses, timeouts,
};
use tidemill_engine::state::transitions::{Facts, NODES, RUNS, taken};

/// Rows that the simulated fleet does not take (`sim/tests/stories/seeds.rs`), each with a test that takes it.
const ROWS: &[(&str, fn())] = &[
    ("node queued → body", timeouts::a_phase_that_no_worker_takes_fails_the_container),
    ("node queued → exception", timeouts::a_job_that_no_worker_takes_is_taken_back_fails_and_is_retried),
    ("node queued → failed", timeouts::each_try_that_no_worker_takes_in_time_is_followed_by_the_next),
    ("node queued → succeeded", late_hooks::an_answer_counts_also_when_its_hooks_cannot_run),
    ("node retrying → failed", asked::the_size_of_a_question_is_limited),
    (
        "node retrying → succeeded",
        messages::a_sub_workflow_run_changes_a_list_of_its_caller_and_gets_the_result,
    ),
    ("node retrying → waiting", asked::an_answer_brings_the_job_back_as_the_same_attempt),
    ("node running → ready", late_hooks::hooks_run_without_interaction_and_with_a_preset_answer),
    ("node running → retrying", asked::an_answer_brings_the_job_back_as_the_same_attempt),
    ("node unknown → running", children::a_child_that_is_running_when_its_parent_fails_has_failed),
    ("node unknown → stopped", charges::ve_a27_the_cost_of_a_child_is_charged_after_a_stop),
    ("node waiting → exception", interactions::cx_a23_a_question_that_is_not_answered_in_time),
    ("node waiting → failed", pauses::a_form_answered_in_redis_with_a_wrong_action_fails_its_node),
    ("node waiting → ready", asked::an_answer_brings_the_job_back_as_the_same_attempt),
    ("run paused → failed", budgets::a_run_whose_key_has_spent_its_budget_ends_in_any_state),
    ("run scheduled → failed", budgets::a_run_whose_key_has_spent_its_budget_ends_in_any_state),
    ("run scheduled → stopped", bounds::a_run_can_be_stopped_before_it_begins),
];

#[test]
fn rows_that_the_simulated_fleet_does_not_take_are_taken_by_tests() {
    for (row, test) in ROWS {
        taken::drain();
        test();
        let taken = taken::drain();
        let names: Vec<String> = taken.iter().map(|(of, from, to)| format!("{of} {from} → {to}")).collect();
        assert!(names.iter().any(|name| name == row), "{row}: not in {names:?}");
    }
}

#[test]
fn a_row_stands_in_the_table_once() {
    let mut rows: Vec<(&str, &str)> = NODES.iter().map(|row| (row.from.name(), row.to.name())).collect();
    let count = rows.len();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), count);
}

#[test]
fn the_page_on_the_lifecycle_has_the_rows_of_the_table() {
    let page = include_str!("../../../../docs/lifecycle.md");
    let begin = "<!-- The rows of common/engine/src/state/transitions.rs; a test compares them. -->\n";
    let (_, after) = page.split_once(begin).unwrap();
    let (section, _) = after.split_once("\n## ").unwrap();
    let expected = section_of_the_page();
    assert_eq!(section, expected, "docs/lifecycle.md should contain:\n{expected}");
}

/// The two tables as docs/lifecycle.md has them.
fn section_of_the_page() -> String {
    let mut text = String::new();
    let mut table = |of: &str, rows: &mut dyn Iterator<Item = (&str, &str, &str, &Facts)>| {
        write!(text, "\n| {of} | when | by |\n| --- | --- | --- |\n").unwrap();
        for (from, to, when, facts) in rows {
            writeln!(text, "| `{from}` → `{to}` | {when} | {} |", named(facts)).unwrap();
        }
    };
    table("run", &mut RUNS.iter().map(|row| (row.from.name(), row.to.name(), row.when, &row.facts)));
    table("node", &mut NODES.iter().map(|row| (row.from.name(), row.to.name(), row.when, &row.facts)));
    text
}

fn named(facts: &Facts) -> String {
    if !facts.group.is_empty() {
        return facts.group.into();
    }
    let names: Vec<String> = facts.kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
    names.join(", ")
}
