//! Bounded waits for a condition. A test never sleeps for luck: it looks until it sees, and when time is up it says what
//! it saw last.

use std::time::{Duration, Instant};

/// Enough for anything that is going to happen, on a machine that is busy with other tests.
pub const LONG: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until it sees. An `Err` is what was seen instead.
///
/// # Panics
/// When time is up.
pub async fn until<T>(what: &str, at_most: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(instead) if begin.elapsed() > at_most => {
                panic!("waited {at_most:?} in vain for {what}; seen instead: {instead}")
            }
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}
