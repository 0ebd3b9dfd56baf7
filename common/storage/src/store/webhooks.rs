//! Webhooks of apps, and notices: what a webhook is to be sent about a run. The commit that changes the run orders the notice,
//! so no crash loses it. A notice is removed when its receiver has taken it, or when it is given up.

use async_trait::async_trait;

use super::StoreError;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};

/// A notice that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub app: String,
    pub run: RunId,
    /// The number of the commit that ordered it.
    pub commit: u64,
    /// One of [`tidemill_wire::notices::EVENTS`].
    pub event: String,
    /// The record of its failures, JSON; `None` before the first.
    pub record: Option<String>,
    pub due: Timestamp,
}

/// The stored name of a notice.
pub fn member(run: RunId, commit: u64, event: &str) -> String {
    format!("{run} {commit} {event}")
}

impl Notice {
    /// Its stored name.
    pub fn member(&self) -> String {
        member(self.run, self.commit, &self.event)
    }

    /// Its id, which is the same in each try.
    pub fn id(&self) -> String {
        format!("{}-{}", self.run, self.commit)
    }

    /// Reads a stored name.
    pub fn read(app: &str, member: &str, due: Timestamp) -> Option<Self> {
        let (run, rest) = member.split_once(' ')?;
        let (commit, event) = rest.split_once(' ')?;
        let (run, commit) = (run.parse().ok()?, commit.parse().ok()?);
        Some(Self { app: app.into(), run, commit, event: event.into(), record: None, due })
    }
}

/// The notices of an app on a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingNotices {
    pub app: String,
    pub shard: ShardId,
    /// How many there are.
    pub count: u64,
    /// The first ones, by their due time, also those that are not due yet.
    pub first: Vec<Notice>,
}

/// The result of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeTried {
    /// The receiver has it, or it is not wanted any more.
    Done,
    /// It is tried again at this time. With the record of its failures.
    Later(Timestamp, String),
    /// It is given up. With its record, of which at most so many are kept for the app on the shard.
    GivenUp(String, usize),
}

/// The store of webhooks and notices.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Sets or removes the webhook of an app, as JSON.
    async fn put_webhook(&self, app: &str, webhook: Option<&str>) -> Result<(), StoreError>;
    /// The webhook of an app.
    async fn webhook(&self, app: &str) -> Result<Option<String>, StoreError>;
    /// The webhooks of all apps, by the id of the app.
    async fn webhooks(&self) -> Result<Vec<(String, String)>, StoreError>;
    /// The notices of these shards by app: at most `most` of each app and shard, with their records.
    async fn waiting_notices(
        &self,
        shards: &[ShardId],
        most: usize,
    ) -> Result<Vec<WaitingNotices>, StoreError>;
    /// Stores the result of a try; `false` when the notice does not wait any more.
    async fn settle_notice(&self, notice: &Notice, tried: &NoticeTried) -> Result<bool, StoreError>;
    /// The notices of an app on all shards, and the records of those that were given up, newest first on each shard.
    async fn notices_of(
        &self,
        app: &str,
        most: usize,
    ) -> Result<(Vec<WaitingNotices>, Vec<String>), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_written() {
        let run = RunId::new(1_754_339_718_571, 7, ShardId(3));
        let due = Timestamp::from_millis(5);
        let notice = Notice::read("a", &member(run, 12, "ended"), due).unwrap();
        assert_eq!((notice.run, notice.commit, notice.event.as_str(), notice.due), (run, 12, "ended", due));
        assert_eq!((notice.id(), notice.member()), (format!("{run}-12"), member(run, 12, "ended")));
        for wrong in ["", "x 1 ended", "x", &format!("{run} x ended")] {
            assert_eq!(Notice::read("a", wrong, due), None, "{wrong}");
        }
    }
}
