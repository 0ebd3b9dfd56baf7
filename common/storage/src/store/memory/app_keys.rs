//! API keys of apps in memory.

use std::collections::BTreeMap;

use crate::store::{AppKey, KeyGrant, KeyNote, Revoked, key_id};
use tidemill_base::clock::Timestamp;

/// All issued keys.
#[derive(Default)]
pub(super) struct AppKeys {
    /// What a key opens, by the key's hash.
    opens: BTreeMap<String, KeyGrant>,
    /// App and note of each valid key, by id.
    made: BTreeMap<String, (String, KeyNote)>,
    /// App and note of each revoked key, by id.
    revoked: BTreeMap<String, (String, KeyNote)>,
    /// When each key was last used, by id.
    used: BTreeMap<String, Timestamp>,
}

impl AppKeys {
    pub(super) fn add(&mut self, app: &str, hash: &str, note: KeyNote) {
        self.opens.insert(hash.into(), note.grant(app));
        self.made.insert(key_id(hash), (app.into(), note));
    }

    pub(super) fn opened_by(&self, hash: &str) -> Option<KeyGrant> {
        self.opens.get(hash).cloned()
    }

    pub(super) fn expire(&mut self, id: &str, at: Timestamp) -> bool {
        let Some((app, note)) = self.made.get_mut(id) else { return false };
        let Some(hash) = note.hash.clone() else { return false };
        note.expires_at = Some(note.expires_at.map_or(at, |end| end.min(at)));
        self.opens.insert(hash, note.grant(app));
        true
    }

    pub(super) fn use_at(&mut self, id: &str, at: Timestamp) {
        self.used.insert(id.into(), at);
    }

    pub(super) fn all(&self) -> Vec<AppKey> {
        let all = self.made.iter().chain(&self.revoked);
        let shown = |(id, (app, note)): (&String, &(String, KeyNote))| AppKey {
            used_at: self.used.get(id).copied(),
            ..note.clone().of_key(id.clone(), app.clone())
        };
        let mut all: Vec<AppKey> = all.map(shown).collect();
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

    pub(super) fn ended_of(&self, ids: &[String], now: Timestamp) -> Vec<String> {
        let end = |id: &String| self.made.get(id).and_then(|(_, note)| note.expires_at);
        let has_ended = |id: &&String| self.revoked.contains_key(*id) || end(id).is_some_and(|at| at <= now);
        ids.iter().filter(has_ended).cloned().collect()
    }
}
