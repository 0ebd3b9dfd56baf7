//! API keys of apps in memory.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::store::{AppKey, KeyNote, Revoked, key_id};

/// All keys that were given out.
#[derive(Default)]
pub(super) struct AppKeys {
    /// By the hash of the key: the app that it opens.
    opens: BTreeMap<String, String>,
    /// By the id of the key: its app, and what was noted when it was made.
    made: BTreeMap<String, (String, KeyNote)>,
    /// By the id of the key, once it is taken back.
    revoked: BTreeMap<String, (String, KeyNote)>,
}

impl AppKeys {
    pub(super) fn add(&mut self, app: &str, hash: &str, note: KeyNote) {
        self.opens.insert(hash.into(), app.into());
        self.made.insert(key_id(hash), (app.into(), note));
    }

    pub(super) fn opened_by(&self, hash: &str) -> Option<String> {
        self.opens.get(hash).cloned()
    }

    pub(super) fn all(&self) -> Vec<AppKey> {
        let all = self.made.iter().chain(&self.revoked);
        let mut all: Vec<AppKey> =
            all.map(|(id, (app, note))| note.clone().of_key(id.clone(), app.clone())).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    pub(super) fn revoke(&mut self, id: &str, at: Timestamp) -> Revoked {
        if self.revoked.contains_key(id) {
            return Revoked::Before;
        }
        let Some((app, note)) = self.made.remove(id) else { return Revoked::Unknown };
        if let Some(hash) = &note.hash {
            self.opens.remove(hash);
        }
        let kept = note.revoked(&app, at);
        self.revoked.insert(id.into(), (app, kept));
        Revoked::Now
    }

    pub(super) fn revoked_of(&self, ids: &[String]) -> Vec<String> {
        ids.iter().filter(|id| self.revoked.contains_key(*id)).cloned().collect()
    }
}
