//! Webhooks of apps and their notices in memory. It must behave like `store/redis/webhooks.rs`; the contract suite runs on both.

use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;

use super::MemoryStore;
use super::shard::Shard;
use crate::store::webhooks::member;
use crate::store::{Notice, NoticePlace, NoticeTried, NoticesAhead, StoreError, WaitingNotices, Webhooks};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::ShardId;
use tidemill_wire::commit::RunWrite;

/// The notices of an app on a shard.
#[derive(Debug, Clone, Default)]
pub(super) struct OfApp {
    /// Due time (ms) of each that waits, by its name.
    due: BTreeMap<String, i64>,
    records: BTreeMap<String, String>,
    /// The newest first.
    failed: VecDeque<String>,
}

impl OfApp {
    /// All of them by their due time, with their records.
    fn in_order(&self, app: &str) -> Vec<Notice> {
        let mut in_order: Vec<(&String, i64)> = self.due.iter().map(|(name, due)| (name, *due)).collect();
        in_order.sort_by_key(|(name, due)| (*due, (*name).clone()));
        let notice = |(name, due): (&String, i64)| {
            let notice = Notice::read(app, name, Timestamp::from_millis(due))?;
            Some(Notice { record: self.records.get(name).cloned(), ..notice })
        };
        in_order.into_iter().filter_map(notice).collect()
    }

    fn first(&self, app: &str, shard: ShardId, most: usize) -> Option<WaitingNotices> {
        let first: Vec<Notice> = self.in_order(app).into_iter().take(most).collect();
        let count = self.due.len() as u64;
        (!first.is_empty()).then(|| WaitingNotices { app: app.into(), shard, count, first })
    }
}

/// Stores the notice of a commit.
pub(super) fn write(shard: &mut Shard, write: &RunWrite, commit: u64) {
    let Some(notice) = &write.notice else { return };
    let of_app = shard.notices.entry(notice.app.clone()).or_default();
    of_app.due.insert(member(write.run, commit, notice.at, notice.event), notice.at.millis());
}

#[async_trait]
impl Webhooks for MemoryStore {
    async fn put_webhook(&self, app: &str, webhook: Option<&str>) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        space.webhooks_version += 1;
        match webhook {
            Some(webhook) => space.webhooks.insert(app.into(), webhook.into()),
            None => space.webhooks.remove(app),
        };
        Ok(())
    }

    async fn webhook(&self, app: &str) -> Result<Option<String>, StoreError> {
        Ok(self.inner.lock().webhooks.get(app).cloned())
    }

    async fn webhooks(&self) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.inner.lock().webhooks.clone().into_iter().collect())
    }

    async fn webhooks_version(&self) -> Result<u64, StoreError> {
        Ok(self.inner.lock().webhooks_version)
    }

    async fn places_with_notices(&self, shards: &[ShardId]) -> Result<Vec<NoticePlace>, StoreError> {
        let space = self.inner.lock();
        let known = shards.iter().filter_map(|shard| Some((*shard, space.shards.get(shard)?)));
        let all = known.flat_map(|(id, shard)| shard.notices.iter().map(move |(app, of)| (id, app, of)));
        let waits = all.filter(|(_, _, of_app)| !of_app.due.is_empty());
        Ok(waits.map(|(shard, app, _)| NoticePlace { shard, app: app.clone() }).collect())
    }

    async fn notices_ahead(&self, places: &[NoticePlace]) -> Result<Vec<NoticesAhead>, StoreError> {
        let ahead = |place| {
            let in_order = self.notices_at(place);
            let first_due = in_order.first().map(|notice| notice.due);
            NoticesAhead { count: in_order.len() as u64, first_due }
        };
        Ok(places.iter().map(ahead).collect())
    }

    async fn due_notices(
        &self,
        place: &NoticePlace,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<Notice>, StoreError> {
        let due = self.notices_at(place).into_iter().filter(|notice| notice.due <= now);
        Ok(due.take(most).collect())
    }

    async fn latest_notices(&self, place: &NoticePlace, most: usize) -> Result<Vec<Notice>, StoreError> {
        Ok(self.notices_at(place).into_iter().rev().take(most).collect())
    }

    async fn drop_notices(&self, app: &str) -> Result<(), StoreError> {
        self.inner.lock().shards.values_mut().for_each(|shard| drop(shard.notices.remove(app)));
        Ok(())
    }

    async fn settle_notice(&self, notice: &Notice, tried: &NoticeTried) -> Result<bool, StoreError> {
        let mut space = self.inner.lock();
        let name = notice.member();
        let Some(of_app) = space.shard(notice.run.shard()).notices.get_mut(&notice.app) else {
            return Ok(false);
        };
        let Some(due) = of_app.due.get_mut(&name) else { return Ok(false) };
        match tried {
            NoticeTried::Later(at, record) => {
                *due = at.millis();
                of_app.records.insert(name, record.clone());
            }
            NoticeTried::Done | NoticeTried::GivenUp(..) => {
                of_app.due.remove(&name);
                of_app.records.remove(&name);
            }
        }
        if let NoticeTried::GivenUp(record, most) = tried {
            of_app.failed.push_front(record.clone());
            of_app.failed.truncate(*most);
        }
        Ok(true)
    }

    async fn notices_of(
        &self,
        app: &str,
        most: usize,
    ) -> Result<(Vec<WaitingNotices>, Vec<String>), StoreError> {
        let space = self.inner.lock();
        let of_app = || space.shards.iter().filter_map(|(id, shard)| Some((*id, shard.notices.get(app)?)));
        let waiting = of_app().filter_map(|(id, of_app)| of_app.first(app, id, most)).collect();
        let failed = of_app().flat_map(|(_, of_app)| of_app.failed.iter().take(most).cloned()).collect();
        Ok((waiting, failed))
    }
}

impl MemoryStore {
    fn notices_at(&self, place: &NoticePlace) -> Vec<Notice> {
        let space = self.inner.lock();
        let of_app = space.shards.get(&place.shard).and_then(|shard| shard.notices.get(&place.app));
        of_app.map(|of_app| of_app.in_order(&place.app)).unwrap_or_default()
    }
}
