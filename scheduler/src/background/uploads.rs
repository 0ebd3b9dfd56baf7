//! Removes uploads after `scheduler.upload_days`. Every scheduler does it: a file can be removed twice without harm. It
//! goes by days, so the process' own clock is good enough. Runs have their own copies.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::files::{FilesError, day_of};
use tokio::sync::watch::Receiver;

use crate::submit::Submitter;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(3600);
/// Files that are removed in one piece.
const PIECE: usize = 500;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Removes old uploads every hour, until `stop` is set.
pub async fn run(submitter: Arc<Submitter>, days: u64, mut stop: Receiver<bool>) {
    while !*stop.borrow() {
        if let Err(error) = expire(&submitter, days).await {
            tracing::warn!(%error, "old uploads cannot be removed yet; it is tried again");
        }
        tokio::select! {
            _ = stop.changed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

async fn expire(submitter: &Submitter, days: u64) -> Result<(), FilesError> {
    let Some(first) = first_kept(SystemClock.now().seconds(), days) else { return Ok(()) };
    while !submitter.uploads.open()?.expire(&first, PIECE).await? {}
    Ok(())
}

/// The first day whose uploads are kept at this moment; `None` if all are.
pub(crate) fn first_kept(now: i64, days: u64) -> Option<String> {
    let age = i64::try_from(days).ok().filter(|days| *days > 0)?.checked_mul(DAY_SECONDS)?;
    day_of(now.checked_sub(age)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_kept_for_at_least_its_days() {
        // Noon of 2025-01-31.
        let now = 1_738_324_800;
        for (days, first) in [(1, Some("2025-01-30")), (30, Some("2025-01-01")), (0, None), (u64::MAX, None)]
        {
            assert_eq!(first_kept(now, days).as_deref(), first, "{days}");
        }
    }
}
