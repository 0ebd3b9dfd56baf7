//! A master with two replicas and three Sentinels on the loopback interface, each with users and passwords of its own for
//! clients, Sentinels and replicas. A test can fail them over, kill servers and Sentinels, and cut a master off.

use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::process::Process;
use crate::redis::{Redis, free_port};
use crate::wait::until;

/// The name of the master.
pub const NAME: &str = "main";
/// The password of clients at servers.
pub const PASSWORD: &str = "of-the-servers";
/// The password of clients at Sentinels.
pub const SENTINEL_PASSWORD: &str = "of-the-sentinels";
/// The user of clients at servers and at Sentinels.
pub const USER: &str = "app";
/// The rights of clients at Sentinels, as the documentation gives them.
pub const RIGHTS: &str = "resetkeys resetchannels &+switch-master &+failover-state-reconf-slaves -@all +auth +ping \
                          +subscribe +unsubscribe +sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels +sentinel|replicas";
/// The password of the default user at Sentinels, by which they know each other.
pub const OWN_PASSWORD: &str = "among-sentinels";
/// A server that does not answer for this long is taken for dead.
const DOWN_AFTER_MS: &str = "1000";
/// Sentinels wait some seconds before they turn an old master into a replica.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// The servers and their Sentinels.
#[derive(Debug)]
pub struct Sentinels {
    /// The first one began as the master.
    pub servers: Vec<Redis>,
    /// The ports that clients use, of TLS if they use it.
    ports: Vec<u16>,
    sentinels: Vec<Sentinel>,
    certificates: Option<Certificates>,
}

#[derive(Debug)]
struct Sentinel {
    process: Process,
    folder: TempDir,
    /// For the tests.
    port: u16,
    /// For clients.
    client_port: u16,
    starts: u32,
}

impl Sentinels {
    /// Starts them, without TLS.
    ///
    /// # Panics
    /// When redis-server is not installed, or they do not find each other.
    pub async fn start() -> Self {
        Self::start_as(None).await
    }

    /// Starts them so that clients, replicas and Sentinels need TLS and certificates.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_encrypted() -> Self {
        Self::start_as(Some(Certificates::make())).await
    }

    async fn start_as(certificates: Option<Certificates>) -> Self {
        let all = format!("on >{PASSWORD} ~* &* +@all");
        let users = [format!("{USER} {all}"), format!("watch {all}"), format!("follow {all}")];
        let mut more: Vec<String> = users.iter().flat_map(|user| words("--user", user)).collect();
        more.extend(words("--masteruser", "follow"));
        more.extend(words("--masterauth", PASSWORD));
        more.extend(words("--repl-diskless-sync-delay", "0"));
        let (mut servers, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (mut more, mut at) = (more.clone(), None);
            if let Some(certificates) = &certificates {
                let port = free_port();
                more.extend(certificates.arguments(port));
                more.extend(words("--tls-replication", "yes"));
                at = Some(port);
            }
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            let server = Redis::start_always(&more).await;
            ports.push(at.unwrap_or_else(|| server.port()));
            servers.push(server);
        }
        for replica in &servers[1..] {
            replica.cli(&["REPLICAOF", "127.0.0.1", &ports[0].to_string()]);
        }
        let mut all = Self { servers, ports, sentinels: Vec::new(), certificates };
        for _ in 0..3 {
            let sentinel = all.sentinel();
            all.sentinels.push(sentinel);
        }
        all.settled().await;
        all
    }

    fn sentinel(&self) -> Sentinel {
        let folder = tempfile::Builder::new().prefix("tidemill-sentinel-").tempdir();
        let folder = folder.expect("there is room for a temporary folder");
        let port = free_port();
        let mut client_port = port;
        let mut text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nrequirepass {OWN_PASSWORD}\nsentinel sentinel-pass {OWN_PASSWORD}\n\
             user {USER} on >{SENTINEL_PASSWORD} {RIGHTS}\n\
             sentinel monitor {NAME} 127.0.0.1 {} 2\nsentinel auth-user {NAME} watch\nsentinel auth-pass {NAME} {PASSWORD}\n\
             sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\nsentinel failover-timeout {NAME} 6000\n\
             sentinel parallel-syncs {NAME} 2\n",
            folder.path().display(),
            self.ports[0]
        );
        if let Some(certificates) = &self.certificates {
            client_port = free_port();
            let pairs = certificates.arguments(client_port);
            for pair in pairs.chunks(2) {
                text += &format!("{}\n", pair.join(" ").trim_start_matches("--"));
            }
            // Sentinels then use TLS among themselves and to servers.
            text += "tls-replication yes\n";
        }
        std::fs::write(folder.path().join("sentinel.conf"), text).expect("it can be written");
        let process = run(&folder, 0);
        Sentinel { process, folder, port, client_port, starts: 0 }
    }

    /// Their address, as a setting.
    pub fn url(&self) -> String {
        self.url_of(&format!("{USER}:{PASSWORD}"), NAME)
    }

    /// Like [`Self::url`], with another user and password, and another name of the master.
    pub fn url_of(&self, user: &str, name: &str) -> String {
        let scheme = if self.certificates.is_some() { "rediss+sentinel" } else { "redis+sentinel" };
        let places: Vec<String> =
            self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.client_port)).collect();
        format!("{scheme}://{user}@{}/{name}", places.join(","))
    }

    /// The other settings that processes need: (setting, value).
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings =
            vec![("redis.sentinel_user", USER.into()), ("redis.sentinel_password", SENTINEL_PASSWORD.into())];
        if let Some(certificates) = &self.certificates {
            settings.push(("redis.ca_file", certificates.file("ca.pem")));
            settings.push(("redis.certificate_file", certificates.file("client.pem")));
            settings.push(("redis.key_file", certificates.file("client.key")));
        }
        settings
    }

    /// The port at which clients reach a Sentinel.
    pub fn port_of(&self, sentinel: usize) -> u16 {
        self.sentinels[sentinel].client_port
    }

    /// Kills a Sentinel.
    pub fn kill_sentinel(&mut self, at: usize) {
        self.sentinels[at].process.kill();
    }

    /// Starts a killed Sentinel again.
    pub fn restart_sentinel(&mut self, at: usize) {
        let sentinel = &mut self.sentinels[at];
        sentinel.starts += 1;
        sentinel.process = run(&sentinel.folder, sentinel.starts);
    }

    /// The server that a Sentinel names as the master.
    ///
    /// # Errors
    /// It does not answer, or names an unknown one.
    pub fn named_by(&self, sentinel: usize) -> Result<usize, String> {
        let said = self.sentinels[sentinel].cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let port = said.lines().nth(1).and_then(|port| port.parse::<u16>().ok());
        port.and_then(|port| self.ports.iter().position(|known| *known == port)).ok_or(said)
    }

    /// The server that a living Sentinel names as the master; without Sentinels, the first one that says so itself.
    ///
    /// # Panics
    /// When no Sentinel answers, and no server says that it is the master.
    pub fn master(&self) -> usize {
        let said: Vec<_> = (0..self.sentinels.len()).map(|at| self.named_by(at)).collect();
        let named = said.iter().find_map(|named| named.as_ref().ok().copied());
        let is_master = |at: &usize| self.servers[*at].cli(&["ROLE"]).starts_with("master");
        let own = || (0..self.servers.len()).find(is_master);
        named.or_else(own).unwrap_or_else(|| panic!("no server is a master, by Sentinels: {said:?}"))
    }

    /// Begins a planned fail-over.
    pub async fn begin_fail_over(&self) {
        until("a Sentinel to begin a fail-over", SETTLES_WITHIN, async || {
            let said = self.sentinels[0].cli(&["SENTINEL", "FAILOVER", NAME])?;
            if said == "OK" { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Waits until all living Sentinels name another server than this one, and returns it.
    pub async fn another_than(&self, old: usize) -> usize {
        until("all Sentinels to name another master", SETTLES_WITHIN, async || {
            let said: Vec<_> = join_all((0..self.sentinels.len()).map(async |at| self.named_by(at))).await;
            let named: Vec<usize> = said.iter().filter_map(|it| it.as_ref().ok().copied()).collect();
            match named.first() {
                Some(new) if *new != old && named.iter().all(|it| it == new) => Ok(*new),
                _ => Err(format!("{said:?}")),
            }
        })
        .await
    }

    /// Waits until all servers but the master follow it, and the Sentinels know that.
    pub async fn settled(&self) {
        until("all servers to follow the master", SETTLES_WITHIN, async || {
            let said: Result<Vec<usize>, String> =
                (0..self.sentinels.len()).map(|at| self.named_by(at)).collect();
            let said = said?;
            let master = said[0];
            if said.iter().any(|other| *other != master) {
                return Err(format!("{said:?}"));
            }
            let info = self.servers[master].cli(&["INFO", "replication"]);
            let follows = |at: usize| info.contains(&format!("port={},state=online", self.ports[at]));
            if !(0..self.servers.len()).all(|at| at == master || follows(at)) {
                return Err(info);
            }
            for sentinel in &self.sentinels {
                let state = sentinel.cli(&["SENTINEL", "MASTER", NAME])?;
                let others = sentinel.cli(&["SENTINEL", "REPLICAS", NAME])?;
                let words: Vec<&str> = state.lines().collect();
                let is = |name: &str, value: &str| words.windows(2).any(|pair| pair == [name, value]);
                let down =
                    others.lines().filter(|line| line.contains("down") && line.contains("slave")).count();
                let linked = others.lines().filter(|line| *line == "ok").count();
                if !is("flags", "master") || !is("num-other-sentinels", "2") || down > 0 || linked != 2 {
                    return Err(format!("{state}\n{others}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Cuts a server off from the Sentinels and the other servers. Clients keep their connections.
    pub fn cut_off(&self, server: usize) {
        // A Sentinel whose user is refused goes on as the default user, which the tests use too.
        self.servers[server].cli(&[
            "ACL",
            "SETUSER",
            "default",
            "-ping",
            "-publish",
            "-replicaof",
            "-slaveof",
        ]);
        for user in ["watch", "follow"] {
            self.servers[server].cli(&["ACL", "SETUSER", user, "off"]);
            self.servers[server].cli(&["CLIENT", "KILL", "USER", user]);
        }
    }

    /// Ends [`Self::cut_off`].
    pub fn let_in(&self, server: usize) {
        for user in ["watch", "follow"] {
            self.servers[server].cli(&["ACL", "SETUSER", user, "on"]);
        }
        self.servers[server].cli(&["ACL", "SETUSER", "default", "+@all"]);
    }

    /// The connections of clients to a server, those of the tests left out.
    pub fn connections(&self, server: usize) -> Vec<String> {
        let list = self.servers[server].cli(&["CLIENT", "LIST"]);
        let of_clients = format!(" user={USER} ");
        list.lines().filter(|line| line.contains(&of_clients)).map(str::to_string).collect()
    }
}

impl Sentinel {
    fn cli(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(words).env("REDISCLI_AUTH", OWN_PASSWORD);
        let done = command.output().expect("redis-cli comes with redis-server");
        let said = String::from_utf8_lossy(&done.stdout).trim_end().to_string();
        if done.status.success() { Ok(said) } else { Err(said) }
    }
}

fn words(name: &str, values: &str) -> Vec<String> {
    std::iter::once(name).chain(values.split(' ')).map(str::to_string).collect()
}

fn run(folder: &TempDir, starts: u32) -> Process {
    let mut command = Command::new("redis-server");
    command.arg(folder.path().join("sentinel.conf")).arg("--sentinel");
    Process::spawn("a Sentinel", command, folder.path().join(format!("sentinel-{starts}.log")))
}
