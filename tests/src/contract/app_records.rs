//! Records of apps: versions stay, users are noted, ratings are listed under their app, and runs of a removed
//! conversation go.

use std::time::Duration;

use super::conversing::{chat, entering};
use super::fixtures::{GRAPH, SHARD, created_at, ended, new_run, run_id};
use super::{Outcome, Subject, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::limits;
use tidemill_common::store::{App, AppVersion, EndUser, INNER_FIELD, Page, REMOVED_FIELD, Rating};

fn app(version: &str) -> App {
    let document = format!("{{\"is\":\"{version}\"}}");
    App { id: "app".into(), version: version.into(), document, ..App::default() }
}

pub(super) async fn versions_of_an_app_stay_with_their_first_time(s: Subject) -> Outcome {
    let records = s.store().app_records();
    same("none yet", records.versions("app").await?, vec![])?;
    records.keep_version(&app("one"), created_at(1)).await?;
    records.keep_version(&app("two"), created_at(2)).await?;
    records.keep_version(&app("one"), created_at(3)).await?;
    let version = |version: &str, n| AppVersion { version: version.into(), published_at: created_at(n) };
    same("newest first", records.versions("app").await?, vec![version("two", 2), version("one", 1)])?;
    same("of another app", records.versions("other").await?, vec![])?;
    let document = async |of: &str, version: &str| records.version_document(of, version).await;
    same("a document", document("app", "one").await?, Some(app("one").document))?;
    same("removed", records.drop_version("app", "one").await?, true)?;
    same("once", records.drop_version("app", "one").await?, false)?;
    same("the other one", records.versions("app").await?, vec![version("two", 2)])?;
    same("no document", document("app", "one").await?, None)?;
    same("an unknown version", document("app", "three").await?, None)?;
    same("of another app", document("other", "two").await?, None)
}

pub(super) async fn the_runs_of_a_version_are_counted_until_they_are_removed(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let records = s.store().app_records();
    let counts = async || records.runs_of_versions(&[GRAPH.to_string(), "another".to_string()]).await;
    same("two", counts().await?, vec![2, 0])?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    same("an ended one is kept", counts().await?, vec![2, 0])?;
    s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?;
    same("one is left", counts().await?, vec![1, 0])
}

pub(super) async fn a_user_is_noted_with_its_first_and_its_last_time(s: Subject) -> Outcome {
    let records = s.store().app_records();
    same("none yet", records.end_user("id").await?, None)?;
    for n in [1, 2] {
        records.note_end_user("id", "app", "Ada", created_at(n), 60).await?;
    }
    records.note_end_user("another", "app", "Bob", created_at(3), 0).await?;
    let ada = EndUser {
        app: "app".into(),
        user: "Ada".into(),
        created_at: created_at(1),
        updated_at: created_at(2),
    };
    same("both times", records.end_user("id").await?, Some(ada))
}

pub(super) async fn ratings_are_listed_under_their_app(s: Subject) -> Outcome {
    let (store, records) = (s.store(), s.store().app_records());
    store.enter_conversation(&entering(1, "u", false)).await?;
    let rating = |n: u8, rating: Option<&str>, at: u8| Rating {
        conversation: chat("chat", "u"),
        message: run_id(n),
        rating: rating.map(str::to_string),
        at: created_at(at),
    };
    for it in [rating(1, Some("1"), 1), rating(2, Some("2"), 2), rating(1, Some("3"), 3)] {
        store.rate_message(&it).await?;
    }
    let page = async |from, count| {
        let found = records.feedbacks("app", Page { from, count }).await?;
        let rows = found.into_iter().map(|it| (it.conversation, it.message, it.created_at, it.rating));
        Ok::<_, super::Broken>(rows.collect::<Vec<_>>())
    };
    let row = |n: u8, rating: &str| ("chat".to_string(), run_id(n), created_at(n), rating.to_string());
    same("the time of the first rating orders", page(0, 10).await?, vec![row(2, "2"), row(1, "3")])?;
    same("the second page", page(1, 1).await?, vec![row(1, "3")])?;
    same("after the end", page(2, 1).await?, vec![])?;
    same("of another app", records.feedbacks("other", Page { from: 0, count: 1 }).await?, vec![])?;
    store.rate_message(&rating(2, None, 4)).await?;
    same("without the one that was taken back", page(0, 10).await?, vec![row(1, "3")])?;
    store.drop_conversation(&chat("chat", "u")).await?;
    same("none with its conversation", page(0, 10).await?, vec![])
}

pub(super) async fn pages_of_ratings_far_from_the_newest_are_right(s: Subject) -> Outcome {
    let (store, records) = (s.store(), s.store().app_records());
    store.enter_conversation(&entering(1, "u", false)).await?;
    let message = |n: usize| RunId::new(n as u64, 1, SHARD);
    let count = limits::FEEDBACKS_READ_MAX + 120;
    for n in 0..count {
        let rating = Rating {
            conversation: chat("chat", "u"),
            message: message(n),
            rating: Some("1".to_string()),
            // Several have the same time.
            at: created_at(1).plus(Duration::from_millis(n as u64 / 7 * 50)),
        };
        store.rate_message(&rating).await?;
    }
    for (from, wanted) in [(0, 10), (limits::FEEDBACKS_READ_MAX - 3, 20), (count - 4, 20), (count, 20)] {
        let found = records.feedbacks("app", Page { from, count: wanted }).await?;
        let found: Vec<RunId> = found.into_iter().map(|it| it.message).collect();
        let expected: Vec<RunId> = (0..count).rev().skip(from).take(wanted).map(message).collect();
        same("a page", found, expected)?;
    }
    Ok(())
}

pub(super) async fn runs_of_a_removed_conversation_are_hidden_and_removed(s: Subject) -> Outcome {
    let store = s.store();
    let mut owning = s.own("s1").await?;
    for (n, conversation) in [(1, "chat"), (2, "chat"), (3, "other")] {
        let mut new = new_run(n);
        new.fields.push(("conversation_id", conversation.to_string()));
        store.create_run(&new).await?;
    }
    owning.write([1, 3].map(|n| ended(n, created_at(9))).to_vec()).await?;
    let unknown = run_id(8);
    let runs: Vec<RunId> = vec![run_id(1), run_id(2), run_id(3), unknown];
    store.app_records().forget_runs(&chat("chat", "u"), &runs).await?;
    let is_hidden = async |n| {
        let fields = store.run_fields(run_id(n)).await?;
        Ok::<_, super::Broken>(fields.is_some_and(|fields| fields.contains_key(REMOVED_FIELD)))
    };
    for (n, hidden) in [(1, true), (2, true), (3, false), (8, false)] {
        same("hidden", (n, is_hidden(n).await?), (n, hidden))?;
    }
    let long_ago = Timestamp::from_micros(1);
    same("the ended one is due", store.sweep(SHARD, owning.epoch(), long_ago, 10).await?, 1)?;
    same("it is gone", store.run_fields(run_id(1)).await?, None)?;
    same("the open one stays", store.run_fields(run_id(2)).await?.is_some(), true)?;
    let names = ["status", "conversation_id", "nothing"];
    let fields = store.app_records().fields_of_runs(&[run_id(3), unknown], &names).await?;
    let found: Vec<Option<&str>> =
        names.iter().map(|name| fields[0].get(*name).map(String::as_str)).collect();
    same("some fields of a run", found, vec![Some("succeeded"), Some("other"), None])?;
    same("of no run", fields[1].len(), 0)
}

pub(super) async fn inner_runs_are_hidden_and_removed_and_other_runs_stay(s: Subject) -> Outcome {
    let store = s.store();
    let mut owning = s.own("s1").await?;
    for (n, field) in [(1, INNER_FIELD), (2, INNER_FIELD), (3, "conversation_id")] {
        let mut new = new_run(n);
        new.fields.push((field, "speech".to_string()));
        store.create_run(&new).await?;
    }
    owning.write([1, 3].map(|n| ended(n, created_at(9))).to_vec()).await?;
    let runs: Vec<RunId> = [1, 2, 3, 8].map(run_id).to_vec();
    let records = store.app_records();
    records.forget_inner_runs(SHARD, &runs).await?;
    // A conversation without an id has no runs.
    records.forget_runs(&chat("", "u"), &runs).await?;
    for (n, hidden) in [(1, true), (2, true), (3, false), (8, false)] {
        let fields = store.run_fields(run_id(n)).await?;
        let is_hidden = fields.is_some_and(|fields| fields.contains_key(REMOVED_FIELD));
        same("hidden", (n, is_hidden), (n, hidden))?;
    }
    let long_ago = Timestamp::from_micros(1);
    same("the ended one is due", store.sweep(SHARD, owning.epoch(), long_ago, 10).await?, 1)?;
    same("it is gone", store.run_fields(run_id(1)).await?, None)?;
    owning.write(vec![ended(2, created_at(9))]).await?;
    records.forget_inner_runs(SHARD, &runs).await?;
    same("the other one, when it has ended", store.sweep(SHARD, owning.epoch(), long_ago, 10).await?, 1)?;
    same("a run of a conversation stays", store.run_fields(run_id(3)).await?.is_some(), true)
}
