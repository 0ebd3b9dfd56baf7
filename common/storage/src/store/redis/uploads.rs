//! Counts the bytes of uploads for their quotas, and notes which runs have files.

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{StoreError, UploadCharge, UploadCharged};
use tidemill_base::ids::RunId;

impl RedisStore {
    pub(super) async fn note_files_of(&self, run: RunId) -> Result<bool, StoreError> {
        const DOING: &str = "noting that a run has files";
        let keys = [self.keys.run(run), self.keys.files(run.shard())];
        let args = args![run.to_string()];
        let word: String = self.connector.run(DOING, &self.scripts.note_files, &keys, &args).await?;
        Ok(word == "NOTED")
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
