//! Sub-workflow runs, with the behaviour of the commit, `called.lua` and `refuse_call.lua`.

use super::shard::Shard;
use crate::store::{Called, Refusal, WaitingCall};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::RunId;
use tidemill_wire::commit::CallsWrite;
use tidemill_wire::fact::{self, kind};

/// Applies the part of a commit about sub-workflow runs.
pub(super) fn write(shard: &mut Shard, caller: RunId, calls: &CallsWrite, number: u64, now: Timestamp) {
    for (run, order) in &calls.ordered {
        shard.runs.entry(caller).or_default().calls.insert(*run, order.clone());
        shard.calling.insert((number, *run, caller));
    }
    for run in &calls.dropped {
        shard.add_fact(now, run.to_string(), kind::STOP, &fact::stop_body(fact::NOBODY_WAITS));
        shard.calling.retain(|(_, of, by)| (of, by) != (run, &caller));
    }
    if let Some((caller, body)) = &calls.ended {
        shard.add_fact(now, caller.to_string(), kind::CALL_ENDED, body);
    }
    for (run, kind, body) in &calls.parent_facts {
        shard.add_fact(now, run.to_string(), kind, body);
    }
}

fn sort_key(call: &WaitingCall) -> (u64, RunId, RunId) {
    (call.since, call.run, call.caller)
}

pub(super) fn waits(shard: &Shard, call: &WaitingCall) -> bool {
    shard.calling.contains(&sort_key(call))
}

/// Removes a waiting order.
pub(super) fn taken(shard: &mut Shard, call: Option<&WaitingCall>) {
    if let Some(call) = call {
        shard.calling.remove(&sort_key(call));
    }
}

pub(super) fn waiting(shard: &Shard, most: usize) -> Vec<WaitingCall> {
    shard
        .calling
        .iter()
        .take(most)
        .map(|(since, run, caller)| WaitingCall { run: *run, caller: *caller, since: *since })
        .collect()
}

pub(super) fn refuse(shard: &mut Shard, call: &WaitingCall, why: &Refusal, now: Timestamp) -> bool {
    if !shard.calling.remove(&sort_key(call)) {
        return false;
    }
    shard.runs.entry(call.caller).or_default().calls.insert(call.run, why.order.clone());
    shard.add_fact(now, call.caller.to_string(), kind::CALL_ENDED, &why.fact);
    true
}

pub(super) fn called(shard: &Shard, caller: RunId, run: RunId) -> Called {
    let order = shard.runs.get(&caller).and_then(|caller| caller.calls.get(&run));
    let is_pending = shard.calling.iter().any(|(_, of, by)| (of, by) == (&run, &caller));
    let fields = shard.runs.get(&run).map(|run| run.fields.clone()).unwrap_or_default();
    Called::of(order.map(String::as_str), is_pending, fields)
}
