//! Jobs of workers that died, and jobs that every worker died of.
//!
//! Over the whole fleet each stream is looked at about once a second: every worker looks as often as there are workers,
//! in seconds. In the first lease after its own connection came up, broke or stalled all jobs look abandoned, since nobody
//! could renew anything: until then only jobs that were handed back are taken.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::crash::{self, Place};
use tidemill_common::failure::EngineErrorType;
use tidemill_common::store::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::backoff::fraction;
use crate::begin::begin;
use crate::core::Core;
use crate::hand::Hand;
use crate::held::Stream;
use crate::metrics;

/// Most jobs that are taken over in one look at one stream.
const TAKEN_MAX: usize = 16;

/// A job that was handed back shows no sign of life at all: its time is that of the epoch. No job that anybody ever held
/// is silent for so long.
pub(crate) const HANDED_BACK: Duration = Duration::from_secs(365 * 24 * 3600);

/// When to look next.
#[derive(Debug)]
pub(crate) struct TakeOver {
    next: Instant,
}

impl TakeOver {
    pub(crate) fn new() -> Self {
        Self { next: Instant::now() }
    }

    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Looks at every stream as far as there are permits, and starts what is found.
    ///
    /// # Errors
    /// As the store; what it had handed out by then is held, and nobody here knows of it.
    pub(crate) async fn look(
        &mut self,
        core: &Arc<Core>,
        streams: &[Stream],
        permits: &mut OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        let workers = u32::try_from(core.vital.fleet()).unwrap_or(u32::MAX);
        self.next = Instant::now() + Duration::from_secs(1).saturating_mul(workers).mul_f64(0.5 + fraction());
        let lease = core.settings.lease;
        let idle = if core.vital.steady_for(lease) { lease } else { HANDED_BACK };
        for (shard, queue) in streams {
            let count = permits.num_permits().min(TAKEN_MAX);
            if count == 0 {
                break;
            }
            let taken = core.jobs.take_over(*shard, queue, &core.consumer, idle, count).await?;
            for job in taken {
                let Some(permit) = permits.split(1) else { break };
                metrics::JOBS_TAKEN.count();
                crash::pass(Place::JobTakenOver);
                tracing::info!(run = job.run, queue = %job.queue, entry = %job.entry, number = job.number, "job taken over");
                begin(core, job, permit);
            }
        }
        Ok(())
    }
}

/// Whether a job was handed out too often already to be tried once more.
pub(crate) fn is_worn_out(hand: &Hand) -> bool {
    hand.name.holder.counted() > hand.core.settings.deliveries_max
}

/// Fails a job that no worker brings a result of.
pub(crate) fn give_up(hand: &Hand, body: String) {
    metrics::JOBS_ENDED.count_for("given_up");
    let times = hand.name.holder.counted() - 1;
    let reason =
        format!("node {} was handed out {times} times and no worker brought a result", hand.name.node);
    tracing::error!(run = %hand.run, node = %hand.name.node, times, "job given up");
    hand.give_up(EngineErrorType::WorkerLost, reason, body);
}
