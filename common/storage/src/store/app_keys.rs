//! API keys of apps: the data kept for each key, and its stored form. A key opens one app. An app may have
//! several keys, so that one can replace another. A key may be limited to scopes, and may expire. The key itself is not
//! stored; people name it by its id.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use tidemill_base::clock::Timestamp;

/// What a key of an app may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyScope {
    /// Start and stop runs, and change what belongs to them: conversations, ratings, annotations.
    Run,
    /// Read runs, conversations, messages and logs, and follow runs.
    Read,
    /// Upload files and read them.
    Files,
    /// Show and answer forms of runs that wait.
    Forms,
}

impl KeyScope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Run, Self::Read, Self::Files, Self::Forms];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Read => "read",
            Self::Files => "files",
            Self::Forms => "forms",
        }
    }

    /// The scope of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// What a key opens, and how far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyGrant {
    /// The app.
    pub app: String,
    /// What it may do; `None`: everything.
    pub scopes: Option<BTreeSet<KeyScope>>,
    /// From when on it opens nothing.
    pub expires_at: Option<Timestamp>,
}

impl KeyGrant {
    /// Everything of an app, for ever.
    pub fn of(app: &str) -> Self {
        Self { app: app.into(), ..Self::default() }
    }

    /// Whether it opens nothing any more.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Whether the key may do this.
    pub fn allows(&self, scope: KeyScope) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&scope))
    }

    /// The stored form: the app alone if nothing is limited. Versions before scopes take the other form for an app that does
    /// not exist, so they open nothing with such a key.
    pub fn to_text(&self) -> String {
        if self.scopes.is_none() && self.expires_at.is_none() {
            return self.app.clone();
        }
        json!({
            "app": self.app,
            "scopes": self.scopes.as_ref().map(names),
            "expires_at": self.expires_at.map(Timestamp::millis),
        })
        .to_string()
    }

    /// Reads the stored form. `None` when it cannot be read: such a key opens nothing.
    pub fn read(text: &str) -> Option<Self> {
        if !text.starts_with('{') {
            return Some(Self::of(text));
        }
        let kept: Json = serde_json::from_str(text).ok()?;
        Some(Self {
            app: kept["app"].as_str()?.into(),
            scopes: scopes(&kept["scopes"])?,
            expires_at: end(&kept["expires_at"])?,
        })
    }
}

/// The stored end. `None` when it is no time.
fn end(kept: &Json) -> Option<Option<Timestamp>> {
    match kept {
        Json::Null => Some(None),
        at => at.as_i64().map(|at| Some(Timestamp::from_millis(at))),
    }
}

fn names(scopes: &BTreeSet<KeyScope>) -> Vec<&'static str> {
    scopes.iter().map(|scope| scope.name()).collect()
}

/// The stored scopes. Those of a later version are left out, since this one does not know what they allow. `None` when they
/// are no list.
fn scopes(kept: &Json) -> Option<Option<BTreeSet<KeyScope>>> {
    match kept {
        Json::Null => Some(None),
        Json::Array(names) => {
            Some(Some(names.iter().filter_map(Json::as_str).filter_map(KeyScope::named).collect()))
        }
        _ => None,
    }
}

/// A key that is to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Its SHA-256.
    pub hash: String,
    pub grant: KeyGrant,
    /// What people call it.
    pub label: Option<String>,
    pub created_at: Timestamp,
}

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
    /// What people call it.
    pub label: Option<String>,
    /// What it may do; `None`: everything.
    pub scopes: Option<BTreeSet<KeyScope>>,
    /// From when on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// How long it was meant to be valid when it was made, in milliseconds; `None`: without end.
    pub lifetime_ms: Option<i64>,
    /// When it was last used, about a minute exact.
    pub used_at: Option<Timestamp>,
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
    /// See [`AppKey::label`].
    pub label: Option<String>,
    /// See [`AppKey::scopes`].
    pub scopes: Option<BTreeSet<KeyScope>>,
    /// See [`AppKey::expires_at`].
    pub expires_at: Option<Timestamp>,
    /// See [`AppKey::lifetime_ms`].
    pub lifetime_ms: Option<i64>,
}

impl KeyNote {
    /// The note of a new key.
    pub fn made(hash: &str, created_at: Timestamp, is_first: bool) -> Self {
        Self { hash: Some(hash.into()), created_at: Some(created_at), is_first, ..Self::default() }
    }

    /// The note of another key.
    pub fn of_new(new: &NewKey) -> Self {
        Self {
            label: new.label.clone(),
            scopes: new.grant.scopes.clone(),
            expires_at: new.grant.expires_at,
            lifetime_ms: new.grant.expires_at.map(|end| end.millis() - new.created_at.millis()),
            ..Self::made(&new.hash, new.created_at, false)
        }
    }

    /// What the key opens.
    pub fn grant(&self, app: &str) -> KeyGrant {
        KeyGrant { app: app.into(), scopes: self.scopes.clone(), expires_at: self.expires_at }
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
        for (name, value) in [("hash", &self.hash), ("app", &self.app), ("label", &self.label)] {
            if let Some(value) = value {
                kept[name] = value.as_str().into();
            }
        }
        for (name, at) in [("revoked_at", self.revoked_at), ("expires_at", self.expires_at)] {
            if let Some(at) = ms(at) {
                kept[name] = at.into();
            }
        }
        if let Some(lifetime) = self.lifetime_ms {
            kept["lifetime_ms"] = lifetime.into();
        }
        if let Some(scopes) = &self.scopes {
            kept["scopes"] = names(scopes).into();
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
            label: word("label"),
            // Scopes that cannot be read allow nothing.
            scopes: scopes(&kept["scopes"]).unwrap_or_else(|| Some(BTreeSet::new())),
            // An end that cannot be read is one that has passed.
            expires_at: end(&kept["expires_at"]).unwrap_or(Some(Timestamp::from_millis(0))),
            lifetime_ms: kept["lifetime_ms"].as_i64(),
        }
    }

    /// The key that this note describes.
    pub fn of_key(self, id: String, app: String) -> AppKey {
        let Self { created_at, is_first, revoked_at, label, scopes, expires_at, lifetime_ms, .. } = self;
        let used_at = None;
        AppKey { id, app, created_at, is_first, revoked_at, label, scopes, expires_at, lifetime_ms, used_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let at = Timestamp::from_millis(1_754_339_718_571);
        let made = KeyNote::made("abc", at, true);
        let revoked = made.revoked("app", Timestamp::from_micros(1_754_339_999_000_000));
        let limited = KeyNote {
            label: Some("the shop".into()),
            scopes: Some([KeyScope::Run].into()),
            expires_at: Some(at),
            lifetime_ms: Some(7),
            ..made.clone()
        };
        for note in [made, limited, revoked.clone(), KeyNote::unnoted()] {
            assert_eq!(KeyNote::read(&note.to_text()), note);
        }
        assert_eq!(revoked.hash, None, "the hash goes with the key");
    }

    #[test]
    fn a_grant_is_read_as_it_was_written_and_without_limits_it_is_the_app_alone() {
        let all = KeyGrant::of("an-app");
        assert_eq!(all.to_text(), "an-app", "versions before scopes read it");
        let expires_at = Some(Timestamp::from_millis(1_754_339_718_571));
        let reads = KeyGrant { scopes: Some([KeyScope::Read, KeyScope::Files].into()), ..all.clone() };
        let nothing = KeyGrant { scopes: Some([].into()), expires_at, ..all.clone() };
        for grant in [all, reads.clone(), nothing] {
            assert_eq!(KeyGrant::read(&grant.to_text()), Some(grant));
        }
        assert!(reads.allows(KeyScope::Read) && !reads.allows(KeyScope::Run));
    }

    #[test]
    fn a_grant_that_cannot_be_read_opens_nothing_and_a_scope_of_a_later_version_allows_nothing() {
        for text in ["{", "{}", r#"{"app": "a", "scopes": "run"}"#, r#"{"app": "a", "expires_at": "x"}"#] {
            assert_eq!(KeyGrant::read(text), None, "{text}");
        }
        let later = KeyGrant::read(r#"{"app": "a", "scopes": ["read", "dance"]}"#).unwrap();
        assert_eq!(later.scopes, Some([KeyScope::Read].into()));
    }

    #[test]
    fn what_cannot_be_read_is_the_first_key_of_its_app() {
        assert_eq!(KeyNote::read("?"), KeyNote::unnoted());
    }
}
