//! What a commit writes of calls from one run to another.

use serde_json::Value as Json;

use super::state::{AtRest, read_caller, write_budget};
use super::text::ObjectText;
use super::value::StoredJson;
use super::{between_runs, fact};
use crate::ids::RunId;
use crate::machine::changes::{CallOrder, Changes, Told};
use crate::machine::run::{Caller, RunState};

/// What a run's commit writes of calls from one run to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallsWrite {
    /// Orders of runs that are to be made: run, and what is known of it, as JSON.
    pub ordered: Vec<(RunId, String)>,
    /// Runs that are to be stopped, or never made.
    pub dropped: Vec<RunId>,
    /// It is over, and this run has called it: the body of the fact that says so.
    pub ended: Option<(RunId, String)>,
    /// Facts for other runs of the shard: run, kind, body.
    pub told: Vec<(RunId, &'static str, String)>,
}

/// Who has called a run, as far as its hash can be read.
pub(super) fn caller_of(rest: &AtRest) -> Option<Box<Caller>> {
    let caller: Json = serde_json::from_str(rest.run.get("caller")?).ok()?;
    read_caller(&caller).ok()
}

/// What says to the caller that the run is over.
pub(super) fn to_caller(run: RunId, caller: &Caller) -> Box<CallsWrite> {
    let ended = Some((caller.run, between_runs::call_ended_body(caller, run)));
    Box::new(CallsWrite { ended, ..CallsWrite::default() })
}

/// What of calls a run has changed, if anything.
pub(super) fn calls(run: &RunState, changes: &Changes) -> Option<Box<CallsWrite>> {
    let caller = run.head.caller.as_ref().filter(|_| run.status.is_over());
    if changes.calls.is_none() && caller.is_none() {
        return None;
    }
    let mut write = caller.map(|caller| to_caller(run.id, caller)).unwrap_or_default();
    if let Some(calls) = &changes.calls {
        // What was ordered and dropped within one commit never was.
        let never_was =
            |of: &RunId| calls.dropped.contains(of) && calls.ordered.iter().any(|order| order.run == *of);
        let ordered = calls.ordered.iter().filter(|order| !never_was(&order.run));
        write.ordered = ordered.map(|order| (order.run, order_json(run, order))).collect();
        write.dropped = calls.dropped.iter().filter(|of| !never_was(of)).copied().collect();
        write.told = calls.told.iter().map(told).collect();
    }
    Some(write)
}

fn told(told: &Told) -> (RunId, &'static str, String) {
    match told {
        Told::Asked(run, asked) => (*run, fact::kind::PARENT_ASKED, between_runs::parent_asked_body(asked)),
        Told::Answered(run, answered) => {
            (*run, fact::kind::PARENT_ANSWERED, between_runs::parent_answered_body(answered))
        }
    }
}

/// An order: what whoever makes the run has to know, and what is shown of it afterwards.
fn order_json(run: &RunState, order: &CallOrder) -> String {
    let mut object = ObjectText::with_capacity(256);
    object.text("app", &order.app);
    object.text("node", run.graph.node(order.node).id.as_str());
    if !order.frame.is_root() {
        object.text("frame", order.frame.as_str());
    }
    object.number("depth", run.head.call_depth + 1);
    object.text("user", &run.head.user);
    if let Some(key) = &run.head.key {
        object.text("key", key);
    }
    if let Some(budget) = &run.head.options.budget {
        let mut left = crate::value::JsonMap::new();
        write_budget(&mut left, &budget.left(&run.paid()));
        object.value("budget", &left);
    }
    object.value("given", &StoredJson(&order.given));
    object.end()
}
