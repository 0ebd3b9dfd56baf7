//! The audit log in memory. It must behave like `store/redis/audit.rs`; the contract suite runs on both.

use std::collections::VecDeque;

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{AuditEntry, AuditKept, AuditLog, AuditPage, StoreError};
use tidemill_base::ids::EntryId;

/// The entries, the oldest first.
pub(super) type Entries = VecDeque<(EntryId, AuditEntry)>;

#[async_trait]
impl AuditLog for MemoryStore {
    async fn note_audit(&self, entry: &AuditEntry, kept: AuditKept) -> Result<(), StoreError> {
        let now = self.inner.now().millis().unsigned_abs();
        let mut space = self.inner.lock();
        let log = &mut space.audit;
        let id = match log.back() {
            Some((last, _)) if last.major >= now => EntryId::new(last.major, last.minor + 1),
            Some(_) | None => EntryId::new(now, 0),
        };
        log.push_back((id, entry.clone()));
        let age = u64::try_from(kept.age.as_millis()).unwrap_or(0);
        let oldest = if age == 0 { 0 } else { now.saturating_sub(age) };
        while log.len() as u64 > kept.entries.max(1) || log.front().is_some_and(|(id, _)| id.major < oldest) {
            log.pop_front();
        }
        Ok(())
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<(EntryId, AuditEntry)>, StoreError> {
        let since = page.since.millis().max(0).unsigned_abs();
        let space = self.inner.lock();
        let wanted = space.audit.iter().rev().filter(|(id, _)| page.before.is_none_or(|before| *id < before));
        Ok(wanted.take_while(|(id, _)| id.major >= since).take(page.count).cloned().collect())
    }
}
