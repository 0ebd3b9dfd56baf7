//! Tests what only the memory store promises.

use super::*;
use crate::store::memory::shard::Blob;
use crate::store::{
    Commit, CommitError, ConversationRef, Dead, Entering, ListRuns, OPEN_FIELD, Runs, Shards,
};
use tidemill_base::clock::ManualClock;
use tidemill_wire::conversation::conversation_copy;

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

/// A store with the conversations c0 to c4, of which each was entered a second after the one before. The run of c1 is open;
/// each has a large variable.
async fn talking(clock: &Arc<ManualClock>) -> MemoryStore {
    let store = MemoryStore::new(clock.clone());
    for at in 0..5 {
        let id = format!("c{at}");
        let conversation = ConversationRef {
            shard: SHARD,
            id: id.clone(),
            app: String::new(),
            user: String::new(),
            copies: Vec::new(),
        };
        let entering = Entering {
            conversation,
            run: RunId::generate(SHARD),
            must_exist: false,
            at: clock.now(),
            begins: Vec::new(),
        };
        store.enter_conversation(&entering).await.unwrap();
        let mut space = store.inner.lock();
        let shard = space.shard(SHARD);
        let until = shard.conversations[&id].until;
        shard.blobs.insert(conversation_copy(&id, "notes"), Blob { text: "long".into(), until });
        if let Some(kept) = shard.conversations.get_mut(&id) {
            kept.fields.insert("v:notes".into(), "a blob".into());
            if at != 1 {
                kept.fields.insert(OPEN_FIELD.into(), String::new());
            }
        }
        drop(space);
        clock.advance(Duration::from_secs(1));
    }
    store
}

fn conversations(store: &MemoryStore) -> (Vec<String>, usize) {
    let mut space = store.inner.lock();
    let shard = space.shard(SHARD);
    let mut ids: Vec<String> = shard.conversations.keys().cloned().collect();
    ids.sort();
    (ids, shard.blobs.len())
}

#[tokio::test]
async fn of_more_conversations_than_are_kept_the_longest_unused_go_unless_a_run_is_open() {
    let store = talking(&clock()).await;
    store.forget_conversations(5);
    assert_eq!(conversations(&store).1, 5);
    store.forget_conversations(3);
    assert_eq!(conversations(&store), (vec!["c1".into(), "c3".into(), "c4".into()], 3));
    store.forget_conversations(0);
    assert_eq!(conversations(&store), (vec!["c1".into()], 1));
}

#[tokio::test]
async fn what_has_expired_takes_no_memory() {
    let clock = clock();
    let store = talking(&clock).await;
    store.reserve("key", "request", RunId::generate(SHARD)).await.unwrap();
    store.forget_expired();
    assert_eq!(conversations(&store).0.len(), 5);
    assert_eq!(store.inner.lock().reserved.len(), 1);
    let until = Duration::from_secs(limits::CONVERSATION_SECONDS.max(limits::IDEMPOTENCY_SECONDS));
    clock.advance(until);
    store.forget_expired();
    assert_eq!(conversations(&store), (Vec::new(), 0));
    assert!(store.inner.lock().reserved.is_empty());
}
