//! Breakpoints, and commands that set variables.

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::state::options::breakpoint::{Breakpoint, BreakpointCommand};
use tidemill_engine::state::run::RunStatus;

fn after(node: &str, command: BreakpointCommand) -> Breakpoint {
    Breakpoint { after: node.into(), command }
}

pub(super) fn stop_after(node: &str) -> Breakpoint {
    after(node, BreakpointCommand::Stop { reason: "enough".into() })
}

fn pause_after(node: &str) -> Breakpoint {
    after(node, BreakpointCommand::Pause { reason: format!("after {node}").as_str().into() })
}

fn update_after(node: &str, of: &str, name: &str, value: &str) -> Breakpoint {
    let value = Stored::Inline(Segment::string(value));
    after(node, BreakpointCommand::Update { updates: vec![(of.into(), name.into(), value)] })
}

fn play(text: &str, commands: Vec<Breakpoint>) -> Play {
    let mut play =
        Play::headed(&sheet(text), json!({"l": [1, 2, 3], "x": "old"}), |head| head.commands = commands);
    play.restless = true;
    play
}

const LINE: &str = "a job\nt text template: '{{ x }}', variables: [{variable: x, value_selector: [s, x]}]\nb job\n\
    e end outputs: [{variable: r, value_selector: [t, output]}]\ns > a > t > b > e";

#[test]
fn a_run_stops_right_after_the_node_of_its_breakpoint() {
    let mut play = play(LINE, vec![stop_after("a")]);
    play.start().skim().done("a", "").tells(&["a starts", "a ok", "Aborted: enough []"]);
}

#[test]
fn a_run_pauses_right_after_the_node_of_its_breakpoint_and_only_once() {
    let mut play = play(LINE, vec![pause_after("a"), pause_after("t")]);
    play.start().skim().done("a", "").tells(&["a starts", "a ok", r#"paused "after a" []"#]);
    play.resume().tells(&[
        "resume",
        "t starts",
        r#"t.output + "old" last"#,
        "t ok",
        r#"paused "after t" []"#,
    ]);
    play.resume().tells(&["resume"]);
    play.done("b", "");
    assert_eq!(play.last(), r#"succeeded [r="old"]"#);
}

#[test]
fn variables_are_set_before_the_next_node_sees_them() {
    let mut play = play(LINE, vec![update_after("a", "s", "x", "new")]);
    play.start()
        .skim()
        .done("a", "")
        .tells_of(&["set", "t"], &["a starts", "set s.x", "t starts", r#"t.output + "new" last"#, "t ok"]);
    play.done("b", "");
    assert_eq!(play.last(), r#"succeeded [r="new"]"#);
}

#[test]
fn several_commands_after_one_node_take_effect_in_order() {
    let mut play = play(LINE, vec![update_after("a", "s", "x", "new"), pause_after("a"), stop_after("a")]);
    play.start().skim().done("a", "").tells(&["a starts", "a ok", "set s.x", "Aborted: enough []"]);
    assert_eq!(play.run.status, RunStatus::Stopped);
}

#[test]
fn a_pause_after_a_node_takes_back_the_queued_jobs_of_its_siblings() {
    let mut play = play("a job\nb job\nc job\ns > a > c\ns > b", vec![pause_after("a")]);
    play.start().done("a", "");
    assert_eq!((play.run.status, play.waiting().len()), (RunStatus::Paused, 0));
    play.resume();
    assert_eq!(play.waiting(), ["b", "c"]);
}

#[test]
fn a_handled_failure_and_the_end_of_a_container_fire_a_breakpoint_and_a_retry_does_not() {
    let mut play = play(
        "it iteration iterator_selector: [s, l], output_selector: [t, output]\nit/t text template: x, variables: []\n\
         m llm retry_config: {max_retries: 1, retry_interval: 0, retry_enabled: true}, error_strategy: fail-branch\nk job\n\
         s > it > m\nm:fail-branch > k\nits > t",
        vec![pause_after("it"), pause_after("m")],
    );
    play.start();
    assert!(play.last().starts_with(r#"paused "after it""#), "{}", play.last());
    play.resume().failed("m", "first").fire();
    assert_eq!(play.waiting(), ["m"]);
    play.failed("m", "second");
    assert!(play.last().starts_with(r#"paused "after m""#), "{}", play.last());
    play.resume();
    assert_eq!(play.waiting(), ["k"]);
}

#[test]
fn the_first_end_of_a_node_in_a_container_fires_its_breakpoint() {
    let mut play = play(
        "it iteration iterator_selector: [s, l], output_selector: [a, output]\nit/a job\ns > it\nits > a",
        vec![pause_after("a")],
    );
    play.start().done("it#0/a", "");
    assert_eq!(play.run.status, RunStatus::Paused);
    play.resume().done("it#1/a", "").done("it#2/a", "");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn the_text_of_an_answer_with_a_breakpoint_is_still_sent() {
    let mut play = play("z answer answer: hello\na job\ns > z > a", vec![pause_after("z")]);
    play.start().tells(&[
        "begin",
        r#"z.answer + "hello" last"#,
        "s starts",
        "s ok",
        "z starts",
        "z ok",
        r#"paused "after z" [answer="hello"]"#,
    ]);
}

#[test]
fn variables_that_a_client_sets_are_those_of_the_root_frame() {
    let mut play = play(LINE, Vec::new());
    play.start()
        .skim()
        .update("s.x", json!("new"))
        .update("fresh.y", json!([1]))
        .tells(&["set s.x", "set fresh.y"]);
    assert_eq!(play.value("fresh.y"), json!([1]));
    play.done("a", "").done("b", "");
    assert_eq!(play.last(), r#"succeeded [r="new"]"#);
}
