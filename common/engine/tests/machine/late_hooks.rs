//! Hooks after the end of a node whose job no worker holds: the node gets one more job for its hooks, and its end
//! counts when they have run.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::failure::EngineErrorType;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::order::events::EventKind;
use tidemill_engine::state::options::choices::Choices;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_engine::step_limits;
use tidemill_wire::job::EndedBefore;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::evaluate;
use tidemill_workflow::nodes::hooks::HOOK_ERROR;

const HOOKS: &str = "hooks: [{hook_type: after_execute, event_name: over}]";
const HOUR: Duration = Duration::from_secs(3600);

fn flow(node: &str) -> String {
    format!("q {node}, {HOOKS}\na job\ns > q > a")
}

fn input(rest: &str) -> String {
    flow(&format!("user-interaction interaction_type: ask_for_input{rest}"))
}

/// The run after the worker has reported the question of the node.
fn asked(sheet: &str) -> Play {
    let mut play = Play::sheet(sheet, json!({}));
    play.restless = true;
    play.start();
    asks(&mut play);
    play
}

fn asks(play: &mut Play) {
    let node: NodeIx = play.run.graph.find("q").unwrap();
    let limits = step_limits(&play.run.head.options);
    let result = evaluate(play.run.graph.node(node), &play.run.pool(&FramePath::root()), &limits).unwrap();
    let record = Record { pause: result.pause, ..Record::default() };
    let fact = play.fact(&play.job_of("q"), 1, &play.ended(record, Vec::new()));
    play.finish("q", fact);
}

/// The end of the node that a worker reads in its job.
fn end_in_job(play: &Play) -> EndedBefore {
    let sent = &play.sent[&play.job_of("q").entry];
    sent.ended.clone().expect("the job is only for the hooks")
}

fn output(ended: &EndedBefore, name: &str) -> Json {
    match ended.outputs.iter().find(|(known, _)| known == name) {
        Some((_, Stored::Inline(segment))) => segment.value.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// The job of the hooks fails: a hook could not be evaluated, or could not run.
fn hooks_fail(play: &mut Play, error_type: &str) {
    let record = Record { error: "why".into(), error_type: error_type.into(), ..Record::default() };
    let fact = play.fact(&play.job_of("q"), 1, &play.ended(record, Vec::new()));
    play.finish("q", fact);
}

/// The note in the node's record about hooks that did not run.
fn note(play: &Play) -> Option<Json> {
    play.events.iter().find_map(|event| match &event.kind {
        EventKind::NodeRunSucceeded(end) => {
            let note = end.record.process_data.iter().find(|(name, _)| name == "hooks_not_told");
            note.map(|(_, value)| match value {
                Stored::Inline(segment) => segment.value.clone(),
                other => panic!("{other:?}"),
            })
        }
        _ => None,
    })
}

/// The worker has run the hooks.
fn hooks_run(play: &mut Play) {
    let fact = play.fact(&play.job_of("q"), 1, &play.ended(Record::default(), Vec::new()));
    play.finish("q", fact);
}

#[test]
fn cx_18_an_answer_counts_when_the_hooks_after_it_have_run() {
    let mut play = asked(&input(""));
    assert_eq!(play.run.status, RunStatus::Paused);
    play.skim().say("q", json!("red"));
    play.tells(&["resume", "q user_interaction_responded", "q user_interaction_processed"]);
    assert_eq!((play.waiting(), play.node("q").attempt), (vec!["q".to_string()], 1));
    assert_eq!(play.value("q.input"), Json::Null, "later nodes do not see the end before the hooks have run");
    let ended = end_in_job(&play);
    assert_eq!((ended.failed, &*ended.error, output(&ended, "input")), (false, "", json!("red")));
    hooks_run(&mut play);
    play.tells(&["q ok"]);
    assert_eq!((play.waiting(), play.value("q.input")), (vec!["a".to_string()], json!("red")));
    assert!(play.node("q").ended.is_none() && play.run.steps() == 2, "{}", play.run.steps());
}

#[test]
fn cx_26_hooks_run_after_a_form_its_expiry_and_a_wait_for_variables() {
    let form = flow(
        "human-input form_content: 'Hi', timeout: 1, timeout_unit: hour, \
         user_actions: [{id: ok, title: OK}]",
    ) + "\nb job\nq:__timeout > b";
    let mut play = asked(&form);
    play.skim().answer("q", "ok", json!({}));
    assert_eq!(play.words().last().map(String::as_str), Some("q filled ok"), "{:?}", play.words());
    assert_eq!(output(&end_in_job(&play), "__action_id"), json!("ok"));
    hooks_run(&mut play);
    assert_eq!(play.node("q").status, NodeStatus::Succeeded);

    let mut play = asked(&form);
    play.after(HOUR).fire();
    assert!(!end_in_job(&play).failed);
    hooks_run(&mut play);
    assert_eq!(play.waiting(), ["b"]);

    let mut play = asked(&flow("human-input required_variables: [k.v]"));
    play.update("k.v", json!(1)).resume();
    assert!(!end_in_job(&play).failed);
    hooks_run(&mut play);
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn hooks_run_after_a_failure_too_and_do_not_replace_it() {
    let timed = input(", timeout: 200, on_timeout: fail");
    let mut play = asked(&timed);
    play.after(HOUR).fire();
    let ended = end_in_job(&play);
    assert_eq!((ended.failed, &*ended.error), (true, "User interaction timeout after 200ms"));
    play.failed("q", "a hook failed");
    assert_eq!(play.run.error.as_deref(), Some("User interaction timeout after 200ms"));

    let mut play = asked(&input(""));
    play.say("q", json!(1));
    hooks_fail(&mut play, HOOK_ERROR);
    assert_eq!((play.run.status, play.run.error.as_deref()), (RunStatus::Failed, Some("why")));
    assert_eq!(play.value("q.input"), Json::Null);
}

#[test]
pub(super) fn an_answer_counts_also_when_its_hooks_cannot_run() {
    for class in [EngineErrorType::WorkerLost, EngineErrorType::BlobMissing, EngineErrorType::Engine] {
        let mut play = asked(&input(""));
        play.say("q", json!("red"));
        hooks_fail(&mut play, class.name());
        assert_eq!((play.waiting(), play.value("q.input")), (vec!["a".to_string()], json!("red")));
        assert_eq!(note(&play), Some(json!("why")));
    }
    let mut play = asked(&input(""));
    play.say("q", json!("red")).after(Duration::from_secs(29)).fire();
    assert_eq!(play.waiting(), ["q"]);
    play.after(Duration::from_secs(1)).fire();
    assert_eq!((play.waiting(), play.timers.len()), (vec!["a".to_string()], 1), "{:?}", play.timers);
    let note = note(&play).unwrap_or_default();
    assert!(note.as_str().is_some_and(|note| note.contains("within 30000 ms")), "{note}");
    assert!(play.kept_text().contains(r#""v": "2""#), "an older process does not continue the run");
}

#[test]
fn hooks_after_an_answer_get_only_the_variables_that_they_mention() {
    let hooks = "hooks: [{hook_type: before_execute, event_name: b, event_payload: '{{#s.before#}}'}, \
                 {hook_type: after_execute, event_name: a, event_payload: '{{#s.after#}}'}]";
    let text = format!(
        "environment key, value_type: secret, value: '123456789'\n\
         q user-interaction interaction_type: ask_for_input, show_message: '{{{{#s.asked#}}}} {{{{#env.key#}}}}', {hooks}\na job\ns > q > a"
    );
    let mut play = Play::sheet(&text, json!({"before": 1, "after": 2, "asked": 3}));
    play.start();
    let names = |play: &Play| {
        let names = play.job_of("q").inputs.into_iter().map(|(_, name, _)| name);
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&play), ["after", "asked", "before", "key"]);
    asks(&mut play);
    play.say("q", json!("red"));
    assert_eq!(names(&play), ["after", "key"]);
}

#[test]
pub(super) fn hooks_run_without_interaction_and_with_a_preset_answer() {
    let mut play = Play::headed(&sheet(&input("")), json!({}), |head| {
        head.options.choices = Some(Box::new(Choices { interactive: false, ..Choices::default() }));
    });
    play.start();
    asks(&mut play);
    assert!(end_in_job(&play).failed);
    hooks_run(&mut play);
    assert_eq!(play.run.status, RunStatus::Failed);

    let mut play = asked(&input(", user_input: '7'"));
    assert_eq!(output(&end_in_job(&play), "input"), json!("7"));
    hooks_run(&mut play);
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn an_end_that_waits_for_its_hooks_survives_pauses_lost_jobs_and_time_limits() {
    let text = input(", tidemill: {execution_timeout_ms: 1000, queue_timeout_ms: 5000}");
    let mut play = asked(&text);
    // The time limit of the attempt that asked does not apply to the job of the hooks.
    play.after(Duration::from_secs(2)).say("q", json!("red")).after(Duration::from_secs(2)).fire();
    play.pause("later");
    assert_eq!((play.run.status, play.node("q").status), (RunStatus::Paused, NodeStatus::Ready));
    play.resume();
    assert_eq!((output(&end_in_job(&play), "input"), play.node("q").attempt), (json!("red"), 1));
    play.lost("q");
    assert_eq!(output(&end_in_job(&play), "input"), json!("red"));
    play.after(Duration::from_secs(6)).fire();
    assert_eq!((play.waiting(), play.value("q.input")), (vec!["a".to_string()], json!("red")));

    let mut play = asked(&input(""));
    play.say("q", json!(1)).stop("enough");
    assert!(play.node("q").ended.is_none() && play.run.status == RunStatus::Stopped);
}

#[test]
fn a_large_answer_is_a_blob_in_the_job_of_its_hooks() {
    let mut play = asked(&input(""));
    let large = "x".repeat(play.run.head.options.inline_bytes_max + 1);
    play.say("q", json!(large));
    let ended = end_in_job(&play);
    let blob = ended.outputs.iter().find_map(|(name, value)| match value {
        Stored::Blob(blob) if name == "input" => Some(blob.clone()),
        _ => None,
    });
    assert!(play.blobs.contains_key(&blob.expect("the answer is a blob").id));
    hooks_run(&mut play);
    assert_eq!(Segment::infer(play.value("q.input")), Segment::string(large));
}

#[test]
fn hooks_run_on_another_worker_when_one_is_lost_or_hangs() {
    let job = "template-transform template: x, variables: [], tidemill: {execution_timeout_ms: 1000}";
    let lost = Record {
        error: "gone".into(),
        error_type: EngineErrorType::WorkerLost.name().into(),
        ..Record::default()
    };
    let mut play = Play::sheet(&flow(job), json!({}));
    play.restless = true;
    play.start();
    let fact = play.fact(&play.job_of("q"), 3, &play.ended(lost.clone(), Vec::new()));
    play.finish("q", fact);
    assert_eq!(end_in_job(&play).error, "gone");
    // The worker of the hooks is lost as well. Then the node ends without them.
    let fact = play.fact(&play.job_of("q"), 3, &play.ended(lost, Vec::new()));
    play.finish("q", fact);
    assert_eq!((play.run.status, play.run.error.as_deref()), (RunStatus::Failed, Some("gone")));

    let mut play = Play::sheet(&flow(job), json!({}));
    play.restless = true;
    play.start().started("q", 1).after(Duration::from_secs(3)).fire();
    assert!(end_in_job(&play).error.contains("longer than 1000 ms"));
    hooks_run(&mut play);
    assert_eq!((play.run.status, play.waiting()), (RunStatus::Failed, Vec::new()));
}
