//! The signature of a `.difypkg` file: RSA (PKCS#1 v1.5, SHA-256) over the hashes of all files in the order of the archive
//! and the time of signing. Both are in the comment of the archive, as `{"signature": …, "time": …}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::files::Files;
use super::open::Archive;

/// What is known about the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// No key was given.
    Unchecked,
    /// A key was given, and the package has no signature.
    Missing,
    /// The signature is not one of the given key over these files.
    Wrong,
    /// The given key has signed these files.
    Right,
}

impl Signature {
    /// The state in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Missing => "missing",
            Self::Wrong => "wrong: the key did not sign these files",
            Self::Right => "checked: the key signed these files",
        }
    }
}

/// A public key.
#[derive(Debug, Clone)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Reads a key as Dify's tools write it: PEM with `RSA PUBLIC KEY`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        let form = "the public key must be PEM that begins with -----BEGIN RSA PUBLIC KEY-----";
        let inside = text.trim().strip_prefix("-----BEGIN RSA PUBLIC KEY-----");
        let inside = inside.and_then(|rest| rest.split_once("-----END")).map(|(inside, _)| inside);
        let digits: String = inside.ok_or(form)?.split_whitespace().collect();
        STANDARD.decode(digits).map(Self).map_err(|error| format!("{form}: {error}"))
    }
}

#[derive(Deserialize)]
struct Comment {
    signature: String,
    time: i64,
}

/// Checks the signature of a package.
pub(super) fn check(files: &Files, archive: Option<&Archive>, key: Option<&PublicKey>) -> Signature {
    let Some(key) = key else { return Signature::Unchecked };
    let Some(archive) = archive else { return Signature::Missing };
    let Ok(comment) = serde_json::from_slice::<Comment>(&archive.comment) else { return Signature::Missing };
    let mut signed = Vec::new();
    for name in &archive.order {
        // An entry without content, such as a folder, cannot be signed.
        let Some(bytes) = files.get(name) else { return Signature::Wrong };
        signed.extend(Sha256::digest(bytes));
    }
    signed.extend(comment.time.to_string().bytes());
    let Ok(signature) = STANDARD.decode(&comment.signature) else { return Signature::Wrong };
    match UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &key.0).verify(&signed, &signature) {
        Ok(()) => Signature::Right,
        Err(_) => Signature::Wrong,
    }
}
