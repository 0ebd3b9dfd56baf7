//! Simulates many stories on all cores. Each story uses only its own thread, so the distribution over threads has no
//! influence on it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Settings, simulate};

/// The results of many stories.
#[derive(Debug, Default)]
pub struct Played {
    /// The smallest seed found whose story fails.
    pub wrong: Option<u64>,
    /// How often each thing happened in all stories.
    pub tally: BTreeMap<String, u64>,
}

/// Simulates these seeds until one of their stories fails.
pub fn play(seeds: Range<u64>, settings: Settings) -> Played {
    let next = AtomicU64::new(seeds.start);
    let played: Mutex<Played> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let verdict = simulate(seed, settings);
                    let mut played = played.lock().unwrap_or_else(PoisonError::into_inner);
                    for (what, count) in verdict.tally {
                        *played.tally.entry(what).or_default() += count;
                    }
                    if verdict.violation.is_some() {
                        played.wrong = Some(played.wrong.map_or(seed, |known| known.min(seed)));
                        // The remaining seeds need not be simulated.
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    played.into_inner().unwrap_or_else(PoisonError::into_inner)
}
