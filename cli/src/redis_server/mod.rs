//! A Redis of one's own: started for a data folder, reachable by a socket in it and by nothing else, shut down so that
//! its data is there the next time. No setting of the machine is read or changed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Longest wait until it answers; reading a large append-only file takes a while.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest wait until it has written everything and ended.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Longest path of a Unix socket that every system takes, in bytes.
const SOCKET_PATH_MAX: usize = 100;

/// Why there is no Redis.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisServerError {
    #[error(
        "redis-server is not installed: `apt install redis-server`, `brew install redis` or `dnf install redis`; or name a running one with --redis URL"
    )]
    NotInstalled,
    #[error(
        "the socket {socket} belongs to a Redis that keeps its data elsewhere ({dir}); stop it, or take another folder with --data"
    )]
    Foreign { socket: PathBuf, dir: String },
    #[error("redis-server ended at once: {last}; its log is {log}")]
    Died { last: String, log: PathBuf },
    #[error("redis-server does not answer after {seconds} s; its log is {log}")]
    Silent { seconds: u64, log: PathBuf },
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

/// A running Redis; killed when dropped without [`RedisServer::stop`].
#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    socket: PathBuf,
    /// Holds the socket when the data folder's path is too long for one.
    _socket_folder: Option<TempDir>,
}

impl RedisServer {
    /// Starts it on a folder, which must be locked for this process. One that a killed process left behind there is
    /// shut down first.
    pub(crate) async fn start(dir: &Path) -> Result<Self, RedisServerError> {
        let (socket, socket_folder) = socket_of(dir)?;
        end_leftover(dir, &socket).await?;
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--daemonize", "no", "--supervised", "no"]);
        command.arg("--unixsocket").arg(&socket).args(["--unixsocketperm", "700"]);
        command.arg("--dir").arg(dir).args(["--logfile", "redis.log"]);
        // Nothing that was acknowledged more than a second ago is lost, and nothing is ever evicted.
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
        command.args(["--maxmemory-policy", "noeviction"]);
        // A group of its own: Ctrl-C in the terminal is for us, and Redis goes last.
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

    /// Where it is, as a setting.
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

    /// Returns when it has ended by itself.
    pub(crate) async fn ended(&mut self) {
        // An error means that it cannot be waited for, thus is gone.
        let _ = self.child.wait().await;
    }

    /// Has it write everything, then ends it.
    pub(crate) async fn stop(mut self) {
        // When it does not hear, it is killed below; the append-only file holds all but the last second.
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
            // While it reads its data, it answers that it is loading.
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

/// The folder is locked, so whoever answers on its socket has lost its owner, unless it never belonged to us.
async fn end_leftover(dir: &Path, socket: &Path) -> Result<(), RedisServerError> {
    let Ok(answer) = ask(socket, "CONFIG GET dir").await else { return Ok(()) };
    let its_dir = answer.lines().map(str::trim).nth(4).unwrap_or("").to_string();
    if Path::new(&its_dir) != dir {
        return Err(RedisServerError::Foreign { socket: socket.into(), dir: its_dir });
    }
    tracing::warn!(dir = its_dir, "shutting down the redis-server that a killed process left behind");
    let begin = Instant::now();
    while begin.elapsed() < STOP_MAX {
        if ask(socket, "SHUTDOWN").await.is_err() && ask(socket, "PING").await.is_err() {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
    Err(RedisServerError::Foreign { socket: socket.into(), dir: its_dir })
}

/// Sends one command and gives the beginning of the answer; an error when nobody is there or it hangs up.
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
