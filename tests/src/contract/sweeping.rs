//! The removal of ended runs.

use super::fixtures::{GRAPH, SHARD, created_at, ended, event, run_id, write};
use super::{Outcome, Subject, holds, same};
use tidemill_common::ids::{BlobId, EntryId};
use tidemill_common::store::ListRuns;
use tidemill_common::wire::commit::RunWrite;

pub(super) async fn runs_that_ended_long_ago_are_removed(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3, 4]).await?;
    let blob = BlobId::generate();
    let rich = RunWrite {
        blobs: vec![(blob.clone(), "\"x\"".to_string())],
        entries: [[event("graph_run_succeeded", 1)]].into_iter().collect(),
        state: [("a", Some("1"))].into_iter().collect(),
        ..ended(1, created_at(10))
    };
    owning.write(vec![rich, ended(2, created_at(11)), ended(3, created_at(20))]).await?;
    let store = s.store();
    same("no run is due", store.sweep(SHARD, owning.epoch(), created_at(10), 10).await?, 0)?;
    same("no more than asked for", store.sweep(SHARD, owning.epoch(), created_at(15), 1).await?, 1)?;
    same("the oldest first", store.run_fields(run_id(1)).await?, None)?;
    same("the rest", store.sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    same("nothing is left to do", store.sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 0)?;
    same("no run at rest", store.run_at_rest(run_id(1)).await?.is_none(), true)?;
    same("no event", store.events(run_id(1), EntryId::ZERO, 10).await?, vec![])?;
    same("no blob", store.blob(SHARD, &blob).await?, None)?;
    let all = ListRuns { limit: 10, ..ListRuns::default() };
    same("removed from the list", store.list_runs(&all).await?, vec![run_id(4), run_id(3)])
}

pub(super) async fn a_run_is_removed_with_all_its_blobs(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    // Enough that they are listed in parts, some of which are small.
    let blobs: Vec<_> = (0..700).map(|_| (BlobId::generate(), "1".to_string())).collect();
    owning.write(vec![RunWrite { blobs: blobs.clone(), ..ended(1, created_at(10)) }]).await?;
    same("swept", s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    let mut left = 0;
    for (blob, _) in &blobs {
        left += usize::from(s.store().blob(SHARD, blob).await?.is_some());
    }
    same("blobs left", left, 0)
}

pub(super) async fn only_the_owner_sweeps(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    s.own("a").await?;
    same("of an earlier epoch", s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 0)?;
    same("the run exists", s.status(1).await?, Some("succeeded".to_string()))
}

pub(super) async fn a_removed_run_with_files_is_listed_until_they_are_deleted(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let store = s.store();
    for run in [1, 1, 2] {
        same("noted", store.note_files(run_id(run)).await?, true)?;
    }
    owning.write(vec![ended(1, created_at(10)), ended(3, created_at(10))]).await?;
    same("no run was removed", store.files_left(SHARD, 10).await?, vec![])?;
    same("removed", store.sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 2)?;
    for _ in 0..2 {
        same("the one with files", store.files_left(SHARD, 10).await?, vec![run_id(1)])?;
    }
    same("too late", store.note_files(run_id(1)).await?, false)?;
    store.files_gone(run_id(1)).await?;
    same("its files are gone", store.files_left(SHARD, 10).await?, vec![])
}

pub(super) async fn files_of_a_request_that_became_no_run_are_listed_to_be_deleted(s: Subject) -> Outcome {
    s.running(&[1]).await?;
    let store = s.store();
    for (run, at) in [(1, 1), (2, 2), (3, 3), (4, 9)] {
        store.note_early_files(run_id(run), created_at(at)).await?;
    }
    // A second try of the same request.
    store.note_early_files(run_id(3), created_at(8)).await?;
    same("nothing is due", store.settle_early_files(SHARD, created_at(0), 10).await?, 0)?;
    same("no more than asked for", store.settle_early_files(SHARD, created_at(5), 1).await?, 1)?;
    same("its run exists", store.files_left(SHARD, 10).await?, vec![])?;
    same("the other one that is due", store.settle_early_files(SHARD, created_at(5), 10).await?, 1)?;
    same("it has no run", store.files_left(SHARD, 10).await?, vec![run_id(2)])?;
    same("both are settled", store.settle_early_files(SHARD, created_at(5), 10).await?, 0)?;
    // Its client repeats the request late.
    store.note_early_files(run_id(2), created_at(9)).await?;
    same("its files are wanted again", store.files_left(SHARD, 10).await?, vec![])?;
    same("the newer ones, later", store.settle_early_files(SHARD, created_at(9), 10).await?, 3)
}

pub(super) async fn a_graph_is_removed_with_its_last_run(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    owning.write(vec![ended(1, created_at(10)), write(2)]).await?;
    s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?;
    same("another run uses it", s.store().graph(SHARD, GRAPH).await?.is_some(), true)?;
    owning.write(vec![ended(2, created_at(10))]).await?;
    s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?;
    same("no run uses it", s.store().graph(SHARD, GRAPH).await?, None)
}

pub(super) async fn blobs_of_ended_runs_get_a_time_to_live(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let blobs: Vec<BlobId> = (0..3).map(|_| BlobId::generate()).collect();
    let kept = |n: u8| vec![(blobs[usize::from(n) - 1].clone(), "1".to_string())];
    // Two of them end at the same time, as in one commit.
    owning
        .write(vec![
            RunWrite { blobs: kept(1), ..ended(1, created_at(10)) },
            RunWrite { blobs: kept(2), ..ended(2, created_at(10)) },
            RunWrite { blobs: kept(3), ..write(3) },
        ])
        .await?;
    let store = s.store();
    same("not yet", store.expire_blobs(SHARD, created_at(9), 10).await?, 0)?;
    same("both with the same time", store.expire_blobs(SHARD, created_at(12), 1).await?, 2)?;
    same("each once", store.expire_blobs(SHARD, created_at(12), 10).await?, 0)?;
    for blob in &blobs {
        same("still there", store.blob(SHARD, blob).await?, Some("1".to_string()))?;
    }
    let long = std::time::Duration::from_secs(tidemill_common::limits::RETENTION_SECONDS + 25 * 3600);
    if s.control.patience() < long {
        return Ok(());
    }
    s.control.advance(long).await;
    same("expired with its run", store.blob(SHARD, &blobs[0]).await?, None)?;
    same("the blob of a running run", store.blob(SHARD, &blobs[2]).await?, Some("1".to_string()))
}

pub(super) async fn the_store_says_how_much_memory_it_uses(s: Subject) -> Outcome {
    let memory = s.store().memory(SHARD).await?;
    holds("the limit is not below the used memory", memory.max.is_none_or(|max| max >= memory.used))
}
