//! The settings of a campaign, read from the environment.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tidemill_tests::workspace;

/// The length of a campaign when nothing is set: the short form.
const MINUTES: f64 = 4.0;
/// How long faults happen in one round.
const ROUND_SECONDS: u64 = 30;
/// Runs in flight.
const RUNS: usize = 8;

/// The settings; each field names its variable.
pub(crate) struct Settings {
    /// `SEED`: the seed of the first round; each further round adds one. Drawn when absent.
    pub(crate) seed: u64,
    /// `WORKFLOWS`: a folder of workflow files to use instead of the project's own.
    pub(crate) folders: Vec<PathBuf>,
    /// `ROUND_SECONDS`: how long faults happen in a round.
    pub(crate) round: Duration,
    /// `RUNS`: runs in flight.
    pub(crate) runs: usize,
    /// `FAULTS`: only these faults, by name, separated by commas.
    pub(crate) only: Vec<String>,
    /// `CAMPAIGN_REDIS`: `cluster` plays on a Redis Cluster, with faults of its servers instead of those of one Redis.
    pub(crate) on_cluster: bool,
    /// `ROUNDS`, `KILLS`, `MINUTES`: the campaign ends after this many rounds, killed processes or minutes.
    rounds: Option<u64>,
    kills: Option<usize>,
    minutes: Option<f64>,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Panics
    /// When a value is not a number.
    pub(crate) fn of_environment() -> Self {
        let own = [workspace().join("tests/tests/campaign/workflows"), workspace().join("examples")];
        let drawn = || {
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |t| t.as_secs() % 1_000_000)
        };
        Self {
            seed: number("SEED").unwrap_or_else(drawn),
            folders: text("WORKFLOWS").map_or_else(|| own.into(), |folder| vec![folder.into()]),
            round: Duration::from_secs(number("ROUND_SECONDS").unwrap_or(ROUND_SECONDS)),
            runs: number("RUNS").unwrap_or(RUNS),
            only: text("FAULTS")
                .map(|names| names.split(',').map(str::to_string).collect())
                .unwrap_or_default(),
            on_cluster: text("CAMPAIGN_REDIS").is_some_and(|wanted| wanted == "cluster"),
            rounds: number("ROUNDS"),
            kills: number("KILLS"),
            minutes: number("MINUTES"),
        }
    }

    /// Returns true when the campaign has reached its end.
    pub(crate) fn is_over(&self, rounds: u64, kills: usize, elapsed: Duration) -> bool {
        let minutes = match (self.rounds, self.kills, self.minutes) {
            (None, None, None) => Some(MINUTES),
            (_, _, minutes) => minutes,
        };
        self.rounds.is_some_and(|most| rounds >= most)
            || self.kills.is_some_and(|most| kills >= most)
            || minutes.is_some_and(|most| elapsed.as_secs_f64() >= most * 60.0)
    }

    /// The plan in words.
    pub(crate) fn plan(&self) -> String {
        let until = match (self.rounds, self.kills, self.minutes) {
            (Some(rounds), ..) => format!("{rounds} rounds"),
            (_, Some(kills), _) => format!("{kills} kills"),
            (_, _, minutes) => format!("{} minutes", minutes.unwrap_or(MINUTES)),
        };
        let place = if self.on_cluster { " on a Redis Cluster" } else { "" };
        format!("{until}, rounds of {} s, {} runs in flight{place}", self.round.as_secs(), self.runs)
    }

    /// The command that repeats a round.
    pub(crate) fn again(&self, seed: u64) -> String {
        let place = if self.on_cluster { "CAMPAIGN_REDIS=cluster " } else { "" };
        format!("{place}SEED={seed} ROUNDS=1 ROUND_SECONDS={} make campaign", self.round.as_secs())
    }
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = text(name)?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
