//! API keys of apps in memory.

use std::collections::BTreeMap;

use crate::store::{AppKey, KeyNote, Revoked, key_id};
use tidemill_base::clock::Timestamp;

/// All issued keys.
#[derive(Default)]
pub(super) struct AppKeys {
    /// The app that a key opens, by the key's hash.
    opens: BTreeMap<String, String>,
    /// App and note of each valid key, by id.
    made: BTreeMap<String, (String, KeyNote)>,
    /// App and note of each revoked key, by id.
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
