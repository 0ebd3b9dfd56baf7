//! Timers.

use super::fixtures::{SHARD, created_at, write};
use super::{Outcome, Subject, same};
use tidemill_common::ids::EntryId;
use tidemill_common::store::{Commit, Due};
use tidemill_common::wire::commit::RunWrite;

pub(super) async fn due_timers_are_returned_in_order(s: Subject) -> Outcome {
    let mut owning = s.own("a").await?;
    same("none", s.store().next_timer(SHARD).await?, None)?;
    let timers = [(3, "third"), (1, "first"), (2, "second"), (9, "later")];
    let timers_set = timers.map(|(n, member)| (created_at(n), member.to_string())).to_vec();
    owning.write(vec![RunWrite { timers_set, ..write(1) }]).await?;
    same("the earliest", s.store().next_timer(SHARD).await?, Some(created_at(1)))?;
    let due = async |now, count| s.store().due(SHARD, None, created_at(now), count).await;
    let of = |timers: &[(u8, &str)], next: Option<u8>| Due {
        timers: timers.iter().map(|(n, m)| (created_at(*n), (*m).to_string())).collect(),
        next: next.map(created_at),
        ..Due::default()
    };
    let three = [(1, "first"), (2, "second"), (3, "third")];
    same("nothing is due", due(0, 10).await?, of(&[], Some(1)))?;
    same("due at the third", due(3, 10).await?, of(&three, Some(9)))?;
    same("two of them, and there are more", due(3, 2).await?, of(&three[..2], Some(2)))?;
    same("reading removes none", due(3, 10).await?, of(&three, Some(9)))?;
    same("the last", due(9, 10).await?, of(&[three.as_slice(), &[(9, "later")]].concat(), None))
}

pub(super) async fn due_timers_come_with_the_facts_before_them(s: Subject) -> Outcome {
    let mut owning = s.own("a").await?;
    let timers_set = vec![(created_at(1), "due".to_string())];
    owning.write(vec![RunWrite { timers_set, ..write(1) }]).await?;
    s.report(1, &["1", "2", "3"]).await?;
    let facts = s.facts().await?;
    let due = async |facts| s.store().due(SHARD, facts, created_at(1), 10).await;
    let all = due(Some((EntryId::ZERO, 10))).await?;
    same("all facts", all.facts, facts.clone())?;
    same("the timer", all.timers, vec![(created_at(1), "due".to_string())])?;
    same("one after the first", due(Some((facts[0].entry, 1))).await?.facts, facts[1..2].to_vec())?;
    same("none after the last", due(Some((facts[2].entry, 10))).await?.facts, vec![])?;
    same("no facts are asked for", due(None).await?.facts, vec![])
}

pub(super) async fn timers_are_reset_and_cleared_by_commits(s: Subject) -> Outcome {
    let mut owning = s.own("a").await?;
    let timers = ["a", "b", "c"].map(|member| (created_at(1), member.to_string())).to_vec();
    owning.write(vec![RunWrite { timers_set: timers, ..write(1) }]).await?;
    let moved = vec![(created_at(5), "a".to_string())];
    owning
        .commit(Commit {
            writes: vec![RunWrite { timers_set: moved, timers_cleared: vec!["b".to_string()], ..write(1) }],
            timers_cleared: vec!["c".to_string(), "never there".to_string()],
            ..Commit::default()
        })
        .await?;
    let left = s.store().due(SHARD, None, created_at(9), 10).await?;
    same("the remaining timers", left.timers, vec![(created_at(5), "a".to_string())])
}
