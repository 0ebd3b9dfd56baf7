//! Iterations: the window of open items, the variables that an item sees, and lists and outputs in blobs.

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::state::options::compat::ConversationWrites;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::RunStatus;
use tidemill_workflow::nodes::{Phase, Usage};

/// An iteration over `s.l` with a node `a` in it that runs on a worker.
fn plain(more: &str) -> String {
    format!(
        "it iteration iterator_selector: [s, l], output_selector: [a, output]{more}\nit/a job\n\
         e end outputs: [{{variable: r, value_selector: [it, output]}}]\ns > it > e\nits > a"
    )
}

#[test]
fn the_window_of_items_is_open_and_outputs_keep_the_order_of_the_items() {
    let mut play =
        Play::sheet(&plain(", is_parallel: true, parallel_nums: 2"), json!({"l": [0, 1, 2, 3, 4]}));
    play.start();
    assert_eq!(play.waiting(), ["it#0/a", "it#1/a"]);
    for (done, then) in [
        (1, ["it#0/a", "it#2/a"].as_slice()),
        (2, &["it#0/a", "it#3/a"]),
        (3, &["it#0/a", "it#4/a"]),
        (0, &["it#4/a"]),
        (4, &[]),
    ] {
        play.reload().brings(&format!("it#{done}/a"), &[("output", json!(done))]);
        assert_eq!(play.waiting(), then, "after item {done}");
    }
    assert_eq!(play.last(), "succeeded [r=[0,1,2,3,4]]");
}

#[test]
fn when_an_item_ends_the_iteration_no_other_begins_and_open_ones_may_end() {
    let mut play =
        Play::sheet(&plain(", is_parallel: true, parallel_nums: 3"), json!({"l": [0, 1, 2, 3, 4]}));
    play.start().failed("it#1/a", "broken").reload();
    assert_eq!(play.waiting(), ["it#0/a", "it#2/a"]);
    play.brings("it#2/a", &[("output", json!(2))]).skim().failed("it#0/a", "too late").tells(&[
        "it#0/a starts",
        "it#0/a failed: too late",
        "it broken 5 [output=[2]]",
        "it failed: broken",
        "run failed 3: broken",
    ]);
    assert_eq!(play.run.frames.len(), 1);
}

#[test]
fn items_beyond_the_limit_of_jobs_wait_for_their_turn() {
    let list: Vec<u32> = (0..400).collect();
    let text = sheet(&plain(", is_parallel: true, parallel_nums: 400"));
    let mut play = Play::headed(&text, json!({"l": list}), |head| head.options.steps_max = 1_000);
    play.start();
    while play.continue_due > 0 {
        play.continues();
    }
    assert_eq!(play.waiting().len(), 256);
    play.goes_on(|_, _| false);
    assert_eq!((play.run.status, play.run.steps()), (RunStatus::Succeeded, 403));
}

#[test]
fn conversation_variables_of_an_item_reach_the_run_unless_an_option_says_no() {
    let text = sheet(
        "conversation l, value_type: 'array[string]', value: []\n\
         it iteration iterator_selector: [s, l], output_selector: [t, output]\n\
         it/w assigner version: '2', items: [{variable_selector: [conversation, l], input_type: variable, operation: append, value: [it, item]}]\n\
         it/t text template: '{{ x | join }}', variables: [{variable: x, value_selector: [conversation, l]}]\n\
         e end outputs: [{variable: r, value_selector: [it, output]}, {variable: l, value_selector: [conversation, l]}]\n\
         s > it > e\nits > w > t",
    );
    for (writes, last, kept) in [
        (ConversationWrites::Parent, r#"succeeded [r=["x","xy"] l=["x","y"]]"#, r#"["x","y"]"#),
        (ConversationWrites::Local, r#"succeeded [r=["x","y"] l=[]]"#, r#"["y"]"#),
    ] {
        let mut play = Play::headed(&text, json!({"l": ["x", "y"]}), |head| {
            head.options.iteration_conversation_writes = writes;
            head.conversation_id = Some("c".into());
        });
        play.start();
        assert_eq!(play.last(), last, "{writes:?}");
        assert!(play.kept.conversation["v:l"].contains(kept), "{:?}", play.kept.conversation);
    }
}

/// An iteration during which `w`, a command and an assigner outside write variables.
const OUTER: &str = "conversation c, value_type: string, value: old\n\
    it iteration iterator_selector: [s, l], output_selector: [t, output]\n\
    it/k job\n\
    it/t text template: '{{ c }}|{{ w }}|{{ x }}', variables: [{variable: c, value_selector: [conversation, c]}, {variable: w, value_selector: [w, output]}, {variable: x, value_selector: [s, x]}]\n\
    w job\n\
    v assigner version: '2', items: [{variable_selector: [conversation, c], input_type: variable, operation: over-write, value: [w, output]}]\n\
    e end outputs: [{variable: r, value_selector: [it, output]}]\n\
    s > it > e\ns > w > v\nits > k > t";

#[test]
fn an_item_sees_outer_variables_as_they_were_when_it_opened_and_what_commands_set() {
    for reloads in [false, true] {
        let mut play = Play::sheet(OUTER, json!({"l": [1, 2], "x": "before"}));
        play.restless = reloads;
        play.start().brings("w", &[("output", json!("new"))]).update("s.x", json!("after"));
        assert_eq!(
            [play.value("conversation.c"), play.value("s.x")],
            ["new", "after"],
            "outside, the new values are visible"
        );
        play.done("it#0/k", "").done("it#1/k", "");
        assert_eq!(play.last(), r#"succeeded [r=["old|None|after","new|new|after"]]"#);
        let root = tidemill_base::ids::FramePath::root();
        assert!(play.run.frames.get(&root).unwrap().hidden.is_empty());
    }
}

#[test]
fn items_within_an_item_see_the_same_outer_variables() {
    let text = OUTER
        .replace("it/k job\n", "it/in iteration iterator_selector: [s, l], output_selector: [t, output], is_parallel: true\nin/k job\n")
        .replace("it/t ", "in/t ")
        .replace("output_selector: [t, output]\n", "output_selector: [in, output]\n")
        .replace("its > k > t", "its > in\nins > k > t");
    let mut play = Play::sheet(&text, json!({"l": [1, 2], "x": "before"}));
    play.restless = true;
    play.start()
        .done("it#0/in#0/k", "")
        .brings("w", &[("output", json!("new"))])
        .update("s.x", json!("after"));
    play.done("it#0/in#1/k", "").done("it#1/in#0/k", "").done("it#1/in#1/k", "");
    assert_eq!(
        play.last(),
        r#"succeeded [r=["old|None|before","old|None|after","new|new|after","new|new|after"]]"#
    );
}

#[test]
fn the_output_of_an_item_may_be_an_outer_variable() {
    let text = "it iteration iterator_selector: [s, l], output_selector: [w, output], is_parallel: true, parallel_nums: 1\n\
                it/k job\nw job\ne end outputs: [{variable: r, value_selector: [it, output]}]\ns > it > e\ns > w\nits > k";
    let mut play = Play::sheet(text, json!({"l": [1, 2]}));
    play.restless = true;
    play.start().brings("w", &[("output", json!("new"))]).done("it#0/k", "").done("it#1/k", "");
    assert_eq!(play.last(), r#"succeeded [r=[null,"new"]]"#);
}

/// In the tests below, values with more bytes than this are blobs.
const SMALL: usize = 100;

fn with_blobs(text: &str, inputs: Json) -> Play {
    Play::headed(&sheet(text), inputs, |head| head.options.inline_bytes_max = SMALL)
}

/// An iteration over a list that `a` outputs.
const LISTED: &str = "a job\nit iteration iterator_selector: [a, output], output_selector: [t, output]\n\
    it/t text template: '<{{ x }}>', variables: [{variable: x, value_selector: [it, item]}]\n\
    e end outputs: [{variable: r, value_selector: [it, output]}]\ns > a > it > e\nits > t";

#[test]
fn a_list_in_a_blob_is_iterated_without_loading_it_and_workers_open_its_items() {
    let mut play = with_blobs(LISTED, json!({}));
    play.restless = true;
    let list: Vec<String> = (0..4).map(|n| format!("{n}").repeat(40)).collect();
    play.start().skim().brings("a", &[("output", json!(list))]);
    play.tells_of(&["it"], &["it starts", "it of 4", "it next 0"]);
    for at in 0..4 {
        let order = play.job_of(&format!("it#{at}/t"));
        assert!(matches!(order.inputs[0].2, Stored::Item { at: of, .. } if of == at), "{:?}", order.inputs);
        play.works(&format!("it#{at}/t"));
    }
    // The outputs are small, so no worker has to collect them. The list of them is a blob again.
    assert_eq!(play.waiting(), ["e"]);
    play.works("e");
    let expected: Vec<String> = list.iter().map(|item| format!("<{item}>")).collect();
    assert_eq!(play.value("e.r"), json!(expected));
}

#[test]
fn outputs_in_blobs_are_collected_by_a_worker() {
    let mut play = with_blobs(LISTED, json!({}));
    play.restless = true;
    let list: Vec<String> = (0..3).map(|n| format!("{n}").repeat(SMALL + n)).collect();
    play.start().brings("a", &[("output", json!(list))]).works("it#0/t").works("it#1/t").works("it#2/t");
    let order = play.job_of("it");
    assert_eq!((order.phase, play.waiting()), (Some(Phase::Collect), vec!["it".to_string()]));
    let collected = play.run.containers.values().next().unwrap().collected.len();
    assert_eq!((collected, play.run.frames.len()), (3, 1));
    play.lost("it").works("it").works("e");
    let expected: Vec<String> = list.iter().map(|item| format!("<{item}>")).collect();
    assert_eq!(play.value("e.r"), json!(expected));
    assert!(play.run.containers.is_empty());
}

#[test]
fn outputs_of_many_items_become_blobs_page_by_page() {
    const ITEMS: usize = 60;
    let mut play = with_blobs(LISTED, json!({}));
    let list: Vec<String> = (0..ITEMS).map(|n| format!("{n:040}")).collect();
    play.start().brings("a", &[("output", json!(list))]);
    for at in 0..ITEMS - 1 {
        play.works(&format!("it#{at}/t"));
    }
    // A page has eight times a hundred bytes.
    let container = play.run.containers.values().next().unwrap();
    let pages: Vec<u32> =
        container.collected.values().filter_map(|c| c.page.as_ref().map(|_| c.items())).collect();
    assert_eq!((pages, container.closed()), (vec![19, 19, 19], ITEMS - 1));
    assert!(container.bytes < 2000, "{}", container.bytes);
    play.works(&format!("it#{}/t", ITEMS - 1));
    assert_eq!(play.job_of("it").inputs.len(), 4);
    play.works("it").works("e");
    let expected: Vec<String> = list.iter().map(|item| format!("<{item}>")).collect();
    assert_eq!(play.value("e.r"), json!(expected));
}

#[test]
fn outputs_inside_blobs_are_found_and_failed_items_leave_null() {
    let text = "it iteration iterator_selector: [s, l], output_selector: [a, output, deep, k], error_handle_mode: continue-on-error\n\
                it/a job\ne end outputs: [{variable: r, value_selector: [it, output]}]\ns > it > e\nits > a";
    let mut play = with_blobs(text, json!({"l": [0, 1, 2, 3]}));
    play.restless = true;
    let large = json!({"deep": {"k": [1, 2]}, "rest": "x".repeat(SMALL)});
    play.start().brings("it#0/a", &[("output", large.clone())]);
    play.brings("it#1/a", &[("output", json!({"deep": {"k": [3]}}))]);
    play.failed("it#2/a", "broken").brings("it#3/a", &[("output", json!({"rest": "x".repeat(SMALL)}))]);
    play.works("it");
    assert_eq!(play.last(), "partial 1 [r=[1,2,3]]");
}

#[test]
fn a_list_inside_a_blob_is_opened_by_a_worker() {
    let text = LISTED.replace("[a, output]", "[a, output, list]");
    let mut play = with_blobs(&text, json!({}));
    play.restless = true;
    let large = json!({"list": ["x", "y"], "rest": "r".repeat(SMALL)});
    play.start().skim().brings("a", &[("output", large.clone())]);
    assert_eq!((play.job_of("it").phase, play.node("it").attempt), (Some(Phase::Open), 1));
    play.started("it", 1).works("it").tells_of(
        &["it", "succeeded"],
        &[
            "it starts",
            "it of 2",
            "it next 0",
            "it#0/t starts",
            "it#0/t ok",
            "it next 1",
            "it#1/t starts",
            "it#1/t ok",
            "it through 2 [output=[\"<x>\",\"<y>\"]]",
            "it.output + \"- <x>\\n- <y>\" last",
            "it ok",
            "succeeded [r=[\"<x>\",\"<y>\"]]",
        ],
    );
    // The worker may find that the value is not a list.
    let mut play = with_blobs(&text, json!({}));
    play.start()
        .brings("a", &[("output", json!({"list": "none", "rest": "r".repeat(SMALL)}))])
        .skim()
        .works("it");
    let error = "invalid iterator value: value_type=<SegmentType.STRING: 'string'> value='none', please provide a list.";
    play.tells(&["it starts", &format!("it failed: {error}"), &format!("run failed 1: {error}")]);
}

#[test]
fn a_worker_that_cannot_collect_outputs_fails_the_iteration() {
    let mut play = with_blobs(LISTED, json!({}));
    let list = vec!["x".repeat(SMALL); 2];
    play.start().brings("a", &[("output", json!(list))]).works("it#0/t").works("it#1/t").skim();
    play.failed("it", "blob is gone").tells(&[
        "it broken 2 []",
        "it failed: blob is gone",
        "run failed 1: blob is gone",
    ]);
}

#[test]
fn error_strategies_handle_the_failure_of_a_whole_iteration() {
    for (strategy, edges, last) in [
        ("error_strategy: fail-branch", "s > it\nit:fail-branch > e", r#"partial 2 [r=[0] m="broken"]"#),
        (
            "error_strategy: default-value, default_value: [{key: output, type: 'array[number]', value: '[9]'}]",
            "s > it > e",
            r#"partial 2 [r=[9] m="broken"]"#,
        ),
    ] {
        let text = format!(
            "it iteration iterator_selector: [s, l], output_selector: [a, output], {strategy}\nit/a job\n\
             e end outputs: [{{variable: r, value_selector: [it, output]}}, {{variable: m, value_selector: [it, error_message]}}]\n\
             {edges}\nits > a"
        );
        let mut play = Play::sheet(&text, json!({"l": [1, 2]}));
        play.restless = true;
        play.start().brings("it#0/a", &[("output", json!(0))]).failed("it#1/a", "broken");
        let expected =
            if strategy.contains("fail-branch") { last.replace("[0]", "null") } else { last.to_string() };
        assert_eq!(play.last(), expected);
    }
}

fn usage(tokens: u64, price: &str) -> Usage {
    let record = json!({"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens, "total_price": price, "currency": "EUR"});
    Usage {
        prompt_tokens: 0,
        completion_tokens: tokens,
        total_tokens: tokens,
        total_price: price.into(),
        record: record.as_object().cloned().unwrap(),
        currency: "EUR".into(),
    }
}

#[test]
fn the_cost_of_model_calls_adds_up_over_items_rounds_and_retries() {
    let text = "lp loop loop_count: 2, logical_operator: and, break_conditions: []\n\
                lp/it iteration iterator_selector: [s, l], output_selector: [m, text]\n\
                it/m llm retry_config: {max_retries: 1, retry_interval: 10, retry_enabled: true}\n\
                n llm\ns > lp > n\nlps > it\nits > m";
    let mut play = Play::sheet(text, json!({"l": [1, 2]}));
    play.restless = true;
    play.start();
    let cost = |tokens: u64, price: &str, error: &str| Record {
        outputs: vec![("text".into(), Stored::Inline(Segment::string("t")))],
        usage: Some(Box::new(usage(tokens, price))),
        error: error.into(),
        ..Record::default()
    };
    for round in 0..2 {
        play.brings_record(&format!("lp#{round}/it#0/m"), cost(5, "0.5", "busy"));
        play.after(std::time::Duration::from_secs(1)).fire();
        play.brings_record(&format!("lp#{round}/it#0/m"), cost(7, "0.25", ""));
        play.brings_record(&format!("lp#{round}/it#1/m"), cost(1, "0.001", ""));
    }
    play.brings_record("n", cost(100, "1", ""));
    assert_eq!((play.run.tokens(), play.run.exceptions(), play.run.root_steps()), (126, 2, 3));
    let totals = |kind: &str| {
        let of_kind = play.records.iter().filter(|record| record.kind == kind);
        let cost = of_kind.map(|record| &record.data["metadata"]);
        cost.map(|m| json!([m["total_tokens"], m["total_price"], m["currency"]])).collect::<Vec<_>>()
    };
    assert_eq!(totals("node_run_iteration_succeeded"), vec![json!([13, "0.751", "EUR"]); 2]);
    assert_eq!(totals("node_run_loop_succeeded"), [json!([26, "1.502", "EUR"])]);
    assert_eq!(play.run.status, RunStatus::PartialSucceeded);
}

#[test]
fn failures_within_an_iteration_count_for_the_run_unless_an_option_says_no() {
    let text = sheet(&plain(", error_handle_mode: continue-on-error"));
    for (count, last) in [(true, "partial 1 [r=[null,1]]"), (false, "succeeded [r=[null,1]]")] {
        let mut play =
            Play::headed(&text, json!({"l": [0, 1]}), |head| head.options.iteration_failures_count = count);
        play.restless = true;
        play.start().failed("it#0/a", "broken").brings("it#1/a", &[("output", json!(1))]);
        assert_eq!(play.last(), last);
    }
}

#[test]
fn the_stored_conversation_variable_is_the_one_that_nodes_after_parallel_items_see() {
    let text = sheet(
        "conversation c, value_type: string, value: old\n\
         it iteration iterator_selector: [s, l], output_selector: [k, output], is_parallel: true, parallel_nums: 2\n\
         it/w assigner version: '2', items: [{variable_selector: [conversation, c], input_type: variable, operation: over-write, value: [it, item]}]\n\
         it/k job\n\
         e end outputs: [{variable: c, value_selector: [conversation, c]}]\n\
         s > it > e\nits > w > k",
    );
    let mut play =
        Play::headed(&text, json!({"l": ["a", "b"]}), |head| head.conversation_id = Some("c".into()));
    // The second item closes before the first, so the value of the first counts.
    play.start().done("it#1/k", "").done("it#0/k", "");
    assert_eq!(play.last(), r#"succeeded [c="a"]"#);
    assert_eq!(play.kept.conversation["v:c"], r#""a""#);
}

#[test]
fn more_items_or_rounds_than_are_allowed_fail_their_container() {
    for (text, what) in [
        (plain(""), "3 items"),
        (
            "lp loop loop_count: 3, logical_operator: and, break_conditions: []\nlp/k job\ns > lp\nlps > k"
                .to_string(),
            "3 rounds",
        ),
    ] {
        let mut play = Play::headed(&sheet(&text), json!({"l": [1, 2, 3]}), |head| {
            head.options.container_rounds_max = 2
        });
        play.start();
        let error = play.run.error.as_deref().unwrap_or_default();
        assert!(error.contains(what) && error.contains("container_rounds_max"), "{error}");
    }
}

#[test]
fn windows_of_nested_iterations_do_not_multiply_without_limit() {
    let list: Vec<u32> = (0..200).collect();
    let text = sheet(
        "it iteration iterator_selector: [s, l], output_selector: [in, output], is_parallel: true, parallel_nums: 200\n\
         it/in iteration iterator_selector: [s, l], output_selector: [k, output], is_parallel: true, parallel_nums: 200\n\
         in/k job\n\
         s > it\nits > in\nins > k",
    );
    let mut play = Play::headed(&text, json!({"l": list}), |head| head.options.steps_max = 1_000_000);
    play.start();
    while play.continue_due > 0 {
        play.continues();
    }
    let open = play.run.frames.len();
    assert!((1_000..1_500).contains(&open), "{open} frames are open");
}
