//! The audit log in Redis: the stream `tm:audit`.

use async_trait::async_trait;
use redis::Value;

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::{array, entry, take, unexpected};
use crate::store::{AuditEntry, AuditKept, AuditLog, AuditPage, StoreError};
use tidemill_base::ids::EntryId;

#[async_trait]
impl AuditLog for RedisStore {
    async fn note_audit(&self, entry: &AuditEntry, kept: AuditKept) -> Result<(), StoreError> {
        let age = u64::try_from(kept.age.as_millis()).unwrap_or(0);
        let list = args![entry.to_text(), kept.entries.max(1), age];
        let script = &self.scripts.note_audit;
        let _: String =
            self.connector.run("writing the audit log", script, &[self.keys.audit()], &list).await?;
        Ok(())
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<(EntryId, AuditEntry)>, StoreError> {
        const DOING: &str = "reading the audit log";
        let newest = page.before.map_or_else(|| "+".into(), |before| format!("({before}"));
        let mut command = redis::cmd("XREVRANGE");
        command.arg(self.keys.audit()).arg(newest).arg(page.since.millis().max(0));
        command.arg("COUNT").arg(page.count);
        let found: Value = self.connector.ask(DOING, &command).await?;
        let entries = array(found).ok_or_else(|| unexpected(DOING, "not a list"))?;
        Ok(entries.into_iter().filter_map(read).collect())
    }
}

fn read(value: Value) -> Option<(EntryId, AuditEntry)> {
    let (id, mut fields) = entry(value)?;
    Some((id, AuditEntry::read(&take(&mut fields, "entry"))))
}
