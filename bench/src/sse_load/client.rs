//! A client: submits a run, follows it to its end, and measures the delay of every word.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::BodyExt;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::connection_pool::{ConnectionPool, Fault};
use super::frames::Frames;
use super::tally::Tally;

/// Path for submissions.
pub(super) const RUNS: &str = "/api/v1/runs";

/// Asks for an answer of so many words. All times count from the planned moment.
pub(super) async fn ask(pool: Arc<Watched>, words: usize, planned: Instant, tally: Arc<Mutex<Tally>>) {
    let lock = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    lock().note(|tally| &mut tally.load, planned);
    if let Err(fault) = follow(&pool, words, planned, lock).await {
        lock().note_error(&fault.to_string());
    }
}

/// A connection pool and the app behind it.
pub(crate) struct Watched {
    pub(super) pool: ConnectionPool,
    pub(super) app: String,
}

impl Watched {
    /// Builds the request that runs the app.
    pub(super) fn submission(&self, words: usize) -> serde_json::Value {
        json!({"app": self.app, "user": "bench", "sys": {"query": words.to_string()}})
    }
}

async fn follow<'a>(
    watched: &Watched,
    words: usize,
    planned: Instant,
    lock: impl Fn() -> MutexGuard<'a, Tally>,
) -> Result<(), Fault> {
    let pool = &watched.pool;
    let mut connection = pool.connect().await?;
    let run = pool.post(&mut connection, RUNS, &watched.submission(words)).await?;
    lock().note(|tally| &mut tally.accepted, planned);
    let path = format!("{RUNS}/{}/events", run["id"].as_str().unwrap_or("?"));
    connection.ready().await?;
    let mut answer = pool.ask(&mut connection, Method::GET, &path, String::new()).await?.into_body();
    let (mut frames, mut seen) = (Frames::default(), Seen::default());
    while let Some(piece) = answer.frame().await {
        let Ok(piece) = piece?.into_data() else { continue };
        frames.push(&piece);
        while let Some(data) = frames.next() {
            seen.take(data, planned, &lock)?;
        }
    }
    if !seen.has_ended || seen.words != words {
        let (seen, ended) = (seen.words, if seen.has_ended { "an end" } else { "no end" });
        return Err(Fault::Wrong(format!("{seen} words of {words}, and {ended}")));
    }
    pool.release(connection);
    Ok(())
}

/// The events that a client has seen of its run.
#[derive(Default)]
struct Seen {
    events: usize,
    words: usize,
    has_ended: bool,
}

/// The fields of an event that matter here.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, default)]
    chunk: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
}

impl Seen {
    fn take<'a>(
        &mut self,
        data: &[u8],
        planned: Instant,
        lock: impl Fn() -> MutexGuard<'a, Tally>,
    ) -> Result<(), Fault> {
        let mut tally = lock();
        if self.events == 0 {
            tally.note(|tally| &mut tally.first, planned);
        }
        self.events += 1;
        let event: Event =
            serde_json::from_slice(data).map_err(|error| Fault::Wrong(format!("not an event: {error}")))?;
        match &*event.kind {
            "node_run_stream_chunk" => {
                for word in event.data.chunk.split_ascii_whitespace() {
                    let word = word
                        .parse()
                        .map_err(|_| Fault::Wrong(format!("{word:?} is not a word of the model")))?;
                    tally.note_word(word);
                    self.words += 1;
                }
            }
            "graph_run_succeeded" => self.has_ended = true,
            "graph_run_failed"
            | "graph_run_aborted"
            | "graph_run_partial_succeeded"
            | "node_run_stream_replaced" => {
                let error = event.data.error.unwrap_or_default();
                return Err(Fault::Wrong(format!("{} {error}", event.kind)));
            }
            _ => {}
        }
        Ok(())
    }
}
