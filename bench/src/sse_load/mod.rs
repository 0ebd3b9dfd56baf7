//! Many clients that ask a model through Tidemill and read the answer: over HTTP and server-sent events, at times that
//! are planned in advance.
//!
//! [`plan`] has the times, [`client`] asks and reads through [`connection_pool`], [`frames`] splits the stream,
//! [`tally`] counts. [`fleet`] is the system under load. Its [`model`] writes the current time into every word, so that a client knows
//! the word's age. No client waits for another one, and all times count from the planned moment: if Tidemill falls
//! behind, the clients that come in the meantime are late as well, and the figures show it.

mod client;
mod connection_pool;
mod fleet;
mod frames;
pub(crate) mod model;
mod plan;
mod starts;
mod tally;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::error::Error;
pub(crate) use fleet::{Fleet, Shares};
pub(crate) use starts::starts;
pub(crate) use tally::{Quantiles, Tally};

/// Time after which a run that has not ended counts as an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time before the first client.
const HEAD_START: Duration = Duration::from_millis(100);

/// The number of clients, and how long they come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Number of clients that read an answer at the same time, on average.
    pub(crate) clients: usize,
    /// Words of an answer, one every [`model::WORD_EVERY`].
    pub(crate) words: usize,
    /// Length of the measurement, after the planned number of clients is reached.
    pub(crate) lasts: Duration,
    /// Seed of the plan.
    pub(crate) seed: u64,
}

impl Crowd {
    /// The time that the model needs for an answer. After this time the first answers end, so the planned number of
    /// clients is reached.
    fn answer(&self) -> Duration {
        model::WORD_EVERY * u32::try_from(self.words).unwrap_or(u32::MAX)
    }

    /// Number of runs that begin per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.clients as f64 / self.answer().as_secs_f64()
    }
}

/// The results.
pub(crate) struct Outcome {
    /// Counts of the clients.
    pub(crate) tally: Tally,
    /// Processor time during the measurement.
    pub(crate) shares: Shares,
}

/// Lets a crowd use a fleet.
pub(crate) async fn watch(fleet: &Fleet, crowd: Crowd) -> Result<Outcome, Error> {
    let began = Instant::now() + HEAD_START;
    let (from, to) = (began + crowd.answer(), began + crowd.answer() + crowd.lasts);
    let tally = Arc::new(Mutex::new(Tally::between(from, to)?));
    let crowded = async {
        let mut clients = JoinSet::new();
        for at in plan::arrivals(crowd.seed, crowd.per_second(), to - began) {
            sleep_until(began + at).await;
            let asked = client::ask(fleet.watched(), crowd.words, began + at, tally.clone());
            clients.spawn(tokio::time::timeout(PATIENCE + crowd.answer(), asked));
        }
        while let Some(ended) = clients.join_next().await {
            if !matches!(ended, Ok(Ok(()))) {
                tally.lock().unwrap_or_else(PoisonError::into_inner).note_error("a run does not end");
            }
        }
    };
    let measured = async {
        sleep_until(from).await;
        let before = fleet.used()?;
        sleep_until(to).await;
        Ok::<_, Error>(fleet.used()?.since(&before))
    };
    let ((), shares) = tokio::join!(crowded, measured);
    let tally = std::mem::replace(
        &mut *tally.lock().unwrap_or_else(PoisonError::into_inner),
        Tally::between(from, to)?,
    );
    Ok(Outcome { tally, shares: shares? })
}
