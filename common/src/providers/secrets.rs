//! Secrets of what is kept for all workers: keys, passwords, and values of headers, which some gateways take their keys in.
//! They are kept sealed, each under its own name, so that the seal of one opens for no other.

use serde_json::Value as Json;

use crate::dsl::SealingKey;
use crate::dsl::seal::is_sealed;
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
         and workers, or name the environment variable of the workers that holds it ({})",
        kind.references()
    )]
    NoKey {
        /// Of what.
        kind: CatalogKind,
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
        /// Of what.
        kind: CatalogKind,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// Sealed under another key, or changed since.
    #[error(
        "{secret} of the {kind} {id} does not open: TIDEMILL_SECRET_KEY (scheduler.secret_key) is not the key that it \
         was sealed with, or the stored text was changed; `tidemill {} add {id} --replace` writes it anew",
        kind.many()
    )]
    WrongKey {
        /// Of what.
        kind: CatalogKind,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// It is to stay as it is, and there is none.
    #[error("{secret} of the {kind} {id} is {MASK}, which stands for the one that is kept: there is none")]
    NothingKept {
        /// Of what.
        kind: CatalogKind,
        /// Its id.
        id: String,
        /// The field.
        secret: String,
    },
    /// A seal from elsewhere, or longer than the cipher takes.
    #[error(
        "{secret} of the {kind} {id} cannot be sealed: give the key itself, and not what was sealed elsewhere"
    )]
    NotSealable {
        /// Of what.
        kind: CatalogKind,
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

    /// Opens what is sealed.
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
        for parts in places(self.kind) {
            visit_object(object, parts, &mut Vec::new(), &mut change)?;
        }
        Ok(())
    }
}

/// One step on the way to a secret.
#[derive(Clone, Copy)]
enum Part {
    /// Into a field.
    Of(&'static str),
    /// Into each field.
    Each,
    /// Into each item of a list, by its `name`.
    Item,
}

/// Where the secrets of a kind are.
const fn places(kind: CatalogKind) -> &'static [&'static [Part]] {
    use Part::{Each, Item, Of};
    match kind {
        CatalogKind::Provider => &[&[Of("api_key")], &[Of("headers"), Each]],
        CatalogKind::Profile => &[&[Of("apiKey")], &[Of("headers"), Each]],
        CatalogKind::Library => &[],
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
    parts: &[Part],
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
        (Json::Array(items), [Part::Item, rest @ ..]) => items.iter_mut().try_for_each(|item| {
            // One without a name is refused by whoever reads the fields.
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
    parts: &[Part],
    path: &mut Vec<String>,
    change: &mut Change<'_>,
) -> Result<(), SecretError> {
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    let here = |name: &str| match part {
        Part::Of(of) => *of == name,
        Part::Each => true,
        Part::Item => false,
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
