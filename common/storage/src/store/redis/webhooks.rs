//! Webhooks of apps in Redis: `tm:webhooks`, and on each shard the notices that wait.

use std::collections::HashMap;

use async_trait::async_trait;

use super::RedisStore;
use super::connection::args;
use crate::store::{
    Notice, NoticePlace, NoticeTried, NoticesAhead, Runs, StoreError, WaitingNotices, Webhooks,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::ShardId;

const LOOKING: &str = "looking for notices of webhooks";
/// The field that counts changes. No app has such an id.
const VERSION: &str = ":version";

#[async_trait]
impl Webhooks for RedisStore {
    async fn put_webhook(&self, app: &str, webhook: Option<&str>) -> Result<(), StoreError> {
        let Some(webhook) = webhook else {
            let (keys, args) = ([self.keys.webhooks()], args![app, VERSION]);
            let script = &self.scripts.drop_webhook;
            let _: String = self.connector.run("removing a webhook", script, &keys, &args).await?;
            return Ok(());
        };
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("HSET").arg(self.keys.webhooks()).arg(app).arg(webhook).ignore();
        pipe.cmd("HINCRBY").arg(self.keys.webhooks()).arg(VERSION).arg(1).ignore();
        self.connector.ask_all("storing a webhook", &pipe).await
    }

    async fn webhook(&self, app: &str) -> Result<Option<String>, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.webhooks()).arg(app);
        self.connector.ask("reading a webhook", &command).await
    }

    async fn webhooks(&self) -> Result<Vec<(String, String)>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.webhooks());
        let all: HashMap<String, String> = self.connector.ask("reading webhooks", &command).await?;
        Ok(all.into_iter().filter(|(app, _)| app != VERSION).collect())
    }

    async fn webhooks_version(&self) -> Result<u64, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.webhooks()).arg(VERSION);
        let version: Option<u64> = self.connector.ask("reading webhooks", &command).await?;
        Ok(version.unwrap_or(0))
    }

    async fn places_with_notices(&self, shards: &[ShardId]) -> Result<Vec<NoticePlace>, StoreError> {
        if shards.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::Pipeline::with_capacity(shards.len());
        for shard in shards {
            pipe.cmd("SMEMBERS").arg(self.keys.noticed(*shard));
        }
        let apps: Vec<Vec<String>> = self.connector.ask_all(LOOKING, &pipe).await?;
        let of_shard = |(shard, apps): (&ShardId, Vec<String>)| {
            let shard = *shard;
            apps.into_iter().map(move |app| NoticePlace { shard, app })
        };
        Ok(shards.iter().zip(apps).flat_map(of_shard).collect())
    }

    async fn notices_ahead(&self, places: &[NoticePlace]) -> Result<Vec<NoticesAhead>, StoreError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let (mut counts, mut firsts) = (redis::Pipeline::new(), redis::Pipeline::new());
        for NoticePlace { shard, app } in places {
            let due = self.keys.notices(*shard, app, "due");
            counts.cmd("ZCARD").arg(&due);
            firsts.cmd("ZRANGE").arg(due).arg(0).arg(0).arg("WITHSCORES");
        }
        let counts: Vec<u64> = self.connector.ask_all(LOOKING, &counts).await?;
        let firsts: Vec<Vec<(String, f64)>> = self.connector.ask_all(LOOKING, &firsts).await?;
        let due =
            |first: Vec<(String, f64)>| first.first().map(|(_, due)| Timestamp::from_millis(*due as i64));
        let ahead = |(count, first)| NoticesAhead { count, first_due: due(first) };
        Ok(counts.into_iter().zip(firsts).map(ahead).collect())
    }

    async fn due_notices(
        &self,
        place: &NoticePlace,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<Notice>, StoreError> {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(self.keys.notices(place.shard, &place.app, "due")).arg("-inf").arg(now.millis());
        command.arg("WITHSCORES").arg("LIMIT").arg(0).arg(most);
        self.notices_in(place, &command).await
    }

    async fn latest_notices(&self, place: &NoticePlace, most: usize) -> Result<Vec<Notice>, StoreError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(self.keys.notices(place.shard, &place.app, "due")).arg(0).arg(most - 1).arg("WITHSCORES");
        self.notices_in(place, &command).await
    }

    async fn drop_notices(&self, app: &str) -> Result<(), StoreError> {
        for shard in (0..Runs::meta(self).await?.shards).map(ShardId) {
            // No transaction: a full Redis refuses each command in one. What a commit adds before the mark is removed goes with the
            // second removal.
            let mut pipe = redis::pipe();
            let lists = ["due", "tries", "failed"].map(|kind| self.keys.notices(shard, app, kind));
            pipe.cmd("UNLINK").arg(&lists).ignore();
            pipe.cmd("SREM").arg(self.keys.noticed(shard)).arg(app).ignore();
            pipe.cmd("UNLINK").arg(&lists).ignore();
            let _: () = self.connector.ask_all("removing the notices of an app", &pipe).await?;
        }
        Ok(())
    }

    async fn settle_notice(&self, notice: &Notice, tried: &NoticeTried) -> Result<bool, StoreError> {
        let (shard, app) = (notice.run.shard(), notice.app.as_str());
        let of_app = |kind| self.keys.notices(shard, app, kind);
        let keys = [self.keys.noticed(shard), of_app("due"), of_app("tries"), of_app("failed")];
        let (word, due, record, most) = match tried {
            NoticeTried::Done => ("done", 0, "", 0),
            NoticeTried::Later(due, record) => ("later", due.millis(), record.as_str(), 0),
            NoticeTried::GivenUp(record, most) => ("given_up", 0, record.as_str(), *most),
        };
        let list = args![app, notice.member(), word, due, record, most];
        self.connector.run("settling a notice", &self.scripts.settle_notice, &keys, &list).await
    }

    async fn notices_of(
        &self,
        app: &str,
        most: usize,
    ) -> Result<(Vec<WaitingNotices>, Vec<String>), StoreError> {
        let shards = Runs::meta(self).await?.shards;
        let mut pipe = redis::Pipeline::with_capacity(usize::from(shards));
        for shard in (0..shards).map(ShardId) {
            pipe.cmd("LRANGE")
                .arg(self.keys.notices(shard, app, "failed"))
                .arg(0)
                .arg(most.saturating_sub(1));
        }
        let failed: Vec<Vec<String>> = self.connector.ask_all(LOOKING, &pipe).await?;
        let waiting = self.first_of(app, shards, most).await?;
        Ok((waiting, failed.into_iter().flatten().collect()))
    }
}

impl RedisStore {
    /// The first notices of an app on each shard.
    async fn first_of(&self, app: &str, shards: u16, most: usize) -> Result<Vec<WaitingNotices>, StoreError> {
        let places = (0..shards).map(|shard| NoticePlace { shard: ShardId(shard), app: app.into() });
        let places: Vec<NoticePlace> = places.collect();
        let ahead = self.notices_ahead(&places).await?;
        let mut found = Vec::new();
        for (place, NoticesAhead { count, .. }) in places.into_iter().zip(ahead) {
            if count == 0 || most == 0 {
                continue;
            }
            let mut command = redis::cmd("ZRANGE");
            command.arg(self.keys.notices(place.shard, app, "due")).arg(0).arg(most - 1).arg("WITHSCORES");
            let first = self.notices_in(&place, &command).await?;
            found.push(WaitingNotices { app: place.app, shard: place.shard, count, first });
        }
        found.retain(|of_shard| !of_shard.first.is_empty());
        Ok(found)
    }

    /// The notices that a command names, with their records.
    async fn notices_in(&self, place: &NoticePlace, command: &redis::Cmd) -> Result<Vec<Notice>, StoreError> {
        let named: Vec<(String, f64)> = self.connector.ask(LOOKING, command).await?;
        let read =
            |(name, due): (String, f64)| Notice::read(&place.app, &name, Timestamp::from_millis(due as i64));
        let mut notices: Vec<Notice> = named.into_iter().filter_map(read).collect();
        if notices.is_empty() {
            return Ok(notices);
        }
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.notices(place.shard, &place.app, "tries"));
        command.arg(notices.iter().map(Notice::member).collect::<Vec<_>>());
        let records: Vec<Option<String>> = self.connector.ask(LOOKING, &command).await?;
        notices.iter_mut().zip(records).for_each(|(notice, record)| notice.record = record);
        Ok(notices)
    }
}
