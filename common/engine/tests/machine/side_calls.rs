//! Sub-workflow runs beside which their job continues: they are ordered while it runs, wake nothing, and are stopped when the
//! worker that has ordered them no longer has the job.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::calls::{dropped, ends, ordered};
use super::draw::draw;
use super::play::Play;
use tidemill_base::ids::RunId;
use tidemill_base::limits::SIDE_CALLS_MAX;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::Fact;
use tidemill_engine::fact::Call;
use tidemill_engine::order::changes::JobOrder;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_wire::fact::parse;
use tidemill_wire::fact::report::Report;

const SECOND: Duration = Duration::from_secs(1);
const RETRIED: &str = "start s\nllm m retry=1\nend e m.text\ns > m > e";

/// A run whose node `m` has a job. It is loaded again after every commit.
fn play() -> Play {
    let mut play = Play::submitted(draw(RETRIED), Vec::new(), |head| head.call_depth = 1);
    play.restless = true;
    play.start().skim();
    play
}

/// The run that a call of the job has.
fn called(play: &Play, order: &JobOrder, call: &str) -> RunId {
    play.run.id.called_by(&order.execution, call, 1)
}

/// The fact that this delivery of a job orders a run.
fn calls(play: &Play, order: &JobOrder, delivery: u32, call: &str) -> Fact {
    let given = Some(Stored::Inline(Segment::infer(json!({"inputs": {"q": 1}, "files": []}))));
    let call = Box::new(Call { run: called(play, order, call), app: "greeter".into(), given });
    play.fact(order, delivery, &Report::Called { started_at: play.now, is_childs: false, call })
}

/// Orders a run by the first delivery of the node's job.
fn call(play: &mut Play) -> RunId {
    let order = play.job_of("m");
    let fact = calls(play, &order, 1, "ask/1");
    play.feed(vec![fact]);
    let run = called(play, &order, "ask/1");
    assert_eq!((play.node("m").status, &play.node("m").side_calls), (NodeStatus::Running, &vec![run]));
    run
}

#[test]
fn a_job_orders_a_run_continues_and_is_not_woken_by_its_end() {
    let mut play = play();
    let run = call(&mut play);
    play.tells(&["m starts", "m workflow_called"]);
    let order: Json = serde_json::from_str(&play.calls[0].ordered[0].1).unwrap();
    let given = json!({"inputs": {"q": 1}, "files": []});
    assert_eq!(order, json!({"app": "greeter", "node": "m", "depth": 2, "user": "u", "given": given}));
    assert_eq!((ordered(&play), play.waiting()), (vec![run], vec!["m".to_string()]));
    ends(&mut play, run);
    play.tells(&[]);
    assert!(play.node("m").side_calls.is_empty());
    assert_eq!(play.waiting(), ["m"], "its job is the same");
    play.done("m", "yes");
    assert_eq!((play.run.status, dropped(&play)), (RunStatus::Succeeded, vec![]));
}

#[test]
fn a_run_is_stopped_with_the_delivery_that_has_ordered_it() {
    type Ends = fn(&mut Play);
    let parks: Ends = |play| {
        let report = Report::Parked {
            started_at: play.now,
            at: play.now,
            wait_ms: 1_000,
            reason: "the model rests".into(),
            is_childs: false,
            call: None,
            pause: None,
        };
        let fact = play.fact(&play.job_of("m"), 1, &report);
        play.finish("m", fact);
    };
    let all: [(&str, Ends); 7] = [
        ("it succeeds", |play| _ = play.done("m", "yes")),
        ("it fails, and another attempt follows", |play| _ = play.failed("m", "busy")),
        ("the run is stopped", |play| _ = play.stop("enough")),
        ("its job is lost", |play| _ = play.lost("m")),
        ("another worker has the job", |play| _ = play.started("m", 2)),
        ("another worker has the job, and ends it at once", |play| {
            let fact = play.done_fact(&play.job_of("m"), 2, "yes", &[]);
            play.finish("m", fact);
        }),
        ("its job is parked", parks),
    ];
    for (how, ends) in all {
        let mut play = play();
        let run = call(&mut play);
        ends(&mut play);
        assert_eq!(dropped(&play), [run], "{how}");
        assert!(play.node("m").side_calls.is_empty(), "{how}");
        let commits = play.calls.len();
        super::calls::ends(&mut play, run);
        assert_eq!(play.calls.len(), commits, "{how}: its end comes too late");
    }
}

#[test]
fn a_run_that_has_ended_is_not_stopped() {
    let mut play = play();
    let run = call(&mut play);
    ends(&mut play, run);
    play.failed("m", "busy").after(SECOND).fire();
    assert_eq!(dropped(&play), []);
}

#[test]
fn an_order_of_an_earlier_attempt_or_delivery_is_ignored() {
    let mut play = play();
    let first = play.job_of("m");
    let late = calls(&play, &first, 1, "ask/1");
    play.started("m", 2).skim();
    play.feed(vec![late.clone()]).tells(&[]);
    let failed = play.failed_fact(&first, 2, "busy");
    play.finish("m", failed).after(SECOND).fire().skim();
    play.feed(vec![late]).tells(&[]);
    let second = play.job_of("m");
    let fact = calls(&play, &second, 1, "ask/2");
    play.feed(vec![fact]);
    assert_eq!(ordered(&play), [called(&play, &second, "ask/2")]);
}

#[test]
fn a_repeated_order_makes_no_second_run() {
    let mut play = play();
    let run = call(&mut play);
    let again = calls(&play, &play.job_of("m"), 1, "ask/1");
    play.skim().feed(vec![again]).tells(&[]);
    assert_eq!((ordered(&play), &play.node("m").side_calls), (vec![run], &vec![run]));
}

#[test]
fn one_run_too_many_stops_the_oldest() {
    let mut play = play();
    let order = play.job_of("m");
    let all: Vec<String> = (0..=SIDE_CALLS_MAX).map(|number| format!("ask/{number}")).collect();
    for call in &all {
        let fact = calls(&play, &order, 1, call);
        play.feed(vec![fact]);
    }
    let oldest = called(&play, &order, &all[0]);
    assert_eq!((dropped(&play), play.node("m").side_calls.len()), (vec![oldest], SIDE_CALLS_MAX));
    assert!(!play.node("m").side_calls.contains(&oldest));
}

#[test]
fn a_run_that_is_ordered_and_dropped_in_one_commit_is_never_created() {
    let mut play = play();
    let order = play.job_of("m");
    let facts = vec![calls(&play, &order, 1, "ask/1"), parse("stop", "{}", &play.run.graph).unwrap()];
    play.jobs.clear();
    play.feed(facts);
    assert_eq!((ordered(&play), dropped(&play)), (vec![], vec![]));
}
