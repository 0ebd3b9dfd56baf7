//! Bounded waits for a condition. A test never just sleeps: it looks until the condition holds, and when time is up
//! it prints what it saw last.

use std::time::{Duration, Instant};

/// Enough for anything that should happen, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Calls `look` until it returns `Ok`. An `Err` says what it saw instead.
///
/// # Panics
/// When time is up.
pub async fn until<T>(what: &str, at_most: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(instead) if begin.elapsed() > at_most => {
                panic!("waited {at_most:?} for {what}, but saw: {instead}")
            }
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}
