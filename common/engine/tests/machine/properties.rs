//! Random graphs, with facts in random order, repeated, late and from older holders. In every case the stored run
//! equals the state in memory (checked by [`Play::feed`] after every commit), and the run ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::draw::{build, data, edge, option};
use super::play::Play;
use tidemill_base::ids::{EntryId, ExecutionId, FramePath};
use tidemill_engine::fact::JobLost;
use tidemill_engine::order::changes::JobOrder;
use tidemill_engine::order::events::EventKind;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::{Fact, RunStatus};
use tidemill_workflow::graph::{Graph, NodeIx};

/// A random choice: a kind, an index and a variation.
type Choice = (u8, u8, u8);

fn id(n: usize) -> String {
    // Authors choose ids freely, so ids that have a meaning for the engine must do no harm.
    match n % 5 {
        1 => format!("n{n}/%2F.x"),
        3 => format!("n{n} ä"),
        _ => format!("n{n}"),
    }
}

/// A graph in which edges lead from earlier nodes to later ones.
fn graph(nodes: &[Choice], edges: &[Choice]) -> Arc<Graph> {
    let mut listed = vec![json!({"id": "s", "data": data("start", "")})];
    let mut kinds = vec!["start"];
    for (n, (kind, options, of)) in nodes.iter().enumerate() {
        let kind = ["job", "llm", "llm", "text", "if", "answer", "end", "job"][usize::from(kind % 8)];
        let earlier = usize::from(*of) % (n + 1);
        let rest = match kind {
            "if" => "s.x".to_string(),
            "answer" => format!("A{{{{#{}.text#}}}}B{{{{#{}.output#}}}}", id(earlier), id(n / 2)),
            "end" => format!("{}.text s.x", id(earlier)),
            _ => "t".to_string(),
        };
        let mut data = data(kind, &rest);
        if kind == "end" {
            data["outputs"][0]["value_selector"] = json!([id(earlier), "text"]);
        }
        if kind == "llm" || kind == "job" {
            option(&mut data, ["", "fail-branch", "default", "retry=1"][usize::from(options % 4)]);
        }
        kinds.push(kind);
        listed.push(json!({"id": id(n), "data": data}));
    }
    let name = |at: usize| if at == 0 { "s".to_string() } else { id(at - 1) };
    let mut joined: Vec<Json> = Vec::new();
    let mut join = |from: usize, to: usize, handle: u8| {
        let handles: &[&str] = match kinds[from] {
            "if" => &["true", "false", "nowhere"],
            "llm" | "job" => &["source", "source", "fail-branch"],
            _ => &["source"],
        };
        joined.push(edge(&name(from), handles[usize::from(handle) % handles.len()], &name(to)));
    };
    for (at, (_, handle, from)) in nodes.iter().enumerate() {
        join(usize::from(*from) % (at + 1), at + 1, *handle);
    }
    for (to, handle, from) in edges {
        let to = usize::from(*to) % nodes.len() + 1;
        join(usize::from(*from) % to, to, *handle);
    }
    build(&listed, &joined)
}

/// The number of deliveries of each entry. The store accepts only results of the last one.
type Deliveries = HashMap<EntryId, u32>;

/// Makes the facts of a choice; none when the choice does not apply.
fn happen(play: &mut Play, past: &[Fact], handed: &mut Deliveries, (what, which, how): Choice) -> Vec<Fact> {
    let pick = |len: usize| usize::from(which) % len;
    let job: Option<JobOrder> =
        (!play.jobs.is_empty()).then(|| play.jobs.values().nth(pick(play.jobs.len())).cloned()).flatten();
    let delivery = job.as_ref().map_or(1, |job| *handed.entry(job.entry).or_insert(1));
    let text = ["", "a", "héllo", "a longer text"][usize::from(how / 3) % 4];
    match (what % 16, job) {
        (0..=3, Some(job)) => {
            play.jobs.remove(&job.entry);
            let streamed = [text.len() as u64];
            vec![play.done_fact(&job, delivery, text, &streamed[..usize::from(how % 2)])]
        }
        (4, Some(job)) => {
            play.jobs.remove(&job.entry);
            vec![play.failed_fact(&job, delivery, "broken")]
        }
        (5..=8, Some(job)) => {
            // Chunks may also come from earlier holders.
            let of = u32::from(how) % delivery + 1;
            vec![play.chunk_fact(&job, of, u64::from(how % 7), text)]
        }
        (9, Some(job)) => {
            play.jobs.remove(&job.entry);
            vec![Fact::JobLost(JobLost { frame: job.frame, node: job.node, entry: job.entry })]
        }
        (10 | 11, _) if !past.is_empty() => vec![past[pick(past.len())].clone()],
        (12, _) => {
            play.now = play.now.plus(Duration::from_millis(700));
            play.due().into_iter().map(Fact::TimerFired).collect()
        }
        (13, _) => {
            play.reload();
            Vec::new()
        }
        (14, _) => vec![Fact::Continue],
        (15, Some(job)) => {
            handed.insert(job.entry, delivery + 1);
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// The facts for lost jobs, as the owner of the shard finds them.
fn lost_jobs(play: &Play) -> Vec<Fact> {
    let frame = FramePath::root();
    let nodes = play.run.frames.get(&frame).unwrap().nodes.iter().enumerate();
    let lost =
        nodes.filter_map(|(at, node)| Some((at, node.job.filter(|entry| !play.jobs.contains_key(entry))?)));
    lost.map(|(at, entry)| Fact::JobLost(JobLost { frame: frame.clone(), node: NodeIx(at as u32), entry }))
        .collect()
}

/// Ends all open jobs and fires timers until the run has ended.
fn bring_to_an_end(play: &mut Play) {
    for _ in 0..500 {
        if play.run.status.is_over() {
            return;
        }
        let job = play.jobs.pop_first().map(|(_, job)| job);
        let facts = match job {
            // The job may have had several deliveries already.
            Some(job) => vec![play.done_fact(&job, 9, "end", &[3])],
            None => {
                // Without jobs, the run waits for a retry, or has lost a job.
                play.now = play.now.plus(Duration::from_secs(1));
                let timers = play.due().into_iter().map(Fact::TimerFired);
                timers.chain(lost_jobs(play)).collect()
            }
        };
        play.feed(facts);
    }
    panic!("the run does not end: {:?} {:?}", play.run.status, play.jobs);
}

fn check_events(play: &Play) {
    let mut starts: HashMap<ExecutionId, u32> = HashMap::new();
    let mut ends: HashMap<ExecutionId, u32> = HashMap::new();
    for (at, event) in play.events.iter().enumerate() {
        assert_eq!(event.seq, at as u64 + 1, "events are numbered without a gap");
        match &event.kind {
            EventKind::NodeRunStarted { about, .. } => *starts.entry(about.execution).or_default() += 1,
            EventKind::NodeRunSucceeded(end)
            | EventKind::NodeRunFailed(end)
            | EventKind::NodeRunException(end) => {
                assert!(starts.contains_key(&end.about.execution), "a node ends after it started");
                *ends.entry(end.about.execution).or_default() += 1;
            }
            EventKind::GraphRunSucceeded { .. }
            | EventKind::GraphRunPartialSucceeded { .. }
            | EventKind::GraphRunFailed { .. }
            | EventKind::GraphRunAborted { .. } => {
                assert_eq!(at + 1, play.events.len(), "no event follows the end");
            }
            EventKind::GraphRunStarted { .. }
            | EventKind::GraphEdgeSkipped(_)
            | EventKind::NodeRunStreamChunk { .. }
            | EventKind::NodeRunStreamReplaced { .. }
            | EventKind::GraphRunPaused { .. }
            | EventKind::GraphRunVariablesUpdated { .. }
            | EventKind::RunWarning(_)
            | EventKind::NodeRunPauseRequested { .. }
            | EventKind::NodeRunHumanInputFormFilled { .. }
            | EventKind::NodeRunHumanInputFormTimeout { .. }
            | EventKind::NodeRunVariableUpdated { .. }
            | EventKind::NodeRunBodyStarted { .. }
            | EventKind::NodeRunBodyNext { .. }
            | EventKind::NodeRunBodyEnded { .. }
            | EventKind::NodeStep { .. }
            | EventKind::NodeRunRetry { .. } => {}
        }
    }
    assert!(starts.values().chain(ends.values()).all(|count| *count == 1), "each node starts and ends once");
}

proptest! {
    #[test]
    fn a_run_with_random_facts_is_durable_and_ends(
        nodes in vec(any::<Choice>(), 1..12),
        edges in vec(any::<Choice>(), 0..8),
        choices in vec((any::<Choice>(), 0u8..3), 0..40),
        yes in any::<bool>(),
        stop_at in proptest::option::weighted(0.1, 0usize..40),
    ) {
        let inputs = [("x", if yes { "yes" } else { "no" })];
        let mut play = Play::with(graph(&nodes, &edges), &inputs, RunOptions::default());
        let (mut past, mut handed) = (Vec::new(), Deliveries::new());
        let mut batch = vec![play.start_fact()];
        for (at, (choice, more)) in choices.into_iter().enumerate() {
            let facts = happen(&mut play, &past, &mut handed, choice);
            past.extend(facts.iter().cloned());
            batch.extend(facts);
            if stop_at == Some(at) {
                batch.push(Fact::Stop(tidemill_engine::fact::Stop { reason: "enough".into() }));
            }
            // Several facts are one commit. Their effects cannot happen before it.
            if more > 0 {
                play.feed(std::mem::take(&mut batch));
            }
        }
        play.feed(batch);
        bring_to_an_end(&mut play);
        check_events(&play);
        prop_assert!(play.timers.is_empty(), "timers are left: {:?}", play.timers);
        prop_assert!(play.jobs.is_empty(), "jobs are left: {:?}", play.jobs);
        prop_assert_ne!(play.run.status, RunStatus::Scheduled);
    }
}
