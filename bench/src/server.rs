//! A private redis-server with its own port and directory, both removed at the end.

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use crate::error::Error;
use crate::process::Process;

/// Tries, 20 ms apart, until the start of a server fails.
const TRIES_MAX: usize = 250;

/// A running redis-server.
pub(crate) struct Server {
    // Dropped in this order: the process before its directory.
    process: Process,
    port: u16,
    _directory: TempDir,
}

impl Server {
    /// Starts an empty server that syncs its append-only file every second, and waits until it answers.
    pub(crate) async fn start(program: &Path) -> Result<Self, Error> {
        let directory = tempfile::tempdir().map_err(Error::io("making a directory for redis-server"))?;
        let port = free_port()?;
        let (port_text, place) = (port.to_string(), directory.path().display().to_string());
        let arguments = [
            ["--port", &port_text],
            ["--bind", "127.0.0.1"],
            ["--dir", &place],
            ["--appendonly", "yes"],
            ["--appendfsync", "everysec"],
            ["--maxmemory-policy", "noeviction"],
            ["--save", ""],
            // A rewrite of the file during a measurement would change the figure.
            ["--auto-aof-rewrite-percentage", "0"],
            ["--loglevel", "warning"],
        ];
        let mut process = Process::start(program, arguments.as_flattened(), None)?;
        for _ in 0..TRIES_MAX {
            if process.has_ended() {
                return Err(Error::Wrong(format!("{} ended at once", program.display())));
            }
            if answers(port).await {
                return Ok(Self { process, port, _directory: directory });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Error::Wrong(format!("{} does not answer on port {port}", program.display())))
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Opens a connection to it.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection, Error> {
        connect(&self.url()).await
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Opens a connection without a short timeout: on a busy machine answers can take longer than the client's default.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?)
}

/// Returns numbers from a section of `INFO`. A missing one is an error.
pub(crate) async fn info<const N: usize>(
    connection: &mut MultiplexedConnection,
    section: &str,
    names: [&str; N],
) -> Result<[f64; N], Error> {
    let text: String = redis::cmd("INFO").arg(section).query_async(connection).await?;
    let mut values = [0.0; N];
    for (value, name) in values.iter_mut().zip(names) {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        *value = found
            .and_then(|found| found.trim().parse().ok())
            .ok_or_else(|| Error::Wrong(format!("redis-server has no {name} in INFO {section}")))?;
    }
    Ok(values)
}

async fn answers(port: u16) -> bool {
    let Ok(client) = redis::Client::open(format!("redis://127.0.0.1:{port}")) else { return false };
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return false };
    redis::cmd("PING").exec_async(&mut connection).await.is_ok()
}

/// Ports for our processes. They are below the ports that Linux gives to outgoing connections, so that these do not
/// take them.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Returns a port that no program listens on now. Each call returns another one, because the process that got the last
/// one may not be listening yet.
pub(crate) fn free_port() -> Result<u16, Error> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in PORTS {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS.len() as u16;
        // Another bench may run at the same time, so each begins at another place.
        let port = PORTS.start + (at + (std::process::id() % 100) as u16 * 120) % PORTS.len() as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::Wrong(format!("every port from {} to {} is in use", PORTS.start, PORTS.end - 1)))
}
