//! Triggers, and the runs that schedules begin.

use super::fixtures::{SHARD, new_run};
use super::{Outcome, Subject, holds, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{
    App, Created, DueSchedule, Fired, FromSchedule, NewRun, Trigger, TriggerChanges, TriggerKind, shard_of,
};

/// In the past by the clock of every store.
const DUE: Timestamp = Timestamp::from_millis(1_000);
const NEXT: Timestamp = Timestamp::from_millis(2_000);
/// In the far future.
const NEVER: Timestamp = Timestamp::from_millis(9_000_000_000_000);

fn trigger(id: &str, kind: TriggerKind) -> Trigger {
    let text = |text: &str| if kind == TriggerKind::Schedule { text.to_string() } else { String::new() };
    Trigger {
        id: id.to_string(),
        kind,
        app: "one".to_string(),
        node: format!("node of {id}"),
        name: "A flow".to_string(),
        cron: text("0 * * * *"),
        zone: text("UTC"),
    }
}

fn app() -> App {
    App { id: "one".to_string(), name: "An app".to_string(), ..App::default() }
}

fn schedule(id: &str, due: Timestamp) -> (Trigger, Option<Timestamp>) {
    (trigger(id, TriggerKind::Schedule), Some(due))
}

/// An id whose schedule is on the shard that the cases use.
async fn id_here(s: &Subject) -> Result<String, super::Broken> {
    let meta = s.store().meta().await?;
    let ids = (0_u32..).map(|n| format!("schedule-{n}"));
    Ok(ids.into_iter().find(|id| shard_of(id, meta) == SHARD).unwrap_or_default())
}

async fn publish(s: &Subject, changes: TriggerChanges) -> Outcome {
    Ok(s.store().put_app(&app(), None, &changes).await?)
}

async fn due(s: &Subject) -> Result<Vec<DueSchedule>, super::Broken> {
    Ok(s.store().due_schedules(&[SHARD]).await?.1)
}

pub(super) async fn triggers_are_added_and_removed_with_versions_of_their_app(s: Subject) -> Outcome {
    let (hook, plan) = (trigger("hook", TriggerKind::Webhook), id_here(&s).await?);
    let put = vec![(hook.clone(), None), schedule(&plan, NEVER)];
    publish(&s, TriggerChanges { put, ..TriggerChanges::default() }).await?;
    let found = s.store().trigger("hook").await?;
    same("the webhook", found.map(|state| (state.trigger, state.due)), Some((hook, None)))?;
    let all: Vec<_> = s.store().triggers().await?.into_iter().map(|t| (t.trigger.id, t.due)).collect();
    same("all", all, vec![("hook".to_string(), None), (plan.clone(), Some(NEVER))])?;
    same("nothing is due", due(&s).await?, vec![])?;
    // Another version: the webhook is gone, the schedule has other times.
    let changes = TriggerChanges {
        put: vec![schedule(&plan, DUE)],
        removed: vec!["hook".to_string()],
        ..TriggerChanges::default()
    };
    publish(&s, changes).await?;
    same("the webhook is gone", s.store().trigger("hook").await?, None)?;
    same("due", due(&s).await?, vec![DueSchedule { trigger: plan.clone(), due: DUE }])?;
    // A version with the same times: a due schedule stays due.
    let (put, unchanged) = (vec![schedule(&plan, NEVER)], vec![plan.clone()]);
    publish(&s, TriggerChanges { put, unchanged, ..TriggerChanges::default() }).await?;
    same("still due", due(&s).await?, vec![DueSchedule { trigger: plan.clone(), due: DUE }])?;
    publish(&s, TriggerChanges { removed: vec![plan], ..TriggerChanges::default() }).await?;
    same("no trigger is left", (s.store().triggers().await?, due(&s).await?), (vec![], vec![]))
}

pub(super) async fn a_scheduled_time_begins_one_run(s: Subject) -> Outcome {
    let plan = id_here(&s).await?;
    publish(&s, TriggerChanges { put: vec![schedule(&plan, DUE)], ..TriggerChanges::default() }).await?;
    let from = |due, next| Some(FromSchedule { trigger: plan.clone(), due, next, at: due });
    let first = NewRun { schedule: from(DUE, Some(NEXT)), ..new_run(1) };
    same("the first", s.store().create_run(&first).await?, Created::Created)?;
    same("a repetition", s.store().create_run(&first).await?, Created::Passed)?;
    // Even a request that was delayed until the run was removed.
    let late = NewRun { schedule: from(DUE, Some(NEXT)), ..new_run(2) };
    same("a very late repetition", s.store().create_run(&late).await?, Created::Passed)?;
    same("no data of it", s.store().run_fields(late.id).await?, None)?;
    same("the next time", due(&s).await?, vec![DueSchedule { trigger: plan.clone(), due: NEXT }])?;
    let last = NewRun { schedule: from(NEXT, None), ..new_run(3) };
    same("the last time", s.store().create_run(&last).await?, Created::Created)?;
    same("no further time", due(&s).await?, vec![])
}

pub(super) async fn a_schedule_stays_due_when_its_run_is_refused(s: Subject) -> Outcome {
    let plan = id_here(&s).await?;
    publish(&s, TriggerChanges { put: vec![schedule(&plan, DUE)], ..TriggerChanges::default() }).await?;
    s.create(1).await?;
    for _ in 0..=s.control.inbox_max() {
        s.report(1, &["{}"]).await?;
    }
    let schedule = Some(FromSchedule { trigger: plan.clone(), due: DUE, next: Some(NEXT), at: DUE });
    let refused = s.store().create_run(&NewRun { schedule, ..new_run(2) }).await?;
    same("refused", refused, Created::Busy)?;
    same("still due", due(&s).await?, vec![DueSchedule { trigger: plan, due: DUE }])
}

pub(super) async fn a_schedule_is_moved_only_from_its_due_time(s: Subject) -> Outcome {
    let plan = id_here(&s).await?;
    publish(&s, TriggerChanges { put: vec![schedule(&plan, DUE)], ..TriggerChanges::default() }).await?;
    same("by another", s.store().move_schedule(&plan, NEXT, Some(NEVER)).await?, false)?;
    same("on", s.store().move_schedule(&plan, DUE, Some(NEXT)).await?, true)?;
    same("again", s.store().move_schedule(&plan, DUE, Some(NEVER)).await?, false)?;
    same("away", s.store().move_schedule(&plan, NEXT, None).await?, true)?;
    same("nothing is due", due(&s).await?, vec![])
}

pub(super) async fn the_last_result_of_a_trigger_is_kept_while_it_exists(s: Subject) -> Outcome {
    let hook = vec![(trigger("hook", TriggerKind::Webhook), None)];
    publish(&s, TriggerChanges { put: hook.clone(), ..TriggerChanges::default() }).await?;
    let fired = Fired { at: Some(DUE), run: Some(new_run(1).id), error: None };
    let error = Some("no".to_string());
    s.store().note_fired("hook", &fired).await?;
    let kept = async || Ok::<_, super::Broken>(s.store().trigger("hook").await?.map(|state| state.fired));
    same("it fired", kept().await?, Some(fired.clone()))?;
    s.store().note_fired("hook", &Fired { error: error.clone(), ..Fired::default() }).await?;
    same("then it failed", kept().await?, Some(Fired { error, ..fired.clone() }))?;
    publish(&s, TriggerChanges { put: hook, ..TriggerChanges::default() }).await?;
    holds("a new version keeps it", kept().await?.is_some_and(|kept| kept.run == fired.run))?;
    s.store().note_fired("hook", &fired).await?;
    same("it fired again", kept().await?, Some(fired.clone()))?;
    s.store().note_fired("another", &fired).await?;
    same("one that does not exist", s.store().trigger("another").await?, None)
}
