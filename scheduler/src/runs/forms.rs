//! Tokens of forms. A client with a token can see and answer one form. A token consists of the run's id and a keyed
//! hash of the pause's id, so tokens are not stored: the token of each pause of the run is computed and compared. The
//! key of the hash is a secret of the namespace.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidemill_common::ids::RunId;
use tidemill_common::store::{Runs, StoreError};
use tokio::sync::OnceCell;

/// Hex digits of the run's id in a token, and also of the hash after it.
const PART: usize = 32;
/// The block size of SHA-256, in bytes.
const BLOCK: usize = 64;

/// The namespace's secret, read once.
#[derive(Debug, Default)]
pub struct FormSecret(OnceCell<FormTokens>);

impl FormSecret {
    /// Returns the generator of tokens. The first process of a namespace creates the secret.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tokens(&self, store: &dyn Runs) -> Result<FormTokens, StoreError> {
        let read = async || {
            let random = || uuid::Uuid::new_v4().simple().to_string();
            let secret = store.form_secret(&format!("{}{}", random(), random())).await?;
            Ok(FormTokens { secret: secret.into() })
        };
        self.0.get_or_try_init(read).await.cloned()
    }
}

/// Creates and checks tokens.
#[derive(Clone)]
pub struct FormTokens {
    secret: Arc<str>,
}

impl std::fmt::Debug for FormTokens {
    // The secret stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FormTokens")
    }
}

impl FormTokens {
    #[cfg(test)]
    pub(crate) fn of_secret(secret: &str) -> Self {
        Self { secret: secret.into() }
    }

    /// The token of a pause.
    pub fn token(&self, run: RunId, pause: &str) -> String {
        let hash = hmac_sha256(self.secret.as_bytes(), pause.as_bytes());
        let hex: String = hash.iter().take(PART / 2).map(|byte| format!("{byte:02x}")).collect();
        format!("{}{hex}", run.uuid().simple())
    }

    /// The end of an API key that a repeated request gets again: it follows from the app, so it is not stored. The
    /// secret keeps the admin key from being guessed by it, and the admin key keeps it from readers of the store.
    pub fn key_of_app(&self, app: &str, admin_key: &str) -> String {
        let text = format!("API key of app\n{app}\n{admin_key}");
        let hash = hmac_sha256(self.secret.as_bytes(), text.as_bytes());
        hash.iter().take(PART / 2).map(|byte| format!("{byte:02x}")).collect()
    }
    /// The keyed hash of a text in hex, under a key of its own for each purpose.
    pub(crate) fn keyed(&self, purpose: &str, text: &str) -> String {
        let key = hmac_sha256(self.secret.as_bytes(), purpose.as_bytes());
        hmac_sha256(&key, text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// True when the token belongs to the pause. Takes the same time for every wrong token.
    pub fn is_of(&self, token: &str, run: RunId, pause: &str) -> bool {
        let expected = self.token(run, pause);
        let differing = expected.bytes().zip(token.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
        expected.len() == token.len() && differing == 0
    }
}

/// The run in a token, or `None` when the text cannot be a token.
pub fn run_of(token: &str) -> Option<RunId> {
    if token.len() != 2 * PART || !token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    token.get(..PART)?.parse().ok()
}

/// HMAC (RFC 2104) with SHA-256.
pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_keyed_hash_matches_rfc_4231() {
        let cases: [(Vec<u8>, &[u8], &str); 3] = [
            (vec![0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hex(&hmac_sha256(&key, message)), expected);
        }
    }

    #[test]
    fn a_token_contains_its_run_and_fits_only_its_pause() {
        let (run, other) = (RunId::new(1, 2, ShardId(3)), RunId::new(9, 2, ShardId(3)));
        let tokens = FormTokens { secret: "secret".into() };
        let token = tokens.token(run, "p");
        assert_eq!((token.len(), run_of(&token)), (64, Some(run)));
        assert!(tokens.is_of(&token, run, "p"));
        assert!(!tokens.is_of(&token, run, "q") && !tokens.is_of(&token, other, "p"));
        assert!(!FormTokens { secret: "another".into() }.is_of(&token, run, "p"));
        for wrong in ["", "x", &token[..63], &token.to_uppercase(), &token.replace('0', "-")] {
            assert_eq!(run_of(wrong), None, "{wrong}");
        }
    }
}
