//! TC-I: iterations.

use serde_json::{Value as Json, json};

use super::play::Play;

/// An iteration over `s.l` whose items run on a worker.
fn doubling(more: &str) -> String {
    format!(
        "it iteration iterator_selector: [s, l], output_selector: [a, output]{more}\n\
         it/a text template: '{{{{ x }}}}', variables: [{{variable: x, value_selector: [it, item]}}], tidemill: {{runs_on: worker}}\n\
         e end outputs: [{{variable: r, value_selector: [it, output]}}]\ns > it > e\nits > a"
    )
}

#[test]
fn tc_i_001_every_item_runs_and_emits_its_events() {
    let mut play = Play::sheet(&doubling(""), json!({"l": [1, 2, 3]}));
    play.start().tells(&["begin", "s starts", "s ok", "it starts", "it of 3", "it next 0"]);
    for at in 0..3 {
        let place = format!("it#{at}/a");
        assert_eq!(play.waiting(), std::slice::from_ref(&place), "one item at a time");
        let given = play.sent[&play.job_of(&place).entry].inputs[0].2.clone();
        let item = play.opened(&given).value.as_u64().unwrap();
        play.brings(&place, &[("output", json!(item * 2))]);
    }
    play.tells(&[
        "it#0/a starts",
        "it#0/a ok",
        "it next 1",
        "it#1/a starts",
        "it#1/a ok",
        "it next 2",
        "it#2/a starts",
        "it#2/a ok",
        "it through 3 [output=[2,4,6]]",
        "it.output + \"- 2\\n- 4\\n- 6\" last",
        "it ok",
        "e starts",
        "e ok",
        "succeeded [r=[2,4,6]]",
    ]);
    let kinds =
        ["started", "next", "next", "next", "succeeded"].map(|kind| format!("node_run_iteration_{kind}"));
    let found: Vec<&String> =
        play.records.iter().map(|r| &r.kind).filter(|kind| kind.contains("iteration")).collect();
    assert_eq!(found, kinds.iter().collect::<Vec<_>>());
    assert_eq!(play.run.frames.len(), 1, "no frame is left");
}

/// An iteration over an empty list emits its start and end, and no item between them (0.13). Null is an empty list.
#[test]
fn tc_i_002_an_empty_list_ends_at_once() {
    for list in [json!([]), json!(null)] {
        let mut play = Play::sheet(&doubling(""), json!({"l": list}));
        play.start().tells_of(
            &["it", "succeeded"],
            &[
                "it starts",
                "it of 0",
                "it through 0 [output=[]]",
                "it.output + \"\" last",
                "it ok",
                "succeeded [r=[]]",
            ],
        );
    }
}

/// The failure of an item counts among the run's exceptions, as in graphon's newest engine (0.26).
#[test]
fn tc_i_003_a_failing_item_ends_the_iteration_leaves_null_or_leaves_nothing() {
    for (mode, items, last) in [
        ("terminated", 2, "run failed 2: broken"),
        ("continue-on-error", 3, "partial 1 [r=[2,null,6]]"),
        ("remove-abnormal-output", 3, "partial 1 [r=[2,6]]"),
    ] {
        let mut play =
            Play::sheet(&doubling(&format!(", error_handle_mode: {mode}")), json!({"l": [1, 2, 3]}));
        play.start();
        for at in 0..items {
            let place = format!("it#{at}/a");
            if at == 1 {
                play.failed(&place, "broken");
            } else {
                play.brings(&place, &[("output", json!(2 * (at + 1)))]);
            }
        }
        assert_eq!(play.last(), last, "{mode}");
    }
}

#[test]
fn tc_i_003_an_error_strategy_inside_the_item_handles_the_failure() {
    let text = doubling("").replace(
        "tidemill:",
        "error_strategy: default-value, default_value: [{key: output, type: number, value: 0}], tidemill:",
    );
    let mut play = Play::sheet(&text, json!({"l": [1, 2]}));
    play.start().failed("it#0/a", "broken").brings("it#1/a", &[("output", json!(4))]);
    assert_eq!(play.last(), "partial 1 [r=[0,4]]");
}

#[test]
fn tc_i_004_iterations_run_within_iterations() {
    for (flatten, expected) in [(true, json!([2, 4, 6, 8])), (false, json!([[2, 4], [6, 8]]))] {
        let text = format!(
            "it iteration iterator_selector: [s, l], output_selector: [in, output], flatten_output: {flatten}\n\
             it/in iteration iterator_selector: [it, item], output_selector: [a, output]\n\
             in/a text template: '{{{{ x }}}}', variables: [{{variable: x, value_selector: [in, item]}}], tidemill: {{runs_on: worker}}\n\
             e end outputs: [{{variable: r, value_selector: [it, output]}}]\n\
             s > it > e\nits > in\nins > a"
        );
        let mut play = Play::sheet(&text, json!({"l": [[1, 2], [3, 4]]}));
        play.start();
        for (place, value) in [("it#0/in#0/a", 2), ("it#0/in#1/a", 4), ("it#1/in#0/a", 6), ("it#1/in#1/a", 8)]
        {
            assert_eq!(play.waiting(), [place]);
            let inputs = &play.sent[&play.job_of(place).entry].inputs;
            let carried: Vec<Json> = inputs.iter().map(|(_, _, value)| play.opened(value).value).collect();
            assert_eq!(carried, [json!(value / 2)]);
            play.reload().brings(place, &[("output", json!(value))]);
        }
        assert_eq!(play.last(), format!("succeeded [r={expected}]"));
    }
}
