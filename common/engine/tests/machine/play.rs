//! A run under test with its environment: jobs, timers, the clock and the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::durable::{Kept, differences, is_read_back_from_its_short_form};
use super::sheet::sheet;
use super::{describe, draw};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, Delivery, EntryId, FramePath, RunId, ShardId};
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::fact::{JobLost, LastSign, Timer};
use tidemill_engine::order::changes::{Changes, JobOrder};
use tidemill_engine::order::events::Event;
use tidemill_engine::state::NamedValues;
use tidemill_engine::state::invariants;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeState, RunHead};
use tidemill_engine::{Fact, Moment, RunState, step, step_into};
use tidemill_wire::commit::{CallsWrite, RunWrite};
use tidemill_wire::event::{EventRecord, decode};
use tidemill_wire::expand::envelope;
use tidemill_wire::fact::report::{JobName, Report};
use tidemill_wire::fact::{parse, start_body, stop_body};
use tidemill_wire::job::{self, Job};
use tidemill_wire::timers::{TimerRead, timer_from_member};
use tidemill_workflow::graph::{Graph, import};

pub(super) struct Play {
    /// Cleared changes, whose buffers each commit reuses.
    room: Changes,
    pub(super) run: RunState,
    pub(super) kept: Kept,
    /// Jobs in the queues or with workers, by entry.
    pub(super) jobs: BTreeMap<EntryId, JobOrder>,
    /// The jobs as a worker reads them.
    pub(super) sent: BTreeMap<EntryId, Job>,
    /// Blobs by id.
    pub(super) blobs: HashMap<BlobId, String>,
    /// Entries that were taken back.
    pub(super) taken_back: Vec<EntryId>,
    /// Written changes that concern other runs.
    pub(super) calls: Vec<CallsWrite>,
    /// Members of the timers set.
    pub(super) timers: BTreeMap<String, Timestamp>,
    /// `continue` facts that are due.
    pub(super) continue_due: usize,
    /// All events.
    pub(super) events: Vec<Event>,
    /// All events, as a follower reads them.
    pub(super) records: Vec<EventRecord>,
    /// True when the run is loaded again after every commit, as by a new owner.
    pub(super) restless: bool,
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

    /// A submitted run of a drawing with the input `x`.
    pub(super) fn given(x: &str, drawing: &str) -> Self {
        Self::with(draw::draw(drawing), &[("x", x)], RunOptions::default())
    }

    /// A submitted run of a short workflow ([`sheet`]) with these inputs.
    pub(super) fn sheet(text: &str, inputs: Json) -> Self {
        Self::document(&sheet(text), inputs)
    }

    /// A submitted run of a workflow file.
    pub(super) fn document(yaml: &str, inputs: Json) -> Self {
        Self::headed(yaml, inputs, |_| {})
    }

    /// A submitted run of a workflow file, with options, breakpoints and other fields of its head.
    pub(super) fn headed(yaml: &str, inputs: Json, change: impl FnOnce(&mut RunHead)) -> Self {
        let imported = import(yaml.as_bytes());
        let graph = imported.graph.unwrap_or_else(|| panic!("{:#?}\n{yaml}", imported.diagnostics));
        let Json::Object(inputs) = inputs else { panic!("inputs are an object, not {inputs}") };
        let inputs = inputs.into_iter().map(|(name, value)| (name, Stored::Inline(Segment::infer(value))));
        Self::submitted(Arc::new(graph), inputs.collect(), change)
    }

    pub(super) fn with(graph: Arc<Graph>, inputs: &[(&str, &str)], options: RunOptions) -> Self {
        let text =
            |(name, value): &(&str, &str)| ((*name).to_string(), Stored::Inline(Segment::string(*value)));
        Self::submitted(graph, inputs.iter().map(text).collect(), |head| head.options = options)
    }

    pub(super) fn submitted(
        graph: Arc<Graph>,
        inputs: NamedValues,
        change: impl FnOnce(&mut RunHead),
    ) -> Self {
        let now = Timestamp::from_millis(1_754_339_718_000);
        let mut head = RunHead {
            graph: graph.hash.clone(),
            app: None,
            root: None,
            user: "u".into(),
            inputs,
            sys: vec![("user_id".into(), Stored::Inline(Segment::string("u")))],
            conversation: Vec::new(),
            history: None,
            leaves_turn: false,
            takes_messages: false,
            caller: None,
            call_depth: 0,
            key: None,
            webhook: None,
            conversation_id: None,
            commands: Vec::new(),
            options: RunOptions::default(),
            created_at: now,
        };
        change(&mut head);
        let fact = parse("start", &start_body(&head), &graph).unwrap();
        let run = RunState::new(RunId::new(1, 2, ShardId(3)), graph, head);
        Self {
            room: Changes::default(),
            kept: Kept::submitted(&run.head, &run),
            run,
            jobs: BTreeMap::new(),
            sent: BTreeMap::new(),
            blobs: HashMap::new(),
            taken_back: Vec::new(),
            calls: Vec::new(),
            timers: BTreeMap::new(),
            continue_due: 0,
            events: Vec::new(),
            records: Vec::new(),
            restless: false,
            now,
            start: fact,
            commit: 1_000,
            read: 0,
        }
    }

    // ---- applying facts

    /// Applies facts as one commit, stores it, and compares the stored copy with the state.
    pub(super) fn feed(&mut self, facts: Vec<Fact>) -> &mut Self {
        self.commit += 1;
        let mut all = std::mem::take(&mut self.room);
        for (n, fact) in facts.into_iter().enumerate() {
            let at = Moment { now: self.now, commit: self.commit, jobs: all.jobs.len() as u64 };
            if n == 0 {
                step_into(&mut self.run, fact, at, &mut all);
            } else {
                all.append(step(&mut self.run, fact, at));
            }
        }
        assert_eq!(invariants::broken(&self.run), Vec::<&str>::new());
        self.events.extend_from_slice(all.entries.events());
        let orders = all.jobs.clone();
        let write = RunWrite::new(&self.run, &mut all);
        is_read_back_from_its_short_form(&write);
        all.clear();
        self.room = all;
        self.publish(&write);
        self.follow(&write, orders);
        self.kept.write(&write);
        let differ = differences(&self.run, &self.kept.load(&self.run));
        assert!(differ.is_empty(), "the stored run differs from the state in memory:\n{}", differ.join("\n"));
        if self.restless {
            self.reload();
        }
        self
    }

    /// Decodes every written event and expands it, as a follower does.
    fn publish(&mut self, write: &RunWrite) {
        for fields in write.entries.iter() {
            let fields = fields.map(|(kind, text)| (kind.to_string(), text.to_string()));
            let entry = EntryId::new(self.commit, self.records.len() as u64);
            for record in decode(entry, fields).expect("written events can be read") {
                let sent = envelope(&record, &self.run.id, &self.run.graph);
                let keys: Vec<&String> = sent.as_object().unwrap().keys().collect();
                assert_eq!(keys, ["type", "data", "id", "run_id", "seq", "ts"]);
                assert_eq!((&sent["type"], &sent["seq"]), (&json!(record.kind), &json!(record.seq)));
                self.records.push(record);
            }
        }
    }

    fn follow(&mut self, write: &RunWrite, orders: Vec<JobOrder>) {
        for job in &write.taken_back {
            self.jobs.remove(&job.entry);
            self.taken_back.push(job.entry);
        }
        let written = |order: &JobOrder| write.jobs.iter().any(|job| job.entry == order.entry);
        self.jobs.extend(orders.into_iter().filter(written).map(|order| (order.entry, order)));
        let read = |body: &str| job::parse(self.run.id, body).expect("a worker can read its job");
        self.sent.extend(write.jobs.iter().map(|job| (job.entry, read(&job.body))));
        self.blobs.extend(write.blobs.iter().cloned());
        self.timers.retain(|member, _| !write.timers_cleared.contains(member));
        self.timers.extend(write.timers_set.iter().map(|(due, member)| (member.clone(), *due)));
        self.calls.extend(write.calls.as_deref().cloned());
        self.continue_due += usize::from(write.continue_due);
    }

    /// Loads the run from the store, as a new owner does.
    pub(super) fn reload(&mut self) -> &mut Self {
        self.run = self.kept.load(&self.run);
        self
    }

    pub(super) fn start(&mut self) -> &mut Self {
        let fact = self.start_fact();
        self.feed(vec![fact])
    }

    /// The job of a node succeeds with the output `output` (of a model: `text`).
    pub(super) fn done(&mut self, node: &str, text: &str) -> &mut Self {
        let fact = self.done_fact(&self.job_of(node), 1, text, &[]);
        self.finish(node, fact)
    }

    /// The job of a node succeeds with one output of this name and value.
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

    /// Removes the job of a node and applies its result.
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

    /// Removes the job of a node, and applies the fact that it is lost.
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

    /// Fires all timers that are due, while the workers of all jobs are alive.
    pub(super) fn fire_alive(&mut self) -> &mut Self {
        self.fire_seen(self.now)
    }

    /// Fires all timers that are due. The workers gave their last sign of life at this moment.
    pub(super) fn fire_seen(&mut self, at: Timestamp) -> &mut Self {
        for timer in self.due() {
            let signs = || self.jobs.keys().map(|entry| LastSign { entry: *entry, at }).collect();
            let fact = match timer {
                Timer::RunDeadline => Fact::RunDeadline(signs()),
                other => Fact::TimerFired(other),
            };
            self.feed(vec![fact]);
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

    /// Applies one due `continue` fact.
    pub(super) fn continues(&mut self) -> &mut Self {
        self.continue_due -= 1;
        self.feed(vec![Fact::Continue])
    }

    // ---- facts

    pub(super) fn start_fact(&self) -> Fact {
        self.start.clone()
    }

    /// A fact as it is read from the inbox, encoded and decoded.
    pub(super) fn fact(&self, order: &JobOrder, delivery: u32, report: &Report) -> Fact {
        let holder = Delivery { consumer: format!("w{delivery}").into(), number: order.delivered + delivery };
        let node = self.run.graph.node(order.node).id.clone();
        let (attempt, entry) = (order.attempt, order.entry);
        let name = JobName { frame: order.frame.clone(), node, attempt, entry, holder, lost_at: None };
        parse(report.kind(), &report.to_json(&name), &self.run.graph).unwrap()
    }

    pub(super) fn chunk_fact(&self, order: &JobOrder, delivery: u32, offset: u64, text: &str) -> Fact {
        let node = self.run.graph.node(order.node).id.to_string();
        let selector = vec![node, "text".to_string()];
        let report = Report::Chunk { started_at: self.now, selector, offset, text: text.to_string() };
        self.fact(order, delivery, &report)
    }

    /// `streamed` has the number of bytes of the text `text` that this holder has streamed.
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

    pub(super) fn ended(&self, record: Record, streamed: Vec<(Vec<String>, u64)>) -> Report {
        let failed = !record.error.is_empty();
        Report::Ended {
            started_at: self.now,
            finished_at: self.now,
            failed,
            record: Box::new(record),
            streamed,
        }
    }

    // ---- looking at the run

    /// The job of a node: `a`, or `it#0/a` for one in a frame.
    pub(super) fn job_of(&self, place: &str) -> JobOrder {
        let found = self
            .jobs
            .values()
            .find(|order| describe::place(&self.run.graph, &order.frame, order.node) == place);
        found.cloned().unwrap_or_else(|| panic!("{place} has no job, but {:?}", self.waiting()))
    }

    /// The state of a node: `a`, or `it#0/a` for one in an open frame.
    pub(super) fn node(&self, place: &str) -> &NodeState {
        let (frame, id) = place.rsplit_once('/').unwrap_or(("", place));
        let node = self.run.graph.find(id).unwrap_or_else(|| panic!("no node {id}"));
        let state = self.run.node(&FramePath::from(frame), node);
        state.unwrap_or_else(|| {
            panic!("no frame {frame:?} among {:?}", self.run.frames.keys().collect::<Vec<_>>())
        })
    }

    /// The value of a variable of the root frame, null when it is missing.
    pub(super) fn value(&self, name: &str) -> Json {
        let (node, name) = name.split_once('.').unwrap();
        match self.run.pool(&FramePath::root()).stored(node, name).as_deref() {
            None => Json::Null,
            Some(stored) => self.opened(stored).value,
        }
    }

    /// The nodes with jobs, in the order of their entries.
    pub(super) fn waiting(&self) -> Vec<String> {
        self.jobs.values().map(|order| describe::place(&self.run.graph, &order.frame, order.node)).collect()
    }

    /// Everything that is stored for the run.
    pub(super) fn kept_text(&self) -> String {
        format!("{:?}", self.kept)
    }

    /// The last event, in words.
    pub(super) fn last(&self) -> String {
        self.events.last().map(|event| describe::words(&self.run.graph, event)).unwrap_or_default()
    }

    /// All events, in words.
    pub(super) fn words(&self) -> Vec<String> {
        self.events.iter().map(|event| describe::words(&self.run.graph, event)).collect()
    }

    /// Compares the new events since the last check, but only those with one of the words in `of`.
    pub(super) fn tells_of(&mut self, of: &[&str], expected: &[&str]) -> &mut Self {
        let found = self.events[self.read..].iter().map(|event| describe::words(&self.run.graph, event));
        let found: Vec<String> = found.filter(|words| of.iter().any(|word| words.contains(word))).collect();
        assert_eq!(found, expected);
        self.skim()
    }

    /// Compares the new events since the last check, one per line.
    pub(super) fn tells(&mut self, expected: &[&str]) -> &mut Self {
        let found: Vec<String> =
            self.events[self.read..].iter().map(|event| describe::words(&self.run.graph, event)).collect();
        assert_eq!(found, expected);
        self.read = self.events.len();
        self
    }

    /// Skips the events so far.
    pub(super) fn skim(&mut self) -> &mut Self {
        self.read = self.events.len();
        self
    }
}
