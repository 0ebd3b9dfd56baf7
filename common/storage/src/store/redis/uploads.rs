//! Counts the bytes of uploads for their quotas, and notes which runs have files.

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{StoreError, UploadCharge, UploadCharged};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};

impl RedisStore {
    pub(super) async fn note_files_of(&self, run: RunId) -> Result<bool, StoreError> {
        const DOING: &str = "noting that a run has files";
        let keys = [self.keys.run(run), self.keys.files(run.shard())];
        let args = args![run.to_string()];
        let word: String = self.connector.run(DOING, &self.scripts.note_files, &keys, &args).await?;
        Ok(word == "NOTED")
    }

    pub(super) async fn note_early(&self, run: RunId, at: Timestamp) -> Result<(), StoreError> {
        let (shard, id) = (run.shard(), run.to_string());
        let mut pipe = redis::Pipeline::with_capacity(2);
        pipe.cmd("ZADD").arg(self.keys.files_early(shard)).arg(at.millis()).arg(&id).ignore();
        // An earlier request for this run may have become no run, so that its files are to be deleted.
        pipe.cmd("SREM").arg(self.keys.files_left(shard)).arg(&id).ignore();
        self.connector.ask_all("noting that a request brings files", &pipe).await
    }

    pub(super) async fn settle_early(
        &self,
        shard: ShardId,
        before: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        const DOING: &str = "looking for files without a run";
        let (early, before) = (self.keys.files_early(shard), before.millis());
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(&early).arg("-inf").arg(before).arg("LIMIT").arg(0).arg(count);
        let noted: Vec<String> = self.connector.ask(DOING, &command).await?;
        let mut settled = 0;
        for id in noted {
            let Ok(run) = id.parse::<RunId>() else {
                tracing::warn!(%shard, id, "a note of files has an invalid run id");
                continue;
            };
            let keys = [self.keys.run(run), early.clone(), self.keys.files_left(shard)];
            let script = &self.scripts.settle_early_files;
            let word: String = self.connector.run(DOING, script, &keys, &args![id, before]).await?;
            settled += usize::from(word == "SETTLED");
        }
        Ok(settled)
    }

    /// Counts these bytes; negative ones are given back.
    pub(super) async fn charge(&self, it: &UploadCharge, bytes: i64) -> Result<UploadCharged, StoreError> {
        const DOING: &str = "counting an upload";
        let keys = [self.keys.uploads(&it.app, None), self.keys.uploads(&it.app, Some(&it.user))];
        let args =
            args![it.day.as_str(), it.first_day.as_str(), bytes, it.app_max, it.user_max, it.keep_seconds];
        let words: Vec<String> = self.connector.run(DOING, &self.scripts.charge_upload, &keys, &args).await?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["TAKEN"] => Ok(UploadCharged::Taken),
            [who @ ("APP" | "USER"), used] => {
                let used = used.parse().map_err(|_| unexpected(DOING, "the bytes so far are no number"))?;
                Ok(if who == "APP" {
                    UploadCharged::AppFull { used }
                } else {
                    UploadCharged::UserFull { used }
                })
            }
            _ => Err(unexpected(DOING, words.join(" "))),
        }
    }
}
