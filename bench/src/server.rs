//! A redis-server of our own: a port of its own, a directory of its own, gone when we are done.

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use crate::error::Error;
use crate::process::Process;

/// Tries, 20 ms apart, before a server that does not answer is given up.
const TRIES_MAX: usize = 250;

/// A redis-server that runs.
pub(crate) struct Server {
    // Dropped in this order: the process before its directory.
    process: Process,
    port: u16,
    _directory: TempDir,
}

impl Server {
    /// Starts an empty server with its append-only file synced every second, and waits until it answers.
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
            // A rewrite of the file in the middle of a figure would be part of it.
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

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A connection to it.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection, Error> {
        connect(&self.url()).await
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// A connection that waits for as long as an answer takes: on a busy machine that is longer than the client's default.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?)
}

/// Numbers that the server tells of itself in a section of `INFO`; one that it does not tell is an error.
pub(crate) async fn info<const N: usize>(
    connection: &mut MultiplexedConnection,
    section: &str,
    names: [&str; N],
) -> Result<[f64; N], Error> {
    let text: String = redis::cmd("INFO").arg(section).query_async(connection).await?;
    let mut values = [0.0; N];
    for (value, name) in values.iter_mut().zip(names) {
        let told = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        *value = told
            .and_then(|told| told.trim().parse().ok())
            .ok_or_else(|| Error::Wrong(format!("redis-server tells no {name} in INFO {section}")))?;
    }
    Ok(values)
}

async fn answers(port: u16) -> bool {
    let Ok(client) = redis::Client::open(format!("redis://127.0.0.1:{port}")) else { return false };
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return false };
    redis::cmd("PING").exec_async(&mut connection).await.is_ok()
}

/// Ports that are given to our processes: below those that Linux gives to connections, one of which would be in the way.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port that nobody listens on at the moment, and each time another one: whoever was given the last may not listen yet.
pub(crate) fn free_port() -> Result<u16, Error> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in PORTS {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS.len() as u16;
        // Where another bench runs beside this one, each begins elsewhere.
        let port = PORTS.start + (at + (std::process::id() % 100) as u16 * 120) % PORTS.len() as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::Wrong(format!("every port from {} to {} is in use", PORTS.start, PORTS.end - 1)))
}
