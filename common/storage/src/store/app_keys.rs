//! API keys of apps: the data kept for each key, and its stored form. A key opens one app. An app may have
//! several keys, so that one can replace another. The key itself is not stored; people name it by its id.

use serde_json::{Value as Json, json};

use tidemill_base::clock::Timestamp;

/// An API key that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppKey {
    pub id: String,
    /// The app that it opens, or opened before it was revoked.
    pub app: String,
    /// `None` for keys of older versions, which did not store it. Those were all created with their app.
    pub created_at: Option<Timestamp>,
    /// Whether it was created with its app.
    pub is_first: bool,
    /// `None` while the key is valid.
    pub revoked_at: Option<Timestamp>,
}

/// The result of revoking a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// The key is revoked now.
    Now,
    /// It was revoked before.
    Before,
    /// No key has this id.
    Unknown,
}

/// The stored note about a key, written when it is created and when it is revoked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyNote {
    /// The SHA-256 of the key: names the entries to delete with the key. `None` once revoked.
    pub hash: Option<String>,
    /// The app; only set once revoked.
    pub app: Option<String>,
    /// See [`AppKey::created_at`].
    pub created_at: Option<Timestamp>,
    /// See [`AppKey::is_first`].
    pub is_first: bool,
    /// See [`AppKey::revoked_at`].
    pub revoked_at: Option<Timestamp>,
}

impl KeyNote {
    /// The note of a new key.
    pub fn made(hash: &str, created_at: Timestamp, is_first: bool) -> Self {
        Self { hash: Some(hash.into()), created_at: Some(created_at), is_first, ..Self::default() }
    }

    /// The note of an app's first key when none was stored.
    pub fn unnoted() -> Self {
        Self { is_first: true, ..Self::default() }
    }

    /// The note of the same key after revocation.
    pub fn revoked(&self, app: &str, at: Timestamp) -> Self {
        Self { hash: None, app: Some(app.into()), revoked_at: Some(at), ..self.clone() }
    }

    /// Writes the stored form.
    pub fn to_text(&self) -> String {
        let ms = |at: Option<Timestamp>| at.map(Timestamp::millis);
        let mut kept = json!({"created_at": ms(self.created_at), "first": self.is_first});
        for (name, value) in [("hash", &self.hash), ("app", &self.app)] {
            if let Some(value) = value {
                kept[name] = value.as_str().into();
            }
        }
        if let Some(at) = ms(self.revoked_at) {
            kept["revoked_at"] = at.into();
        }
        kept.to_string()
    }

    /// Reads the stored form; an unreadable note counts as no note.
    pub fn read(text: &str) -> Self {
        let Ok(kept) = serde_json::from_str::<Json>(text) else { return Self::unnoted() };
        let word = |name: &str| kept[name].as_str().map(str::to_string);
        let at = |name: &str| kept[name].as_i64().map(Timestamp::from_millis);
        Self {
            hash: word("hash"),
            app: word("app"),
            created_at: at("created_at"),
            is_first: kept["first"] == true,
            revoked_at: at("revoked_at"),
        }
    }

    /// The key that this note describes.
    pub fn of_key(self, id: String, app: String) -> AppKey {
        let Self { created_at, is_first, revoked_at, .. } = self;
        AppKey { id, app, created_at, is_first, revoked_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let at = Timestamp::from_micros(1_754_339_718_571_000);
        let made = KeyNote::made("abc", at, true);
        let revoked = made.revoked("app", Timestamp::from_micros(1_754_339_999_000_000));
        for note in [made, revoked.clone(), KeyNote::unnoted()] {
            assert_eq!(KeyNote::read(&note.to_text()), note);
        }
        assert_eq!(revoked.hash, None, "the hash goes with the key");
    }

    #[test]
    fn what_cannot_be_read_is_the_first_key_of_its_app() {
        assert_eq!(KeyNote::read("?"), KeyNote::unnoted());
    }
}
