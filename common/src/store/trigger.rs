//! What the store keeps of triggers: where each belongs, when a schedule is due, and what became of it last.

use sha2::{Digest, Sha256};

use super::Meta;
use crate::clock::Timestamp;
use crate::ids::{RunId, ShardId};

/// What fires it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerKind {
    /// A request to its URL.
    Webhook,
    /// The clock.
    Schedule,
    /// A host that plugins run in.
    Plugin,
}

impl TriggerKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Schedule => "schedule",
            Self::Plugin => "plugin",
        }
    }
    /// What a word means.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Webhook, Self::Schedule, Self::Plugin].into_iter().find(|kind| kind.name() == name)
    }
}

/// A trigger of a published app. What it does stands in the app's document; this says where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// Its id: of a webhook the last part of its URL.
    pub id: String,
    /// What fires it.
    pub kind: TriggerKind,
    /// The app.
    pub app: String,
    /// The node in its workflow.
    pub node: String,
    /// The workflow's name, to be shown.
    pub name: String,
    /// Of a schedule: its cron expression.
    pub cron: String,
    /// Of a schedule: its time zone.
    pub zone: String,
}

/// What became of a trigger last. What is absent is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fired {
    /// When it last began a run.
    pub at: Option<Timestamp>,
    /// That run.
    pub run: Option<RunId>,
    /// Why it could not, if that came after.
    pub error: Option<String>,
}

/// A trigger as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerState {
    /// Which.
    pub trigger: Trigger,
    /// What became of it last.
    pub fired: Fired,
    /// Of a schedule: when it is due.
    pub due: Option<Timestamp>,
}

/// What a new version of an app makes of its triggers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TriggerChanges {
    /// Those that there are now. Of a schedule with the time at which it is due.
    pub put: Vec<(Trigger, Option<Timestamp>)>,
    /// Schedules among them that go by what they went by before: when they are due stays, if it is known.
    pub unchanged: Vec<String>,
    /// Those that are no more.
    pub removed: Vec<String>,
}

/// The time of a schedule that a run belongs to. The run is created and the schedule moved in one, or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromSchedule {
    /// The schedule.
    pub trigger: String,
    /// When it was due, as the store says; the run is created only while it still is.
    pub due: Timestamp,
    /// When it is due then; none when no time comes any more.
    pub next: Option<Timestamp>,
    /// The time that the run stands for: `due`, or a later one when times were missed.
    pub at: Timestamp,
}

/// A schedule whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedule {
    /// Which.
    pub trigger: String,
    /// Since when.
    pub due: Timestamp,
}

/// The shard on which a trigger's schedule lies, and the runs that it begins: so that both can be written in one. It
/// follows from the id and the number of shards at first, which never changes.
pub fn shard_of(trigger: &str, meta: Meta) -> ShardId {
    let digest = Sha256::digest(trigger);
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    ShardId(u16::try_from(number % u32::from(meta.shards_first.max(1))).unwrap_or(0))
}

/// The run of a schedule's time: the same whoever asks.
pub fn scheduled_run(trigger: &str, at: Timestamp, meta: Meta) -> RunId {
    let digest = Sha256::digest(format!("{trigger} {}", at.millis()));
    let random = digest.iter().take(16).fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    RunId::new(u64::try_from(at.millis()).unwrap_or(0), random, shard_of(trigger, meta))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_of_a_time_is_one_run_and_stays_on_its_shard_when_shards_are_added() {
        let meta = |shards| Meta { version: 1, shards, shards_first: 4 };
        let at = Timestamp::from_millis(1_767_225_600_000);
        let run = scheduled_run("t1", at, meta(4));
        assert_eq!(run, scheduled_run("t1", at, meta(64)));
        assert_eq!(run.shard(), shard_of("t1", meta(64)));
        assert_ne!(run, scheduled_run("t1", at.plus(std::time::Duration::from_secs(60)), meta(4)));
        assert_ne!(run, scheduled_run("t2", at, meta(4)));
    }
}
