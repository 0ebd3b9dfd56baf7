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
    /// The time of its event, to the millisecond.
    pub at: Timestamp,
    /// One of [`tidemill_wire::notices::EVENTS`].
    pub event: String,
    /// The record of its failures, JSON; `None` before the first.
    pub record: Option<String>,
    pub due: Timestamp,
}

/// The stored name of a notice.
pub fn member(run: RunId, commit: u64, at: Timestamp, event: &str) -> String {
    format!("{run} {commit} {} {event}", at.millis())
}

impl Notice {
    /// Its stored name.
    pub fn member(&self) -> String {
        member(self.run, self.commit, self.at, &self.event)
    }

    /// Its id, which is the same in each try.
    pub fn id(&self) -> String {
        format!("{}-{}", self.run, self.commit)
    }

    /// Reads a stored name.
    pub fn read(app: &str, member: &str, due: Timestamp) -> Option<Self> {
        let (run, rest) = member.split_once(' ')?;
        let (commit, rest) = rest.split_once(' ')?;
        let (at, event) = rest.split_once(' ')?;
        let (run, commit) = (run.parse().ok()?, commit.parse().ok()?);
        let at = Timestamp::from_millis(at.parse().ok()?);
        Some(Self { app: app.into(), run, commit, at, event: event.into(), record: None, due })
    }
}

/// An app with notices that wait, and the shard on which they do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticePlace {
    pub shard: ShardId,
    pub app: String,
}

/// What waits at a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoticesAhead {
    /// How many notices there are.
    pub count: u64,
    /// When the first one is due.
    pub first_due: Option<Timestamp>,
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
    /// A number that each change of a webhook makes larger.
    async fn webhooks_version(&self) -> Result<u64, StoreError>;
    /// The apps with notices on these shards.
    async fn places_with_notices(&self, shards: &[ShardId]) -> Result<Vec<NoticePlace>, StoreError>;
    /// What waits at each of these places.
    async fn notices_ahead(&self, places: &[NoticePlace]) -> Result<Vec<NoticesAhead>, StoreError>;
    /// At most `most` notices that are due at `now`, by their due time, with their records.
    async fn due_notices(
        &self,
        place: &NoticePlace,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<Notice>, StoreError>;
    /// At most `most` notices whose next try is the latest, the latest first, with their records.
    async fn latest_notices(&self, place: &NoticePlace, most: usize) -> Result<Vec<Notice>, StoreError>;
    /// Stores the result of a try; `false` when the notice does not wait any more.
    async fn settle_notice(&self, notice: &Notice, tried: &NoticeTried) -> Result<bool, StoreError>;
    /// Removes the notices of an app on all shards, also the records of those that were given up.
    async fn drop_notices(&self, app: &str) -> Result<(), StoreError>;
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
        let at = Timestamp::from_millis(3);
        let notice = Notice::read("a", &member(run, 12, at, "ended"), due).unwrap();
        assert_eq!((notice.run, notice.commit, notice.event.as_str(), notice.due), (run, 12, "ended", due));
        assert_eq!((notice.at, notice.id()), (at, format!("{run}-12")));
        assert_eq!(notice.member(), member(run, 12, at, "ended"));
        for wrong in ["", "x 1 3 ended", "x", &format!("{run} x 3 ended"), &format!("{run} 12 ended")] {
            assert_eq!(Notice::read("a", wrong, due), None, "{wrong}");
        }
    }
}
