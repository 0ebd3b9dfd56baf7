//! Drives a run to a certain point without a store: it feeds facts like those of workers, keeps the changes as a store
//! would, and the clock does not move.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{self, Graph};
use tidemill_common::ids::{Delivery, RunId, ShardId};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::record::Record;
use tidemill_common::machine::state::run::RunHead;
use tidemill_common::machine::{Fact, Moment, RunState, step};
use tidemill_common::value::{Segment, Stored};
use tidemill_common::wire::commit::{JobEntry, RunWrite};
use tidemill_common::wire::fact;
use tidemill_common::wire::fact::report::{JobName, Report};
use tidemill_common::wire::job;
use tidemill_common::wire::state::{AtRest, head_fields};

use crate::error::Error;
use crate::floor::PAYLOAD;

/// An arbitrary time.
const NOW: Timestamp = Timestamp::from_millis(1_763_766_000_000);

/// A run with its state and its open jobs.
pub(super) struct Story {
    pub(super) run: RunState,
    pub(super) graph: Arc<Graph>,
    /// Jobs that are not done yet.
    jobs: VecDeque<JobEntry>,
    fields: BTreeMap<String, String>,
    state: BTreeMap<String, String>,
    commit: u64,
}

impl Story {
    /// Starts a run of a workflow.
    pub(super) fn begin(workflow: &Json) -> Result<Self, Error> {
        let imported = graph::import(workflow.to_string().as_bytes());
        let graph = imported.graph.ok_or_else(|| {
            Error::Wrong(format!("a workflow to count is refused: {:?}", imported.diagnostics))
        })?;
        let graph = Arc::new(graph);
        let list: Vec<Json> = (0..20).map(|at| json!(format!("item {at}"))).collect();
        let text = |text: &str| Stored::Inline(Segment::string(text));
        let head = RunHead {
            graph: graph.hash.clone(),
            app: None,
            root: None,
            user: "bench".into(),
            inputs: vec![
                ("text".into(), text(PAYLOAD)),
                ("list".into(), Stored::Inline(Segment::infer(Json::Array(list)))),
            ],
            sys: vec![("query".into(), text(PAYLOAD))],
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
            created_at: NOW,
        };
        let start = parsed(fact::parse_start(&fact::start_body(&head)))?;
        let fields = head_fields(&head, &graph).into_iter().map(|(name, text)| (name.to_string(), text));
        let mut story = Self {
            fields: fields.collect(),
            run: RunState::new(RunId::new(1_763_766_000_000, 7, ShardId(1)), graph.clone(), head),
            graph,
            jobs: VecDeque::new(),
            state: BTreeMap::new(),
            commit: 1_763_766_000_000_000,
        };
        story.apply(start);
        Ok(story)
    }

    /// Returns the time of the next step.
    pub(super) fn moment(&self) -> Moment {
        Moment { now: NOW, commit: self.commit + 1, jobs: 0 }
    }

    /// Applies a fact and keeps the changes.
    pub(super) fn apply(&mut self, fact: Fact) {
        let at = self.moment();
        self.commit = at.commit;
        let mut changes = step(&mut self.run, fact, at);
        let write = RunWrite::new(&self.run, &mut changes);
        self.fields.extend(write.fields.into_iter().map(|(name, text)| (name.to_string(), text)));
        for (field, text) in write.state.iter() {
            match text {
                Some(text) => self.state.insert(field.to_string(), text.to_string()),
                None => self.state.remove(field),
            };
        }
        self.jobs.extend(write.jobs);
    }

    /// Returns a worker's report that the oldest job is done.
    pub(super) fn done(&mut self) -> Result<(&'static str, String), Error> {
        let outputs = vec![("output".to_string(), Stored::Inline(Segment::string(PAYLOAD)))];
        let record = Record { outputs, ..Record::default() };
        let report = Report::Ended {
            started_at: NOW,
            finished_at: NOW,
            failed: false,
            record: Box::new(record),
            streamed: Vec::new(),
        };
        let name = self.name_of_oldest()?;
        self.jobs.pop_front();
        Ok((report.kind(), report.to_json(&name)))
    }

    /// Returns a worker's report with a piece of text of the oldest job, at the given offset in bytes.
    pub(super) fn chunk(&self, offset: u64) -> Result<(&'static str, String), Error> {
        let selector = vec!["model".to_string(), "text".to_string()];
        let report = Report::Chunk { started_at: NOW, selector, offset, text: "seven ".into() };
        Ok((report.kind(), report.to_json(&self.name_of_oldest()?)))
    }

    /// Applies reports that the given number of jobs are done.
    pub(super) fn work_off(&mut self, jobs: usize) -> Result<(), Error> {
        for _ in 0..jobs {
            let (kind, body) = self.done()?;
            let fact = self.parse(kind, &body)?;
            self.apply(fact);
        }
        Ok(())
    }

    /// Parses a fact as the shard's owner does.
    pub(super) fn parse(&self, kind: &str, body: &str) -> Result<Fact, Error> {
        parsed(fact::parse(kind, body, &self.graph))
    }

    /// Returns everything that a store has of the run.
    pub(super) fn at_rest(&self) -> AtRest {
        AtRest {
            run: self.fields.clone().into_iter().collect(),
            state: self.state.clone().into_iter().collect(),
            seq: self.run.seq,
            ..AtRest::default()
        }
    }

    fn name_of_oldest(&self) -> Result<JobName, Error> {
        let entry = self.jobs.front().ok_or_else(|| Error::Wrong("a counted run has no job".into()))?;
        let job = parsed(job::parse(self.run.id, &entry.body))?;
        Ok(JobName {
            lost_at: None,
            frame: job.frame,
            node: job.node,
            attempt: job.attempt,
            entry: entry.entry,
            holder: Delivery { consumer: "worker-1".into(), number: 1 },
        })
    }
}

fn parsed<T>(read: Result<T, impl std::fmt::Display>) -> Result<T, Error> {
    read.map_err(|error| Error::Wrong(format!("a counted run cannot be read: {error}")))
}
