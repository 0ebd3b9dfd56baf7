//! The part of a commit that concerns sub-workflow runs.

use serde_json::Value as Json;

use super::state::{AtRest, read_caller, write_budget};
use crate::codec::text::ObjectText;
use crate::codec::value::StoredJson;
use crate::fact;
use crate::fact::between_runs;
use tidemill_base::ids::RunId;
use tidemill_engine::order::changes::{CallOrder, Changes, RunFact};
use tidemill_engine::state::run::{Caller, RunState};

/// Changes to sub-workflow runs and facts for other runs, written by a run's commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallsWrite {
    /// Sub-workflow runs to create: id and order (JSON).
    pub ordered: Vec<(RunId, String)>,
    /// Sub-workflow runs to stop, or not to create at all.
    pub dropped: Vec<RunId>,
    /// Set when this run has ended and has a caller: the caller and the body of its `call_ended` fact.
    pub ended: Option<(RunId, String)>,
    /// Facts for other runs of the shard: run, kind, body.
    pub parent_facts: Vec<(RunId, &'static str, String)>,
}

/// Reads the caller of a run from its hash; `None` when absent or unreadable.
pub(super) fn caller_of(rest: &AtRest) -> Option<Box<Caller>> {
    let caller: Json = serde_json::from_str(rest.run.get("caller")?).ok()?;
    read_caller(&caller).ok()
}

/// The `call_ended` fact for the caller.
pub(super) fn to_caller(run: RunId, caller: &Caller) -> Box<CallsWrite> {
    let ended = Some((caller.run, between_runs::call_ended_body(caller, run)));
    Box::new(CallsWrite { ended, ..CallsWrite::default() })
}

/// Collects the sub-workflow changes of a commit; `None` when there are none.
pub(super) fn calls(run: &RunState, changes: &Changes) -> Option<Box<CallsWrite>> {
    let caller = run.head.caller.as_ref().filter(|_| run.status.is_over());
    if changes.calls.is_none() && caller.is_none() {
        return None;
    }
    let mut write = caller.map(|caller| to_caller(run.id, caller)).unwrap_or_default();
    if let Some(calls) = &changes.calls {
        // An order that was dropped within the same commit is never written.
        let never_was =
            |of: &RunId| calls.dropped.contains(of) && calls.ordered.iter().any(|order| order.run == *of);
        let ordered = calls.ordered.iter().filter(|order| !never_was(&order.run));
        write.ordered = ordered.map(|order| (order.run, order_json(run, order))).collect();
        write.dropped = calls.dropped.iter().filter(|of| !never_was(of)).copied().collect();
        write.parent_facts = calls.facts.iter().map(parent_fact).collect();
    }
    Some(write)
}

fn parent_fact(run_fact: &RunFact) -> (RunId, &'static str, String) {
    match run_fact {
        RunFact::ParentAsked(run, asked) => {
            (*run, fact::kind::PARENT_ASKED, between_runs::parent_asked_body(asked))
        }
        RunFact::ParentAnswered(run, answered) => {
            (*run, fact::kind::PARENT_ANSWERED, between_runs::parent_answered_body(answered))
        }
    }
}

/// The order of a sub-workflow run: what its creator needs, and what the API shows of it.
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
        let mut left = tidemill_base::value::JsonMap::new();
        write_budget(&mut left, &budget.left(&run.paid()));
        object.value("budget", &left);
    }
    object.value("given", &StoredJson(&order.given));
    object.end()
}
