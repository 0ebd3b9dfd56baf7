//! Tests what only the memory store promises.

use super::*;
use crate::store::{Commit, CommitError, Dead, ListRuns, Runs, Shards};
use tidemill_base::clock::ManualClock;

const SHARD: ShardId = ShardId(0);

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_754_339_718_571)))
}

#[tokio::test]
async fn a_commit_number_must_exceed_the_last() {
    let store = MemoryStore::new(clock());
    let mut owner = store.claim(SHARD, "a", Duration::from_secs(5)).await.unwrap().unwrap();
    let number = owner.claim().commit;
    let refused = owner.commit(&Commit { number, ..Commit::default() }).await;
    assert!(matches!(refused, Err(CommitError::NotDone(_))), "{refused:?}");
    owner.commit(&Commit { number: number + 1, ..Commit::default() }).await.unwrap();
}

#[tokio::test]
async fn numbers_start_from_the_time_at_each_take_over() {
    let clock = clock();
    let store = MemoryStore::new(clock.clone());
    let claim = async || store.claim(SHARD, "a", Duration::from_secs(5)).await.unwrap().unwrap();
    let now = || clock.now().micros().unsigned_abs();
    assert_eq!(claim().await.claim().commit, now());
    assert_eq!(claim().await.claim().commit, now() + 1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(claim().await.claim().commit, now());
}

#[tokio::test]
async fn dead_letters_are_kept() {
    let store = MemoryStore::new(clock());
    let mut owner = store.claim(SHARD, "a", Duration::from_secs(5)).await.unwrap().unwrap();
    let dead = Dead::new("fact", "x", "unknown kind", "{}".into());
    let number = owner.claim().commit + 1;
    owner.commit(&Commit { number, dead: vec![dead.clone()], ..Commit::default() }).await.unwrap();
    assert_eq!(store.dead(SHARD), [dead]);
    assert_eq!(store.list_runs(&ListRuns::default()).await.unwrap(), []);
}
