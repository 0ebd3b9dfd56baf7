//! Stored triggers: their app and node, the due time of schedules, and the last result.

use sha2::{Digest, Sha256};

use super::Meta;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};

/// The source that fires a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerKind {
    /// A request to its URL.
    Webhook,
    /// The clock.
    Schedule,
    /// A plugin host.
    Plugin,
}

impl TriggerKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Schedule => "schedule",
            Self::Plugin => "plugin",
        }
    }
    /// Reads a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Webhook, Self::Schedule, Self::Plugin].into_iter().find(|kind| kind.name() == name)
    }
}

/// A trigger of a published app. Its configuration is in the app's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// For a webhook, the last part of its URL.
    pub id: String,
    pub kind: TriggerKind,
    pub app: String,
    /// The node in the workflow.
    pub node: String,
    /// The workflow's name, for display.
    pub name: String,
    /// The cron expression of a schedule.
    pub cron: String,
    /// The time zone of a schedule.
    pub zone: String,
}

/// The last result of a trigger; `None` when unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fired {
    /// When it last began a run.
    pub at: Option<Timestamp>,
    pub run: Option<RunId>,
    /// The error, if it failed after that.
    pub error: Option<String>,
}

/// A trigger with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerState {
    pub trigger: Trigger,
    pub fired: Fired,
    /// When a schedule is due.
    pub due: Option<Timestamp>,
}

/// The changes of an app's triggers by a new version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TriggerChanges {
    /// The triggers of the new version; schedules with their due time.
    pub put: Vec<(Trigger, Option<Timestamp>)>,
    /// Unchanged schedules among them: their stored due time stays, if there is one.
    pub unchanged: Vec<String>,
    /// Triggers that no longer exist.
    pub removed: Vec<String>,
}

/// The schedule time of a run. The run is created and the schedule moved atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromSchedule {
    /// The id of the schedule.
    pub trigger: String,
    /// The due time in the store; the run is created only while it is unchanged.
    pub due: Timestamp,
    /// The next due time; `None` when there is none.
    pub next: Option<Timestamp>,
    /// The time that the run stands for: `due`, or a later one when times were missed.
    pub at: Timestamp,
}

/// A schedule that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedule {
    pub trigger: String,
    pub due: Timestamp,
}

/// The shard of a schedule and the runs that it begins, so that both can be written together. Depends on the
/// id and the initial number of shards, which never changes.
pub fn shard_of(trigger: &str, meta: Meta) -> ShardId {
    let digest = Sha256::digest(trigger);
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    ShardId(u16::try_from(number % u32::from(meta.shards_first.max(1))).unwrap_or(0))
}

/// The run id of a schedule's time: the same for every process.
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
