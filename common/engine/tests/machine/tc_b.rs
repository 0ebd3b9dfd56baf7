//! TC-B: bounds. (TC-B-003, the depth of sub-workflow calls, is checked where runs are submitted.)

use std::fmt::Write;

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::value::Stored;
use tidemill_engine::state::run::RunStatus;

#[test]
fn tc_b_001_a_single_node_is_a_workflow() {
    let mut play = Play::of("start s");
    play.start().tells(&["begin", "s starts", "s ok", "succeeded []"]);
}

#[test]
fn tc_b_002_a_graph_of_more_than_a_hundred_nodes_runs() {
    for (kind, wide) in [("job", false), ("job", true), ("text", false), ("text", true)] {
        let mut drawing = "start s\nend e n149.output\n".to_string();
        for n in 0..150 {
            let before = if wide || n == 0 { "s".to_string() } else { format!("n{}", n - 1) };
            let after = if wide || n == 149 { " > e" } else { "" };
            write!(drawing, "{kind} n{n} \"x\"\n{before} > n{n}{after}\n").unwrap();
        }
        let mut play = Play::of(&drawing);
        play.start().goes_on(|_, _| false);
        assert_eq!(play.last(), "succeeded [n149.output=\"x\"]", "{kind} {wide}");
        assert_eq!(play.run.root_steps(), 152);
    }
}

#[test]
fn tc_b_004_null_and_empty_values_pass_unchanged() {
    for value in [json!(null), json!(""), json!([]), json!({}), json!(0), json!(false)] {
        let mut play = Play::sheet(
            "a job\ne end outputs: [{variable: in, value_selector: [s, v]}, {variable: out, value_selector: [a, output]}]\ns > a > e",
            json!({"v": value}),
        );
        play.start().reload().brings("a", &[("output", value.clone())]);
        assert_eq!(play.last(), format!("succeeded [in={value} out={value}]"));
    }
}

/// Large values are blobs, and are read completely.
#[test]
fn tc_b_005_values_of_more_than_a_megabyte_pass_unchanged() {
    let large = format!("{}é{}", "x".repeat(700_000), "y".repeat(700_000));
    let text = "a job\nt text template: '{{ x }}', variables: [{variable: x, value_selector: [a, output]}]\n\
                e end outputs: [{variable: r, value_selector: [t, output]}]\ns > a > t > e";
    let mut play = Play::headed(&sheet(text), json!({}), |head| head.options.template_chars_max = usize::MAX);
    play.start().brings("a", &[("output", json!(large))]);
    assert_eq!(play.waiting(), ["t"], "a large text is rendered by a worker");
    play.reload().works("t").works("e");
    let root = tidemill_base::ids::FramePath::root();
    let stored = play.run.pool(&root).stored("e", "r").unwrap().into_owned();
    assert!(matches!(stored, Stored::Blob(_)), "{stored:?}");
    assert!(play.value("e.r") == json!(large), "it is the same text");
    assert!(!play.kept_text().contains("xxxxxxxx"), "the state does not hold it");
}

#[test]
fn tc_b_006_several_stop_commands_have_the_effect_of_one() {
    let mut play = Play::of("start s\njob a\ns > a");
    play.start().skim().stop("first").stop("second").stop("first");
    play.tells(&["Aborted: first []"]);
    assert_eq!((play.run.status, play.run.error.as_deref()), (RunStatus::Stopped, Some("Aborted: first")));
    // Also in one batch.
    let mut play = Play::of("start s\njob a\ns > a");
    let stop =
        |reason: &str| tidemill_engine::Fact::Stop(tidemill_engine::fact::Stop { reason: reason.into() });
    play.start().skim().feed(vec![stop("first"), stop("second")]).tells(&["Aborted: first []"]);
}
