//! One round: a Redis, a fleet, a load, faults, the wait for the end, and the checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_sim::dice::Dice;
use tidemill_tests::checker::{self, Contents, Evidence, Remains};
use tidemill_tests::fleet::Fleet;
use tidemill_tests::outside::Outside;
use tidemill_tests::patient::Patient;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::story::{Happened, Reference};
use tidemill_tests::workspace;

use crate::faults::{self, Fault};
use crate::load::{self, Load};
use crate::model::Model;
use crate::settings::Settings;
use crate::workflows::Workflow;

/// Short leases, so that much happens in a short time. Jobs are never given up because workers died too often.
pub(crate) const SETTINGS: [(&str, &str); 9] = [
    ("scheduler.shard_lease_ms", "2000"),
    ("scheduler.shard_renew_ms", "400"),
    ("scheduler.repair_seconds", "2"),
    ("scheduler.grace_seconds", "1"),
    ("worker.job_lease_ms", "2000"),
    ("worker.grace_seconds", "1"),
    ("worker.deliveries_max", "1000"),
    ("worker.permits", "6"),
    // The server that workflows call is on this machine.
    ("http.allow", "127.0.0.0/8"),
];
/// The number of schedulers and of workers.
const FLEET: [usize; 2] = [2, 3];
/// The pause between two faults, in milliseconds.
const PAUSE_MS: (u64, u64) = (100, 1500);
/// The longest time until Redis is clean after every run has ended: leases, trimming, two looks for lost jobs.
const QUIET_MAX: Duration = Duration::from_secs(20);
/// One round of this many lets Redis lose acknowledged writes.
const LOSING_EACH: u64 = 3;

/// The result of one round, or the sum of several.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<(&'static str, String)>,
    /// The number of times that each fault happened.
    pub(crate) faults: BTreeMap<&'static str, usize>,
    /// The number of killed processes.
    pub(crate) kills: usize,
    /// The folder with the logs of the processes; empty when there is no violation.
    pub(crate) logs: PathBuf,
    runs: usize,
    gone: usize,
    connections: usize,
    resets: usize,
    calls: usize,
    calls_needed: usize,
    seconds: u64,
}

impl Outcome {
    /// A round in one line.
    pub(crate) fn line(&self, seed: u64) -> String {
        let verdict = if self.violations.is_empty() { "ok" } else { "NOT OK" };
        format!("round with seed {seed}, {} s: {}: {verdict}", self.seconds, self.sums())
    }

    /// The numbers in words.
    pub(crate) fn sums(&self) -> String {
        let faults: usize = self.faults.values().sum();
        format!(
            "{} runs, {faults} faults, {} kills, {} streams, {} resets, {} runs lost with Redis, {} calls ({} needed)",
            self.runs, self.kills, self.connections, self.resets, self.gone, self.calls, self.calls_needed
        )
    }

    /// Adds another round to the sum.
    pub(crate) fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.runs += other.runs;
        self.gone += other.gone;
        self.connections += other.connections;
        self.resets += other.resets;
        self.calls += other.calls;
        self.calls_needed += other.calls_needed;
        self.seconds += other.seconds;
        for (name, times) in other.faults {
            *self.faults.entry(name).or_default() += times;
        }
    }
}

/// Plays a round.
pub(crate) async fn play(
    seed: u64,
    settings: &Settings,
    workflows: &[Workflow],
    references: &[Reference],
    outside: &Outside,
) -> Outcome {
    let (began, mut dice) = (Instant::now(), Dice::new(seed));
    let model = Model::start().await;
    // Runs of an earlier round have the same tags.
    drop(outside.take());
    let mut servers = None;
    if settings.on_cluster {
        let mut cluster = RedisCluster::start().await;
        cluster.put_proxies().await;
        servers = Some(cluster);
    }
    let mut own = SETTINGS.to_vec();
    if servers.is_some() {
        // So that each master has some.
        own.push(("scheduler.shards", "6"));
    }
    let mut fleet = Fleet::start(&own, &model.running, FLEET, true, &mut dice, servers).await;
    // A master of a cluster that dies may lose what its replica has not received.
    let loses = settings.on_cluster || seed.is_multiple_of(LOSING_EACH);
    if !loses {
        // Then a killed process may not lose anything that Redis has acknowledged.
        fleet.cluster.redis.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    }
    let patient = Arc::new(Patient::new(fleet.schedulers()));
    let load = Load::start(&patient, workflows, settings.runs, seed);
    let faults = suffer(&mut fleet, settings, loses, &mut dice).await;
    fleet.all_serve().await;
    let mut stories = load.finish().await;
    load::look_back(&patient, workflows, &mut stories).await;

    let calls = model.calls();
    let (references, outside) = (references.to_vec(), outside.take());
    let mut evidence = Evidence { stories, references, faults, calls, outside, remains: Remains::default() };
    let mut violations = quiet(&fleet, &mut evidence).await;
    violations.extend(fleet.complaints.drain(..).map(|what| ("processes-live", what)));
    let logs = if violations.is_empty() { PathBuf::new() } else { keep_logs(&fleet, seed, &evidence) };
    outcome(&evidence, violations, logs, began)
}

/// Injects faults, one after another, until the time of the round has passed.
async fn suffer(fleet: &mut Fleet, settings: &Settings, loses: bool, dice: &mut Dice) -> Vec<Happened> {
    let began = Instant::now();
    let is_wanted = |fault: &&dyn Fault| {
        settings.only.is_empty() || settings.only.iter().any(|name| name == fault.name())
    };
    let possible = faults::FAULTS.iter().copied().filter(|fault| loses || !fault.loses()).filter(is_wanted);
    let possible: Vec<&dyn Fault> =
        possible.filter(|fault| fault.place().is_on(settings.on_cluster)).collect();
    let mut happened = Vec::new();
    // The fleet must be at work first.
    tokio::time::sleep(Duration::from_secs(1)).await;
    while began.elapsed() < settings.round && !possible.is_empty() {
        let fault = faults::draw(&possible, dice);
        let from = Instant::now();
        let what = fault.happen(fleet, dice).await;
        happened.push(Happened {
            name: fault.name(),
            what,
            from,
            // The damage may show for one or two leases.
            to: Instant::now() + Duration::from_secs(5),
            repeats: if fault.repeats() { fault.hits(fleet) } else { 0 },
            loses: fault.loses(),
        });
        tokio::time::sleep(Duration::from_millis(dice.between(PAUSE_MS.0, PAUSE_MS.1))).await;
        fleet.tend(dice);
    }
    happened
}

/// Waits until the checks find Redis clean, or time is up.
async fn quiet(fleet: &Fleet, evidence: &mut Evidence) -> Vec<(&'static str, String)> {
    let began = Instant::now();
    loop {
        let contents = match &fleet.servers {
            Some(servers) => {
                servers.is_whole().await;
                Contents::of_cluster(servers).await
            }
            None => Contents::One(&fleet.cluster.redis),
        };
        evidence.remains = Remains::of(contents).await;
        let violations = checker::violations(evidence);
        let is_permanent = |name: &str| checker::CHECKS.iter().take(9).any(|check| check.name == name);
        let may_change = violations.iter().any(|(name, _)| !is_permanent(name));
        if !may_change || began.elapsed() > QUIET_MAX {
            return violations;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn outcome(
    evidence: &Evidence,
    violations: Vec<(&'static str, String)>,
    logs: PathBuf,
    began: Instant,
) -> Outcome {
    let mut faults = BTreeMap::new();
    for fault in &evidence.faults {
        *faults.entry(fault.name).or_default() += 1;
    }
    let stories = &evidence.stories;
    let needed = |at: usize| evidence.references[at].calls.values().sum::<usize>();
    Outcome {
        violations,
        kills: evidence.faults.iter().map(|fault| faults::kills(fault.name)).sum(),
        logs,
        runs: stories.len(),
        gone: stories.iter().filter(|story| story.is_gone).count(),
        connections: stories.iter().map(|story| story.connections).sum(),
        resets: stories.iter().map(|story| story.resets).sum(),
        calls: evidence.calls.len(),
        calls_needed: stories.iter().map(|story| needed(story.workflow)).sum(),
        seconds: began.elapsed().as_secs(),
        faults,
    }
}

/// Copies the logs of the processes, the faults and the runs to a folder that outlives the round.
fn keep_logs(fleet: &Fleet, seed: u64, evidence: &Evidence) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let folder = target.join("campaign").join(seed.to_string());
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    copy(fleet.cluster.logs(), &folder);
    let began = evidence.stories.iter().map(|story| story.began).min().unwrap_or_else(Instant::now);
    let line = |fault: &Happened| {
        let (from, to) =
            (fault.from.saturating_duration_since(began), fault.to.saturating_duration_since(began));
        format!("{:7.3} {:7.3} {} {}\n", from.as_secs_f64(), to.as_secs_f64(), fault.name, fault.what)
    };
    let plan: String = evidence.faults.iter().map(line).collect();
    std::fs::write(folder.join("faults.txt"), plan).expect("the target folder can be written");
    std::fs::write(folder.join("stories.txt"), format!("{:#?}", evidence.stories))
        .expect("it can be written");
    folder
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).into_iter().flatten().flatten() {
        // A file that cannot be copied is missing in the folder; the violation is still reported.
        let _ = std::fs::copy(file.path(), to.join(file.file_name()));
    }
}
