//! Parts that the processes of the loop share: names of keys, connections, and entries of streams.

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client};

use crate::error::Error;

/// The stream of jobs, read by the group [`GROUP`].
pub(crate) const JOBS: &str = "jobs";
/// The stream of results, read from a cursor.
pub(crate) const INBOX: &str = "inbox";
/// The stream of ended runs.
pub(crate) const DONE: &str = "done";
/// The hash with the cursor of the inbox.
pub(crate) const CURSOR: &str = "cursor";
/// The consumer group of [`JOBS`].
pub(crate) const GROUP: &str = "workers";

/// Number of entries read at once; more would not be faster.
pub(crate) const BATCH: usize = 128;
/// Longest wait of a read, in milliseconds.
const BLOCK_MS: usize = 5000;
/// Number of entries after which a stream is trimmed.
pub(crate) const TRIM_EVERY: usize = 2000;
/// Number of entries left after trimming. More than can be in flight, so that no pending entry is removed.
pub(crate) const TRIM_TO: usize = 4000;

/// An entry of a stream: a step of a run.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// The id of the entry.
    pub(crate) entry: String,
    pub(crate) run: String,
    /// The number of the node, from 0.
    pub(crate) node: usize,
    /// The text that is passed on.
    pub(crate) payload: String,
}

/// Opens a connection whose timeout is long enough for blocking reads.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?)
}

/// Reads the entries of a stream after `after`; waits for the first.
pub(crate) async fn read_after(
    connection: &mut MultiplexedConnection,
    stream: &str,
    after: &str,
) -> Result<Vec<Step>, Error> {
    let options = StreamReadOptions::default().count(BATCH).block(BLOCK_MS);
    Ok(steps(connection.xread_options(&[stream], &[after], &options).await?))
}

/// Reads new jobs for this consumer; waits for the first.
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
