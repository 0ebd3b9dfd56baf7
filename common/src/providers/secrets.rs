//! Secrets of providers and profiles: keys, and values of headers, which some gateways take their keys in. They are kept
//! sealed, each under its own name, so that the seal of one opens for no other.

use serde_json::Value as Json;

use crate::dsl::SealingKey;
use crate::dsl::seal::SEALED_PREFIX;
use crate::store::CatalogKind;
use crate::value::JsonMap;

/// What stands in place of a secret wherever one is shown, and means "the one that is kept" where one is written.
pub const MASK: &str = "***";

/// Why a secret cannot be kept or used. Names it, never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It is to be kept and there is no key.
    #[error(
        "{secret} of the {kind} {id} is kept only sealed: set TIDEMILL_SECRET_KEY (scheduler.secret_key) for schedulers \
         and workers, or name the environment variable of the workers that holds the key (api_key_env, --api-key-env)"
    )]
    NoKey {
        /// `provider` or `profile`.
        kind: &'static str,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// It is sealed and there is no key.
    #[error(
        "{secret} of the {kind} {id} is sealed: set TIDEMILL_SECRET_KEY (scheduler.secret_key) for this process"
    )]
    Sealed {
        /// `provider` or `profile`.
        kind: &'static str,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// Sealed under another key, or changed since.
    #[error(
        "{secret} of the {kind} {id} does not open: TIDEMILL_SECRET_KEY (scheduler.secret_key) is not the key that it \
         was sealed with, or the stored text was changed; `tidemill {kind}s add {id} --replace` writes it anew"
    )]
    WrongKey {
        /// `provider` or `profile`.
        kind: &'static str,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// It is to stay as it is, and there is none.
    #[error("{secret} of the {kind} {id} is {MASK}, which stands for the one that is kept: there is none")]
    NothingKept {
        /// `provider` or `profile`.
        kind: &'static str,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// A seal from elsewhere, or longer than the cipher takes.
    #[error("{secret} of the {kind} {id} cannot be sealed: give the key itself")]
    NotSealable {
        /// `provider` or `profile`.
        kind: &'static str,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
}

/// Whose secrets they are.
#[derive(Debug, Clone, Copy)]
pub struct Whose<'a> {
    /// Its kind.
    pub kind: CatalogKind,
    /// Its id.
    pub id: &'a str,
}

impl Whose<'_> {
    /// Seals what is given in clear, and takes the place of [`MASK`] from `kept`, where secrets are sealed.
    pub(super) fn seal(
        self,
        object: &mut JsonMap,
        kept: Option<&JsonMap>,
        key: Option<&SealingKey>,
    ) -> Result<(), SecretError> {
        let (kind, id) = (self.kind.name(), self.id.to_owned());
        self.each(object, |path, value| {
            let (id, secret) = (id.clone(), path.join(" "));
            if value == MASK {
                let there = kept.and_then(|kept| find(kept, path)).map(str::to_owned);
                return there.ok_or(SecretError::NothingKept { kind, id, secret });
            }
            let key =
                key.ok_or_else(|| SecretError::NoKey { kind, id: id.clone(), secret: secret.clone() })?;
            if value.starts_with(SEALED_PREFIX) {
                return Err(SecretError::NotSealable { kind, id, secret });
            }
            let sealed = key.seal(&self.name(path), value.trim());
            sealed.map_err(|_| SecretError::NotSealable { kind, id, secret })
        })
    }

    /// Opens what is sealed.
    pub(super) fn open(self, object: &mut JsonMap, key: Option<&SealingKey>) -> Result<(), SecretError> {
        let (kind, id) = (self.kind.name(), self.id.to_owned());
        self.each(object, |path, value| {
            if !value.starts_with(SEALED_PREFIX) {
                return Ok(value.to_owned());
            }
            let (id, secret) = (id.clone(), path.join(" "));
            let Some(key) = key else { return Err(SecretError::Sealed { kind, id, secret }) };
            key.open(&self.name(path), value).ok_or(SecretError::WrongKey { kind, id, secret })
        })
    }

    /// Hides all of them.
    pub(super) fn mask(self, object: &mut JsonMap) {
        // Nothing that is put in its place can fail.
        let _ = self.each(object, |_, _| Ok(MASK.to_owned()));
    }

    /// The name that a seal is bound to.
    fn name(self, path: &[&str]) -> String {
        format!("{}/{}/{}", self.kind.name(), self.id, path.join("/"))
    }

    /// Puts what `change` makes of each secret in its place. What is no text is left for whoever reads the fields.
    fn each(
        self,
        object: &mut JsonMap,
        mut change: impl FnMut(&[&str], &str) -> Result<String, SecretError>,
    ) -> Result<(), SecretError> {
        let key = match self.kind {
            CatalogKind::Provider => "api_key",
            CatalogKind::Profile => "apiKey",
        };
        if let Some(Json::String(value)) = object.get_mut(key) {
            *value = change(&[key], value)?;
        }
        if let Some(Json::Object(headers)) = object.get_mut("headers") {
            for (name, value) in headers {
                if let Json::String(value) = value {
                    *value = change(&["headers", name], value)?;
                }
            }
        }
        Ok(())
    }
}

fn find<'a>(object: &'a JsonMap, path: &[&str]) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    let found = rest.iter().try_fold(object.get(*first)?, |value, name| value.get(name))?;
    found.as_str()
}
