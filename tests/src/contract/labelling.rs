//! Runs are found by their labels.

use super::fixtures::{SHARD, created_at, ended, moved, new_run, run_id};
use super::{Outcome, Subject, same};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Created, LABELS_FIELD, ListRuns, NewRun, label_id};

fn labelled(n: u8, labels: &str) -> NewRun {
    let mut new = new_run(n);
    new.fields.push((LABELS_FIELD, labels.to_string()));
    new
}

fn with(name: &str, value: &str) -> ListRuns {
    ListRuns { label: Some(label_id(name, value)), limit: 10, ..ListRuns::default() }
}

pub(super) async fn runs_with_a_label_are_listed_and_counted_until_they_are_removed(s: Subject) -> Outcome {
    let store = s.store();
    for (n, labels) in [(1, r#"{"team":"blue"}"#), (2, r#"{"env":"prod","team":"blue"}"#), (3, "{}")] {
        same("created", store.create_run(&labelled(n, labels)).await?, Created::Created)?;
    }
    same("without labels", store.create_run(&new_run(4)).await?, Created::Created)?;
    let blue = with("team", "blue");
    same("newest first", store.list_runs(&blue).await?, vec![run_id(2), run_id(1)])?;
    same("another", store.list_runs(&with("env", "prod")).await?, vec![run_id(2)])?;
    same("none", store.list_runs(&with("team", "prod")).await?, vec![])?;
    same("both", store.count_runs(&blue).await?, 2)?;
    let since = ListRuns { since: Some(created_at(2)), ..blue.clone() };
    same("since", store.count_runs(&since).await?, 1)?;
    same("all runs", store.count_runs(&ListRuns::default()).await?, 4)?;
    let mut owning = s.own("a").await?;
    owning.write(vec![moved(1, RunStatus::Scheduled, RunStatus::Running)]).await?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    same("removed", store.sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    same("one is left", store.list_runs(&blue).await?, vec![run_id(2)])?;
    same("its number", store.count_runs(&blue).await?, 1)
}

pub(super) async fn lists_of_labels_lose_runs_that_an_earlier_version_has_removed(s: Subject) -> Outcome {
    let store = s.store();
    store.create_run(&labelled(1, r#"{"team":"blue"}"#)).await?;
    store.tidy_labels(SHARD, 5).await?;
    let blue = with("team", "blue");
    same("it exists", store.list_runs(&blue).await?, vec![run_id(1)])?;
    // The store takes it off, as if it were gone: the same that a list does with a run that it does not find.
    store.runs_gone(&blue, &[]).await?;
    same("none was gone", store.count_runs(&blue).await?, 1)
}
