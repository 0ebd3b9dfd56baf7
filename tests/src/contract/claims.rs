//! The ownership of shards.

use std::time::Duration;

use super::fixtures::{SHARD, write};
use super::{Outcome, Subject, holds, same};
use tidemill_common::store::{Commit, CommitError};

pub(super) async fn a_held_shard_is_refused_to_others(s: Subject) -> Outcome {
    same("at first", s.store().holder(SHARD).await?, None)?;
    s.own("a").await?;
    same("the holder", s.store().holder(SHARD).await?, Some("a".to_string()))?;
    holds("refused to b", s.store().claim(SHARD, "b", s.control.lease()).await?.is_none())?;
    s.own("a").await?;
    same("the holder still", s.store().holder(SHARD).await?, Some("a".to_string()))
}

pub(super) async fn a_lease_ends_with_its_time(s: Subject) -> Outcome {
    let first = s.own("a").await?;
    s.control.advance(s.control.lease() * 5 / 4).await;
    same("no scheduler holds it", s.store().holder(SHARD).await?, None)?;
    same("a has lost it", s.store().renew(&[SHARD], "a", s.control.lease()).await?, vec![SHARD])?;
    let second = s.own("b").await?;
    holds("the epoch went up", second.epoch() > first.epoch())
}

pub(super) async fn a_renewed_lease_does_not_end(s: Subject) -> Outcome {
    s.own("a").await?;
    for _ in 0..3 {
        s.control.advance(s.control.lease() / 2).await;
        same("lost", s.store().renew(&[SHARD], "a", s.control.lease()).await?, vec![])?;
    }
    same("the holder", s.store().holder(SHARD).await?, Some("a".to_string()))?;
    same("not for others", s.store().renew(&[SHARD], "b", s.control.lease()).await?, vec![SHARD])
}

pub(super) async fn a_released_shard_is_free_at_once(s: Subject) -> Outcome {
    s.own("a").await?;
    s.store().release(SHARD, "b").await?;
    same("only the holder releases", s.store().holder(SHARD).await?, Some("a".to_string()))?;
    s.store().release(SHARD, "a").await?;
    same("free", s.store().holder(SHARD).await?, None)?;
    s.own("b").await?;
    same("the new holder", s.store().holder(SHARD).await?, Some("b".to_string()))
}

pub(super) async fn a_second_claim_voids_the_first(s: Subject) -> Outcome {
    let mut first = s.own("a").await?;
    first.write(vec![write(1)]).await?;
    let mut second = s.own("a").await?;
    let lost = first.write(vec![write(1)]).await;
    holds("the first is lost", matches!(lost, Err(CommitError::Lost(shard)) if shard == SHARD))?;
    second.write(vec![write(1)]).await?;
    let lost = first.write(vec![write(1)]).await;
    holds("and stays lost", matches!(lost, Err(CommitError::Lost(_))))
}

pub(super) async fn a_claim_returns_the_position_to_continue_from(s: Subject) -> Outcome {
    let mut first = s.own("a").await?;
    same("the shard", first.owner.claim().shard, SHARD)?;
    same("nothing applied", first.owner.claim().cursor, tidemill_common::ids::EntryId::ZERO)?;
    s.report(1, &["1"]).await?;
    let cursor = s.facts().await?[0].entry;
    first.commit(Commit { cursor: Some(cursor), ..Commit::default() }).await?;
    // A commit that applies only timers leaves the cursor unchanged.
    first.commit(Commit::default()).await?;
    let last = first.next() - 1;
    let second = s.own("a").await?;
    same("the cursor", second.owner.claim().cursor, cursor)?;
    holds("the number went up", second.owner.claim().commit > last)?;
    holds("the epoch went up", second.epoch() > first.epoch())
}

pub(super) async fn a_regular_release_counts_as_no_failure(s: Subject) -> Outcome {
    for _ in 0..3 {
        let owning = s.own("a").await?;
        same("the first", owning.owner.claim().takeovers, 1)?;
        s.store().release(SHARD, "a").await?;
    }
    Ok(())
}

pub(super) async fn takeovers_without_progress_are_counted(s: Subject) -> Outcome {
    s.report(1, &["1", "2"]).await?;
    let facts: Vec<_> = s.facts().await?.iter().map(|fact| fact.entry).collect();
    let first = s.own("a").await?;
    same("the first", (first.owner.claim().takeovers, first.owner.claim().trying.clone()), (1, vec![]))?;
    s.store().note_trying(SHARD, &facts).await?;
    s.store().note_trying(SHARD, &facts[..1]).await?;
    let mut second = s.own("a").await?;
    let claim = second.owner.claim().clone();
    same("the second", (claim.takeovers, claim.trying), (2, vec![facts[0], facts[1], facts[0]]))?;
    second.commit(Commit { cursor: Some(facts[0]), ..Commit::default() }).await?;
    let third = s.own("a").await?;
    same("after a commit", (third.owner.claim().takeovers, third.owner.claim().trying.clone()), (1, vec![]))
}

pub(super) async fn live_processes_are_listed(s: Subject) -> Outcome {
    let (store, ttl) = (s.store(), s.control.lease());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    same("one", store.announce_scheduler("b", ttl).await?, names(&["b"]))?;
    same("two", store.announce_scheduler("a", ttl).await?, names(&["a", "b"]))?;
    same("workers", store.announce_worker("w1", ttl).await?, 1)?;
    same("more workers", store.announce_worker("w2", ttl).await?, 2)?;
    s.control.advance(ttl + Duration::from_millis(50)).await;
    store.announce_scheduler("a", ttl).await?;
    store.announce_worker("w2", ttl).await?;
    same("a silent one is not listed", store.announce_scheduler("c", ttl).await?, names(&["a", "c"]))?;
    same("nor is a silent worker", store.announce_worker("w3", ttl).await?, 2)?;
    store.retire_scheduler("a").await?;
    store.retire_worker("w2").await?;
    same("one has left", store.announce_scheduler("c", ttl).await?, names(&["c"]))?;
    same("so has a worker", store.announce_worker("w3", ttl).await?, 1)
}
