//! What the loop's processes share: names of keys, connections, and entries as they come.

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client};

use crate::error::Error;

/// The stream of jobs, read by the group [`GROUP`].
pub(crate) const JOBS: &str = "jobs";
/// The stream of results, read from a cursor.
pub(crate) const INBOX: &str = "inbox";
/// The stream of runs that are over.
pub(crate) const DONE: &str = "done";
/// The hash that holds the inbox's cursor.
pub(crate) const CURSOR: &str = "cursor";
/// The consumer group of [`JOBS`].
pub(crate) const GROUP: &str = "workers";

/// Entries read at once; more gain nothing.
pub(crate) const BATCH: usize = 128;
/// Longest wait of a read, in milliseconds.
const BLOCK_MS: usize = 5000;
/// Entries after which a stream is trimmed, and how many are left then.
pub(crate) const TRIM_EVERY: usize = 2000;
/// More than can be in flight, so that nothing pending is cut.
pub(crate) const TRIM_TO: usize = 4000;

/// An entry of a stream: a step of a run.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Its entry id.
    pub(crate) entry: String,
    /// Its run.
    pub(crate) run: String,
    /// Its node, from 0.
    pub(crate) node: usize,
    /// What is handed along.
    pub(crate) payload: String,
}

/// A connection that waits as long as a blocking read takes.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?)
}

/// Entries of a stream behind `after`; waits for the first.
pub(crate) async fn read_after(
    connection: &mut MultiplexedConnection,
    stream: &str,
    after: &str,
) -> Result<Vec<Step>, Error> {
    let options = StreamReadOptions::default().count(BATCH).block(BLOCK_MS);
    Ok(steps(connection.xread_options(&[stream], &[after], &options).await?))
}

/// New entries of the jobs for this consumer; waits for the first.
pub(crate) async fn read_jobs(
    connection: &mut MultiplexedConnection,
    consumer: &str,
) -> Result<Vec<Step>, Error> {
    let options = StreamReadOptions::default().group(GROUP, consumer).count(BATCH).block(BLOCK_MS);
    Ok(steps(connection.xread_options(&[JOBS], &[">"], &options).await?))
}

fn steps(reply: Option<StreamReadReply>) -> Vec<Step> {
    let streams = reply.map(|reply| reply.keys).unwrap_or_default();
    let entries = streams.into_iter().flat_map(|stream| stream.ids);
    entries
        .map(|entry| Step {
            run: entry.get("r").unwrap_or_default(),
            node: entry.get("n").unwrap_or_default(),
            payload: entry.get("p").unwrap_or_default(),
            entry: entry.id,
        })
        .collect()
}
