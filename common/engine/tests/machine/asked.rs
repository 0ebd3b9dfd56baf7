//! Questions that a job asks in a journal entry: the job is parked, and queued again when the pause has ended.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::draw::draw;
use super::play::Play;
use super::sheet::sheet;
use tidemill_engine::fact::JobQuestion;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::options::choices::Choices;
use tidemill_engine::state::pause::id_in_job;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_wire::fact::parse;
use tidemill_wire::fact::report::Report;
use tidemill_workflow::nodes::pause::{CALLED_OFF, input::approval_schema};
use tidemill_workflow::nodes::{PauseKind, PauseRequest};

const ONE: &str = "start s\nllm m\nend e m.text\ns > m > e";
const TWO: &str = "start s\nllm m\nllm n\nend e m.text\ns > m > e\ns > n > e";
const SECOND: Duration = Duration::from_secs(1);

fn request() -> PauseRequest {
    PauseRequest::asking(PauseKind::ToolApproval, "Call it?", approval_schema())
}

/// Parks the node's job with a question. Returns the id of the pause.
fn asks(play: &mut Play, node: &str, request: PauseRequest) -> String {
    let order = play.job_of(node);
    let pause = id_in_job(&order.execution, "tool:1");
    let asked = Box::new(JobQuestion { pause: pause.clone(), step: "tool:1".into(), request });
    let reason = "an answer".to_string();
    let report = Report::Parked {
        started_at: play.now,
        at: play.now,
        wait_ms: 0,
        reason,
        is_childs: false,
        call: None,
        pause: Some(asked),
    };
    let fact = play.fact(&order, 1, &report);
    play.finish(node, fact);
    pause.to_string()
}

fn says(play: &mut Play, pause: &str, said: Json) {
    let mut body = said;
    body["pause"] = pause.into();
    let fact = parse("answer", &body.to_string(), &play.run.graph).unwrap();
    play.feed(vec![fact]);
}

#[test]
pub(super) fn an_answer_brings_the_job_back_as_the_same_attempt() {
    let mut play = Play::of(ONE);
    play.restless = true;
    play.start().skim();
    let first = play.job_of("m");
    let pause = asks(&mut play, "m", request());
    play.tells(&["m starts", "m waits", "paused m []"]);
    assert_eq!((play.node("m").status, play.run.status), (NodeStatus::Waiting, RunStatus::Paused));
    assert!(play.waiting().is_empty() && play.timers.is_empty(), "{:?}", play.timers);
    says(&mut play, "no such", json!({"input": true}));
    assert!(play.waiting().is_empty(), "an answer to another pause");
    says(&mut play, &pause, json!({"input": {"approved": true}}));
    let second = play.job_of("m");
    assert_eq!((second.execution, second.attempt), (first.execution, 1));
    assert!(second.delivered > first.delivered, "reports of the earlier holder do not count");
    says(&mut play, &pause, json!({"input": {"approved": true}}));
    assert_eq!(play.waiting().len(), 1, "a repeated answer changes nothing");
    play.tells(&["resume"]);
    play.done("m", "yes");
    assert_eq!(play.run.status, RunStatus::Succeeded);
    assert_eq!(play.run.steps(), 3, "it began once");
}

#[test]
fn a_job_whose_question_is_open_asks_again_in_an_imported_run() {
    let mut exported = Play::of(ONE);
    exported.start().skim();
    asks(&mut exported, "m", request());
    let mut other = exported.elsewhere();
    assert_eq!((other.run.status, other.waiting()), (RunStatus::Running, vec!["m".to_string()]));
    let pause = asks(&mut other, "m", request());
    says(&mut other, &pause, json!({"input": {"approved": true}}));
    other.done("m", "yes");
    assert_eq!(other.run.status, RunStatus::Succeeded);
}

#[test]
fn a_question_holds_only_its_own_branch_back() {
    let mut play = Play::of(TWO);
    play.start().skim();
    let pause = asks(&mut play, "m", request());
    assert_eq!((play.run.status, play.waiting()), (RunStatus::Running, vec!["n".to_string()]));
    let other = asks(&mut play, "n", request());
    assert_ne!(pause, other);
    assert_eq!(play.run.status, RunStatus::Paused);
    says(&mut play, &other, json!({"input": null}));
    assert_eq!(play.waiting(), ["n"]);
    play.done("n", "yes");
    assert_eq!(play.run.status, RunStatus::Paused, "the first is still open");
    says(&mut play, &pause, json!({"input": null}));
    play.done("m", "yes");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn an_expiry_and_a_cancel_bring_the_job_back_too() {
    let mut play = Play::of(ONE);
    play.start().skim();
    asks(&mut play, "m", PauseRequest { timeout_ms: Some(500), ..request() });
    assert_eq!(play.timers.len(), 1);
    play.after(SECOND).fire();
    assert_eq!(play.waiting(), ["m"]);
    assert!(play.kept_text().contains("expired"), "the worker reads the outcome");
    play.done("m", "yes");
    assert_eq!(play.run.status, RunStatus::Succeeded);

    let mut play = Play::of(ONE);
    play.start();
    let pause = asks(&mut play, "m", request());
    says(&mut play, &pause, json!({"cancel": true}));
    assert!(play.kept_text().contains("cancelled"));
    assert_eq!(play.waiting(), ["m"]);
}

#[test]
fn xc_10_a_stop_cancels_the_questions_of_jobs() {
    let mut play = Play::of(ONE);
    play.start();
    let pause = asks(&mut play, "m", PauseRequest { timeout_ms: Some(500), ..request() });
    play.stop("enough");
    assert_eq!((play.run.status, play.node("m").status), (RunStatus::Stopped, NodeStatus::Stopped));
    assert!(play.timers.is_empty() && play.waiting().is_empty() && play.kept_text().contains("cancelled"));
    says(&mut play, &pause, json!({"input": true}));
    assert!(play.waiting().is_empty());
}

#[test]
fn a_pause_command_between_answer_and_job_loses_neither() {
    let mut play = Play::of(ONE);
    play.start();
    let pause = asks(&mut play, "m", request());
    play.pause("hold");
    says(&mut play, &pause, json!({"input": true}));
    assert!(play.waiting().is_empty());
    play.resume();
    assert_eq!((play.waiting(), play.job_of("m").attempt), (vec!["m".to_string()], 1));
    play.pause("hold again").resume();
    assert_eq!(play.job_of("m").attempt, 1);
    play.done("m", "yes");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn a_run_that_is_not_interactive_asks_no_questions() {
    let choices = Some(Box::new(Choices { interactive: false, ..Choices::default() }));
    let options = RunOptions { choices, ..RunOptions::default() };
    let mut play = Play::with(draw(ONE), &[], options);
    play.start();
    asks(&mut play, "m", request());
    assert_eq!(play.run.status, RunStatus::Failed);
    let error = play.run.error.clone().unwrap();
    assert!(error.contains("tool_approval") && error.contains("interactive: false"), "{error}");
    let choices = || Some(Box::new(Choices { interactive: false, ..Choices::default() }));
    let form = "p human-input required_variables: [k.v]\na job\ns > p > a";
    let mut play = Play::headed(&sheet(form), json!({}), |head| head.options.choices = choices());
    play.start();
    assert_eq!(play.run.status, RunStatus::Failed, "forms cannot be asked either");
}

#[test]
pub(super) fn the_size_of_a_question_is_limited() {
    let options = RunOptions { template_chars_max: 100, ..RunOptions::default() };
    let mut play = Play::with(draw(ONE), &[], options);
    play.start();
    let mut large = request();
    large.details.insert("arguments".into(), "x".repeat(200).into());
    asks(&mut play, "m", large);
    let error = play.run.error.clone().unwrap();
    assert!(error.contains("run.template_chars_max"), "{error}");
}

#[test]
fn a_refused_step_stops_the_run_unless_it_has_an_edge_for_refusals() {
    let off = |play: &mut Play| {
        let order = play.job_of("m");
        let record =
            Record { error: "the user said no".into(), error_type: CALLED_OFF.into(), ..Record::default() };
        let fact = play.fact(&order, 1, &play.ended(record, Vec::new()));
        play.finish("m", fact);
    };
    let mut play = Play::of(ONE);
    play.start();
    off(&mut play);
    assert_eq!((play.run.status, play.node("m").status), (RunStatus::Stopped, NodeStatus::Stopped));
    assert_eq!(play.run.error.as_deref(), Some("Aborted: the user said no"));
    let branches = "m llm require_confirm: true\na job\nb job\ns > m > a\nm:rejected > b";
    let mut play = Play::sheet(branches, json!({}));
    play.start();
    off(&mut play);
    assert_eq!((play.waiting(), play.node("a").status), (vec!["b".to_string()], NodeStatus::Skipped));
    let mut play = Play::sheet(branches, json!({}));
    play.start().done("m", "hi");
    assert_eq!((play.waiting(), play.node("b").status), (vec!["a".to_string()], NodeStatus::Skipped));
}

#[test]
fn the_edge_for_refusals_is_not_taken_without_a_refusal() {
    for form in ["api url: 'http://x.test/y'", "slot schema: {type: object}", "llm profile_id: p, prompt: hi"]
    {
        let flow = format!("m {form}\na job\nb job\ns > m > a\nm:rejected > b");
        let mut play = Play::sheet(&flow, json!({}));
        play.start().done("m", "hi");
        assert_eq!(
            (play.waiting(), play.node("b").status),
            (vec!["a".to_string()], NodeStatus::Skipped),
            "{form}"
        );
    }
    // A node of Dify that cannot ask for approval has no such handle, so all its edges are taken.
    let mut play = Play::sheet("m llm\na job\nb job\ns > m > a\nm:rejected > b", json!({}));
    play.start().done("m", "hi");
    assert_eq!(play.waiting().len(), 2);
}

#[test]
fn xc_03_an_end_that_is_reported_twice_counts_once() {
    let mut play = Play::of("start s\njob a\njob b\nend e b.output\ns > a > b > e");
    play.start();
    let order = play.job_of("a");
    let fact = || play.done_fact(&order, 1, "once", &[]);
    let (first, second) = (fact(), fact());
    play.finish("a", first).skim();
    let (kept, jobs) = (play.kept_text(), play.waiting());
    play.feed(vec![second]);
    play.tells(&[]);
    assert_eq!((play.kept_text(), play.waiting()), (kept, jobs));
    play.done("b", "end");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn xc_02_reports_of_a_worker_that_lost_its_job_change_nothing() {
    let mut play = Play::of(ONE);
    play.start().started("m", 2).skim();
    let order = play.job_of("m");
    let late = play.done_fact(&order, 1, "late", &[]);
    let step = play.fact(&order, 1, &Report::Step { started_at: play.now, events: vec![], charge: None });
    let kept = play.kept_text();
    play.feed(vec![late, step]);
    play.tells(&[]);
    assert_eq!((play.kept_text(), play.node("m").status), (kept, NodeStatus::Running));
}
