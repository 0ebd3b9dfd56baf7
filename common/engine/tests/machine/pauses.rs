//! Pauses: commands that hold a run, forms that wait for people, and waits for variables.

use std::time::Duration;

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_engine::{Fact, fact};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_pause_takes_queued_jobs_back_waits_for_running_ones_and_holds_retries() {
    let mut play = Play::of(
        "start s\njob a\njob b\nllm m retry=2\njob c\nend e c.output\ns > a > e\ns > b > c > e\ns > m > e",
    );
    play.restless = true;
    play.start().started("b", 1).failed("m", "busy");
    let queued = play.job_of("a").entry;
    play.skim().pause("first").pause("second").tells(&[]);
    assert_eq!((play.taken_back.as_slice(), play.waiting()), ([queued].as_slice(), vec!["b".to_string()]));
    play.done("b", "").tells(&["b ok", r#"paused "first" "second" []"#]);
    assert_eq!(play.node("c").status, NodeStatus::Ready);
    // The retry is due while nothing may begin.
    play.after(SECOND).fire().tells(&[]);
    assert_eq!((play.waiting().len(), play.node("m").status), (0, NodeStatus::Ready));
    play.resume().tells(&["resume"]);
    assert_eq!(play.waiting(), ["a", "m", "c"]);
    assert_eq!(
        (play.job_of("a").attempt, play.job_of("m").attempt),
        (1, 2),
        "a job that was taken back never began"
    );
    play.goes_on(|_, _| false);
    assert_eq!(
        (play.run.status, play.run.exceptions(), play.run.root_steps()),
        (RunStatus::PartialSucceeded, 1, 7)
    );
}

#[test]
fn a_retry_that_is_not_due_continues_after_the_pause() {
    let mut play = Play::of("start s\nllm m retry=1\ns > m");
    play.restless = true;
    play.start().failed("m", "busy").skim().pause("hold").tells(&[r#"paused "hold" []"#]);
    play.resume().tells(&["resume"]).after(SECOND).fire();
    assert_eq!(play.job_of("m").attempt, 2);
}

#[test]
fn a_run_that_is_paused_before_it_begins_waits_with_its_first_node() {
    let mut play = Play::of("start s\nend e\ns > e");
    play.restless = true;
    play.pause("not yet").start().tells(&["begin", r#"paused "not yet" []"#]);
    play.resume().tells(&["resume", "s starts", "s ok", "e starts", "e ok", "succeeded []"]);
}

#[test]
fn a_run_that_was_paused_at_its_end_ends_when_it_continues() {
    let mut play = Play::of("start s\njob a\ns > a");
    play.restless = true;
    play.start().started("a", 1).pause("hold").done("a", "").skim();
    assert_eq!(play.run.status, RunStatus::Paused);
    play.resume().tells(&["resume", "succeeded []"]);
}

#[test]
fn a_resume_of_a_run_that_is_not_paused_changes_nothing() {
    let mut play = Play::of("start s\njob a\ns > a");
    play.start().skim().resume().tells(&[]);
    assert_eq!(play.waiting(), ["a"]);
}

/// After a pause, time and steps of a run are counted from zero, as on Dify.
#[test]
fn limits_count_from_the_end_of_the_pause() {
    let text = sheet("a job\nb job\nc job\ns > a > b > c");
    let mut play =
        Play::headed(&text, json!({}), |head| (head.options.steps_max, head.options.seconds_max) = (2, 10));
    play.restless = true;
    play.start().started("a", 1).pause("hold").done("a", "").after(HOUR).fire();
    assert_eq!(play.run.status, RunStatus::Paused);
    play.resume().done("b", "").done("c", "");
    assert_eq!(play.last(), "succeeded []");
}

/// A form with a field and two buttons.
const FORM: &str = "human-input form_content: 'Hi {{#$output.name#}}', timeout: 1, timeout_unit: hour, \
    inputs: [{type: paragraph, output_variable_name: name, default: {type: constant, value: ''}}], \
    user_actions: [{id: ok, title: Fine, button_style: primary}, {id: 'no', title: Never}]";

fn form() -> String {
    format!(
        "f {FORM}\na job\nb job\nc job\ne end outputs: [{{variable: n, value_selector: [f, name]}}, {{variable: t, value_selector: [f, __rendered_content]}}]\n\
         s > f:ok > a > e\nf:no > b > e\nf:__timeout > c > e"
    )
}

#[test]
fn a_form_waits_for_its_answer_which_chooses_the_edge() {
    let mut play = Play::sheet(&form(), json!({}));
    play.restless = true;
    play.start().tells(&["begin", "s starts", "s ok", "f starts", "f waits", "paused f []"]);
    assert_eq!(play.node("f").status, NodeStatus::Waiting);
    play.answer("f", "no", json!({"name": "Ada", "surplus": 1})).tells(&[
        "resume",
        "f starts",
        "f filled no",
        "skip f>a",
        "skip a>e",
        "skip f>c",
        "skip c>e",
        "f.name + \"Ada\"",
        "e.answer + \"\\n\"",
        "f.__rendered_content + \"Hi Ada\" last",
        "f ok",
    ]);
    assert_eq!(play.waiting(), ["b"]);
    play.done("b", "");
    assert_eq!(play.last(), r#"succeeded [n="Ada" t="Hi Ada"]"#);
    assert!(play.timers.is_empty(), "{:?}", play.timers);
    assert_eq!(play.run.root_steps(), 4, "the form counts once");
}

#[test]
fn only_the_first_answer_counts() {
    let mut play = Play::sheet(&form(), json!({}));
    play.start();
    let pause = play.pause_of("f");
    let answer = |play: &Play, action: &str| play.answer_fact(&pause, action, json!({"name": "A"}));
    let (first, second) = (answer(&play, "ok"), answer(&play, "no"));
    play.feed(vec![first.clone(), second.clone()]);
    assert_eq!(play.waiting(), ["a"]);
    let before = play.run.clone();
    play.skim().feed(vec![second, first]).tells(&[]);
    assert_eq!(play.run, before);
}

#[test]
fn a_form_that_is_not_answered_in_time_ends_by_its_timeout_handle() {
    let mut play = Play::sheet(&form(), json!({}));
    play.restless = true;
    play.start().after(HOUR - SECOND).fire().skim().after(SECOND).fire();
    assert_eq!(play.waiting(), ["c"]);
    play.tells_of(&["f ", "resume"], &["resume", "f starts", "f expired", "f ok"]);
    play.done("c", "");
    assert_eq!(play.last(), r#"succeeded [n=null t="Hi {{#$output.name#}}"]"#);
    assert!(play.timers.is_empty(), "{:?}", play.timers);
}

#[test]
fn the_longest_wait_for_forms_ends_the_run() {
    let mut play = Play::headed(&sheet(&form()), json!({}), |head| head.options.human_input_timeout_s = 60);
    play.restless = true;
    play.start().skim().after(60 * SECOND).fire();
    play.tells(&["Aborted: Human input global timeout at node f []"]);
    assert!(play.timers.is_empty() && play.run.pauses.is_empty());
    // Without this limit, only the form's own time counts.
    let mut play = Play::headed(&sheet(&form()), json!({}), |head| head.options.human_input_timeout_s = 0);
    play.start();
    assert_eq!(play.timers.len(), 1);
}

#[test]
fn forms_in_parallel_branches_are_answered_in_any_order() {
    let text = format!(
        "f1 {FORM}\nf2 {FORM}\nk job\na job\nb job\ne end outputs: [{{variable: x, value_selector: [f1, name]}}, {{variable: y, value_selector: [f2, name]}}]\n\
         s > f1:ok > a > e\ns > f2:ok > b > e\ns > k > e"
    );
    for order in [["f1", "f2"], ["f2", "f1"]] {
        let mut play = Play::sheet(&text, json!({}));
        play.restless = true;
        play.start();
        assert_eq!(play.run.status, RunStatus::Running, "the other branch continues");
        play.done("k", "");
        assert_eq!(play.run.status, RunStatus::Paused);
        play.answer(order[0], "ok", json!({"name": order[0]}));
        assert_eq!((play.waiting().len(), play.run.status), (1, RunStatus::Running));
        let job = play.waiting()[0].clone();
        play.skim().done(&job, "");
        assert!(play.last().starts_with(&format!("paused {}", order[1])), "{}", play.last());
        play.answer(order[1], "ok", json!({"name": order[1]})).goes_on(|_, _| false);
        assert_eq!(play.last(), r#"succeeded [x="f1" y="f2"]"#);
    }
}

#[test]
fn a_form_is_answered_while_other_branches_run() {
    let text = format!("f {FORM}\nk job\na job\ns > f:ok > a\ns > k");
    let mut play = Play::sheet(&text, json!({}));
    play.start().skim().answer("f", "ok", json!({"name": ""}));
    play.tells_of(&["resume", "paused"], &[]);
    assert_eq!(play.waiting(), ["k", "a"]);
}

#[test]
fn each_item_of_an_iteration_has_its_own_form() {
    let text = format!(
        "it iteration iterator_selector: [s, l], output_selector: [f, name], is_parallel: true, parallel_nums: 2\nit/f {FORM}\nit/k job\n\
         e end outputs: [{{variable: r, value_selector: [it, output]}}]\ns > it > e\nits > f:ok > k"
    );
    let mut play = Play::sheet(&text, json!({"l": [1, 2, 3]}));
    play.restless = true;
    play.start();
    assert_eq!(play.last(), "paused it#0/f it#1/f []".replace("it#0/f it#1/f", &paused_order(&play)));
    for at in [1, 2, 0] {
        play.answer(&format!("it#{at}/f"), "ok", json!({"name": format!("n{at}")}));
        play.done(&format!("it#{at}/k"), "");
    }
    assert_eq!(play.last(), r#"succeeded [r=["n0","n1","n2"]]"#);
}

/// Pauses are listed in the order of their ids, which has no meaning.
fn paused_order(play: &Play) -> String {
    let places = play
        .run
        .pauses
        .values()
        .map(|pause| super::describe::place(&play.run.graph, &pause.frame, pause.node));
    places.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_form_in_a_loop_waits_in_every_round() {
    let text = format!(
        "lp loop loop_count: 2, logical_operator: and, break_conditions: []\nlp/f {FORM}\ns > lp\nlps > f"
    );
    let mut play = Play::sheet(&text, json!({}));
    play.restless = true;
    play.start();
    let first = play.pause_of("lp#0/f").id;
    play.answer("lp#0/f", "ok", json!({"name": "one"}));
    assert_ne!(first, play.pause_of("lp#1/f").id, "it is another form");
    play.answer("lp#1/f", "ok", json!({"name": "two"}));
    assert_eq!(play.last(), "succeeded []");
}

#[test]
fn a_stop_of_a_run_that_waits_cancels_its_forms_and_clears_their_timers() {
    let mut play = Play::sheet(&form(), json!({}));
    play.start().skim().stop("enough").tells(&["Aborted: enough []"]);
    assert!(play.run.pauses.is_empty() && play.timers.is_empty());
    assert!(play.kept_text().contains("cancelled"));
    assert_eq!(play.node("f").status, NodeStatus::Stopped);
}

#[test]
fn a_form_that_is_answered_during_a_pause_command_continues_with_the_resume() {
    let mut play = Play::sheet(&form(), json!({}));
    play.restless = true;
    play.start().skim().pause("hold").tells(&[r#"paused "hold" f []"#]);
    play.answer("f", "ok", json!({"name": "Ada"}));
    assert_eq!((play.run.status, play.waiting().len()), (RunStatus::Paused, 0));
    play.skim().resume().tells(&["resume"]);
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn a_run_that_waits_for_a_form_still_waits_after_a_resume() {
    let mut play = Play::sheet(&form(), json!({}));
    play.restless = true;
    play.start().pause("hold").skim().resume().tells(&["resume", "paused f []"]);
    let [timer] = &play.timers.keys().collect::<Vec<_>>()[..] else { panic!("{:?}", play.timers) };
    assert!(timer.contains(" form "), "the form's own time is over before the longest one: {timer}");
}

#[test]
pub(super) fn a_form_answered_in_redis_with_a_wrong_action_fails_its_node() {
    let mut play = Play::sheet(&form(), json!({}));
    play.start().skim().answer("f", "maybe", json!({"name": ""}));
    assert!(play.last().starts_with("run failed 1"), "{}", play.last());
}

/// A wait for a variable that a command writes.
const SIMPLE: &str =
    "p human-input required_variables: [k.v], pause_reason: needs v\na job\nb job\ns > p > a\np:other > b";

#[test]
fn a_wait_for_a_variable_ends_when_it_exists_and_the_run_is_resumed() {
    let mut play = Play::sheet(SIMPLE, json!({}));
    play.restless = true;
    play.start().tells_of(&["p"], &["p starts", "p waits", "paused p []"]);
    play.resume().tells(&[]);
    play.update("k.v", json!(1)).tells(&["set k.v"]);
    assert_eq!(play.run.status, RunStatus::Paused, "the command alone does not continue the run");
    play.resume().tells(&["resume", "p starts", "skip p>b", "p ok"]);
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn a_wait_for_a_variable_is_answered_with_a_handle_as_well() {
    let mut play = Play::sheet(SIMPLE, json!({}));
    play.restless = true;
    play.start().answer("p", "other", json!({}));
    assert_eq!(play.waiting(), ["b"]);
}

#[test]
fn a_variable_names_the_handle_of_a_wait() {
    let mut play = Play::sheet(SIMPLE, json!({}));
    play.start().update("k.v", json!(null)).update("p.branch", json!("other")).resume();
    assert_eq!(play.waiting(), ["b"]);
}

#[test]
fn nothing_follows_when_the_first_of_two_waits_ends_the_run() {
    let text = sheet(
        "p human-input required_variables: [k.v]\nq human-input required_variables: [k.v]\na job\ns > p > a\ns > q > a",
    );
    let mut play = Play::headed(&text, json!({}), |head| {
        head.commands = vec![super::breakpoints::stop_after("p"), super::breakpoints::stop_after("q")]
    });
    play.start().update("k.v", json!(1)).skim().resume();
    assert!(play.last().starts_with("Aborted: enough"), "no event follows the end: {:?}", play.words());
    assert!(matches!(play.run.status, RunStatus::Stopped));
}

#[test]
fn late_commands_change_nothing() {
    let mut play = Play::of("start s\ns > s2\njob s2");
    play.start().done("s2", "");
    let before = play.run.clone();
    play.skim().pause("late").resume().stop("late");
    play.feed(vec![Fact::TimerFired(fact::Timer::PauseLimit { pause: "x".into() })]).tells(&[]);
    assert_eq!(play.run, before);
}

#[test]
fn an_answer_during_a_pause_command_does_not_check_the_time_limit() {
    let mut play = Play::sheet(&form(), json!({}));
    play.restless = true;
    play.start().pause("hold").after(HOUR / 2).answer("f", "ok", json!({"name": "Ada"}));
    assert_eq!(play.run.status, RunStatus::Paused, "the run does not end during the pause command");
    play.resume();
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn a_form_with_too_long_a_text_fails_its_node() {
    let mut play = Play::headed(&sheet(&form()), json!({}), |head| head.options.template_chars_max = 10);
    play.start();
    assert_eq!(play.run.status, RunStatus::Failed);
    assert!(
        play.run.error.as_deref().is_some_and(|e| e.contains("template_chars_max")),
        "{:?}",
        play.run.error
    );
}
