//! The audit log: who changed what through the native API. An entry has ids, never a body or a secret. The log is bounded:
//! each write removes what is too much or too old.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value as Json, json};

use super::StoreError;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::EntryId;

/// A request that changed something, or was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditEntry {
    /// The id of the admin key; `None`: the key of the settings.
    pub key: Option<String>,
    /// The role of the key.
    pub role: String,
    /// The address of the client, if it is known.
    pub address: Option<String>,
    pub method: String,
    /// The pattern of the route, below `/api/v1`.
    pub route: String,
    /// The things that the path names, and `made`: kind and id.
    pub named: Vec<(String, String)>,
    /// The HTTP status of the answer.
    pub status: u16,
}

impl AuditEntry {
    /// Writes the stored form.
    pub fn to_text(&self) -> String {
        json!({
            "key": self.key, "role": self.role, "address": self.address, "method": self.method, "route": self.route,
            "named": self.named, "status": self.status,
        })
        .to_string()
    }

    /// Reads the stored form. What a later version wrote otherwise is empty.
    pub fn read(text: &str) -> Self {
        let kept: Json = serde_json::from_str(text).unwrap_or_default();
        let word = |name: &str| kept[name].as_str().map(str::to_string);
        let pair = |pair: &Json| Some((pair[0].as_str()?.to_string(), pair[1].as_str()?.to_string()));
        Self {
            key: word("key"),
            role: word("role").unwrap_or_default(),
            address: word("address"),
            method: word("method").unwrap_or_default(),
            route: word("route").unwrap_or_default(),
            named: kept["named"].as_array().into_iter().flatten().filter_map(pair).collect(),
            status: kept["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap_or_default(),
        }
    }
}

/// How much of the log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditKept {
    /// At most so many entries, 1 or more.
    pub entries: u64,
    /// Not longer than this; zero: no limit.
    pub age: Duration,
}

/// A part of the log, the newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditPage {
    /// Only entries before this one.
    pub before: Option<EntryId>,
    /// Only entries of this time (to the millisecond) or later.
    pub since: Timestamp,
    /// At most so many.
    pub count: usize,
}

/// The store of the audit log.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Adds an entry at the store's time, and removes what is not kept any more.
    async fn note_audit(&self, entry: &AuditEntry, kept: AuditKept) -> Result<(), StoreError>;
    /// Entries with their ids, whose first part is the time in milliseconds. The newest first.
    async fn audit(&self, page: &AuditPage) -> Result<Vec<(EntryId, AuditEntry)>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_an_unreadable_one_is_empty() {
        let entry = AuditEntry {
            key: Some("0123456789abcdef".into()),
            role: "operator".into(),
            address: Some("192.0.2.1".into()),
            method: "DELETE".into(),
            route: "/dead/{id}".into(),
            named: vec![("dead_letter".into(), "0/1-1".into())],
            status: 204,
        };
        assert_eq!(AuditEntry::read(&entry.to_text()), entry);
        assert_eq!(AuditEntry::read("?"), AuditEntry::default());
    }
}
