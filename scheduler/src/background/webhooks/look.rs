//! Looks for notices that are due on the shards of this process, and begins to serve their apps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::ShardId;
use tidemill_common::store::{NoticePlace, StoreError};
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Notifier;
use crate::metrics;
use crate::shards::lease::Lease;

/// The pause between two looks when nothing was announced. Only the owner of a shard orders notices, so a look is needed when
/// a shard was taken over.
const POLL_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a failure of the store, and after newly taken shards were not yet looked at.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of a place whose results cannot be stored.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// The shortest pause after a look at [`PLACES_AT_ONCE`] places. A look at more is followed by a longer one.
const GATHER: Duration = Duration::from_millis(50);
/// Places that one request asks about.
const PLACES_AT_ONCE: usize = 256;

/// The places that are being served, and those that rest.
#[derive(Default)]
struct Tasks {
    tasks: JoinSet<bool>,
    places: HashMap<tokio::task::Id, NoticePlace>,
    /// How many notices waited when the task began.
    served: HashMap<NoticePlace, u64>,
    resting: HashMap<NoticePlace, Rest>,
}

/// The rest of a place after failures of the store. Otherwise its receiver would get the same notice every second.
struct Rest {
    failures: u32,
    until: Instant,
    /// How many notices waited.
    waiting: u64,
}

impl Tasks {
    fn begin(
        &mut self,
        place: NoticePlace,
        waiting: u64,
        serving: impl Future<Output = bool> + Send + 'static,
    ) {
        self.places.insert(self.tasks.spawn(serving).id(), place.clone());
        self.served.insert(place, waiting);
    }

    async fn ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, is_stored) = ended.unwrap_or_else(|error| (error.id(), false));
        if let Some(place) = self.places.remove(&id) {
            let waiting = self.served.remove(&place).unwrap_or(0);
            self.note(place, waiting, is_stored, Instant::now());
        }
        Some(())
    }

    fn note(&mut self, place: NoticePlace, waiting: u64, is_stored: bool, now: Instant) {
        let before = self.resting.remove(&place);
        if !is_stored {
            let failures = before.map_or(0, |rest| rest.failures).saturating_add(1);
            self.resting.insert(place, Rest { failures, until: now + back_off(failures), waiting });
        }
    }

    /// Forgets places where nothing waits any more.
    fn keep(&mut self, places: &[NoticePlace]) {
        if !self.resting.is_empty() {
            let known: HashSet<&NoticePlace> = places.iter().collect();
            self.resting.retain(|place, _| known.contains(place));
        }
    }

    /// How many notices wait at places that a look does not ask about.
    fn waiting(&self, now: Instant) -> u64 {
        let resting =
            self.resting.iter().filter(|(place, rest)| rest.until > now && !self.served.contains_key(*place));
        self.served.values().sum::<u64>() + resting.map(|(_, rest)| rest.waiting).sum::<u64>()
    }
}

/// The rest after so many failures: 1 s, 2 s, 4 s … up to a minute.
fn back_off(failures: u32) -> Duration {
    let factor = 2u32.saturating_pow(failures.saturating_sub(1));
    SHORT_PAUSE.saturating_mul(factor).min(BACK_OFF_MAX)
}

/// What a look says about the next one.
struct Look {
    /// The pause until a notice is due.
    pause: Duration,
    /// The pause in which nothing wakes it.
    gather: Duration,
}

impl Notifier {
    /// Serves the shards that this process owns, until `stop` is set. What is being sent then is sent again by the next owner.
    pub(crate) async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let (mut tasks, mut looked_at) = (Tasks::default(), Vec::new());
        while !*stop.borrow() {
            let shards = lease.shards();
            let look = self.look(&shards, &mut tasks).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "notices for webhooks cannot be sent yet");
                Look { pause: SHORT_PAUSE, gather: SHORT_PAUSE }
            });
            looked_at.clone_from(&shards);
            // What many commits order within this time is read in one look.
            tokio::time::sleep(look.gather).await;
            let wake = Instant::now() + look.pause;
            loop {
                // Another process may have left notices on a shard that was taken over.
                let next = wake.min(Instant::now() + SHORT_PAUSE);
                tokio::select! {
                    _ = stop.changed() => break,
                    () = self.noticed.notified() => break,
                    Some(()) = tasks.ended() => break,
                    () = tokio::time::sleep_until(next) => {
                        if Instant::now() >= wake || lease.shards() != looked_at {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Begins to serve the places whose notices are due. It does not ask about those that are being served or rest.
    async fn look(&self, shards: &[ShardId], tasks: &mut Tasks) -> Result<Look, StoreError> {
        let places = self.store.places_with_notices(shards).await?;
        tasks.keep(&places);
        let (begin, mut pause) = (Instant::now(), POLL_PAUSE);
        let mut waiting = tasks.waiting(begin);
        let mut asked = Vec::new();
        for place in places.into_iter().filter(|place| !tasks.served.contains_key(place)) {
            match tasks.resting.get(&place).filter(|rest| rest.until > begin) {
                Some(rest) => pause = pause.min(rest.until - begin),
                None => asked.push(place),
            }
        }
        for some in asked.chunks(PLACES_AT_ONCE) {
            let (now, ahead) = (self.store.time().await?, self.store.notices_ahead(some).await?);
            for (place, ahead) in some.iter().zip(ahead) {
                waiting += ahead.count;
                let surplus = ahead.count.saturating_sub(self.config.webhooks.waiting_max);
                match ahead.first_due {
                    None => {}
                    Some(due) if due > now && surplus == 0 => pause = pause.min(between(now, due)),
                    Some(_) => {
                        let serving = self.clone().serve(place.clone(), surplus, now);
                        tasks.begin(place.clone(), ahead.count, serving);
                    }
                }
            }
        }
        ::metrics::gauge!(metrics::NOTICES_WAITING.name).set(waiting as f64);
        let pieces = u32::try_from(asked.len() / PLACES_AT_ONCE).unwrap_or(u32::MAX);
        Ok(Look { pause, gather: GATHER.saturating_mul(pieces.saturating_add(1)) })
    }
}

fn between(now: Timestamp, later: Timestamp) -> Duration {
    Duration::from_micros(later.micros().saturating_sub(now.micros()).max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_whose_results_cannot_be_stored_rests_longer_and_longer() {
        let (mut tasks, now) = (Tasks::default(), Instant::now());
        let place = NoticePlace { shard: ShardId(0), app: "a".into() };
        let rests = [false; 8].map(|is_stored| {
            tasks.note(place.clone(), 3, is_stored, now);
            tasks.resting.get(&place).map(|rest| (rest.until - now).as_secs())
        });
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
        assert_eq!(tasks.waiting(now), 3);
        tasks.note(place.clone(), 3, true, now);
        assert!(tasks.resting.is_empty());
        tasks.note(place, 3, false, now);
        tasks.keep(&[]);
        assert!(tasks.resting.is_empty(), "nothing waits there");
    }
}
