//! Many people who ask a model through Tidemill and watch the answer come: over HTTP, over server-sent events, and at
//! times that are planned beforehand.
//!
//! [`plan`] says when, [`client`] asks and watches through [`door`], [`frames`] reads what comes, [`tally`] counts it.
//! [`fleet`] is what is asked; its [`model`] writes into every word when it said it, so that a client knows how old the
//! word is. Nobody waits for an answer before the next one asks, and everything is counted from the moment for which it was planned:
//! when Tidemill falls behind, those who come meanwhile are late as well, and it shows.

mod client;
mod door;
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

/// From here on a run that has not ended counts as an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before the first one asks.
const HEAD_START: Duration = Duration::from_millis(100);

/// How many ask, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// How many watch an answer at the same time, on average.
    pub(crate) clients: usize,
    /// Words of an answer, one every [`model::WORD_EVERY`].
    pub(crate) words: usize,
    /// How long is measured, once as many watch as are meant to.
    pub(crate) lasts: Duration,
    /// Where the plan comes from.
    pub(crate) seed: u64,
}

impl Crowd {
    /// How long an answer takes the model. It is also how long it takes until the first answers end, and so until as many
    /// watch as are meant to.
    fn answer(&self) -> Duration {
        model::WORD_EVERY * u32::try_from(self.words).unwrap_or(u32::MAX)
    }

    /// Runs that begin in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.clients as f64 / self.answer().as_secs_f64()
    }
}

/// What came of it.
pub(crate) struct Outcome {
    /// What the clients saw.
    pub(crate) tally: Tally,
    /// Who used the processors meanwhile.
    pub(crate) shares: Shares,
}

/// Lets a crowd ask a fleet.
pub(crate) async fn watch(fleet: &Fleet, crowd: Crowd) -> Result<Outcome, Error> {
    let began = Instant::now() + HEAD_START;
    let (from, to) = (began + crowd.answer(), began + crowd.answer() + crowd.lasts);
    let tally = Arc::new(Mutex::new(Tally::between(from, to)?));
    let crowded = async {
        let mut clients = JoinSet::new();
        for at in plan::arrivals(crowd.seed, crowd.per_second(), to - began) {
            sleep_until(began + at).await;
            let asked = client::ask(fleet.door(), crowd.words, began + at, tally.clone());
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
