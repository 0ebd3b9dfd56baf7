//! API keys of apps in Redis. `tm:key:<hash>` holds what a key opens. `tm:keys` lists the valid keys by id,
//! `tm:keys:made` holds their notes, `tm:keys:revoked` the revoked ones, and `tm:keys:used` when each was last used.
//!
//! A key listed as revoked opens nothing, even if `tm:key:<hash>` is still there: for keys of older versions
//! only the id is stored, so their hash entry cannot be found and deleted.

use std::collections::BTreeMap;

use redis::Pipeline;

use super::RedisStore;
use super::connection::{Arg, args};
use crate::store::redis::connection::replies::unexpected;
use crate::store::{AppKey, KeyGrant, KeyNote, NewKey, Revoked, Runs, StoreError, key_id};
use tidemill_base::clock::{Clock, SystemClock, Timestamp};

impl RedisStore {
    /// Adds the writes for a key to a transaction.
    pub(super) fn write_key(&self, pipe: &mut Pipeline, grant: &KeyGrant, hash: &str, note: &KeyNote) {
        let id = key_id(hash);
        pipe.cmd("SET").arg(self.keys.api_key(hash)).arg(grant.to_text()).ignore();
        pipe.cmd("HSET").arg(self.keys.api_keys()).arg(&id).arg(&grant.app).ignore();
        pipe.cmd("HSET").arg(self.keys.keys_made()).arg(id).arg(note.to_text()).ignore();
    }

    pub(super) async fn another_key(&self, new: &NewKey) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        self.write_key(&mut pipe, &new.grant, &new.hash, &KeyNote::of_new(new));
        self.connector.ask_all("making an API key", &pipe).await
    }

    pub(super) async fn opened_by(&self, hash: &str) -> Result<Option<KeyGrant>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(self.keys.api_key(hash));
        pipe.cmd("HEXISTS").arg(self.keys.keys_revoked()).arg(key_id(hash));
        let (grant, is_revoked): (Option<String>, bool) =
            self.connector.ask_all("looking up a key", &pipe).await?;
        Ok(grant.filter(|_| !is_revoked).and_then(|text| KeyGrant::read(&text)))
    }

    pub(super) async fn expire(&self, id: &str, at: Timestamp) -> Result<bool, StoreError> {
        const DOING: &str = "setting when an API key expires";
        let mut pipe = redis::pipe();
        pipe.cmd("HGET").arg(self.keys.api_keys()).arg(id);
        pipe.cmd("HGET").arg(self.keys.keys_made()).arg(id);
        let (app, made): (Option<String>, Option<String>) = self.connector.ask_all(DOING, &pipe).await?;
        let (Some(app), Some(made)) = (app, made) else { return Ok(false) };
        let before = KeyNote::read(&made);
        // Another request may have set an earlier end.
        let at = before.expires_at.map_or(at, |end| end.min(at));
        let note = KeyNote { expires_at: Some(at), ..before };
        let Some(hash) = &note.hash else { return Ok(false) };
        let keys = [self.keys.api_keys(), self.keys.keys_made(), self.keys.api_key(hash)];
        let list: Vec<Arg<'_>> = Vec::from(args![id, note.to_text(), note.grant(&app).to_text(), made]);
        self.connector.run(DOING, &self.scripts.expire_key, &keys, &list).await
    }

    pub(super) async fn used(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.keys.keys_used()).arg(id).arg(at.millis());
        self.connector.ask("noting the use of an API key", &command).await
    }

    pub(super) async fn all_keys(&self) -> Result<Vec<AppKey>, StoreError> {
        // No transaction: a full Redis refuses each command in one. So the revoked keys come last, and win.
        let mut pipe = redis::pipe();
        let keys = &self.keys;
        for key in [keys.api_keys(), keys.keys_made(), keys.keys_used(), keys.keys_revoked()] {
            pipe.cmd("HGETALL").arg(key);
        }
        type Texts = BTreeMap<String, String>;
        let (keys, made, used, revoked): (Texts, Texts, BTreeMap<String, i64>, Texts) =
            self.connector.ask_all("listing API keys", &pipe).await?;
        let noted = |id: &String| made.get(id).map_or_else(KeyNote::unnoted, |text| KeyNote::read(text));
        let living = keys.into_iter().filter(|(id, _)| !revoked.contains_key(id));
        let mut all: Vec<AppKey> = living.map(|(id, app)| noted(&id).of_key(id, app)).collect();
        let gone = revoked.into_iter().map(|(id, text)| {
            let mut note = KeyNote::read(&text);
            let app = note.app.take().unwrap_or_default();
            note.of_key(id, app)
        });
        all.extend(gone);
        for key in &mut all {
            key.used_at = used.get(&key.id).copied().map(Timestamp::from_millis);
        }
        all.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(all)
    }

    pub(super) async fn revoke(&self, id: &str) -> Result<Revoked, StoreError> {
        const DOING: &str = "revoking an API key";
        let mut pipe = redis::pipe();
        pipe.cmd("HGET").arg(self.keys.api_keys()).arg(id);
        pipe.cmd("HGET").arg(self.keys.keys_made()).arg(id);
        // Neither changes while the key exists.
        let (app, made): (Option<String>, Option<String>) = self.connector.ask_all(DOING, &pipe).await?;
        let note = made.map_or_else(KeyNote::unnoted, |text| KeyNote::read(&text));
        let kept = note.revoked(&app.unwrap_or_default(), Runs::time(self).await?).to_text();
        let mut keys = vec![self.keys.api_keys(), self.keys.keys_made(), self.keys.keys_revoked()];
        keys.extend(note.hash.map(|hash| self.keys.api_key(&hash)));
        let list: Vec<Arg<'_>> = Vec::from(args![id, kept]);
        let word: String = self.connector.run(DOING, &self.scripts.revoke_key, &keys, &list).await?;
        match word.as_str() {
            "REVOKED" => Ok(Revoked::Now),
            "BEFORE" => Ok(Revoked::Before),
            "UNKNOWN" => Ok(Revoked::Unknown),
            _ => Err(unexpected(DOING, word)),
        }
    }

    pub(super) async fn which_have_ended(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        pipe.cmd("HMGET").arg(self.keys.keys_revoked()).arg(ids);
        pipe.cmd("HMGET").arg(self.keys.keys_made()).arg(ids);
        type Notes = Vec<Option<String>>;
        let (revoked, made): (Notes, Notes) =
            self.connector.ask_all("listing API keys that have ended", &pipe).await?;
        let now = SystemClock.now();
        let is_over = |note: &Option<String>| {
            note.as_deref().and_then(|text| KeyNote::read(text).expires_at).is_some_and(|at| at <= now)
        };
        let notes = ids.iter().zip(revoked.iter().zip(&made));
        let ended = notes.filter(|(_, (revoked, made))| revoked.is_some() || is_over(made));
        Ok(ended.map(|(id, _)| id.clone()).collect())
    }
}
