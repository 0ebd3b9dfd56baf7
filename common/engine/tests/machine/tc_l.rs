//! TC-L: loops. Break conditions say when a loop ends, not when it continues (0.11). They are checked before the first
//! round and after every round.

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use tidemill_engine::state::options::compat::DifyWays;

/// A loop that counts in `lp.n` and ends when it has reached `until`.
pub(super) fn counting(rounds: u32, until: u32) -> String {
    format!(
        "lp loop loop_count: {rounds}, logical_operator: and, break_conditions: [{{variable_selector: [lp, n], comparison_operator: '≥', value: '{until}'}}], \
         loop_variables: [{{label: n, var_type: number, value_type: constant, value: 0}}]\n\
         lp/inc assigner version: '2', items: [{{variable_selector: [lp, n], input_type: constant, operation: '+=', value: 1}}]\n\
         e end outputs: [{{variable: n, value_selector: [lp, n]}}, {{variable: rounds, value_selector: [lp, loop_round]}}]\n\
         s > lp > e\nlps > inc"
    )
}

/// An event for a next round comes between two rounds, so there are nine for ten rounds (0.9).
#[test]
fn tc_l_001_a_loop_of_ten_rounds_emits_nine_events_for_a_next_round() {
    let mut play = Play::sheet(&counting(20, 10), json!({}));
    play.start();
    let nexts: Vec<String> = (1..10).map(|round| format!("lp next {round}")).collect();
    let mut expected = vec!["lp of 20"];
    expected.extend(nexts.iter().map(String::as_str));
    expected.extend(["lp through 20 loop_break [n=10 loop_round=10]", "succeeded [n=10 rounds=10]"]);
    play.tells_of(&["lp of", "lp next", "lp through", "succeeded"], &expected);
    assert_eq!(play.run.root_steps(), 3);
    assert_eq!(play.run.steps(), 13, "nodes inside count for the limit");
}

/// The reason is `loop_completed` (0.10).
#[test]
fn tc_l_002_a_loop_ends_when_its_rounds_are_used_up() {
    let mut play = Play::sheet(&counting(4, 10), json!({}));
    play.start().tells_of(
        &["lp next", "lp through", "succeeded"],
        &[
            "lp next 1",
            "lp next 2",
            "lp next 3",
            "lp through 4 loop_completed [n=4 loop_round=4]",
            "succeeded [n=4 rounds=4]",
        ],
    );
}

#[test]
fn tc_l_003_a_loop_whose_condition_holds_at_once_has_no_round() {
    let mut play = Play::sheet(&counting(4, 0), json!({}));
    play.start().tells_of(
        &["lp", "inc", "succeeded"],
        &[
            "lp starts",
            "lp of 4",
            "lp through 0 loop_break []",
            "lp.n + \"0\"",
            "lp ok",
            "succeeded [n=0 rounds=null]",
        ],
    );
}

/// A loop that counts in `lp.n` while it is less than `until`, with the setting that makes conditions say so.
fn counting_while(rounds: u32, until: u32) -> Play {
    let dify_ways = DifyWays { loop_conditions_break: false, ..DifyWays::default() };
    let text = counting(rounds, until).replace('≥', "<");
    Play::headed(&sheet(&text), json!({}), |head| head.options.dify_ways = dify_ways)
}

#[test]
fn tc_l_conditions_may_say_when_a_loop_continues() {
    const SHOWN: [&str; 3] = ["lp next", "lp through", "succeeded"];
    for (rounds, until, expected) in [
        (
            100,
            3,
            &[
                "lp next 1",
                "lp next 2",
                "lp next 3",
                "lp through 100 loop_completed [n=3 loop_round=3]",
                "succeeded [n=3 rounds=3]",
            ][..],
        ),
        (
            2,
            9,
            &[
                "lp next 1",
                "lp next 2",
                "lp through 2 max_iterations [n=2 loop_round=2]",
                "succeeded [n=2 rounds=2]",
            ],
        ),
        (5, 0, &["lp through 0 loop_completed []", "succeeded [n=0 rounds=null]"]),
    ] {
        counting_while(rounds, until).start().tells_of(&SHOWN, expected);
    }
}

#[test]
fn tc_l_a_loop_without_conditions_has_all_its_rounds_either_way() {
    let text = "lp loop loop_count: 2, logical_operator: and, break_conditions: [], loop_variables: []\n\
        lp/t template-transform template: x, variables: []\ne end outputs: []\ns > lp > e\nlps > t";
    for (loop_conditions_break, reason) in [(true, "loop_completed"), (false, "max_iterations")] {
        let dify_ways = DifyWays { loop_conditions_break, ..DifyWays::default() };
        let mut play = Play::headed(&sheet(text), json!({}), |head| head.options.dify_ways = dify_ways);
        play.start().tells_of(&["lp through"], &[&format!("lp through 2 {reason} [loop_round=2]")]);
    }
}
