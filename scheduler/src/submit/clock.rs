//! The store's time for submissions. It is read once a second and extrapolated in between, because a round trip for
//! each run would gain little accuracy.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::store::{Runs, StoreError};
use tokio::time::Instant;

/// The longest time to extrapolate. The store's clock may be changed meanwhile.
const COUNTED_ON_MAX: Duration = Duration::from_secs(1);

/// The store's time at the last read, and when that was.
#[derive(Default)]
pub(super) struct StoreClock(Mutex<Option<(Timestamp, Instant)>>);

impl StoreClock {
    /// Returns the time. It may be slightly late, but never early.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn now(&self, store: &dyn Runs) -> Result<Timestamp, StoreError> {
        let known = *self.lock();
        if let Some((time, at)) = known
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
    async fn the_time_is_extrapolated_for_a_second() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let clock = StoreClock::default();
        let began = clock.now(&store).await.unwrap();
        tokio::time::advance(Duration::from_millis(900)).await;
        assert_eq!(clock.now(&store).await.unwrap(), began.plus(Duration::from_millis(900)));
        // Tokio's clock is ahead of the store's now: a new read shows the store's time.
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(clock.now(&store).await.unwrap() < began.plus(Duration::from_millis(900)));
    }
}
