//! Loops: variables across rounds, loop-ends, nested containers, and values in blobs.

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use super::tc_l::counting;
use tidemill_engine::state::run::NodeStatus;
use tidemill_workflow::nodes::Phase;

#[test]
fn containers_nest_as_a_loop_in_an_iteration_in_a_loop() {
    let text = "lp loop loop_count: 2, logical_operator: and, break_conditions: [], loop_variables: [{label: n, var_type: number, value_type: constant, value: 0}, {label: r, var_type: 'array[number]', value_type: constant, value: '[]'}]\n\
                lp/it iteration iterator_selector: [s, l], output_selector: [in, k], is_parallel: true\n\
                it/in loop loop_count: 9, logical_operator: and, break_conditions: [{variable_selector: [in, k], comparison_operator: '≥', value: '{{#it.item#}}'}], \
                loop_variables: [{label: k, var_type: number, value_type: variable, value: [lp, n]}]\n\
                in/a job\n\
                in/inc assigner version: '2', items: [{variable_selector: [in, k], input_type: constant, operation: '+=', value: 1}]\n\
                lp/add assigner version: '2', items: [{variable_selector: [lp, n], input_type: constant, operation: '+=', value: 1}, \
                {variable_selector: [lp, r], input_type: variable, operation: over-write, value: [it, output]}]\n\
                e end outputs: [{variable: r, value_selector: [lp, r]}, {variable: n, value_selector: [lp, n]}]\n\
                s > lp > e\nlps > it > add\nits > in\nins > a > inc";
    let mut play = Play::sheet(text, json!({"l": [2, 3]}));
    play.restless = true;
    play.start();
    assert_eq!(play.waiting(), ["lp#0/it#0/in#0/a", "lp#0/it#1/in#0/a"]);
    for place in [
        "lp#0/it#1/in#0/a",
        "lp#0/it#0/in#0/a",
        "lp#0/it#0/in#1/a",
        "lp#0/it#1/in#1/a",
        "lp#0/it#1/in#2/a",
        // In the second round the inner loops begin at 1.
        "lp#1/it#0/in#0/a",
        "lp#1/it#1/in#0/a",
        "lp#1/it#1/in#1/a",
    ] {
        play.done(place, "");
    }
    assert_eq!(play.last(), "succeeded [r=[2,3] n=2]");
    assert_eq!((play.run.frames.len(), play.run.containers.len()), (1, 0));
    // s, lp, e; in each round: it, add, and for each item the inner loop; in each of its rounds: a, inc.
    assert_eq!(play.run.steps(), 3 + 2 * (2 + 2) + 2 * 8);
}

#[test]
fn a_loop_end_ends_its_loop_after_the_round() {
    let text = "lp loop loop_count: 5, logical_operator: and, break_conditions: []\n\
                lp/g if-else cases: [{case_id: 'true', logical_operator: and, conditions: [{variable_selector: [a, output], comparison_operator: is, value: 'stop'}]}]\n\
                lp/a job\nlp/x loop-end\nlp/b job\n\
                e end outputs: [{variable: n, value_selector: [lp, loop_round]}]\n\
                s > lp > e\nlps > a > g\ng:true > x > b\ng:false > b";
    let mut play = Play::sheet(text, json!({}));
    play.restless = true;
    play.start().done("lp#0/a", "go").done("lp#0/b", "").done("lp#1/a", "stop");
    assert_eq!(play.waiting(), ["lp#1/b"], "the round continues");
    play.skim().done("lp#1/b", "").tells_of(
        &["lp through", "succeeded"],
        &["lp through 5 loop_break [loop_round=2]", "succeeded [n=2]"],
    );
}

#[test]
fn a_loop_end_in_an_iteration_ends_the_loop_around_it() {
    let text = "lp loop loop_count: 5, logical_operator: and, break_conditions: []\n\
                lp/it iteration iterator_selector: [s, l], output_selector: [a, output], is_parallel: true\n\
                it/a job\nit/x loop-end\nlp/b job\n\
                s > lp\nlps > it > b\nits > a > x";
    let mut play = Play::sheet(text, json!({"l": [1, 2]}));
    play.restless = true;
    play.start().done("lp#0/it#1/a", "").done("lp#0/it#0/a", "").skim().done("lp#0/b", "");
    play.tells(&[
        "lp#0/b starts",
        "lp#0/b ok",
        "lp through 5 loop_break [loop_round=1]",
        "lp ok",
        "succeeded []",
    ]);
}

#[test]
fn a_round_begins_without_the_outputs_of_the_last_one() {
    let text = "lp loop loop_count: 2, logical_operator: and, break_conditions: [], loop_variables: [{label: seen, var_type: string, value_type: constant, value: ''}]\n\
                lp/t text template: '{{ x }}', variables: [{variable: x, value_selector: [a, output]}]\n\
                lp/w assigner version: '2', items: [{variable_selector: [lp, seen], input_type: variable, operation: over-write, value: [t, output]}]\n\
                lp/a job\ne end outputs: [{variable: seen, value_selector: [lp, seen]}]\n\
                s > lp > e\nlps > t > w > a";
    let mut play = Play::sheet(text, json!({}));
    play.restless = true;
    play.start().done("lp#0/a", "first").done("lp#1/a", "second");
    assert_eq!(play.last(), r#"succeeded [seen="None"]"#);
}

#[test]
fn the_failure_of_a_round_fails_the_loop_and_its_strategy_decides() {
    for (strategy, edges, last) in [
        ("", "s > lp > e", "run failed 2: broken"),
        (", error_strategy: fail-branch", "s > lp\nlp:fail-branch > e", r#"partial 2 [m="broken"]"#),
        (
            ", error_strategy: default-value, default_value: [{key: error_message, type: string, value: x}]",
            "s > lp > e",
            r#"partial 2 [m="broken"]"#,
        ),
    ] {
        let text = format!(
            "lp loop loop_count: 3, logical_operator: and, break_conditions: []{strategy}\nlp/a job\nlp/b job\n\
             e end outputs: [{{variable: m, value_selector: [lp, error_message]}}]\n{edges}\nlps > a\nlps > b"
        );
        let mut play = Play::sheet(&text, json!({}));
        play.restless = true;
        play.start().failed("lp#0/a", "broken");
        assert_eq!(play.waiting(), ["lp#0/b"], "the rest of the round continues");
        play.skim().done("lp#0/b", "").tells_of(&["lp broken"], &["lp broken 3 error []"]);
        assert_eq!(play.last(), last);
    }
}

#[test]
fn a_break_condition_that_cannot_be_applied_fails_the_loop_only_after_a_round() {
    let text = "lp loop loop_count: 3, logical_operator: and, break_conditions: [{variable_selector: [a, gone], comparison_operator: is, value: x}]\n\
                lp/a job\ns > lp\nlps > a";
    let mut play = Play::sheet(text, json!({}));
    play.start().skim().done("lp#0/a", "");
    let error = "Variable ['a', 'gone'] not found";
    play.tells(&[
        "lp#0/a starts",
        "lp#0/a ok",
        "lp broken 3 error []",
        &format!("lp failed: {error}"),
        &format!("run failed 1: {error}"),
    ]);
}

#[test]
fn a_loop_may_emit_a_next_round_after_its_last_one() {
    let mut play =
        Play::headed(&sheet(&counting(2, 10)), json!({}), |head| head.options.loop_next_after_last = true);
    play.start().tells_of(&["lp next"], &["lp next 1", "lp next 2"]);
}

/// A loop whose variable is large: conditions on it are checked by a worker.
const LARGE: &str = "lp loop loop_count: 5, logical_operator: and, break_conditions: [{variable_selector: [lp, t], comparison_operator: end with, value: END}], \
     loop_variables: [{label: t, var_type: string, value_type: variable, value: [s, x]}]\n\
     lp/a job\nlp/w assigner version: '2', items: [{variable_selector: [lp, t], input_type: variable, operation: over-write, value: [a, output]}]\n\
     s > lp\nlps > a > w";

fn large(x: &str) -> Play {
    Play::headed(&sheet(LARGE), json!({"x": x}), |head| head.options.inline_bytes_max = 50)
}

#[test]
fn a_condition_on_a_blob_is_checked_by_a_worker() {
    let mut play = large("begin");
    play.restless = true;
    play.start().brings("lp#0/a", &[("output", json!("x".repeat(100)))]).works("lp#0/w");
    let order = play.job_of("lp");
    assert_eq!((order.phase, order.attempt, play.node("lp").attempt), (Some(Phase::Check), 1, 1));
    assert_eq!(
        (play.run.steps(), play.run.root_steps()),
        (4, 2),
        "a container that is checked has begun once"
    );
    play.works("lp")
        .brings("lp#1/a", &[("output", json!(format!("{}END", "y".repeat(100))))])
        .works("lp#1/w");
    play.skim().lost("lp").works("lp");
    assert!(play.last().starts_with("succeeded"), "{}", play.last());
    assert_eq!(play.value("lp.loop_round"), 2);
    assert_eq!(play.value("lp.t"), json!(format!("{}END", "y".repeat(100))));
    assert_eq!((play.run.steps(), play.run.exceptions()), (6, 0));
}

#[test]
fn a_worker_that_cannot_check_a_condition_fails_the_loop() {
    let mut play = large("begin");
    play.start().brings("lp#0/a", &[("output", json!("x".repeat(100)))]).works("lp#0/w").skim();
    play.failed("lp", "gone").tells(&["lp broken 5 error []", "lp failed: gone", "run failed 1: gone"]);
}

#[test]
fn a_pause_takes_back_the_job_between_two_rounds() {
    let mut play = large("begin");
    play.restless = true;
    play.start().brings("lp#0/a", &[("output", json!("x".repeat(100)))]).works("lp#0/w").skim();
    play.pause("hold").tells(&["paused \"hold\" []"]);
    assert_eq!((play.waiting().len(), play.node("lp").status), (0, NodeStatus::Ready));
    play.resume().tells(&["resume"]);
    assert_eq!((play.job_of("lp").phase, play.job_of("lp").attempt), (Some(Phase::Check), 1));
    play.works("lp");
    assert_eq!(play.waiting(), ["lp#1/a"]);
}

#[test]
fn a_stop_takes_back_the_job_between_two_rounds() {
    let mut play = large("begin");
    play.start().brings("lp#0/a", &[("output", json!("x".repeat(100)))]).works("lp#0/w").skim();
    let job = play.job_of("lp").entry;
    play.stop("enough").tells(&["Aborted: enough []"]);
    assert_eq!(play.taken_back, [job]);
}
