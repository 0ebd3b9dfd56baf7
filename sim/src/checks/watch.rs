//! Sees every commit that is written by any scheduler, remembers it and runs the checks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::Graph;
use tidemill_common::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_common::machine::RunState;
use tidemill_common::nodes::ExecutionType;
use tidemill_common::store::{Commit, Runs, Shards};
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::event::EventRecord;
use tidemill_common::wire::job;
use tidemill_common::wire::timers::timer_run;
use tidemill_scheduler::shards::run_cache;

use super::at_commit::Touched;
use super::at_end::EndedRun;
use super::{after_commit, after_end};
use crate::reference;
use crate::world::{Shared, at_once};

/// An invariant that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub id: &'static str,
    /// A description of what is wrong.
    pub found: String,
}

/// Collects what happened and keeps the first violation.
#[derive(Default)]
pub struct Watch {
    /// The first violation.
    pub violation: Option<Violation>,
    /// Number of written commits.
    pub commits: u64,
    /// A checksum: two stories with the same course have the same one.
    pub digest: u64,
    last: HashMap<ShardId, u64>,
    applied: BTreeSet<(ShardId, EntryId)>,
    results: BTreeSet<(ShardId, EntryId)>,
    runs: BTreeMap<RunId, Seen>,
    /// Runs that the newest commit wrote, as they are stored.
    rest: HashMap<RunId, RunState>,
}

/// What was known at an earlier moment of some shards.
pub struct Past {
    applied: BTreeSet<(ShardId, EntryId)>,
    results: BTreeSet<(ShardId, EntryId)>,
    runs: BTreeMap<RunId, Seen>,
}

/// The recorded history of a run.
#[derive(Clone, Default)]
struct Seen {
    events: Vec<EventRecord>,
    written: BTreeMap<String, u32>,
    is_over: bool,
    was_stopped: bool,
}

impl Watch {
    /// Records a violation. Only the first one is kept.
    pub fn found(&mut self, id: &'static str, found: String) {
        self.violation.get_or_insert(Violation { id, found });
    }

    /// Records that a result was put into the inbox and its job removed.
    pub fn result_taken(&mut self, shard: ShardId, entry: EntryId) {
        if !self.results.insert((shard, entry)) {
            self.found("SIM-11", format!("job {entry} of shard {shard} has two results"));
        }
    }

    /// Records that a stop of a run was requested.
    pub fn stop_sent(&mut self, run: RunId) {
        self.runs.entry(run).or_default().was_stopped = true;
    }

    /// Returns true if the run has ended.
    pub fn is_over(&self, run: &RunId) -> bool {
        self.runs.get(run).is_some_and(|seen| seen.is_over)
    }

    /// Copies what is known of these shards.
    pub fn past(&self, shards: &[ShardId]) -> Past {
        let of = |all: &BTreeSet<(ShardId, EntryId)>| {
            all.iter().filter(|(shard, _)| shards.contains(shard)).copied().collect()
        };
        let runs = self.runs.iter().filter(|(run, _)| shards.contains(&run.shard()));
        let runs = runs.map(|(run, seen)| (*run, seen.clone())).collect();
        Past { applied: of(&self.applied), results: of(&self.results), runs }
    }

    /// Forgets what happened to these shards since then, because a fail-over has lost it. The numbers of lost commits stay
    /// known: they must not be used again.
    pub fn go_back(&mut self, shards: &[ShardId], to: Past) {
        let is_other = |(shard, _): &(ShardId, EntryId)| !shards.contains(shard);
        self.applied.retain(is_other);
        self.applied.extend(to.applied);
        self.results.retain(is_other);
        self.results.extend(to.results);
        self.runs.retain(|run, _| !shards.contains(&run.shard()));
        self.runs.extend(to.runs);
        self.rest.clear();
    }

    fn numbered(&mut self, shard: ShardId, commit: &Commit, facts: &[EntryId]) {
        self.commits += 1;
        let last = self.last.insert(shard, commit.number).unwrap_or(0);
        if commit.number <= last {
            self.found("SIM-11", format!("commit {} follows commit {last} on shard {shard}", commit.number));
        }
        for fact in facts {
            if !self.applied.insert((shard, *fact)) {
                let number = commit.number;
                self.found(
                    "SIM-11",
                    format!("fact {fact} of shard {shard} is applied again by commit {number}"),
                );
            }
        }
    }
}

impl Shared {
    /// Checks everything that a commit wrote.
    pub(crate) fn committed(&mut self, shard: ShardId, commit: &Commit, facts: &[EntryId]) {
        self.watch.numbered(shard, commit, facts);
        self.watch.rest.clear();
        for write in &commit.writes {
            self.written(write);
        }
    }

    /// An attempt for which a job is queued again was not given up: its job was taken back while the report was on its way.
    fn begin_again(&mut self, write: &RunWrite) {
        let Some(plan) = self.plans.get_mut(&write.run) else { return };
        if plan.script.given_up.is_empty() {
            return;
        }
        for job in write.jobs.iter().filter_map(|entry| job::parse(entry.run, &entry.body).ok()) {
            plan.script.given_up.remove(&(job.frame.to_string(), job.node.to_string(), job.attempt));
        }
    }

    fn written(&mut self, write: &RunWrite) {
        let run = write.run;
        self.begin_again(write);
        let rest = match at_once(run_cache::load(&self.store, &self.workflows, run)) {
            Ok(rest) => rest,
            Err(error) => return self.watch.found("SIM-13", format!("{run} cannot be loaded: {error}")),
        };
        let jobs: Vec<EntryId> = if rest.status.is_over() { self.jobs_of(run) } else { Vec::new() };
        let timers: Vec<String> = if rest.status.is_over() { self.timers_of(run) } else { Vec::new() };
        let seen = self.watch.runs.entry(run).or_default();
        let last = seen.events.last().map_or(EntryId::ZERO, |event| event.entry);
        let last_seq = seen.events.last().map_or(0, |event| event.seq);
        let fresh = at_once(self.store.events(run, last, 10_000)).unwrap_or_default();
        for (field, _) in write.state.iter().filter(|(field, text)| field.starts_with("v:") && text.is_some())
        {
            *seen.written.entry(field.to_string()).or_default() += 1;
        }
        let found = after_commit(&Touched {
            rest: &rest,
            last_seq,
            fresh: &fresh,
            written: &seen.written,
            jobs: &jobs,
            timers: &timers,
        });
        for event in &fresh {
            self.watch.digest = crate::dice::fate(self.watch.digest, &[&event.kind, &event.ts.to_string()]);
        }
        seen.events.extend(fresh);
        if let Some((id, wrong)) = found {
            self.watch.found(id, format!("{run}: {wrong}"));
        }
        if rest.status.is_over() && self.watch.violation.is_none() {
            self.ended(&rest);
        }
        self.watch.rest.insert(run, rest);
    }

    fn ended(&mut self, rest: &RunState) {
        let run = rest.id;
        let Some(plan) = self.plans.get(&run) else { return };
        let expected = reference::run(&plan.document, &plan.inputs, &plan.script);
        let fields = at_once(self.store.run_fields(run)).ok().flatten().unwrap_or_default();
        let Some(seen) = self.watch.runs.get_mut(&run) else { return };
        seen.is_over = true;
        let whole = |event: &EventRecord| {
            let mut event = event.clone();
            event.data.values_mut().for_each(|value| *value = put_back(&self.store, run.shard(), value));
            event
        };
        let events: Vec<EventRecord> = seen.events.iter().map(whole).collect();
        let told = EndedRun {
            rest,
            fields: &fields,
            events: &events,
            expected: &expected,
            was_stopped: seen.was_stopped,
        };
        let found = after_end(&told);
        for event in &events {
            self.count(&format!("event {}", event.kind));
        }
        self.log(|| format!("{run} is {}", rest.status.name()));
        if let Some((id, wrong)) = found {
            self.watch.found(id, format!("{run}: {wrong}"));
        }
    }

    /// Compares a run in an owner's memory with the store. The newest commit must have written all of it.
    pub(crate) fn compare(&mut self, memory: &RunState) {
        let rest = match self.watch.rest.remove(&memory.id) {
            Some(rest) => Ok(rest),
            None => at_once(run_cache::load(&self.store, &self.workflows, memory.id)),
        };
        match rest {
            Ok(rest) => {
                let (memory, rest) = (comparable(memory), comparable(&rest));
                if memory != rest {
                    let difference = difference(&format!("{memory:#?}"), &format!("{rest:#?}"));
                    self.watch.found("SIM-10", format!("{}: {difference}", memory.id));
                }
            }
            Err(error) => self.watch.found("SIM-13", format!("{} cannot be loaded: {error}", memory.id)),
        }
    }

    /// Returns the jobs of a run, waiting or held.
    pub(crate) fn jobs_of(&self, run: RunId) -> Vec<EntryId> {
        let name = run.to_string();
        self.store
            .jobs(run.shard())
            .into_iter()
            .filter(|(_, _, of)| *of == name)
            .map(|(_, entry, _)| entry)
            .collect()
    }

    /// Returns the timers of a run.
    pub(crate) fn timers_of(&self, run: RunId) -> Vec<String> {
        let all = at_once(self.store.due(run.shard(), None, Timestamp::from_micros(i64::MAX), 10_000))
            .map(|due| due.timers);
        let all = all.unwrap_or_default().into_iter().map(|(_, member)| member);
        all.filter(|member| timer_run(member) == Some(run)).collect()
    }
}

/// Returns a state without the parts that may differ: the order of a node's variables that is visible in no output, and
/// the edges of a run that has ended, which are not used any more.
fn comparable(run: &RunState) -> RunState {
    let mut run = run.clone();
    let graph = run.graph.clone();
    let shows_order = |graph: &Graph, node: &str| {
        graph.find(node).is_some_and(|ix| graph.node(ix).kind.spec().execution == ExecutionType::Response)
    };
    for frame in run.frames.values_mut() {
        for (node, values) in &mut frame.variables {
            if !shows_order(&graph, node.as_str()) {
                values.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
        }
        if run.status.is_over() {
            frame.edges.clear();
        }
    }
    run
}

/// Returns the first lines in which two texts differ.
fn difference(memory: &str, store: &str) -> String {
    let lines = memory.lines().zip(store.lines()).filter(|(a, b)| a != b).take(6);
    let lines: Vec<String> =
        lines.map(|(a, b)| format!("in memory {}, in the store {}", a.trim(), b.trim())).collect();
    lines.join("; ")
}

/// Returns a value with the contents of its blobs put back in.
fn put_back(store: &tidemill_common::store::memory::MemoryStore, shard: ShardId, value: &Json) -> Json {
    let inner = |value: &Json| put_back(store, shard, value);
    match value {
        Json::Object(map) => match map.get("$tm").and_then(Json::as_str) {
            Some("blob") => {
                let id = BlobId::from(map.get("id").and_then(Json::as_str).unwrap_or_default());
                let text = at_once(store.blob(shard, &id)).ok().flatten().unwrap_or_default();
                serde_json::from_str(&text).unwrap_or_default()
            }
            Some("item") => {
                let whole = map.iter().map(|(key, value)| {
                    (key.clone(), if key == "$tm" { "blob".into() } else { value.clone() })
                });
                let at = map.get("at").and_then(Json::as_u64).and_then(|at| usize::try_from(at).ok());
                inner(&Json::Object(whole.collect())).get(at.unwrap_or(0)).cloned().unwrap_or_default()
            }
            Some("joined") => {
                let parts = map.get("parts").and_then(Json::as_array).into_iter().flatten();
                parts
                    .map(|part| inner(part).as_str().unwrap_or_default().to_string())
                    .collect::<String>()
                    .into()
            }
            Some("value") => map.get("value").cloned().unwrap_or_default(),
            Some(_) | None => map.iter().map(|(key, value)| (key.clone(), inner(value))).collect(),
        },
        Json::Array(items) => items.iter().map(inner).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
    }
}
