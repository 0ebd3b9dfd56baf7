//! Secrets at rest: an environment variable of type `secret` is stored in a document only sealed.
//!
//! XChaCha20-Poly1305 under a key derived from the operator's passphrase. The nonce follows from key, name and value, so
//! that the same document gives the same text and the same hash; equal secrets of one name show as equal, and nothing
//! else does. The name is authenticated, so one variable's seal does not open under another's name.
//!
//! | prefix | how the key is derived | written |
//! | --- | --- | --- |
//! | `sealed:v1:` | SHA-256 of the passphrase | while a process may live that knows no other |
//! | `sealed:v2:` | Argon2id over the passphrase and a salt, which the seal carries | since [`SealingKey::salt_with`] |

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::Document;
use crate::hidden::Hidden;
use crate::value::SegmentType;

const HASHED_PREFIX: &str = "sealed:v1:";
const SALTED_PREFIX: &str = "sealed:v2:";
const NONCE_BYTES: usize = 24;
const SALT_BYTES: usize = 16;
/// Memory and passes of Argon2id: some 20 ms a guess, and the same for one start of a process.
const ARGON2_KIB: u32 = 19 * 1024;
const ARGON2_PASSES: u32 = 2;
/// Different salts in one document: its own and those of installations that it passed through. Each costs a derivation.
const SALTS_MAX: usize = 4;
/// Derived keys that a process remembers.
const DERIVED_KEPT: usize = 8;

/// Whether a text has the form of a seal, of this version of Tidemill or of a later one.
pub fn is_sealed(text: &str) -> bool {
    let version = text.strip_prefix("sealed:v").and_then(|rest| rest.split_once(':'));
    version.is_some_and(|(version, _)| !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()))
}

/// What makes one installation's derived keys differ from another's with the same passphrase. It is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt([u8; SALT_BYTES]);

impl Salt {
    /// A salt made of random bytes.
    pub fn of(bytes: [u8; SALT_BYTES]) -> Self {
        Self(bytes)
    }

    /// A salt as [`Self::text`] writes it.
    pub fn read(text: &str) -> Option<Self> {
        BASE64.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// Its bytes in base64.
    pub fn text(self) -> String {
        BASE64.encode(self.0)
    }
}

type KeyBytes = [u8; 32];

/// A key that seals secrets. Shown nowhere. Clones share what was derived.
#[derive(Clone)]
pub struct SealingKey(Arc<Inner>);

struct Inner {
    passphrase: Hidden,
    hashed: KeyBytes,
    /// Set once new seals may be salted.
    salt: OnceLock<Salt>,
    /// The last used first.
    derived: Mutex<Vec<(Salt, KeyBytes)>>,
}

impl SealingKey {
    /// The key of a passphrase (`TIDEMILL_SECRET_KEY`). It opens seals of every version, and writes `sealed:v1:` until
    /// it is given a salt.
    pub fn from_passphrase(passphrase: &str) -> Self {
        Self(Arc::new(Inner {
            passphrase: passphrase.to_owned().into(),
            hashed: Sha256::digest(passphrase.as_bytes()).into(),
            salt: OnceLock::new(),
            derived: Mutex::default(),
        }))
    }

    /// From now on new seals are `sealed:v2:` with this salt. A second call changes nothing.
    pub fn salt_with(&self, salt: Salt) {
        // The first salt stays: one process writes equal documents with equal hashes.
        let _ = self.0.salt.set(salt);
    }

    /// Whether new seals are salted.
    pub fn is_salted(&self) -> bool {
        self.0.salt.get().is_some()
    }

    /// The key under a salt; derived at the first use of the salt, which takes some 20 ms.
    fn derived(&self, salt: Salt) -> Option<KeyBytes> {
        let mut derived = self.0.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = derived.iter().position(|(known, _)| *known == salt) {
            derived[..=at].rotate_right(1);
        } else {
            let params = Params::new(ARGON2_KIB, ARGON2_PASSES, 1, None).ok()?;
            let mut key = KeyBytes::default();
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(self.0.passphrase.as_str().as_bytes(), &salt.0, &mut key)
                .ok()?;
            derived.truncate(DERIVED_KEPT - 1);
            derived.insert(0, (salt, key));
        }
        derived.first().map(|(_, key)| *key)
    }

    /// A value so that only this key opens it, and only under this name.
    ///
    /// # Errors
    /// [`SealError::TooLong`].
    pub fn seal(&self, name: &str, value: &str) -> Result<String, SealError> {
        let too_long = || SealError::TooLong { name: name.into() };
        let Some(salt) = self.0.salt.get() else {
            let sealed = seal_under(&self.0.hashed, name, value).ok_or_else(too_long)?;
            return Ok(format!("{HASHED_PREFIX}{}", BASE64.encode(sealed)));
        };
        let key = self.derived(*salt).ok_or_else(too_long)?;
        let sealed = seal_under(&key, name, value).ok_or_else(too_long)?;
        Ok(format!("{SALTED_PREFIX}{}", BASE64.encode([&salt.0[..], &sealed].concat())))
    }

    /// What was sealed under this name; none when it was sealed with another key or for another name, or is no seal.
    pub fn open(&self, name: &str, sealed: &str) -> Option<String> {
        if let Some(text) = sealed.strip_prefix(HASHED_PREFIX) {
            return open_under(&self.0.hashed, name, &BASE64.decode(text).ok()?);
        }
        let bytes = BASE64.decode(sealed.strip_prefix(SALTED_PREFIX)?).ok()?;
        let (salt, sealed) = bytes.split_first_chunk()?;
        open_under(&self.derived(Salt(*salt))?, name, sealed)
    }
}

/// The salt of a seal that has one.
fn salt_of(sealed: &str) -> Option<Salt> {
    // Sixteen bytes are the first 22 of the characters that stand for four times six.
    let text = sealed.strip_prefix(SALTED_PREFIX)?.get(..24)?;
    BASE64.decode(text).ok()?.first_chunk().copied().map(Salt)
}

fn nonce(key: &KeyBytes, name: &str, value: &str) -> [u8; NONCE_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"tidemill seal nonce v1");
    hash.update(key);
    hash.update((name.len() as u64).to_be_bytes());
    hash.update(name.as_bytes());
    hash.update(value.as_bytes());
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&hash.finalize()[..NONCE_BYTES]);
    nonce
}

/// Nonce and cipher text; none when the value is longer than the cipher takes.
fn seal_under(key: &KeyBytes, name: &str, value: &str) -> Option<Vec<u8>> {
    let nonce = nonce(key, name, value);
    let payload = Payload { msg: value.as_bytes(), aad: name.as_bytes() };
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key));
    let sealed = cipher.encrypt(XNonce::from_slice(&nonce), payload).ok()?;
    Some([&nonce[..], &sealed].concat())
}

fn open_under(key: &KeyBytes, name: &str, bytes: &[u8]) -> Option<String> {
    let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
    let payload = Payload { msg: sealed, aad: name.as_bytes() };
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key));
    String::from_utf8(cipher.decrypt(XNonce::from_slice(nonce), payload).ok()?).ok()
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
    /// Seals of more installations than a document can have passed through.
    #[error(
        "the secrets of the workflow were sealed with more than {SALTS_MAX} different salts, the last one {name:?}: \
         enter them again in clear"
    )]
    TooManySalts {
        /// The first variable with a salt too many.
        name: String,
    },
}

impl Document {
    /// Seals every secret that has a value; what is sealed under this key already stays as it is.
    ///
    /// # Errors
    /// [`SealError::NoKey`] when there is a secret and no key, [`SealError::TooManySalts`].
    pub fn seal(&mut self, key: Option<&SealingKey>) -> Result<(), SealError> {
        let mut salts = Salts::default();
        each_secret(self, |name, value| {
            let Some(key) = key else {
                return if is_sealed(value) { Ok(None) } else { Err(SealError::NoKey { name: name.into() }) };
            };
            salts.see(name, value)?;
            if key.open(name, value).is_some() {
                return Ok(None);
            }
            key.seal(name, value).map(Some)
        })
    }

    /// Opens every sealed secret.
    ///
    /// # Errors
    /// [`SealError::NoKey`], [`SealError::WrongKey`] or [`SealError::TooManySalts`] when there is a sealed secret that
    /// cannot be opened.
    pub fn open(&mut self, key: Option<&SealingKey>) -> Result<(), SealError> {
        let mut salts = Salts::default();
        each_secret(self, |name, value| {
            if !is_sealed(value) {
                return Ok(None);
            }
            let key = key.ok_or_else(|| SealError::NoKey { name: name.into() })?;
            salts.see(name, value)?;
            key.open(name, value).map(Some).ok_or_else(|| SealError::WrongKey { name: name.into() })
        })
    }
}

/// The different salts of a document. A file with thousands would keep a process busy for minutes.
#[derive(Default)]
struct Salts(Vec<Salt>);

impl Salts {
    fn see(&mut self, name: &str, value: &str) -> Result<(), SealError> {
        let Some(salt) = salt_of(value).filter(|salt| !self.0.contains(salt)) else { return Ok(()) };
        if self.0.len() == SALTS_MAX {
            return Err(SealError::TooManySalts { name: name.into() });
        }
        self.0.push(salt);
        Ok(())
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
mod tests;
