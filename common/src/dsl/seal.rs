//! Secrets at rest: an environment variable of type `secret` lies in the stored document only sealed.
//!
//! XChaCha20-Poly1305 under a key made of the operator's passphrase. The nonce follows from key, name and value, so
//! that the same document gives the same text and the same hash; equal secrets of one name show as equal, and nothing
//! else does. The name is authenticated, so one variable's seal does not open under another's name.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::Document;
use crate::value::SegmentType;

/// How every sealed value begins.
pub const SEALED_PREFIX: &str = "sealed:v1:";
const NONCE_BYTES: usize = 24;

/// A key that seals secrets. Shown nowhere.
#[derive(Clone)]
pub struct SealingKey([u8; 32]);

impl SealingKey {
    /// The key of a passphrase (`TIDEMILL_SECRET_KEY`): its SHA-256. Use one of at least 32 random characters.
    pub fn from_passphrase(passphrase: &str) -> Self {
        Self(Sha256::digest(passphrase.as_bytes()).into())
    }

    fn nonce(&self, name: &str, value: &str) -> [u8; NONCE_BYTES] {
        let mut hash = Sha256::new();
        hash.update(b"tidemill seal nonce v1");
        hash.update(self.0);
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name.as_bytes());
        hash.update(value.as_bytes());
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&hash.finalize()[..NONCE_BYTES]);
        nonce
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(Key::from_slice(&self.0))
    }

    /// A value so that only this key opens it, and only under this name.
    ///
    /// # Errors
    /// [`SealError::TooLong`].
    pub fn seal(&self, name: &str, value: &str) -> Result<String, SealError> {
        let nonce = self.nonce(name, value);
        let payload = Payload { msg: value.as_bytes(), aad: name.as_bytes() };
        let sealed = self.cipher().encrypt(XNonce::from_slice(&nonce), payload);
        let sealed = sealed.map_err(|_| SealError::TooLong { name: name.into() })?;
        Ok(format!("{SEALED_PREFIX}{}", BASE64.encode([&nonce[..], &sealed].concat())))
    }

    /// What was sealed under this name; none when it was sealed with another key or for another name, or is no seal.
    pub fn open(&self, name: &str, sealed: &str) -> Option<String> {
        let bytes = BASE64.decode(sealed.strip_prefix(SEALED_PREFIX)?).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        String::from_utf8(self.cipher().decrypt(XNonce::from_slice(nonce), payload).ok()?).ok()
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// Why secrets could not be sealed or opened. Holds names, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There are secrets and there is no key.
    #[error("the workflow has the secret {name:?}, which is kept only sealed: set TIDEMILL_SECRET_KEY")]
    NoKey {
        /// The first variable concerned.
        name: String,
    },
    /// Sealed under another key, or changed since.
    #[error(
        "the secret {name:?} does not open: TIDEMILL_SECRET_KEY is not the key it was sealed with, or the stored text was changed"
    )]
    WrongKey {
        /// The first variable concerned.
        name: String,
    },
    /// Longer than the cipher takes.
    #[error("the secret {name:?} is too long to seal")]
    TooLong {
        /// The variable concerned.
        name: String,
    },
}

impl Document {
    /// Seals every secret that has a value; what is sealed under this key already stays as it is.
    ///
    /// # Errors
    /// [`SealError::NoKey`] when there is a secret and no key.
    pub fn seal(&mut self, key: Option<&SealingKey>) -> Result<(), SealError> {
        each_secret(self, |name, value| {
            let Some(key) = key else {
                let is_sealed = value.starts_with(SEALED_PREFIX);
                return if is_sealed { Ok(None) } else { Err(SealError::NoKey { name: name.into() }) };
            };
            if key.open(name, value).is_some() {
                return Ok(None);
            }
            key.seal(name, value).map(Some)
        })
    }

    /// Opens every sealed secret.
    ///
    /// # Errors
    /// [`SealError::NoKey`] or [`SealError::WrongKey`] when there is a sealed secret that cannot be opened.
    pub fn open(&mut self, key: Option<&SealingKey>) -> Result<(), SealError> {
        each_secret(self, |name, value| {
            if !value.starts_with(SEALED_PREFIX) {
                return Ok(None);
            }
            let key = key.ok_or_else(|| SealError::NoKey { name: name.into() })?;
            key.open(name, value).map(Some).ok_or_else(|| SealError::WrongKey { name: name.into() })
        })
    }
}

/// Gives each secret with a value to `change`, and takes what it gives back. Nothing changes when one fails.
fn each_secret(
    document: &mut Document,
    mut change: impl FnMut(&str, &str) -> Result<Option<String>, SealError>,
) -> Result<(), SealError> {
    let mut changed = Vec::new();
    for (at, variable) in document.environment.iter().enumerate() {
        let Json::String(value) = &variable.value.value else { continue };
        if variable.value.ty == SegmentType::Secret && !value.is_empty() {
            changed.extend(change(&variable.name, value)?.map(|value| (at, value)));
        }
    }
    for (at, value) in changed {
        document.environment[at].value.value = Json::String(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::{ParseLimits, parse};

    fn with_secret() -> Document {
        let text = b"kind: app\nversion: 0.6.0\napp: {mode: workflow, name: x}\nworkflow:\n  environment_variables:\n  - {name: TOKEN, value_type: secret, value: hunter2}\n  - {name: EMPTY, value_type: secret, value: ''}\n  - {name: PLAIN, value_type: string, value: seen}\n  graph: {nodes: [], edges: []}\n";
        parse(text, &ParseLimits::default()).0.unwrap()
    }

    #[test]
    fn a_sealed_document_shows_no_secret_and_opens_to_what_it_was() {
        let key = SealingKey::from_passphrase("a passphrase");
        let clear = with_secret();
        let mut document = clear.clone();
        document.seal(Some(&key)).unwrap();
        let text = document.canonical();
        assert!(!text.contains("hunter2") && text.contains("sealed:v1:") && text.contains("seen"));
        let mut read = Document::from_stored(&text).unwrap();
        read.open(Some(&key)).unwrap();
        assert_eq!(read, clear);
    }

    #[test]
    fn the_same_document_under_the_same_key_has_the_same_hash() {
        let key = SealingKey::from_passphrase("a");
        let (mut one, mut two, mut other) = (with_secret(), with_secret(), with_secret());
        one.seal(Some(&key)).unwrap();
        two.seal(Some(&key)).unwrap();
        two.seal(Some(&key)).unwrap();
        other.seal(Some(&SealingKey::from_passphrase("b"))).unwrap();
        assert_eq!(one.hash(), two.hash());
        assert_ne!(one.hash(), other.hash());
    }

    #[test]
    fn a_missing_a_wrong_and_a_swapped_seal_are_told_apart_from_success() {
        let key = SealingKey::from_passphrase("a");
        let mut document = with_secret();
        let error = document.seal(None).unwrap_err();
        assert!(error.to_string().contains("TIDEMILL_SECRET_KEY") && !error.to_string().contains("hunter2"));
        document.seal(Some(&key)).unwrap();
        assert_eq!(document.seal(None), Ok(()), "what is sealed needs no key to stay sealed");
        let name = || "TOKEN".to_owned();
        assert_eq!(document.open(None), Err(SealError::NoKey { name: name() }));
        let wrong = SealingKey::from_passphrase("b");
        assert_eq!(document.open(Some(&wrong)), Err(SealError::WrongKey { name: name() }));
        document.environment[0].name = "OTHER".into();
        assert!(document.open(Some(&key)).is_err());
    }

    #[test]
    fn debug_shows_no_secret() {
        let document = with_secret();
        let shown =
            format!("{document:?} {:?} {:?}", document.environment, SealingKey::from_passphrase("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
