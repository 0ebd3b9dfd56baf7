//! The store in memory keeps the contract.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidemill_common::clock::{ManualClock, Timestamp};
use tidemill_common::store::memory::MemoryStore;

use super::{Control, Subject, all};

const INBOX_MAX: u64 = 20;
const QUEUE_MAX: u64 = 10;

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
        all(subject).await.into_iter().map(|(name, error)| format!("{name}: {error}")).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
