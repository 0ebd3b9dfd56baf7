//! Notices as the API shows them.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{Notice, StoreError, WaitingNotices};

use super::Notifier;

impl Notifier {
    /// The notices of an app as the API shows them: those that wait, and those that were given up.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn shown(&self, app: &str, most: usize) -> Result<Json, StoreError> {
        let (waiting, given_up) = self.store.notices_of(app, most).await?;
        let count: u64 = waiting.iter().map(|of_shard| of_shard.count).sum();
        Ok(json!({
            "waiting": count,
            "data": in_order(waiting, most),
            "given_up": latest(&given_up, most),
        }))
    }
}

/// The notices that wait, the next one first.
fn in_order(waiting: Vec<WaitingNotices>, most: usize) -> Vec<Json> {
    let mut all: Vec<Notice> = waiting.into_iter().flat_map(|of_shard| of_shard.first).collect();
    all.sort_by_key(|notice| (notice.due, notice.id()));
    all.truncate(most);
    let shown = |notice: &Notice| {
        let record: Option<Json> = notice.record.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let failed = record.as_ref().map(shown_record).unwrap_or_default();
        json!({
            "id": notice.id(), "event": notice.event, "run": notice.run.to_string(),
            "next_at": notice.due.seconds_f64(), "tries": failed["tries"].as_u64().unwrap_or(0),
            "error": failed["error"], "status": failed["status"], "last_at": failed["last_at"],
        })
    };
    all.iter().map(shown).collect()
}

/// The records of those that were given up, the newest first.
fn latest(texts: &[String], most: usize) -> Vec<Json> {
    let mut records: Vec<Json> = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    records.sort_by_key(|record| std::cmp::Reverse(record["at"].as_i64()));
    records.truncate(most);
    records.iter().map(shown_record).collect()
}

fn shown_record(record: &Json) -> Json {
    let at = record["at"].as_i64().map(|at| Timestamp::from_millis(at).seconds_f64());
    json!({
        "id": record["id"], "event": record["event"], "run": record["run"], "tries": record["tries"],
        "error": record["error"], "status": record["status"], "last_at": at,
    })
}
