//! Webhooks of apps in Redis: `tm:webhooks`, and on each shard the notices that wait.

use std::collections::HashMap;

use async_trait::async_trait;

use super::RedisStore;
use super::connection::args;
use crate::store::{Notice, NoticeTried, Runs, StoreError, WaitingNotices, Webhooks};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::ShardId;

const LOOKING: &str = "looking for notices of webhooks";

#[async_trait]
impl Webhooks for RedisStore {
    async fn put_webhook(&self, app: &str, webhook: Option<&str>) -> Result<(), StoreError> {
        let mut command = redis::cmd(if webhook.is_some() { "HSET" } else { "HDEL" });
        command.arg(self.keys.webhooks()).arg(app);
        if let Some(webhook) = webhook {
            command.arg(webhook);
        }
        let _: u64 = self.connector.ask("storing a webhook", &command).await?;
        Ok(())
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
        Ok(all.into_iter().collect())
    }

    async fn waiting_notices(
        &self,
        shards: &[ShardId],
        most: usize,
    ) -> Result<Vec<WaitingNotices>, StoreError> {
        let mut pipe = redis::Pipeline::with_capacity(shards.len());
        for shard in shards {
            pipe.cmd("SMEMBERS").arg(self.keys.noticed(*shard));
        }
        let apps: Vec<Vec<String>> = self.connector.ask_all(LOOKING, &pipe).await?;
        let places =
            shards.iter().zip(apps).flat_map(|(shard, apps)| apps.into_iter().map(|app| (*shard, app)));
        self.notices_at(places.collect(), most).await
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
        let places = (0..shards).map(|shard| (ShardId(shard), app.to_string())).collect();
        let waiting = self.notices_at(places, most).await?;
        Ok((waiting, failed.into_iter().flatten().collect()))
    }
}

impl RedisStore {
    /// The first notices of these apps on these shards.
    async fn notices_at(
        &self,
        places: Vec<(ShardId, String)>,
        most: usize,
    ) -> Result<Vec<WaitingNotices>, StoreError> {
        if places.is_empty() || most == 0 {
            return Ok(Vec::new());
        }
        let (mut counts, mut firsts) = (redis::Pipeline::new(), redis::Pipeline::new());
        for (shard, app) in &places {
            let due = self.keys.notices(*shard, app, "due");
            counts.cmd("ZCARD").arg(&due);
            firsts.cmd("ZRANGE").arg(due).arg(0).arg(most - 1).arg("WITHSCORES");
        }
        let counts: Vec<u64> = self.connector.ask_all(LOOKING, &counts).await?;
        let firsts: Vec<Vec<(String, f64)>> = self.connector.ask_all(LOOKING, &firsts).await?;
        let mut found = Vec::with_capacity(places.len());
        for ((shard, app), (count, first)) in places.into_iter().zip(counts.into_iter().zip(firsts)) {
            let notice =
                |(name, due): (String, f64)| Notice::read(&app, &name, Timestamp::from_millis(due as i64));
            let first = first.into_iter().filter_map(notice).collect();
            found.push(WaitingNotices { app, shard, count, first });
        }
        found.retain(|of_app: &WaitingNotices| !of_app.first.is_empty());
        self.add_records(&mut found).await?;
        Ok(found)
    }

    async fn add_records(&self, found: &mut [WaitingNotices]) -> Result<(), StoreError> {
        let mut pipe = redis::Pipeline::with_capacity(found.len());
        for of_app in &*found {
            let members: Vec<String> = of_app.first.iter().map(Notice::member).collect();
            pipe.cmd("HMGET").arg(self.keys.notices(of_app.shard, &of_app.app, "tries")).arg(members);
        }
        if found.is_empty() {
            return Ok(());
        }
        let records: Vec<Vec<Option<String>>> = self.connector.ask_all(LOOKING, &pipe).await?;
        for (of_app, records) in found.iter_mut().zip(records) {
            of_app.first.iter_mut().zip(records).for_each(|(notice, record)| notice.record = record);
        }
        Ok(())
    }
}
