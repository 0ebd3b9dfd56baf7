//! Workflows with containers, forms and waits, under random facts: results, failures, lost jobs, repeated and late
//! facts, pauses, answers, commands and take-overs. In every case the stored run equals the state in memory and the
//! invariants hold (checked by [`Play::feed`] after every commit), and the run ends with no job and no timer left.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::play::Play;
use super::tc_ser::{CASES, play};
use tidemill_base::ids::ExecutionId;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::fact::{JobLost, Stop};
use tidemill_engine::order::changes::JobOrder;
use tidemill_engine::order::events::EventKind;
use tidemill_engine::state::options::breakpoint::{Breakpoint, BreakpointCommand};
use tidemill_engine::state::options::compat::{ConversationWrites, NestedAnswers};
use tidemill_engine::state::run::RunHead;
use tidemill_engine::{Fact, RunStatus};
use tidemill_wire::fact::parse;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::NodeKind;

/// A random choice: a kind, an index and a variation.
type Choice = (u8, u8, u8);

fn command(play: &Play, kind: &str, body: &serde_json::Value) -> Fact {
    parse(kind, &body.to_string(), &play.run.graph).unwrap()
}

fn update(play: &Play, node: &str, name: &str) -> Fact {
    let value = json!({"$tm": "value", "type": "string", "value": "set"});
    command(play, "update", &json!({"updates": [{"selector": [node, name], "value": value}]}))
}

/// Makes the facts of a choice; none when the choice does not apply.
fn happen(play: &mut Play, past: &[Fact], (what, which, how): Choice) -> Vec<Fact> {
    let pick = |len: usize| usize::from(which) % len;
    let job: Option<JobOrder> =
        (!play.jobs.is_empty()).then(|| play.jobs.values().nth(pick(play.jobs.len())).cloned()).flatten();
    match (what % 24, job) {
        (0..=7, Some(job)) => {
            play.jobs.remove(&job.entry);
            vec![play.work(&job, |_, _| false)]
        }
        (8, Some(job)) => {
            play.jobs.remove(&job.entry);
            vec![play.failed_fact(&job, 1, "broken")]
        }
        (9, Some(job)) if job.streams => {
            vec![play.chunk_fact(&job, 1 + u32::from(how % 2), u64::from(how % 5), "text")]
        }
        (10, Some(job)) => {
            play.jobs.remove(&job.entry);
            vec![Fact::JobLost(JobLost { frame: job.frame, node: job.node, entry: job.entry })]
        }
        (11, Some(job)) => {
            let at = play.now;
            vec![play.fact(
                &job,
                1 + u32::from(how % 2),
                &tidemill_wire::fact::report::Report::Started { at },
            )]
        }
        (12, _) if !past.is_empty() => vec![past[pick(past.len())].clone()],
        (13 | 20..=23, _) => {
            play.now = play.now.plus(Duration::from_secs(if how > 240 { 3_000 } else { 1 }));
            play.due().into_iter().map(Fact::TimerFired).collect()
        }
        (14, _) => vec![Fact::Continue],
        (15, _) if how % 2 == 0 => vec![command(play, "pause", &json!({"reason": "hold"}))],
        (15 | 16, _) => vec![command(play, "resume", &json!({}))],
        (17, _) if !play.run.pauses.is_empty() => {
            let pause = play.run.pauses.values().nth(pick(play.run.pauses.len())).unwrap();
            let action = ["ok", "ok", "no", "unknown"][usize::from(how % 4)];
            vec![play.answer_fact(pause, action, json!({"name": "Ada"}))]
        }
        (18, _) => {
            let of = [("k", "v"), ("conversation", "l2"), ("s", "x"), ("lp", "n")][usize::from(how % 4)];
            vec![update(play, of.0, of.1)]
        }
        (19, _) => {
            play.reload();
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// The facts for lost jobs, as the owner of the shard finds them.
fn lost_jobs(play: &Play) -> Vec<Fact> {
    let mut lost = Vec::new();
    for (frame, open) in &play.run.frames {
        for (at, node) in open.nodes.iter().enumerate() {
            if let Some(entry) = node.job.filter(|entry| !play.jobs.contains_key(entry)) {
                let node = NodeIx(u32::try_from(at).unwrap());
                lost.push(Fact::JobLost(JobLost { frame: frame.clone(), node, entry }));
            }
        }
    }
    lost
}

fn next_of(play: &mut Play) -> Vec<Fact> {
    if play.run.status == RunStatus::Paused {
        let form = play.run.pauses.values().find(|pause| !pause.request.content.is_empty());
        return match form {
            _ if !play.run.control.pausing.is_empty() => vec![command(play, "resume", &json!({}))],
            Some(pause) => vec![play.answer_fact(pause, "ok", json!({"name": "Ada"}))],
            None => vec![update(play, "k", "v"), command(play, "resume", &json!({}))],
        };
    }
    if let Some((_, job)) = play.jobs.pop_first() {
        return vec![play.work(&job, |_, _| false)];
    }
    play.now = play.now.plus(Duration::from_secs(1));
    let mut facts: Vec<Fact> = play.due().into_iter().map(Fact::TimerFired).collect();
    facts.extend(lost_jobs(play));
    facts.push(Fact::Continue);
    facts
}

fn bring_to_an_end(play: &mut Play) {
    for _ in 0..1_000 {
        if play.run.status.is_over() {
            return;
        }
        let facts = next_of(play);
        play.feed(facts);
    }
    panic!("the run has no end: {:?} {:?}", play.run.status, play.jobs);
}

fn check_events(play: &Play) {
    let mut ends: HashMap<ExecutionId, u32> = HashMap::new();
    let mut starts: HashMap<ExecutionId, u32> = HashMap::new();
    for (at, event) in play.events.iter().enumerate() {
        assert_eq!(event.seq, at as u64 + 1, "events are numbered without a gap");
        if let EventKind::NodeRunStarted { about, .. } = &event.kind {
            let times = starts.entry(about.execution).or_default();
            *times += 1;
            // A node that waited emits its start once more.
            let most = if play.run.graph.node(about.node).kind == NodeKind::HumanInput { 2 } else { 1 };
            assert!(*times <= most, "{:?}", play.words());
        }
        if let EventKind::NodeRunSucceeded(end)
        | EventKind::NodeRunFailed(end)
        | EventKind::NodeRunException(end) = &event.kind
        {
            let times = ends.entry(end.about.execution).or_default();
            *times += 1;
            assert!(*times == 1 && starts.contains_key(&end.about.execution), "{:?}", play.words());
        }
    }
    let last = play.records.last().unwrap();
    assert!(last.is_terminal());
    assert_eq!(play.records.iter().filter(|record| record.is_terminal()).count(), 1);
}

/// Sets breakpoints and options by a random choice.
fn request(head: &mut RunHead, (first, second, options): Choice) {
    for choice in [first, second] {
        let after = ["a", "it", "w", "lp", "k", "z", "f", "t"][usize::from(choice % 8)];
        let command = match choice / 8 {
            0 => BreakpointCommand::Stop { reason: "enough".into() },
            1..=5 => BreakpointCommand::Pause { reason: "hold".into() },
            6..=8 => BreakpointCommand::Update {
                updates: vec![("k".into(), "v".into(), Stored::Inline(Segment::none()))],
            },
            _ => continue,
        };
        head.commands.push(Breakpoint { after: after.into(), command });
    }
    let is = |bit: u8| options & (1 << bit) != 0;
    head.options.iteration_failures_count = is(0);
    head.options.loop_next_after_last = is(1);
    head.options.iteration_conversation_writes =
        if is(2) { ConversationWrites::Parent } else { ConversationWrites::Local };
    head.options.nested_answer_stream = if is(3) { NestedAnswers::Whole } else { NestedAnswers::Segments };
    head.options.human_input_timeout_s = if is(4) && is(5) { 600 } else { 0 };
    head.options.steps_max = if is(6) && is(7) { 20 } else { 500 };
    head.options.inline_bytes_max = if is(4) { 100 } else { 20 };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn a_run_with_containers_forms_and_waits_ends_after_random_facts(
        case in 0..CASES.len(),
        said in any::<Choice>(),
        choices in vec((any::<Choice>(), 0u8..3), 0..90),
        stop_at in proptest::option::weighted(0.1, 0usize..90),
    ) {
        let mut play = play(&CASES[case], |head| request(head, said));
        let mut past = Vec::new();
        let mut batch = vec![play.start_fact()];
        for (at, (choice, more)) in choices.into_iter().enumerate() {
            let facts = happen(&mut play, &past, choice);
            past.extend(facts.iter().cloned());
            batch.extend(facts);
            if stop_at == Some(at) {
                batch.push(Fact::Stop(Stop { reason: "enough".into() }));
            }
            // Several facts are one commit.
            if more > 0 {
                play.feed(std::mem::take(&mut batch));
            }
        }
        play.feed(batch);
        bring_to_an_end(&mut play);
        check_events(&play);
        prop_assert!(play.timers.is_empty(), "{}: timers are left: {:?}", CASES[case].name, play.timers);
        prop_assert!(play.jobs.is_empty(), "{}: jobs are left: {:?}", CASES[case].name, play.jobs);
        prop_assert!(play.run.pauses.is_empty());
    }
}
