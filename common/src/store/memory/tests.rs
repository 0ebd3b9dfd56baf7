//! Runs the contract, and tests what only the memory store promises.

use super::*;
use crate::clock::ManualClock;
use crate::store::contract::{self, Control, Subject};
use crate::store::{Commit, CommitError, Dead, ListRuns, Runs, Shards};
use async_trait::async_trait;

const INBOX_MAX: u64 = 20;
const QUEUE_MAX: u64 = 10;
const SHARD: ShardId = ShardId(0);

struct Moved(Arc<ManualClock>);

#[async_trait]
impl Control for Moved {
    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
    fn lease(&self) -> Duration {
        Duration::from_secs(5)
    }
    fn patience(&self) -> Duration {
        Duration::MAX
    }
    fn inbox_max(&self) -> u64 {
        INBOX_MAX
    }
    fn queue_max(&self) -> u64 {
        QUEUE_MAX
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_754_339_718_571)))
}

async fn subject() -> Subject {
    let clock = clock();
    Subject {
        store: Arc::new(MemoryStore::bounded(clock.clone(), 2, INBOX_MAX, QUEUE_MAX)),
        control: Arc::new(Moved(clock)),
    }
}

#[tokio::test]
async fn the_contract_holds() {
    let broken: Vec<String> =
        contract::all(subject).await.into_iter().map(|(name, error)| format!("{name}: {error}")).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
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
