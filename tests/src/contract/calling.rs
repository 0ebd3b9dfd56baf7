//! Sub-workflow runs: an order becomes one run or none, and its caller learns which.

use std::collections::BTreeSet;

use super::fixtures::{SHARD, created_at, ended, new_run, run_id, write};
use super::{Broken, Outcome, Subject, holds, same};
use tidemill_common::ids::RunId;
use tidemill_common::store::{Called, Created, NewRun, Refusal, RunOwner, WaitingCall};
use tidemill_common::wire::commit::{CallsWrite, RunWrite};
use tidemill_common::wire::fact::kind;

const ORDER: &str = r#"{"app":"a"}"#;

/// A write of run 1 that orders or drops these runs.
fn calls(ordered: &[u8], dropped: &[u8]) -> RunWrite {
    let ordered = ordered.iter().map(|n| (run_id(*n), ORDER.to_string())).collect();
    let dropped = dropped.iter().map(|n| run_id(*n)).collect();
    RunWrite { calls: Some(Box::new(CallsWrite { ordered, dropped, ..CallsWrite::default() })), ..write(1) }
}

fn made(n: u8, call: &WaitingCall) -> NewRun {
    let run = new_run(n);
    let handed = RunOwner::handed_field(&BTreeSet::from([run_id(3), run_id(4)]));
    let caller = format!(r#"{{"run":"{}","node":"t"}}"#, call.caller);
    let owner = [("app", "a".to_owned()), ("user", format!("u{n}")), ("caller", caller)];
    let fields = run.fields.iter().cloned().chain(owner).chain(handed).collect();
    NewRun { called: Some(call.clone()), fields, ..run }
}

async fn waiting(s: &Subject) -> Result<Vec<RunId>, Broken> {
    Ok(s.store().waiting_calls(&[SHARD], 10).await?.iter().map(|call| call.run).collect())
}

/// The kinds of the facts about a run.
async fn kinds(s: &Subject, n: u8) -> Result<Vec<String>, Broken> {
    let facts = s.facts().await?.into_iter();
    Ok(facts.filter(|fact| fact.run == Ok(run_id(n))).map(|fact| fact.kind.into_owned()).collect())
}

pub(super) async fn an_order_becomes_one_run_and_its_end_is_reported(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    same("it was never ordered", store.called(run_id(1), run_id(2)).await?, Called::Unknown)?;
    owning.write(vec![calls(&[2], &[])]).await?;
    let call = store.waiting_calls(&[SHARD], 10).await?.remove(0);
    same("what waits", (call.run, call.caller), (run_id(2), run_id(1)))?;
    same("its order", store.call_order(run_id(1), run_id(2)).await?, Some(ORDER.to_string()))?;
    same("it waits to be made", store.called(run_id(1), run_id(2)).await?, Called::Waits)?;
    let other = WaitingCall { since: call.since + 1, ..call.clone() };
    same("another order", store.create_run(&made(2, &other)).await?, Created::Passed)?;
    same("no owner yet", store.owner_of_run(run_id(2)).await?, None)?;
    same("it is made", store.create_run(&made(2, &call)).await?, Created::Created)?;
    let owner = RunOwner {
        app: Some("a".into()),
        user: "u2".into(),
        caller: Some(run_id(1)),
        handed: BTreeSet::from([run_id(3), run_id(4)]),
    };
    same("its owner", store.owner_of_run(run_id(2)).await?, Some(owner))?;
    let unnamed = RunOwner::default();
    same("a run without an app", store.owner_of_run(run_id(1)).await?, Some(unnamed))?;
    same("once", store.create_run(&made(2, &call)).await?, Created::Passed)?;
    same("nothing waits", waiting(&s).await?, vec![])?;
    let runs = matches!(store.called(run_id(1), run_id(2)).await?, Called::Runs(fields) if fields.contains_key("status"));
    holds("it is running", runs)?;
    let of_removal = async || {
        let have_called = store.removals().have_called(&[run_id(1), run_id(2)]).await?;
        let (called, next) = store.removals().some_called(run_id(1), "").await?;
        Ok::<_, Broken>((have_called, called, next))
    };
    same("a removal finds it", of_removal().await?, (vec![true, false], vec![run_id(2)], None))?;
    same("it is shown", store.calls_of(run_id(1)).await?, (vec![(run_id(2), ORDER.to_string())], 1))?;
    let write = CallsWrite { ended: Some((run_id(1), "{}".into())), ..CallsWrite::default() };
    owning.write(vec![RunWrite { calls: Some(Box::new(write)), ..ended(2, created_at(9)) }]).await?;
    same("its caller is informed", kinds(&s, 1).await?, vec!["start".to_string(), kind::CALL_ENDED.into()])?;
    let end = store.called(run_id(1), run_id(2)).await?;
    let status = |fields: &std::collections::HashMap<String, String>| fields.get("status").cloned();
    let end = if let Called::Ended(fields) = &end { status(fields) } else { None };
    same("its result", end, Some("succeeded".to_string()))?;
    store.sweep(SHARD, owning.epoch(), created_at(10), 10).await?;
    same("its order is left", of_removal().await?, (vec![false, false], vec![run_id(2)], None))?;
    same("it existed", store.called(run_id(1), run_id(2)).await?, Called::Gone)
}

pub(super) async fn a_dropped_order_is_never_created_or_its_run_is_stopped(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    owning.write(vec![calls(&[2, 3], &[])]).await?;
    let waits = store.waiting_calls(&[SHARD], 10).await?;
    let [two, three] =
        <[WaitingCall; 2]>::try_from(waits).map_err(|_| Broken::Promise("two orders wait".into()))?;
    same("the oldest of each shard", store.waiting_calls(&[SHARD], 1).await?, vec![two.clone()])?;
    same("the first is made", store.create_run(&made(2, &two)).await?, Created::Created)?;
    owning.write(vec![calls(&[], &[2, 3])]).await?;
    same("the other is not", store.create_run(&made(3, &three)).await?, Created::Passed)?;
    same("and it does not exist", s.status(3).await?, None)?;
    same("the first is stopped", kinds(&s, 2).await?, vec!["start".to_string(), kind::STOP.into()])
}

pub(super) async fn a_refused_order_says_why(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    owning.write(vec![calls(&[2], &[])]).await?;
    let call = store.waiting_calls(&[SHARD], 10).await?.remove(0);
    let why = Refusal { order: r#"{"app":"a","error":"app not found"}"#.into(), fact: "{}".into() };
    holds("it is refused", store.refuse_call(&call, &why).await?)?;
    holds("once", !store.refuse_call(&call, &why).await?)?;
    same("nothing waits", waiting(&s).await?, vec![])?;
    same("it is not made", store.create_run(&made(2, &call)).await?, Created::Passed)?;
    same("why", store.called(run_id(1), run_id(2)).await?, Called::Refused("app not found".into()))?;
    same("its caller is informed", kinds(&s, 1).await?, vec!["start".to_string(), kind::CALL_ENDED.into()])
}
