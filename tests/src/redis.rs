//! A private redis-server with its own port and folder, configured as the documentation asks (AOF, noeviction). It
//! can be killed, and started again from its append-only file.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;

use crate::process::Process;
use crate::wait::{LONG, until};

/// Ports below those that the system gives to outgoing connections. A client that tries to reach a server which is
/// down must not be given that server's port.
const PORTS: std::ops::Range<u16> = 16_000..32_000;
/// The number of test programs that may run at the same time.
const SLICES: u16 = 10;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    folder: TempDir,
    starts: u32,
    /// The TLS port.
    encrypted: Option<u16>,
    /// User and password of the processes, as a part of the address.
    user: String,
    /// Arguments that it also gets when it is started again.
    always: Vec<String>,
}

/// The value of a key, or one field of a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    /// Empty unless the key is a hash.
    pub field: String,
    /// The value; for a hash, with the name of the field.
    pub text: String,
}

impl Redis {
    /// Starts an empty server.
    ///
    /// # Panics
    /// When redis-server is not installed.
    pub async fn start() -> Self {
        Self::start_as(&[]).await
    }

    /// Starts an empty server with more arguments.
    ///
    /// # Panics
    /// When redis-server is not installed.
    pub async fn start_as(more: &[&str]) -> Self {
        loop {
            let folder = tempfile::Builder::new().prefix("tidemill-redis-").tempdir();
            let folder = folder.expect("there is room for a temporary folder");
            let port = free_port();
            let process = spawn(&folder, port, 0, more);
            let mut redis = Self {
                process,
                port,
                folder,
                starts: 0,
                encrypted: None,
                user: String::new(),
                always: Vec::new(),
            };
            if redis.answers().await {
                return redis;
            }
        }
    }

    /// Starts an empty server with more arguments, which it also gets when it is started again.
    ///
    /// # Panics
    /// When redis-server is not installed.
    pub async fn start_always(more: &[&str]) -> Self {
        let mut redis = Self::start_as(more).await;
        redis.always = more.iter().map(|it| (*it).to_string()).collect();
        redis
    }

    /// Starts an empty server of a cluster, which belongs to no other yet. A server that does not answer for `timeout_ms` is
    /// taken for dead by the others.
    ///
    /// # Panics
    /// When redis-server is not installed.
    pub async fn start_for_cluster(timeout_ms: u64) -> Self {
        loop {
            let (timeout, bus) = (timeout_ms.to_string(), free_port().to_string());
            let always = [
                ["--cluster-enabled", "yes"],
                ["--cluster-node-timeout", &timeout],
                ["--cluster-port", &bus],
                // A replica may follow its master although their connection broke long ago, on a busy machine.
                ["--cluster-replica-validity-factor", "0"],
                ["--cluster-allow-replica-migration", "no"],
                // The slots of other masters are served while one has no server.
                ["--cluster-require-full-coverage", "no"],
                ["--repl-diskless-sync-delay", "0"],
            ]
            .concat();
            let folder = tempfile::Builder::new().prefix("tidemill-redis-").tempdir();
            let folder = folder.expect("there is room for a temporary folder");
            let port = free_port();
            let process = spawn(&folder, port, 0, &always);
            let always = always.iter().map(|it| (*it).to_string()).collect();
            let mut redis =
                Self { process, port, folder, starts: 0, encrypted: None, user: String::new(), always };
            if redis.answers().await {
                return redis;
            }
        }
    }

    /// Makes it tell clients of its cluster another port, also after it was started again.
    pub async fn announce(&mut self, port: u16) {
        self.ask::<()>(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]).await;
        self.always.extend(["--cluster-announce-port".into(), port.to_string()]);
    }

    /// Its process.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Starts an empty server that also speaks TLS, at another port than [`Self::port`].
    ///
    /// # Panics
    /// When redis-server is not installed, or was built without TLS.
    pub async fn start_encrypted() -> Self {
        Self::start_encrypted_for("no").await
    }

    /// Like [`Self::start_encrypted`]. `clients` says whether clients need a certificate: `no` or `yes`.
    ///
    /// # Panics
    /// When redis-server is not installed, or was built without TLS.
    pub async fn start_encrypted_for(clients: &str) -> Self {
        loop {
            let folder = tempfile::Builder::new().prefix("tidemill-redis-").tempdir();
            let folder = folder.expect("there is room for a temporary folder");
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).expect("a certificate");
            let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
            std::fs::write(file("ca.pem"), made.cert.pem()).expect("it can be written");
            std::fs::write(file("key.pem"), made.signing_key.serialize_pem()).expect("it can be written");
            let (port, encrypted) = (free_port(), free_port());
            let (certificate, key, at) = (file("ca.pem"), file("key.pem"), encrypted.to_string());
            let more = ["--tls-port", &at, "--tls-cert-file", &certificate, "--tls-key-file", &key];
            let more =
                [&more[..], &["--tls-auth-clients", clients, "--tls-ca-cert-file", &certificate]].concat();
            let process = spawn(&folder, port, 0, &more);
            let mut redis = Self {
                process,
                port,
                folder,
                starts: 0,
                encrypted: Some(encrypted),
                user: String::new(),
                always: Vec::new(),
            };
            if redis.answers().await {
                return redis;
            }
        }
    }

    /// Starts a server with a shell script whose last line becomes the server (`exec`) and works in `folder`. Other
    /// processes that the script starts must have ended by then.
    ///
    /// # Panics
    /// When the script ends without that.
    pub async fn start_by(script: &str, folder: TempDir, port: u16) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(crate::workspace());
        let process = Process::spawn("the script", command, folder.path().join("script.log"));
        let mut redis = Self {
            process,
            port,
            folder,
            starts: 0,
            encrypted: None,
            user: String::new(),
            always: Vec::new(),
        };
        let stopped_if_it_fails = StopsLeftServer(port);
        until("the script's server to answer", LONG, async || {
            let ended = redis.process.end();
            assert!(ended.is_none(), "the script ended ({ended:?}):\n{}", redis.process.log_text());
            let asked = Command::new("redis-cli").args(["-p", &port.to_string(), "info", "server"]).output();
            let said =
                asked.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
            let is_it = format!("process_id:{}", redis.process.id());
            if said.lines().any(|line| line == is_it) { Ok(()) } else { Err(redis.process.log_text()) }
        })
        .await;
        drop(stopped_if_it_fails);
        assert!(redis.answers().await, "it can read its append-only file");
        redis
    }

    /// Its TLS address, and the file with the certificate to trust.
    ///
    /// # Panics
    /// When it does not speak TLS.
    pub fn encrypted(&self) -> (String, String) {
        let port = self.encrypted.expect("it was started so");
        let file = self.folder.path().join("ca.pem").to_string_lossy().into_owned();
        (format!("rediss://127.0.0.1:{port}"), file)
    }

    /// Its address, as a setting.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.user, self.port)
    }

    /// Makes processes use this user. The tests themselves stay the default user.
    pub fn log_in(&mut self, user: &str, password: &str) {
        self.user = format!("{user}:{password}@");
    }

    /// Its port on the loopback interface.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Cuts bytes off the end of the append-only file, as a power loss does. The server must be down.
    ///
    /// # Panics
    /// When its append-only file is missing.
    pub fn forget(&self, bytes: u64) {
        let file = std::fs::File::options().write(true).open(self.log());
        let file = file.expect("it may be written");
        let length = file.metadata().expect("it has a length").len();
        file.set_len(length.saturating_sub(bytes)).expect("it can be cut");
    }

    /// The number of bytes in its append-only file.
    ///
    /// # Panics
    /// When its append-only file is missing.
    pub fn written(&self) -> u64 {
        std::fs::metadata(self.log()).expect("the log of changes").len()
    }

    /// Starts it again from its append-only file.
    pub async fn restart(&mut self) {
        self.starts += 1;
        let always: Vec<&str> = self.always.iter().map(String::as_str).collect();
        self.process = spawn(&self.folder, self.port, self.starts, &always);
        assert!(self.answers().await, "redis-server does not come back:\n{}", self.process.log_text());
    }

    /// Rewrites its append-only file and waits for that, as the documentation asks of operators after a power loss:
    /// Redis may leave the beginning of a transaction in the file, and the next start would apply it.
    pub async fn rewrite_log(&self) {
        self.cli(&["BGREWRITEAOF"]);
        until("the append-only file to be rewritten", LONG, async || {
            let said = self.cli(&["INFO", "persistence"]);
            let waits = ["aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1"];
            if waits.iter().any(|wait| said.contains(wait)) { Err(said) } else { Ok(()) }
        })
        .await;
    }

    /// Sends SIGTERM, and waits until it has written everything and ended.
    pub async fn stop(&mut self) {
        self.process.terminate();
        self.process.ended(LONG).await;
    }

    /// Returns what `redis-cli` prints for a command.
    ///
    /// # Panics
    /// When it fails.
    pub fn cli(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(words);
        let done = command.output().expect("redis-cli comes with redis-server");
        let said = String::from_utf8_lossy(&done.stdout).trim_end().to_string();
        assert!(done.status.success() && !said.starts_with("ERR"), "redis-cli {words:?}: {said}");
        said
    }

    async fn connection(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("an address");
        // The library waits for one second only, which is too short beside builds.
        let patient = redis::AsyncConnectionConfig::new();
        let patient = patient.set_connection_timeout(Some(LONG)).set_response_timeout(Some(LONG));
        let opened = client.get_multiplexed_async_connection_with_config(&patient).await;
        opened.expect("a server that answers takes connections")
    }

    /// Sends a command and returns the reply.
    ///
    /// # Panics
    /// When it fails.
    pub async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = self.connection().await;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.unwrap_or_else(|e| panic!("{words:?}: {e}"))
    }

    /// Reads every key of any type.
    ///
    /// # Panics
    /// When Redis does not answer, or a key has an unknown type.
    pub async fn everything(&self) -> Vec<Entry> {
        let keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        let mut connection = self.connection().await;
        let mut all = Vec::new();
        for key in keys {
            let ty: String =
                redis::cmd("TYPE").arg(&key).query_async(&mut connection).await.expect("it answers");
            let words: &[&str] = match ty.as_str() {
                // It was deleted after the scan.
                "none" => continue,
                "string" => &["GET"],
                "hash" => &["HGETALL"],
                "stream" => &["XRANGE", "-", "+"],
                "list" => &["LRANGE", "0", "-1"],
                "zset" => &["ZRANGE", "0", "-1", "WITHSCORES"],
                "set" => &["SMEMBERS"],
                other => panic!("{key} is of type {other}"),
            };
            let mut command = redis::cmd(words[0]);
            command.arg(&key).arg(&words[1..]);
            let value: redis::Value = command.query_async(&mut connection).await.expect("it answers");
            let texts = texts_of(&value);
            match ty.as_str() {
                "hash" => all.extend(texts.chunks(2).map(|pair| Entry {
                    key: key.clone(),
                    field: pair[0].clone(),
                    text: pair.join(" "),
                })),
                _ => all.push(Entry { key, field: String::new(), text: texts.join("\n") }),
            }
        }
        all
    }

    fn log(&self) -> PathBuf {
        let files = std::fs::read_dir(self.folder.path().join("appendonlydir")).expect("it writes one");
        let path = files.filter_map(Result::ok).map(|file| file.path());
        let mut logs: Vec<_> = path.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).collect();
        logs.sort();
        logs.pop().expect("the log of changes")
    }

    /// Returns false when it has ended, for example because another process has its port.
    async fn answers(&mut self) -> bool {
        let port = self.port.to_string();
        until("redis-server to answer", LONG, async || {
            if self.process.end().is_some() {
                return Ok(false);
            }
            let pong = Command::new("redis-cli").args(["-p", &port, "ping"]).output();
            let said = pong.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
            match said {
                Ok(said) if said.starts_with("PONG") => Ok(true),
                other => Err(format!("{other:?}\n{}", self.process.log_text())),
            }
        })
        .await
    }
}

/// All texts of a reply, in their order.
fn texts_of(value: &redis::Value) -> Vec<String> {
    match value {
        redis::Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        redis::Value::Array(items) => items.iter().flat_map(texts_of).collect(),
        other => vec![format!("{other:?}")],
    }
}

/// Stops a server that a script has started and left behind. No `Process` owns it, so a failing test would leave it
/// running.
struct StopsLeftServer(u16);

impl Drop for StopsLeftServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // An error does not matter: there may be no server.
            let stop = ["-p", &self.0.to_string(), "SHUTDOWN", "NOSAVE"];
            let _ = Command::new("redis-cli").args(stop).output();
        }
    }
}

fn spawn(folder: &TempDir, port: u16, starts: u32, more: &[&str]) -> Process {
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .arg("--dir")
        .arg(folder.path());
    command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]);
    command.args(more);
    Process::spawn("redis-server", command, folder.path().join(format!("redis-{starts}.log")))
}

/// Returns a port that no process listens on and that no other test program will use.
///
/// # Panics
/// When more than [`SLICES`] test programs run.
pub fn free_port() -> u16 {
    static SLICE: OnceLock<(u16, File)> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (slice, _) = SLICE.get_or_init(own_slice);
    let size = (PORTS.end - PORTS.start) / SLICES;
    loop {
        // A port is used again only after a long time, when the connections of its last server are gone.
        let port = PORTS.start + slice * size + NEXT.fetch_add(1, Ordering::Relaxed) % size;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns a slice of the ports that only this process uses, and the lock that it holds until it ends. Without the
/// lock, another program could take a port after it was found free and before its server starts.
fn own_slice() -> (u16, File) {
    let free = (0..SLICES).find_map(|slice| {
        let path = std::env::temp_dir().join(format!("tidemill-test-ports-{slice}"));
        let file = File::options().create(true).append(true).open(path).ok()?;
        file.try_lock().ok().map(|()| (slice, file))
    });
    free.unwrap_or_else(|| {
        panic!("{SLICES} test programs run already, or their locks in the temporary folder cannot be had")
    })
}
