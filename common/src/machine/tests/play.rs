//! A run under test, with everything around it: jobs that wait, timers, the clock, and the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::durable::{Kept, differences};
use super::{draw, tell};
use crate::clock::Timestamp;
use crate::graph::{Graph, NodeIx};
use crate::ids::{Delivery, EntryId, FramePath, RunId, ShardId};
use crate::machine::changes::{Changes, Event, JobOrder, Record};
use crate::machine::fact::{JobLost, Timer};
use crate::machine::run::{NodeState, RunHead, RunOptions};
use crate::machine::{Fact, Moment, RunState, invariants, step};
use crate::value::{Segment, Stored};
use crate::wire::commit::{RunWrite, TimerRead, timer_from_member};
use crate::wire::fact::{JobName, Report, parse, start_body, stop_body};

pub(super) struct Play {
    pub(super) run: RunState,
    pub(super) kept: Kept,
    /// Jobs in the queues or with workers, by entry.
    pub(super) jobs: BTreeMap<EntryId, JobOrder>,
    /// Entries that were taken back.
    pub(super) taken_back: Vec<EntryId>,
    /// Members of the timers set.
    pub(super) timers: BTreeMap<String, Timestamp>,
    /// `continue` facts that are due.
    pub(super) go_on: usize,
    /// All that was told.
    pub(super) events: Vec<Event>,
    pub(super) now: Timestamp,
    start: Fact,
    commit: u64,
    read: usize,
}

impl Play {
    /// A submitted run of a drawing.
    pub(super) fn of(drawing: &str) -> Self {
        Self::with(draw::draw(drawing), &[], RunOptions::default())
    }

    /// A submitted run of a drawing whose start node was given `x`.
    pub(super) fn given(x: &str, drawing: &str) -> Self {
        Self::with(draw::draw(drawing), &[("x", x)], RunOptions::default())
    }

    pub(super) fn with(graph: Arc<Graph>, inputs: &[(&str, &str)], options: RunOptions) -> Self {
        let now = Timestamp::from_millis(1_754_339_718_000);
        let text = |text: &str| Stored::Inline(Segment::string(text));
        let head = RunHead {
            graph: graph.hash.clone(),
            app: None,
            user: "u".into(),
            inputs: inputs.iter().map(|(name, value)| ((*name).to_string(), text(value))).collect(),
            sys: vec![("user_id".into(), text("u"))],
            conversation: Vec::new(),
            conversation_id: None,
            commands: Vec::new(),
            options,
            created_at: now,
        };
        let fact = parse("start", &start_body(&head), &graph).unwrap();
        let run = RunState::new(RunId::new(1, 2, ShardId(3)), graph, head);
        Self {
            kept: Kept::submitted(&run.head, &run),
            run,
            jobs: BTreeMap::new(),
            taken_back: Vec::new(),
            timers: BTreeMap::new(),
            go_on: 0,
            events: Vec::new(),
            now,
            start: fact,
            commit: 1_000,
            read: 0,
        }
    }

    // ---- what happens

    /// Feeds facts as one commit, writes it, and holds the store's copy against the state.
    pub(super) fn feed(&mut self, facts: Vec<Fact>) -> &mut Self {
        self.commit += 1;
        let mut all = Changes::default();
        for fact in facts {
            let at = Moment { now: self.now, commit: self.commit, jobs: all.jobs.len() as u64 };
            all.append(step(&mut self.run, fact, at));
        }
        assert_eq!(invariants::broken(&self.run), Vec::<&str>::new());
        self.events.extend(all.entries.iter().flatten().cloned());
        let orders = all.jobs.clone();
        let write = RunWrite::new(&self.run, all);
        self.follow(&write, orders);
        self.kept.write(&write);
        let differ = differences(&self.run, &self.kept.load(&self.run));
        assert!(differ.is_empty(), "what was written is not what is in memory:\n{}", differ.join("\n"));
        self
    }

    fn follow(&mut self, write: &RunWrite, orders: Vec<JobOrder>) {
        for job in &write.taken_back {
            self.jobs.remove(&job.entry);
            self.taken_back.push(job.entry);
        }
        let written = |order: &JobOrder| write.jobs.iter().any(|job| job.entry == order.entry);
        self.jobs.extend(orders.into_iter().filter(written).map(|order| (order.entry, order)));
        self.timers.retain(|member, _| !write.timers_cleared.contains(member));
        self.timers.extend(write.timers_set.iter().map(|(due, member)| (member.clone(), *due)));
        self.go_on += usize::from(write.go_on);
    }

    /// The scheduler dies, another loads the run.
    pub(super) fn reload(&mut self) -> &mut Self {
        self.run = self.kept.load(&self.run);
        self
    }

    pub(super) fn start(&mut self) -> &mut Self {
        let fact = self.start_fact();
        self.feed(vec![fact])
    }

    /// The node's job succeeds with the output `output` (of a model: `text`).
    pub(super) fn done(&mut self, node: &str, text: &str) -> &mut Self {
        let fact = self.done_fact(&self.job_of(node), 1, text, &[]);
        self.finish(node, fact)
    }

    /// The node's job succeeds with one output of this name and value.
    pub(super) fn done_with(&mut self, node: &str, name: &str, value: serde_json::Value) -> &mut Self {
        let outputs = vec![(name.to_string(), Stored::Inline(Segment::infer(value)))];
        let report = self.ended(Record { outputs, ..Record::default() }, Vec::new());
        let fact = self.fact(&self.job_of(node), 1, &report);
        self.finish(node, fact)
    }

    pub(super) fn failed(&mut self, node: &str, error: &str) -> &mut Self {
        let fact = self.failed_fact(&self.job_of(node), 1, error);
        self.finish(node, fact)
    }

    /// The result of a job is accepted: the job is gone.
    pub(super) fn finish(&mut self, node: &str, fact: Fact) -> &mut Self {
        let entry = self.job_of(node).entry;
        self.jobs.remove(&entry);
        self.feed(vec![fact])
    }

    pub(super) fn chunk(&mut self, node: &str, delivery: u32, offset: u64, text: &str) -> &mut Self {
        let fact = self.chunk_fact(&self.job_of(node), delivery, offset, text);
        self.feed(vec![fact])
    }

    pub(super) fn started(&mut self, node: &str, delivery: u32) -> &mut Self {
        let fact = self.fact(&self.job_of(node), delivery, &Report::Started { at: self.now });
        self.feed(vec![fact])
    }

    /// The job's entry is gone, and the owner finds out.
    pub(super) fn lost(&mut self, node: &str) -> &mut Self {
        let order = self.job_of(node);
        self.jobs.remove(&order.entry);
        self.feed(vec![Fact::JobLost(JobLost { frame: order.frame, node: order.node, entry: order.entry })])
    }

    pub(super) fn stop(&mut self, reason: &str) -> &mut Self {
        let fact = parse("stop", &stop_body(reason), &self.run.graph).unwrap();
        self.feed(vec![fact])
    }

    pub(super) fn after(&mut self, time: Duration) -> &mut Self {
        self.now = self.now.plus(time);
        self
    }

    /// Fires all timers that are due.
    pub(super) fn fire(&mut self) -> &mut Self {
        for timer in self.due() {
            self.feed(vec![Fact::TimerFired(timer)]);
        }
        self
    }

    pub(super) fn due(&self) -> Vec<Timer> {
        let due = self.timers.iter().filter(|(_, due)| **due <= self.now);
        due.map(|(member, _)| match timer_from_member(&self.run, member) {
            TimerRead::Timer(timer) => timer,
            other @ (TimerRead::Stale | TimerRead::Unknown) => panic!("{member}: {other:?}"),
        })
        .collect()
    }

    /// The `continue` fact comes round.
    pub(super) fn continues(&mut self) -> &mut Self {
        self.go_on -= 1;
        self.feed(vec![Fact::Continue])
    }

    // ---- facts

    pub(super) fn start_fact(&self) -> Fact {
        self.start.clone()
    }

    /// A fact as it comes out of the inbox: written and read.
    fn fact(&self, order: &JobOrder, delivery: u32, report: &Report) -> Fact {
        let holder = Delivery { consumer: format!("w{delivery}").into(), number: order.delivered + delivery };
        let node = self.run.graph.node(order.node).id.clone();
        let (attempt, entry) = (order.attempt, order.entry);
        let name = JobName { frame: order.frame.clone(), node, attempt, entry, holder };
        parse(report.kind(), &report.to_json(&name), &self.run.graph).unwrap()
    }

    pub(super) fn chunk_fact(&self, order: &JobOrder, delivery: u32, offset: u64, text: &str) -> Fact {
        let node = self.run.graph.node(order.node).id.to_string();
        let selector = vec![node, "text".to_string()];
        let report = Report::Chunk { started_at: self.now, selector, offset, text: text.to_string() };
        self.fact(order, delivery, &report)
    }

    /// `streamed` are the bytes of the text `text` that this holder has streamed.
    pub(super) fn done_fact(&self, order: &JobOrder, delivery: u32, text: &str, streamed: &[u64]) -> Fact {
        let node = self.run.graph.node(order.node);
        let name = if node.kind.wire() == "llm" { "text" } else { "output" };
        let outputs = vec![(name.to_string(), Stored::Inline(Segment::string(text)))];
        let selector = || vec![node.id.to_string(), "text".to_string()];
        let streamed = streamed.iter().map(|bytes| (selector(), *bytes)).collect();
        self.fact(order, delivery, &self.ended(Record { outputs, ..Record::default() }, streamed))
    }

    pub(super) fn failed_fact(&self, order: &JobOrder, delivery: u32, error: &str) -> Fact {
        let record =
            Record { error: error.to_string(), error_type: "TestError".to_string(), ..Record::default() };
        self.fact(order, delivery, &self.ended(record, Vec::new()))
    }

    fn ended(&self, record: Record, streamed: Vec<(Vec<String>, u64)>) -> Report {
        let failed = !record.error.is_empty();
        Report::Ended {
            started_at: self.now,
            finished_at: self.now,
            failed,
            record: Box::new(record),
            streamed,
        }
    }

    // ---- what there is

    pub(super) fn ix(&self, node: &str) -> NodeIx {
        self.run.graph.find(node).unwrap_or_else(|| panic!("no node {node}"))
    }

    pub(super) fn job_of(&self, node: &str) -> JobOrder {
        let ix = self.ix(node);
        let found = self.jobs.values().find(|order| order.node == ix);
        found.cloned().unwrap_or_else(|| panic!("{node} has no job"))
    }

    pub(super) fn node(&self, node: &str) -> &NodeState {
        self.run.node(&FramePath::root(), self.ix(node)).unwrap()
    }

    /// The nodes that have jobs, in the order of their entries.
    pub(super) fn waiting(&self) -> Vec<&str> {
        self.jobs.values().map(|order| self.run.graph.node(order.node).id.as_str()).collect()
    }

    /// Checks what was told since the last look, a word list a line.
    pub(super) fn tells(&mut self, expected: &[&str]) -> &mut Self {
        let told: Vec<String> =
            self.events[self.read..].iter().map(|event| tell::words(&self.run.graph, event)).collect();
        assert_eq!(told, expected);
        self.read = self.events.len();
        self
    }

    /// Passes over what was told so far.
    pub(super) fn skim(&mut self) -> &mut Self {
        self.read = self.events.len();
        self
    }
}
