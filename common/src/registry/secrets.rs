//! Secrets of catalog entries: keys, passwords, and header values, because some gateways take keys there.
//! Each is stored sealed under its own name, so a seal cannot be used for another secret.

use std::fmt;

use serde::Deserialize;
use serde_json::Value as Json;

use tidemill_base::value::JsonMap;
use tidemill_storage::store::CatalogKind;
use tidemill_workflow::dsl::SealingKey;
use tidemill_workflow::dsl::seal::is_sealed;

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"***\"")
    }
}

/// Replaces a secret wherever one is shown; in a request it means "keep the stored one".
pub const MASK: &str = "***";

/// The reason why a secret cannot be stored or used. Names the secret, never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It must be sealed, and there is no sealing key.
    #[error(
        "{secret} of the {kind} {id} is kept only sealed: set TIDEMILL_SECRET_KEY (scheduler.secret_key) for schedulers \
         and workers, or name the environment variable of the workers that holds it ({})",
        kind.references()
    )]
    NoKey { kind: CatalogKind, id: String, secret: String },
    /// It is sealed, and there is no sealing key.
    #[error(
        "{secret} of the {kind} {id} is sealed: set TIDEMILL_SECRET_KEY (scheduler.secret_key) for this process"
    )]
    Sealed { kind: CatalogKind, id: String, secret: String },
    /// It was sealed with another key, or changed since.
    #[error(
        "{secret} of the {kind} {id} does not open: TIDEMILL_SECRET_KEY (scheduler.secret_key) is not the key that it \
         was sealed with, or the stored text was changed; `{}` writes it again",
        kind.command(id)
    )]
    WrongKey { kind: CatalogKind, id: String, secret: String },
    /// The request keeps the stored secret, but none is stored.
    #[error("{secret} of the {kind} {id} is {MASK}, which means the stored one, but there is none")]
    NothingKept { kind: CatalogKind, id: String, secret: String },
    /// A seal from elsewhere, or text too long for the cipher.
    #[error("{secret} of the {kind} {id} cannot be sealed: give the key itself, not a sealed text")]
    NotSealable { kind: CatalogKind, id: String, secret: String },
}

/// The entry that secrets belong to.
#[derive(Debug, Clone, Copy)]
pub struct EntryRef<'a> {
    pub kind: CatalogKind,
    pub id: &'a str,
}

impl EntryRef<'_> {
    /// Seals clear secrets, and replaces [`MASK`] by the sealed one from `kept`.
    pub(super) fn seal(
        self,
        object: &mut JsonMap,
        kept: Option<&JsonMap>,
        key: Option<&SealingKey>,
    ) -> Result<(), SecretError> {
        let (kind, id) = (self.kind, self.id.to_owned());
        self.each(object, |path, value| {
            let (id, secret) = (id.clone(), path.join(" "));
            if value == MASK {
                let there = kept.and_then(|kept| find(kept, path)).map(str::to_owned);
                return there.ok_or(SecretError::NothingKept { kind, id, secret });
            }
            let key =
                key.ok_or_else(|| SecretError::NoKey { kind, id: id.clone(), secret: secret.clone() })?;
            if is_sealed(value) {
                return Err(SecretError::NotSealable { kind, id, secret });
            }
            let sealed = key.seal(&self.name(path), value.trim());
            sealed.map_err(|_| SecretError::NotSealable { kind, id, secret })
        })
    }

    /// Opens the sealed secrets.
    pub(super) fn open(self, object: &mut JsonMap, key: Option<&SealingKey>) -> Result<(), SecretError> {
        let (kind, id) = (self.kind, self.id.to_owned());
        self.each(object, |path, value| {
            if !is_sealed(value) {
                return Ok(value.to_owned());
            }
            let (id, secret) = (id.clone(), path.join(" "));
            let Some(key) = key else { return Err(SecretError::Sealed { kind, id, secret }) };
            key.open(&self.name(path), value).ok_or(SecretError::WrongKey { kind, id, secret })
        })
    }

    /// Masks all secrets.
    pub(super) fn mask(self, object: &mut JsonMap) {
        // Masking cannot fail.
        let _ = self.each(object, |_, _| Ok(MASK.to_owned()));
    }

    /// The name that a seal is bound to.
    fn name(self, path: &[&str]) -> String {
        format!("{}/{}/{}", self.kind.name(), self.id, path.join("/"))
    }

    /// Replaces each secret by the result of `change`. Values that are not texts are left for the reader of
    /// the fields.
    fn each(
        self,
        object: &mut JsonMap,
        mut change: impl FnMut(&[&str], &str) -> Result<String, SecretError>,
    ) -> Result<(), SecretError> {
        for parts in secret_paths(self.kind) {
            visit_object(object, parts, &mut Vec::new(), &mut change)?;
        }
        Ok(())
    }
}

/// A part of the path to a secret.
#[derive(Clone, Copy)]
enum PathPart {
    /// A field.
    Of(&'static str),
    /// Every field.
    Each,
    /// Every item of a list, by its `name`.
    Item,
}

/// The paths to the secrets of a kind.
const fn secret_paths(kind: CatalogKind) -> &'static [&'static [PathPart]] {
    use PathPart::{Each, Item, Of};
    match kind {
        CatalogKind::Provider => &[&[Of("api_key")], &[Of("headers"), Each]],
        CatalogKind::Profile => &[&[Of("apiKey")], &[Of("headers"), Each]],
        CatalogKind::Library | CatalogKind::Plugin => &[],
        CatalogKind::PluginCredentials => &[&[Of("values"), Each]],
        CatalogKind::Call => &[&[Of("transport"), Of("headers"), Each], &[Of("transport"), Of("env"), Each]],
        CatalogKind::Service => &[
            &[Of("auth"), Of("header"), Item, Of("value")],
            &[Of("auth"), Of("cookie"), Item, Of("value")],
            &[Of("auth"), Of("query"), Item, Of("value")],
            &[Of("auth"), Of("oidc"), Of("token")],
            &[Of("auth"), Of("oidc"), Of("client_secret")],
        ],
        CatalogKind::Datasource => &[&[Of("password")]],
    }
}

type Change<'a> = dyn FnMut(&[&str], &str) -> Result<String, SecretError> + 'a;

fn visit(
    value: &mut Json,
    parts: &[PathPart],
    path: &mut Vec<String>,
    change: &mut Change<'_>,
) -> Result<(), SecretError> {
    match (value, parts) {
        (Json::String(text), []) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            *text = change(&path, text)?;
            Ok(())
        }
        (Json::Object(object), [_, ..]) => visit_object(object, parts, path, change),
        (Json::Array(items), [PathPart::Item, rest @ ..]) => items.iter_mut().try_for_each(|item| {
            // The reader of the fields refuses an item without a name.
            path.push(item["name"].as_str().unwrap_or_default().to_owned());
            visit(item, rest, path, change)?;
            path.pop();
            Ok(())
        }),
        _ => Ok(()),
    }
}

fn visit_object(
    object: &mut JsonMap,
    parts: &[PathPart],
    path: &mut Vec<String>,
    change: &mut Change<'_>,
) -> Result<(), SecretError> {
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    let here = |name: &str| match part {
        PathPart::Of(of) => *of == name,
        PathPart::Each => true,
        PathPart::Item => false,
    };
    for (name, value) in object.iter_mut().filter(|(name, _)| here(name)) {
        path.push(name.clone());
        visit(value, rest, path, change)?;
        path.pop();
    }
    Ok(())
}

fn find<'a>(object: &'a JsonMap, path: &[&str]) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    let below = |value: &'a Json, name: &&str| match value {
        Json::Array(items) => items.iter().find(|item| item["name"] == **name),
        value => value.get(name),
    };
    rest.iter().try_fold(object.get(*first)?, below)?.as_str()
}
