//! Timers.

use super::fixtures::{SHARD, created_at, write};
use super::{Outcome, Subject, same};
use tidemill_common::store::Commit;
use tidemill_common::wire::commit::RunWrite;

pub(super) async fn due_timers_are_returned_in_order(s: Subject) -> Outcome {
    let mut owning = s.own("a").await?;
    same("none", s.store().next_timer(SHARD).await?, None)?;
    let timers = [(3, "third"), (1, "first"), (2, "second"), (9, "later")];
    let timers_set = timers.map(|(n, member)| (created_at(n), member.to_string())).to_vec();
    owning.write(vec![RunWrite { timers_set, ..write(1) }]).await?;
    same("the earliest", s.store().next_timer(SHARD).await?, Some(created_at(1)))?;
    same("nothing is due", s.store().due_timers(SHARD, created_at(0), 10).await?, vec![])?;
    let due =
        |of: &[(u8, &str)]| of.iter().map(|(n, m)| (created_at(*n), (*m).to_string())).collect::<Vec<_>>();
    let three = due(&[(1, "first"), (2, "second"), (3, "third")]);
    same("due at the third", s.store().due_timers(SHARD, created_at(3), 10).await?, three.clone())?;
    same("two of them", s.store().due_timers(SHARD, created_at(3), 2).await?, three[..2].to_vec())?;
    same("reading removes none", s.store().due_timers(SHARD, created_at(3), 10).await?, three)
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
    let left = s.store().due_timers(SHARD, created_at(9), 10).await?;
    same("the remaining timers", left, vec![(created_at(5), "a".to_string())])
}
