//! Secrets at rest: a document stores an environment variable of type `secret` only sealed (encrypted).
//!
//! The cipher is XChaCha20-Poly1305 with a key derived from the operator's passphrase. The nonce is derived
//! from key, name and value, so that the same document gives the same text and the same hash. This reveals
//! only that two secrets of one name are equal. The name is authenticated, so the seal of one variable does
//! not open under another name.
//!
//! | prefix | how the key is derived | written |
//! | --- | --- | --- |
//! | `sealed:v1:` | SHA-256 of the passphrase | while an older process, which knows no other form, may be alive |
//! | `sealed:v2:` | Argon2id over the passphrase and a salt that is stored in the seal | after [`SealingKey::salt_with`] |

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
use super::document::DocumentVariable;
use tidemill_base::hidden::Hidden;
use tidemill_base::value::SegmentType;

const HASHED_PREFIX: &str = "sealed:v1:";
const SALTED_PREFIX: &str = "sealed:v2:";
const NONCE_BYTES: usize = 24;
const SALT_BYTES: usize = 16;
/// Bytes of a fingerprint. Few, because it only has to differ between the keys of one installation.
const FINGERPRINT_BYTES: usize = 8;
/// Memory and passes of Argon2id: about 20 ms per guess, and once per start of a process.
const ARGON2_KIB: u32 = 19 * 1024;
const ARGON2_PASSES: u32 = 2;
/// Most different salts in one document: its own, and those of installations that it passed through. Each
/// costs one derivation.
const SALTS_MAX: usize = 4;
/// Number of derived keys that a process caches.
const DERIVED_KEPT: usize = 8;

/// True when a text has the form of a seal, of this or a later version of Tidemill.
pub fn is_sealed(text: &str) -> bool {
    let version = text.strip_prefix("sealed:v").and_then(|rest| rest.split_once(':'));
    version.is_some_and(|(version, _)| !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()))
}

/// Makes the derived keys of two installations with the same passphrase differ. Not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt([u8; SALT_BYTES]);

impl Salt {
    /// Builds a salt from random bytes.
    pub fn of(bytes: [u8; SALT_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses the text of [`Self::text`].
    pub fn read(text: &str) -> Option<Self> {
        BASE64.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// Returns its bytes in base64.
    pub fn text(self) -> String {
        BASE64.encode(self.0)
    }
}

type KeyBytes = [u8; 32];

/// A key that seals secrets. Never shown. Clones share the cache of derived keys.
#[derive(Clone)]
pub struct SealingKey(Arc<Inner>);

struct Inner {
    passphrase: Hidden,
    hashed: KeyBytes,
    /// Set once new seals may be salted.
    salt: OnceLock<Salt>,
    /// Most recently used first.
    derived: Mutex<Vec<(Salt, KeyBytes)>>,
}

impl SealingKey {
    /// Builds the key of a passphrase (`TIDEMILL_SECRET_KEY`). It opens seals of every version, and writes
    /// `sealed:v1:` until it has a salt.
    pub fn from_passphrase(passphrase: &str) -> Self {
        Self(Arc::new(Inner {
            passphrase: passphrase.to_owned().into(),
            hashed: Sha256::digest(passphrase.as_bytes()).into(),
            salt: OnceLock::new(),
            derived: Mutex::default(),
        }))
    }

    /// Makes new seals `sealed:v2:` with this salt. A second call has no effect.
    pub fn salt_with(&self, salt: Salt) {
        // The first salt stays, so that one process writes equal documents with equal hashes.
        let _ = self.0.salt.set(salt);
    }

    /// True when new seals are salted.
    pub fn is_salted(&self) -> bool {
        self.0.salt.get().is_some()
    }

    /// Returns the key for a salt. The first use of a salt derives it, which takes about 20 ms.
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

    /// Returns a text that differs between keys and says nothing about them: a hash of the key that is derived
    /// with Argon2id and this salt, so that a guess costs as much as a guess at a seal. `None` if the key cannot
    /// be derived.
    pub fn fingerprint(&self, salt: Salt) -> Option<String> {
        let mut hash = Sha256::new();
        hash.update(b"tidemill key fingerprint v1");
        hash.update(self.derived(salt)?);
        Some(hash.finalize().iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Seals a value: only this key opens it, and only under this name.
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

    /// Opens a seal; `None` when the key or the name differs, or the text is not a seal.
    pub fn open(&self, name: &str, sealed: &str) -> Option<String> {
        if let Some(text) = sealed.strip_prefix(HASHED_PREFIX) {
            return open_under(&self.0.hashed, name, &BASE64.decode(text).ok()?);
        }
        let bytes = BASE64.decode(sealed.strip_prefix(SALTED_PREFIX)?).ok()?;
        let (salt, sealed) = bytes.split_first_chunk()?;
        open_under(&self.derived(Salt(*salt))?, name, sealed)
    }
}

/// Returns the salt of a seal, if it has one.
fn salt_of(sealed: &str) -> Option<Salt> {
    // 24 base64 characters contain the 16 bytes of the salt.
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

/// Returns nonce and cipher text; `None` when the value is too long for the cipher.
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

/// The reason why secrets could not be sealed or opened. Contains names, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There are secrets, but there is no key.
    #[error(
        "the workflow has the secret {name:?}, and secrets are stored only encrypted: set TIDEMILL_SECRET_KEY"
    )]
    NoKey {
        /// The first affected variable.
        name: String,
    },
    /// Sealed with another key, or changed since.
    #[error(
        "the secret {name:?} does not open: TIDEMILL_SECRET_KEY is not the key it was sealed with, or the stored text was changed"
    )]
    WrongKey {
        /// The first affected variable.
        name: String,
    },
    /// The value is too long for the cipher.
    #[error("the secret {name:?} is too long to seal")]
    TooLong { name: String },
    /// The document has seals from more installations than allowed.
    #[error(
        "the secrets of the workflow were sealed with more than {SALTS_MAX} different salts, the last one {name:?}: \
         enter them again as plain text"
    )]
    TooManySalts {
        /// The first variable with a salt too many.
        name: String,
    },
}

impl Document {
    /// Seals every secret that has a value; values already sealed with this key stay unchanged.
    ///
    /// # Errors
    /// [`SealError::NoKey`] when there is a secret and no key; [`SealError::TooLong`];
    /// [`SealError::TooManySalts`].
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

    /// The name of the first secret whose value is sealed already.
    pub fn first_sealed(&self) -> Option<&str> {
        let is_sealed = |variable: &&DocumentVariable| {
            let value = variable.value.value.as_str();
            variable.value.ty == SegmentType::Secret && value.is_some_and(is_sealed)
        };
        self.environment.iter().find(is_sealed).map(|variable| &*variable.name)
    }

    /// Opens every sealed secret.
    ///
    /// # Errors
    /// [`SealError::NoKey`], [`SealError::WrongKey`] or [`SealError::TooManySalts`] when a sealed secret
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

/// The different salts of a document. Without a limit, a file with thousands would occupy a process for
/// minutes.
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

/// Calls `change` for each secret with a value, and stores the results. Nothing changes when one call fails.
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
