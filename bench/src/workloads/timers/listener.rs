//! Listens to commits on a thread of its own, because the load of a workload blocks the main thread. The same thread
//! measures bare round trips.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tidemill_common::clock::{Clock, SystemClock};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::server::connect;

/// The pause between two round trips.
const TRIP_EVERY: Duration = Duration::from_millis(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What was heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The time of the last commit of each run, in microseconds.
    pub(super) ends: HashMap<String, i64>,
    /// Round trips of a request that does nothing, in milliseconds.
    pub(super) round_trips_ms: Vec<f64>,
}

/// The running thread.
pub(super) struct Listener {
    heard: Arc<Mutex<Heard>>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Listener {
    /// Listens to the channels of a pattern. Each message is a list of run ids.
    pub(super) fn start(url: String, pattern: String) -> Result<Self, Error> {
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::io("making a runtime"))?;
        let kept = heard.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    done = listen(&url, &pattern, &kept) => done,
                    done = measure_trips(&url, &kept) => done,
                    _ = stopped => Ok(()),
                }
            })
        });
        Ok(Self { heard, stop, thread })
    }

    /// Stops once a commit of every run was heard of after its due time (in milliseconds), or after `at_most`.
    pub(super) fn stop_after(self, due: &HashMap<String, i64>, at_most: Duration) -> Result<Heard, Error> {
        let began = Instant::now();
        let is_over = |ends: &HashMap<String, i64>| {
            due.iter().all(|(run, at)| ends.get(run).is_some_and(|end| *end >= at * 1000))
        };
        while !is_over(&lock(&self.heard).ends) && began.elapsed() < at_most {
            std::thread::sleep(LOOK_EVERY);
        }
        // It has ended already if there was an error.
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| Error::Wrong("the listener panicked".into()))??;
        let heard = std::mem::take(&mut *lock(&self.heard));
        Ok(heard)
    }
}

fn lock(heard: &Mutex<Heard>) -> std::sync::MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(url: &str, pattern: &str, heard: &Mutex<Heard>) -> Result<(), Error> {
    let mut pubsub = redis::Client::open(url)?.get_async_pubsub().await?;
    pubsub.psubscribe(pattern).await?;
    let mut messages = pubsub.on_message();
    while let Some(message) = messages.next().await {
        let now = SystemClock.now().micros();
        let runs: String = message.get_payload()?;
        let mut heard = lock(heard);
        for run in runs.split(' ') {
            heard.ends.insert(run.to_string(), now);
        }
    }
    Err(Error::Wrong("the connection to redis-server has ended".into()))
}

async fn measure_trips(url: &str, heard: &Mutex<Heard>) -> Result<(), Error> {
    let mut connection = connect(url).await?;
    loop {
        let began = Instant::now();
        redis::cmd("PING").exec_async(&mut connection).await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        lock(heard).round_trips_ms.push(took);
        tokio::time::sleep(TRIP_EVERY).await;
    }
}
