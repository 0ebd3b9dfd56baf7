//! API keys of apps: what is known of each, and how that is written. A key opens one app, and an app may have several, so
//! that one can take the place of another. The key itself is kept nowhere; people name it by its id.

use serde_json::{Value as Json, json};

use crate::clock::Timestamp;

/// A key that was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppKey {
    /// Its id.
    pub id: String,
    /// The app that it opens, or opened.
    pub app: String,
    /// When it was made. None of keys from the time when nothing was noted: each of them was made with its app.
    pub created_at: Option<Timestamp>,
    /// Whether it was made with its app.
    pub is_first: bool,
    /// When it was taken back; none while it opens its app.
    pub revoked_at: Option<Timestamp>,
}

/// What came of taking a key back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// It opens nothing any more.
    Now,
    /// It was taken back before.
    Before,
    /// No key has this id.
    Unknown,
}

/// What a store writes down of a key when it is made, and when it is taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyNote {
    /// The SHA-256 of the key; it names what has to go with the key. Not kept of one that was taken back.
    pub hash: Option<String>,
    /// The app; kept of a key that was taken back.
    pub app: Option<String>,
    /// See [`AppKey::created_at`].
    pub created_at: Option<Timestamp>,
    /// See [`AppKey::is_first`].
    pub is_first: bool,
    /// See [`AppKey::revoked_at`].
    pub revoked_at: Option<Timestamp>,
}

impl KeyNote {
    /// Of a key that is made now.
    pub fn made(hash: &str, created_at: Timestamp, is_first: bool) -> Self {
        Self { hash: Some(hash.into()), created_at: Some(created_at), is_first, ..Self::default() }
    }

    /// Of the key of an app of which nothing was noted.
    pub fn unnoted() -> Self {
        Self { is_first: true, ..Self::default() }
    }

    /// Of the same key, once it is taken back.
    pub fn revoked(&self, app: &str, at: Timestamp) -> Self {
        Self { hash: None, app: Some(app.into()), revoked_at: Some(at), ..self.clone() }
    }

    /// As it is kept.
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

    /// Reads what is kept; what cannot be read is as if nothing was noted.
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

    /// The key that it tells of.
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
