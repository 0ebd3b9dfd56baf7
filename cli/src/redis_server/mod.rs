//! A private Redis for a data folder. It is reachable only through a socket in that folder, and it saves its data when
//! it stops. It neither reads nor changes any settings of the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Longest wait until Redis answers; loading a large append-only file takes a while.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest wait until Redis has written everything and ended.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Longest path of a Unix socket that works on every system, in bytes.
const SOCKET_PATH_MAX: usize = 100;

/// The reason why Redis could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisServerError {
    #[error(
        "redis-server is not installed: `apt install redis-server`, `brew install redis` or `dnf install redis`; or use a running Redis with --redis URL"
    )]
    NotInstalled,
    #[error(
        "the socket {socket} belongs to a Redis that keeps its data elsewhere ({dir}); stop it, or choose another folder with --data"
    )]
    Foreign { socket: PathBuf, dir: String },
    #[error("redis-server ended at once: {last}; its log is {log}")]
    Died { last: String, log: PathBuf },
    #[error("redis-server does not answer after {seconds} s; its log is {log}")]
    Silent { seconds: u64, log: PathBuf },
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

/// A running Redis. It is killed when dropped without [`RedisServer::stop`].
#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    socket: PathBuf,
    /// Holds the socket when the path of the data folder is too long for a socket.
    _socket_folder: Option<TempDir>,
}

impl RedisServer {
    /// Starts Redis on a folder, which this process must have locked. First shuts down a Redis that a killed process
    /// left running there.
    pub(crate) async fn start(dir: &Path) -> Result<Self, RedisServerError> {
        let (socket, socket_folder) = socket_of(dir)?;
        end_leftover(dir, &socket).await?;
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--daemonize", "no", "--supervised", "no"]);
        command.arg("--unixsocket").arg(&socket).args(["--unixsocketperm", "700"]);
        command.arg("--dir").arg(dir).args(["--logfile", "redis.log"]);
        // At most the writes of the last second can be lost, and nothing is ever evicted.
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
        command.args(["--maxmemory-policy", "noeviction"]);
        // Its own process group: Ctrl-C in the terminal must not stop Redis, which has to end last.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => RedisServerError::NotInstalled,
            _ => RedisServerError::Io { doing: "start redis-server", source },
        })?;
        let mut server = Self { child, socket, _socket_folder: socket_folder };
        server.wait_until_it_answers(&dir.join("redis.log")).await?;
        Ok(server)
    }

    /// The address of Redis as a setting.
    pub(crate) fn url(&self) -> String {
        let mut url = String::from("unix://");
        for character in self.socket.display().to_string().chars() {
            match character {
                '%' | ' ' | '?' | '#' => url.push_str(&format!("%{:02X}", u32::from(character))),
                _ => url.push(character),
            }
        }
        url
    }

    /// Returns when Redis has ended without being asked to.
    pub(crate) async fn ended(&mut self) {
        // An error means that the process cannot be waited for, so it has ended.
        let _ = self.child.wait().await;
    }

    /// Lets Redis write everything, then ends it.
    pub(crate) async fn stop(mut self) {
        // If it does not answer, it is killed below; the append-only file has all but the last second.
        let _ = ask(&self.socket, "SHUTDOWN").await;
        if timeout(STOP_MAX, self.child.wait()).await.is_err() {
            tracing::warn!("redis-server did not end in time and is killed");
            let _ = self.child.kill().await;
        }
    }

    async fn wait_until_it_answers(&mut self, log: &Path) -> Result<(), RedisServerError> {
        let begin = Instant::now();
        while begin.elapsed() < START_MAX {
            let io = |source| RedisServerError::Io { doing: "watch redis-server", source };
            if self.child.try_wait().map_err(io)?.is_some() {
                return Err(RedisServerError::Died { last: last_line(log), log: log.into() });
            }
            // While Redis loads its data, it answers with an error.
            if ask(&self.socket, "PING").await.is_ok_and(|answer| answer.starts_with("+PONG")) {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        Err(RedisServerError::Silent { seconds: START_MAX.as_secs(), log: log.into() })
    }
}

fn socket_of(dir: &Path) -> Result<(PathBuf, Option<TempDir>), RedisServerError> {
    let socket = dir.join("redis.sock");
    if socket.as_os_str().len() <= SOCKET_PATH_MAX {
        return Ok((socket, None));
    }
    let folder = tempfile::Builder::new().prefix("tidemill-").tempdir();
    let folder =
        folder.map_err(|source| RedisServerError::Io { doing: "make a folder for a socket", source })?;
    Ok((folder.path().join("redis.sock"), Some(folder)))
}

/// Shuts down a Redis that still answers on the socket. The folder is locked, so its owner must have ended, unless the
/// Redis belongs to another folder.
async fn end_leftover(dir: &Path, socket: &Path) -> Result<(), RedisServerError> {
    let Ok(answer) = ask(socket, "CONFIG GET dir").await else { return Ok(()) };
    let its_dir = answer.lines().map(str::trim).nth(4).unwrap_or("").to_string();
    if Path::new(&its_dir) != dir {
        return Err(RedisServerError::Foreign { socket: socket.into(), dir: its_dir });
    }
    tracing::warn!(dir = its_dir, "shutting down the redis-server that a killed process left running");
    let begin = Instant::now();
    while begin.elapsed() < STOP_MAX {
        if ask(socket, "SHUTDOWN").await.is_err() && ask(socket, "PING").await.is_err() {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
    Err(RedisServerError::Foreign { socket: socket.into(), dir: its_dir })
}

/// Sends one command and returns the first part of the answer. Fails when no Redis answers or the connection closes.
async fn ask(socket: &Path, command: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    };
    timeout(ANSWER_MAX, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").trim().into()
}

#[cfg(test)]
mod tests;
