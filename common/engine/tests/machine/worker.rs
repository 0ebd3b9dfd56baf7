//! A worker: it reads its job, loads blobs, evaluates the node, and stores large values as blobs. A model replies with
//! the name of its node.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::describe;
use super::play::Play;
use tidemill_base::ids::BlobId;
use tidemill_base::value::{BlobRef, Lookup, Segment, Stored, Variables, blob_text};
use tidemill_engine::Fact;
use tidemill_engine::fact::Timer;
use tidemill_engine::order::changes::JobOrder;
use tidemill_engine::state::NamedValues;
use tidemill_engine::state::change::{Change, ChangeLog, LogEntry, Update};
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{RunStatus, json_size};
use tidemill_wire::timers::{TimerRead, timer_from_member};
use tidemill_workflow::nodes::evaluate::{EvaluationLimits, UndefinedNames};
use tidemill_workflow::nodes::iteration::item;
use tidemill_workflow::nodes::{NodeKind, NodeResult, VariableChange, evaluate, evaluate_phase};

/// The values of a job, with blobs loaded.
struct Given(Vec<(String, String, Segment)>);

impl Variables for Given {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        let found = self.0.iter().find(|(of, known, _)| of == node && known == name);
        found.map_or(Lookup::Missing, |(_, _, value)| Lookup::Found(Cow::Borrowed(value)))
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
    }
}

/// Says whether an attempt fails, from the node's place and the attempt.
pub(super) type Fails = fn(&str, u32) -> bool;

impl Play {
    /// Does the job of a node.
    pub(super) fn works(&mut self, place: &str) -> &mut Self {
        let fact = self.work(&self.job_of(place), |_, _| false);
        self.finish(place, fact)
    }

    /// Does all jobs and fires timers, until the run has ended or is paused.
    pub(super) fn goes_on(&mut self, fails: Fails) -> &mut Self {
        for _ in 0..2_000 {
            if self.run.status.is_over() || self.run.status == RunStatus::Paused {
                return self;
            }
            if self.continue_due > 0 {
                self.continues();
            } else if let Some(order) = self.jobs.pop_first().map(|(_, order)| order) {
                let fact = self.work(&order, fails);
                self.feed(vec![fact]);
            } else {
                self.wait_for_a_timer();
            }
        }
        panic!("the run does not end: {:?} {:?}", self.run.status, self.waiting());
    }

    /// Does this number of jobs, then pauses the run. Returns false when the run had ended before.
    pub(super) fn pauses_after(&mut self, jobs: usize, fails: Fails) -> bool {
        self.does(jobs, fails);
        let is_under_way = !self.run.status.is_over();
        self.pause("anywhere");
        is_under_way
    }

    /// Does this number of jobs, or fewer if there are no more.
    pub(super) fn does(&mut self, jobs: usize, fails: Fails) {
        for _ in 0..jobs {
            while self.continue_due > 0 {
                self.continues();
            }
            let Some(order) = self.jobs.pop_first().map(|(_, order)| order) else { break };
            let fact = self.work(&order, fails);
            self.feed(vec![fact]);
        }
    }

    fn wait_for_a_timer(&mut self) {
        let is_deadline = |member: &str| {
            matches!(timer_from_member(&self.run, member), TimerRead::Timer(Timer::RunDeadline))
        };
        let due = self.timers.iter().filter(|(member, _)| !is_deadline(member)).map(|(_, due)| *due).min();
        self.now = self.now.max(due.expect("a running run has a job or a timer"));
        self.fire();
    }

    /// The fact with the result of a job.
    pub(super) fn work(&mut self, order: &JobOrder, fails: Fails) -> Fact {
        let place = describe::place(&self.run.graph, &order.frame, order.node);
        if order.phase.is_none() && fails(&place, order.attempt) {
            return self.failed_fact(order, 1, &format!("{place} broke"));
        }
        let result = self.evaluated(order);
        let record = self.record(order, result);
        self.fact(order, 1, &self.ended(record, Vec::new()))
    }

    fn evaluated(&self, order: &JobOrder) -> NodeResult {
        let inputs = self.sent[&order.entry].inputs.iter();
        let given =
            Given(inputs.map(|(of, name, value)| (of.clone(), name.clone(), self.opened(value))).collect());
        let node = self.run.graph.node(order.node);
        if let Some(phase) = order.phase {
            return evaluate_phase(node, phase, &given);
        }
        if node.kind == NodeKind::Llm {
            return NodeResult::outputs(vec![("text".into(), Segment::string(format!("{}!", node.id)))]);
        }
        let limits = EvaluationLimits {
            undefined: UndefinedNames::Empty,
            missing_file_is_all: false,
            template_chars_max: usize::MAX,
            fuel: None,
            output_bytes: None,
        };
        evaluate(node, &given, &limits).expect("a worker has no limits")
    }

    /// The job of a node succeeds with these outputs.
    pub(super) fn brings(&mut self, place: &str, outputs: &[(&str, Json)]) -> &mut Self {
        let outputs =
            outputs.iter().map(|(name, value)| ((*name).to_string(), Segment::infer(value.clone())));
        let result = NodeResult::outputs(outputs.collect());
        let order = self.job_of(place);
        let record = self.record(&order, result);
        let fact = self.fact(&order, 1, &self.ended(record, Vec::new()));
        self.finish(place, fact)
    }

    /// The job of a node ends with this record.
    pub(super) fn brings_record(&mut self, place: &str, record: Record) -> &mut Self {
        let fact = self.fact(&self.job_of(place), 1, &self.ended(record, Vec::new()));
        self.finish(place, fact)
    }

    fn record(&mut self, order: &JobOrder, result: NodeResult) -> Record {
        let mut keep = |part: &str, values: Vec<(String, Segment)>| -> NamedValues {
            values
                .into_iter()
                .map(|(name, value)| {
                    let stored = self.stored(&format!("{}-{part}-{name}", order.entry), value);
                    (name, stored)
                })
                .collect()
        };
        let failure = result.failure;
        let (inputs, outputs) = (keep("in", result.inputs), keep("out", result.outputs));
        let updates = result.updates.into_iter().map(|it| {
            let place = format!("{}-set-{}", order.entry, it.name);
            let value = self.stored(&place, it.value);
            let change = |(at, change): (usize, VariableChange)| {
                let operand = self.stored(&format!("{place}-{at}"), change.operand);
                LogEntry::One(Change { kind: change.kind, operand })
            };
            let changes =
                it.changes.map(|all| ChangeLog::new(all.into_iter().enumerate().map(change).collect()));
            Update { node: it.node, name: it.name, value, changes }
        });
        let updates = updates.collect();
        Record {
            inputs,
            outputs,
            metadata: result.metadata,
            handle: result.handle,
            usage: result.usage.map(Box::new),
            error: failure.as_ref().map(|f| f.message.clone()).unwrap_or_default(),
            error_type: failure.map(|f| f.error_type).unwrap_or_default(),
            updates,
            pause: result.pause,
            ..Record::default()
        }
    }

    pub(super) fn stored(&mut self, name: &str, value: Segment) -> Stored {
        if json_size(&value.value) <= self.run.head.options.inline_bytes_max {
            return Stored::Inline(value);
        }
        let text = blob_text(&value.value);
        let blob = BlobRef::to(BlobId::from(name), &value, &text);
        self.blobs.insert(blob.id.clone(), text);
        Stored::Blob(blob)
    }

    /// Loads a stored value.
    pub(super) fn opened(&self, stored: &Stored) -> Segment {
        let load = |blob: &BlobRef| -> Json {
            let text =
                self.blobs.get(&blob.id).unwrap_or_else(|| panic!("blob {} was never stored", blob.id));
            serde_json::from_str(text).unwrap()
        };
        match stored {
            Stored::Inline(segment) => segment.clone(),
            Stored::Blob(blob) => Segment::new(blob.ty, load(blob)),
            Stored::Item { list, at } => item(list.ty, load(list)[*at as usize].clone()),
            Stored::Secret(name) => self.run.graph.environment_variable(name).unwrap().value.clone(),
        }
    }
}
