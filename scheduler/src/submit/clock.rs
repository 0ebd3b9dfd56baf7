//! The store's time for those who submit: asked for now and then, counted on from there in between. A round trip for each
//! run would tell hardly more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::store::{Runs, StoreError};
use tokio::time::Instant;

/// How long it is counted on. The store's clock may be set meanwhile.
const COUNTED_ON_MAX: Duration = Duration::from_secs(1);

/// The store's time, as it was told last.
#[derive(Default)]
pub(super) struct StoreClock(Mutex<Option<(Timestamp, Instant)>>);

impl StoreClock {
    /// The time; a little behind rather than ahead.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn now(&self, store: &dyn Runs) -> Result<Timestamp, StoreError> {
        let told = *self.lock();
        if let Some((time, at)) = told
            && at.elapsed() < COUNTED_ON_MAX
        {
            return Ok(time.plus(at.elapsed()));
        }
        let time = store.time().await?;
        *self.lock() = Some((time, Instant::now()));
        Ok(time)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Timestamp, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_is_counted_on_for_a_second() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let clock = StoreClock::default();
        let began = clock.now(&store).await.unwrap();
        tokio::time::advance(Duration::from_millis(900)).await;
        assert_eq!(clock.now(&store).await.unwrap(), began.plus(Duration::from_millis(900)));
        // Tokio's clock is ahead of the store's by now: what is asked anew is the store's.
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(clock.now(&store).await.unwrap() < began.plus(Duration::from_millis(900)));
    }
}
