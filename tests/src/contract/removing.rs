//! States of apps, and the removal of apps and users.

use super::conversing::entering;
use super::fixtures::{SHARD, created_at, ended, new_run, run_id};
use super::{Outcome, Subject, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::EntryId;
use tidemill_common::store::{
    App, AppState, Commit, Created, Page, Removals, Reserved, StateSet, Trigger, TriggerChanges, TriggerKind,
};

fn app(id: &str) -> App {
    App { id: id.into(), version: "v1".into(), document: "{}".into(), ..App::default() }
}

fn run_of(n: u8, app: &str) -> tidemill_common::store::NewRun {
    let mut new = new_run(n);
    new.fields.push(("app", app.to_string()));
    new
}

async fn put(s: &Subject, id: &str) -> Outcome {
    s.store().put_app(&app(id), None, &TriggerChanges::default()).await?;
    Ok(())
}

pub(super) async fn an_app_that_is_not_on_accepts_no_runs(s: Subject) -> Outcome {
    let (store, removals) = (s.store(), s.store().removals());
    same("of no app", removals.set_app_state("app", AppState::Off).await?, StateSet::Unknown)?;
    put(&s, "app").await?;
    same("before", store.create_run(&run_of(1, "app")).await?, Created::Created)?;
    same("off", removals.set_app_state("app", AppState::Off).await?, StateSet::Done)?;
    same("shown", store.app("app").await?.map(|app| app.state), Some(AppState::Off))?;
    same("a new run", store.create_run(&run_of(2, "app")).await?, Created::Closed(AppState::Off))?;
    same("one that exists", store.create_run(&run_of(1, "app")).await?, Created::Exists)?;
    same("of another app", store.create_run(&run_of(3, "other")).await?, Created::Created)?;
    same("of none", store.create_run(&new_run(4)).await?, Created::Created)?;
    put(&s, "app").await?;
    same("a version changes nothing", store.app("app").await?.map(|app| app.state), Some(AppState::Off))?;
    same("on", removals.set_app_state("app", AppState::On).await?, StateSet::Done)?;
    same("again", store.create_run(&run_of(2, "app")).await?, Created::Created)
}

pub(super) async fn an_app_that_is_being_removed_stays_so(s: Subject) -> Outcome {
    let (store, removals) = (s.store(), s.store().removals());
    put(&s, "app").await?;
    same("without a removal", removals.set_app_state("app", AppState::Removing).await?, StateSet::Over)?;
    removals.move_removal("app", None, Some("first")).await?;
    same("removing", removals.set_app_state("app", AppState::Removing).await?, StateSet::Done)?;
    same("on", removals.set_app_state("app", AppState::On).await?, StateSet::Removing)?;
    same("off", removals.set_app_state("app", AppState::Off).await?, StateSet::Removing)?;
    let refused = Created::Closed(AppState::Removing);
    same("a run", store.create_run(&run_of(1, "app")).await?, refused)?;
    store.app_records().keep_version(&app("app"), created_at(1)).await?;
    same("by a late process", removals.drop_app("app", "earlier").await?, false)?;
    same("not yet", store.app("app").await?.is_some(), true)?;
    same("removed", removals.drop_app("app", "first").await?, true)?;
    same("with its removal", removals.removals_under_way().await?, vec![])?;
    same("gone", store.app("app").await?, None)?;
    same("from the list", store.apps().await?, vec![])?;
    same("its versions", store.app_records().versions("app").await?, vec![])?;
    same("a late run", store.create_run(&run_of(1, "app")).await?, refused)?;
    removals.open_app("app").await?;
    put(&s, "app").await?;
    same("of a new app", store.create_run(&run_of(1, "app")).await?, Created::Created)?;
    same("which a late process cannot remove", removals.drop_app("app", "first").await?, false)?;
    same("nor close", removals.set_app_state("app", AppState::Removing).await?, StateSet::Over)?;
    same("it stays", store.create_run(&run_of(2, "app")).await?, Created::Created)
}

pub(super) async fn what_is_left_of_a_switch_that_failed_goes_when_the_app_is_on(s: Subject) -> Outcome {
    let (store, removals) = (s.store(), s.store().removals());
    same("of no app", removals.reopen_app("app").await?, false)?;
    put(&s, "app").await?;
    removals.set_app_state("app", AppState::Off).await?;
    same("it is off", removals.reopen_app("app").await?, false)?;
    same("so it stays", store.create_run(&run_of(1, "app")).await?, Created::Closed(AppState::Off))?;
    removals.set_app_state("app", AppState::On).await?;
    same("it is on", removals.reopen_app("app").await?, true)?;
    same("and accepts runs", store.create_run(&run_of(1, "app")).await?, Created::Created)
}

pub(super) async fn a_removal_is_moved_by_one_process_only(s: Subject) -> Outcome {
    let removals = s.store().removals();
    same("not there", removals.move_removal("a", Some("0"), Some("1")).await?, false)?;
    same("it begins", removals.move_removal("a", None, Some("0")).await?, true)?;
    same("once", removals.move_removal("a", None, Some("0")).await?, false)?;
    same("another", removals.move_removal("b", None, Some("x")).await?, true)?;
    same("it goes on", removals.move_removal("a", Some("0"), Some("1")).await?, true)?;
    same("not twice", removals.move_removal("a", Some("0"), Some("2")).await?, false)?;
    let listed = |id: &str, text: &str| (id.to_string(), text.to_string());
    same("both", removals.removals_under_way().await?, vec![listed("a", "1"), listed("b", "x")])?;
    same("not yet", removals.move_removal("a", Some("0"), None).await?, false)?;
    same("done", removals.move_removal("a", Some("1"), None).await?, true)?;
    same("one is left", removals.removals_under_way().await?, vec![listed("b", "x")])
}

/// All conversations that a look through the store finds.
async fn conversations(removals: &dyn Removals, app: &str) -> Result<Vec<String>, super::Broken> {
    let (mut found, mut from) = (Vec::new(), Some(String::new()));
    while let Some(place) = from {
        let (page, next) = removals.conversations_of_app(app, &place).await?;
        found.extend(page.into_iter().map(|it| it.id));
        from = next;
    }
    Ok(found)
}

pub(super) async fn what_an_app_keeps_is_found_and_removed(s: Subject) -> Outcome {
    let (store, removals) = (s.store(), s.store().removals());
    store.enter_conversation(&entering(1, "u", false)).await?;
    same("its own", conversations(removals, "app").await?, vec!["chat".to_string()])?;
    same("of another", conversations(removals, "other").await?, vec![])?;
    let records = store.app_records();
    for (id, app) in [("1", "app"), ("2", "other"), ("3", "app")] {
        records.note_end_user(id, app, "u", created_at(1), 60).await?;
    }
    removals.drop_user("3").await?;
    same("a user", records.end_user("3").await?.is_none(), true)?;
    let mut from = Some(String::new());
    while let Some(place) = from {
        from = removals.drop_some_users("app", &place).await?;
    }
    let left = (records.end_user("1").await?.is_some(), records.end_user("2").await?.is_some());
    same("users of the app", left, (false, true))?;

    let hash = "0123456789abcdef".repeat(4);
    same("reserved", store.reserve(&hash, "request", run_id(1)).await?, Reserved::Ours)?;
    let (mut keys, mut from) = (Vec::new(), Some(String::new()));
    while let Some(place) = from {
        let (page, next) = removals.some_reserved(&place).await?;
        keys.extend(page);
        from = next;
    }
    same("the run of a key", keys.iter().map(|(_, run)| *run).collect::<Vec<_>>(), vec![run_id(1)])?;
    removals.drop_reserved(&[keys[0].0.clone()]).await?;
    same("free again", store.reserve(&hash, "other", run_id(2)).await?, Reserved::Ours)?;

    let trigger = |id: &str, app: &str| Trigger {
        id: id.into(),
        kind: TriggerKind::Webhook,
        app: app.into(),
        node: "n".into(),
        name: "w".into(),
        cron: String::new(),
        zone: String::new(),
    };
    let put = vec![(trigger("t1", "app"), None), (trigger("t2", "other"), None)];
    store.put_app(&app("app"), None, &TriggerChanges { put, ..TriggerChanges::default() }).await?;
    removals.drop_triggers("app").await?;
    let left: Vec<String> = store.triggers().await?.into_iter().map(|it| it.trigger.id).collect();
    same("triggers", left, vec!["t2".to_string()])?;
    removals.drop_annotations("app").await?;
    removals.drop_lists("app").await?;
    same("no ratings", records.feedbacks("app", Page { from: 0, count: 9 }).await?.len(), 0)
}

pub(super) async fn applied_facts_are_removed_and_others_stay(s: Subject) -> Outcome {
    let store = s.store();
    s.create(1).await?;
    let mut owning = s.own("a").await?;
    same("before", store.inbox_len(SHARD).await?, 1)?;
    store.removals().drop_applied().await?;
    same("not applied yet", store.inbox_len(SHARD).await?, 1)?;
    let due = store.due(SHARD, Some((EntryId::ZERO, 9)), created_at(1), 9).await?;
    let cursor = Some(due.facts[0].entry);
    owning.commit(Commit { cursor, ..Commit::default() }).await?;
    s.create(2).await?;
    store.removals().drop_applied().await?;
    same("the other one", store.inbox_len(SHARD).await?, 1)
}

pub(super) async fn discarded_runs_go_when_they_have_ended(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    s.store().removals().discard_runs(&[run_id(1), run_id(2), run_id(3)]).await?;
    let gone = s.store().sweep(SHARD, owning.epoch(), Timestamp::from_micros(1), 10).await?;
    same("the one that has ended", gone, 1)?;
    same("it is gone", s.store().run_fields(run_id(1)).await?.is_none(), true)?;
    let hidden = s.store().run_fields(run_id(2)).await?.is_some_and(|run| run.contains_key("removed"));
    same("the other one is hidden", hidden, true)?;
    same("no other one is made", s.store().run_fields(run_id(3)).await?.is_none(), true)
}
