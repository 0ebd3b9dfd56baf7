//! Schedulers and workers that are started again when they die. Each has its own proxy and its own clock. The
//! addresses of schedulers do not change, so clients can keep them.

use std::time::{Duration, Instant};

use tidemill_mock_llm::Running as Model;
use tidemill_sim::dice::Dice;

use crate::cluster::Cluster;
use crate::process::Process;
use crate::proxy::Proxy;
use crate::redis::free_port;
use crate::redis_cluster::RedisCluster;
use crate::wait::{LONG, until};

/// The exit code of a program that finds no Redis; it is then started again.
const NO_REDIS: i32 = 3;
/// The pause before a program that has ended is started again.
const START_PAUSE: Duration = Duration::from_millis(200);
/// The offset of a wrong clock.
const CLOCK_WRONG_MS: i64 = 5 * 60 * 1000;
const SETTINGS_FILE: &str = "tidemill.toml";
/// Nodes without a profile use this one.
const SETTINGS: &str = "[profiles.default]\nprovider = \"default\"\nmodel = \"mock\"\n";

/// The kind of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `tidemill-scheduler`
    Scheduler,
    /// `tidemill-worker`
    Worker,
}

/// One place in the fleet: a proxy, and the process that is there now.
#[derive(Debug)]
pub struct Member {
    pub role: Role,
    /// Its connection to Redis.
    pub proxy: Proxy,
    /// `host:port` of its API, or of its health pages.
    pub address: String,
    /// The offset of its clock, in milliseconds.
    pub clock_offset_ms: i64,
    process: Process,
    started: Instant,
    is_told_to_stop: bool,
}

/// A Redis and the processes on it.
#[derive(Debug)]
pub struct Fleet {
    pub cluster: Cluster,
    /// Schedulers first.
    pub members: Vec<Member>,
    /// Programs that ended without a valid reason.
    pub complaints: Vec<String>,
    clocks_differ: bool,
    /// Instead of the one Redis of `cluster`.
    pub servers: Option<RedisCluster>,
}

impl Fleet {
    /// Starts the given numbers of processes on these servers, or on a Redis of their own. With `clocks_differ`, half of the
    /// processes have a wrong clock.
    pub async fn start(
        settings: &[(&str, &str)],
        model: &Model,
        [schedulers, workers]: [usize; 2],
        clocks_differ: bool,
        dice: &mut Dice,
        servers: Option<RedisCluster>,
    ) -> Self {
        let mut cluster = Cluster::start(settings, Some(model)).await;
        if let Some(servers) = &servers {
            cluster = cluster.at(&servers.url());
        }
        std::fs::write(cluster.logs().join(SETTINGS_FILE), SETTINGS)
            .expect("the cluster's folder can be written");
        let mut fleet = Self { cluster, members: Vec::new(), complaints: Vec::new(), clocks_differ, servers };
        let roles = [(Role::Scheduler, schedulers), (Role::Worker, workers)];
        for (role, count) in roles {
            for _ in 0..count {
                let proxy = Proxy::start(fleet.cluster.redis.port()).await;
                let address = format!("127.0.0.1:{}", free_port());
                let clock_offset_ms = fleet.draw_clock(dice);
                let process = fleet.spawn(role, &proxy, &address, clock_offset_ms);
                let started = Instant::now();
                fleet.members.push(Member {
                    role,
                    proxy,
                    address,
                    clock_offset_ms,
                    process,
                    started,
                    is_told_to_stop: false,
                });
            }
        }
        fleet.all_serve().await;
        fleet
    }

    /// The addresses of all schedulers.
    pub fn schedulers(&self) -> Vec<String> {
        let of_role = self.members.iter().filter(|member| member.role == Role::Scheduler);
        of_role.map(|member| member.address.clone()).collect()
    }

    /// The indexes of all members with this role.
    pub fn of(&self, role: Role) -> Vec<usize> {
        (0..self.members.len()).filter(|at| self.members[*at].role == role).collect()
    }

    /// Kills a process with SIGKILL and starts another one at once.
    pub fn kill(&mut self, at: usize, dice: &mut Dice) {
        self.members[at].process.kill();
        self.start_again(at, dice);
    }

    /// Kills a process with SIGKILL; [`Self::tend`] starts another one.
    pub fn kill_only(&mut self, at: usize) {
        self.members[at].process.kill();
    }

    /// Sends SIGTERM; when the process has ended, [`Self::tend`] starts another one.
    pub fn stop_only(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.is_told_to_stop = true;
        member.process.terminate();
    }

    /// Stops a process with SIGSTOP.
    pub fn freeze(&self, at: usize) {
        self.members[at].process.freeze();
    }

    /// Continues a process with SIGCONT.
    pub fn thaw(&self, at: usize) {
        self.members[at].process.thaw();
    }

    /// A part of the process's name in Redis that no other process has.
    pub fn mark(&self, at: usize) -> String {
        format!("-{}-", self.members[at].process.id())
    }

    /// Sends SIGTERM. Starts another process when this one has ended, or after SIGKILL when that takes too long.
    pub async fn replace(&mut self, at: usize, at_most: Duration, dice: &mut Dice) {
        let member = &mut self.members[at];
        member.process.terminate();
        let asked = Instant::now();
        while member.process.end().is_none() {
            if asked.elapsed() > at_most {
                self.complaints.push(format!("{:?} {at} does not stop within {at_most:?}", member.role));
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.kill(at, dice);
    }

    /// Starts ended processes again, and notes those that should not have ended.
    pub fn tend(&mut self, dice: &mut Dice) {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let Some(end) = member.process.end() else { continue };
            if member.started.elapsed() < START_PAUSE {
                continue;
            }
            let is_expected = member.is_told_to_stop && end.success();
            if end.code() != Some(NO_REDIS) && !killed(end) && !is_expected {
                let said = member.process.tail();
                self.complaints.push(format!("{:?} {at} ended unexpectedly ({end}):\n{said}", member.role));
            }
            self.start_again(at, dice);
        }
    }

    /// Calls [`Self::tend`] until every process serves requests.
    ///
    /// # Panics
    /// When a process does not start.
    pub async fn all_serve(&mut self) {
        let http = reqwest_client();
        let mut dice = Dice::new(0);
        until("the whole fleet to serve", LONG, async || {
            self.tend(&mut dice);
            for member in &self.members {
                let asked = http.get(format!("http://{}/livez", member.address)).send().await;
                if let Err(error) = asked {
                    return Err(format!(
                        "{:?} at {}: {error}\n{}",
                        member.role,
                        member.address,
                        member.process.tail()
                    ));
                }
            }
            Ok(())
        })
        .await;
    }

    fn start_again(&mut self, at: usize, dice: &mut Dice) {
        let clock_offset_ms = self.draw_clock(dice);
        let member = &mut self.members[at];
        member.clock_offset_ms = clock_offset_ms;
        let process = Self::spawned(
            &self.cluster,
            self.servers.is_some(),
            member.role,
            &member.proxy,
            &member.address,
            clock_offset_ms,
        );
        member.process = process;
        member.started = Instant::now();
        member.is_told_to_stop = false;
    }

    fn draw_clock(&self, dice: &mut Dice) -> i64 {
        // Rolled even if it is not used, so that the plan after it stays the same.
        let roll = dice.below(4);
        match roll {
            0 if self.clocks_differ => CLOCK_WRONG_MS,
            1 if self.clocks_differ => -CLOCK_WRONG_MS,
            _ => 0,
        }
    }
}

/// A client for pages that need no API key.
pub fn reqwest_client() -> reqwest::Client {
    // Only the first call in a process takes effect; it does not matter which one that is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().tls_certs_only([]).connect_timeout(Duration::from_secs(2));
    builder.build().expect("a client without TLS")
}

#[cfg(unix)]
fn killed(end: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    const SIGKILL: i32 = 9;
    end.signal() == Some(SIGKILL)
}

impl Fleet {
    fn spawn(&self, role: Role, proxy: &Proxy, address: &str, clock_offset_ms: i64) -> Process {
        Self::spawned(&self.cluster, self.servers.is_some(), role, proxy, address, clock_offset_ms)
    }

    /// In a Redis Cluster a process asks the servers themselves where the others are, so its proxy has nothing to do.
    fn spawned(
        cluster: &Cluster,
        is_direct: bool,
        role: Role,
        proxy: &Proxy,
        address: &str,
        clock_offset_ms: i64,
    ) -> Process {
        let (program, name) = match role {
            Role::Scheduler => ("tidemill-scheduler", "scheduler"),
            Role::Worker => ("tidemill-worker", "worker"),
        };
        let mut command = cluster.command(program);
        command.args(["--listen", address]).env("TIDEMILL_CONFIG", SETTINGS_FILE);
        if !is_direct {
            command.args(["--redis-url", &proxy.url()]);
        }
        if clock_offset_ms != 0 {
            command.env(tidemill_common::clock::OFFSET_VARIABLE, clock_offset_ms.to_string());
        }
        cluster.spawn(name, command)
    }
}
