//! Turns a request to store a catalog entry into the entry: checks it and seals its secrets.

use std::collections::BTreeMap;

use super::providers::{self, Over, PROFILE_PREFIX, ProfileConfig, check};
use super::secrets::{EntryRef, SecretError};
use super::{calls, entry, plugins, reading};
use tidemill_base::limits::CATALOG_ENTRY_BYTES_MAX;
use tidemill_base::value::JsonMap;
use tidemill_storage::store::{Catalog, CatalogEntry, CatalogKind};
use tidemill_workflow::dsl::SealingKey;

/// Longest id, in characters.
const ID_CHARS_MAX: usize = 128;
/// Longest id of plugin credentials: it has names of a plugin, a model and an app.
const CREDENTIALS_ID_CHARS_MAX: usize = 512;

/// A checked entry, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The stored fields.
    pub fields: BTreeMap<String, String>,
    /// Warnings about things that work but are risky or useless.
    pub warnings: Vec<String>,
}

/// The reason why an entry is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// It is invalid.
    #[error("{0}")]
    Wrong(String),
    /// A secret cannot be sealed.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// Builds a draft from a request's object. `earlier` is the entry that it replaces, `catalog` the whole
/// catalog.
///
/// # Errors
/// The problem, and what to do.
pub fn draft(
    kind: CatalogKind,
    id: &str,
    object: JsonMap,
    (earlier, catalog): (Option<&CatalogEntry>, &Catalog),
    key: Option<&SealingKey>,
) -> Result<Draft, DraftError> {
    check_id(kind, id)?;
    let written: JsonMap = object.into_iter().filter(|(_, value)| !value.is_null()).collect();
    let mut object = match kind {
        CatalogKind::Profile => reading::camel_case(written),
        kind => calls::canonical(kind, written),
    };
    let bytes = serde_json::to_string(&object).map_or(usize::MAX, |text| text.len());
    if bytes > CATALOG_ENTRY_BYTES_MAX {
        return Err(wrong(format!("the {kind} {id} has {bytes} bytes, more than {CATALOG_ENTRY_BYTES_MAX}")));
    }
    let warnings = match kind {
        CatalogKind::Provider => {
            let config = providers::provider_of(object.clone()).map_err(of_provider(id))?;
            check::provider(&config).map_err(of_provider(id))?;
            Vec::new()
        }
        CatalogKind::Profile => profile(object.clone(), catalog)?,
        CatalogKind::Library | CatalogKind::Call | CatalogKind::Service | CatalogKind::Datasource => {
            calls::check(kind, id, object.clone(), catalog).map_err(wrong)?
        }
        CatalogKind::Plugin => {
            return Err(wrong("a plugin is installed by its package: `tidemill plugins add`".to_owned()));
        }
        CatalogKind::PluginCredentials => {
            plugins::check_credentials(id, &object, catalog).map_err(wrong)?;
            Vec::new()
        }
    };
    let kept = earlier.map(|entry| entry::object(kind, &entry.fields));
    EntryRef { kind, id }.seal(&mut object, kept.as_ref(), key)?;
    Ok(Draft { fields: entry::fields(kind, object), warnings })
}

fn wrong(message: impl Into<String>) -> DraftError {
    DraftError::Wrong(message.into())
}

fn of_provider(id: &str) -> impl Fn(String) -> DraftError {
    move |reason| wrong(format!("the provider {id}: {reason}"))
}

/// Checks a profile and finds its provider. `is_registered` knows providers by id.
pub(super) fn checked(
    object: JsonMap,
    is_registered: &dyn Fn(&str) -> bool,
) -> Result<(ProfileConfig, Over), DraftError> {
    let profile = providers::profile_of(object).map_err(|reason| wrong(format!("Profile: {reason}")))?;
    for (name, value) in [("name", &profile.name), ("provider", &profile.provider), ("model", &profile.model)]
    {
        if value.trim().is_empty() {
            return Err(wrong(format!("Profile {name} is required")));
        }
    }
    let over = if is_registered(&profile.provider) { Over::Named } else { profile.over().map_err(wrong)? };
    profile.check(over).map_err(wrong)?;
    Ok((profile, over))
}

fn profile(object: JsonMap, catalog: &Catalog) -> Result<Vec<String>, DraftError> {
    let is_kept = |provider: &str| catalog.find(CatalogKind::Provider, provider).is_some();
    let (profile, over) = checked(object, &is_kept)?;
    let provider = profile.provider.as_str();
    let stored = catalog.find(CatalogKind::Provider, provider);
    let is_of_plugin = stored.is_some_and(|stored| {
        entry::object(CatalogKind::Provider, &stored.fields).get("plugin") == Some(&true.into())
    });
    if over == Over::Named && is_of_plugin && profile.base_url.is_none() {
        return Err(wrong(format!("Profile: {}", check::NO_PROFILE)));
    }
    let mut warnings = Vec::new();
    if over == Over::Named && !is_kept(provider) {
        warnings.push(format!(
            "no provider {provider} is kept in Redis: it must be one of the settings of every worker ([providers.{provider}])"
        ));
    }
    if profile.retry_delay.is_some() {
        warnings.push(
            "retryDelay is kept and has no effect: the wait is what the provider asks for, else half a second, doubled"
                .into(),
        );
    }
    Ok(warnings)
}

pub(super) fn check_id(kind: CatalogKind, id: &str) -> Result<(), DraftError> {
    let what = match kind {
        CatalogKind::Provider => "Provider id",
        CatalogKind::Profile => "Profile ID",
        CatalogKind::Library => "Library node id",
        CatalogKind::Call => "Call id",
        CatalogKind::Service => "Service id",
        CatalogKind::Datasource => "Datasource id",
        CatalogKind::Plugin => "Plugin id",
        CatalogKind::PluginCredentials => "Id of plugin credentials",
    };
    if id.is_empty() {
        return Err(wrong(format!("{what} is required")));
    }
    // Those of plugins may have a model after a `:`, with `=` for other characters, and an app's id after the `@`.
    let (more, named, most) = match kind {
        CatalogKind::PluginCredentials => (
            "@:=",
            ", `:` before the type and the name of a model, `=` with two hexadecimal digits for other characters of that name, and \
             `@` before an app's id",
            CREDENTIALS_ID_CHARS_MAX,
        ),
        CatalogKind::Provider
        | CatalogKind::Profile
        | CatalogKind::Library
        | CatalogKind::Call
        | CatalogKind::Service
        | CatalogKind::Datasource
        | CatalogKind::Plugin => ("", "", ID_CHARS_MAX),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c) || more.contains(c);
    if !id.chars().all(fits) || id.starts_with('/') || id.ends_with('/') {
        return Err(wrong(format!(
            "{what} {id:?} cannot be used: it has 1 to {most} letters, digits, `.`, `_`, `-`, and `/` between them{named}"
        )));
    }
    if id.len() > most {
        let parts = if kind == CatalogKind::PluginCredentials { plugins::lengths(id) } else { String::new() };
        return Err(wrong(format!(
            "{what} {id:?} cannot be used: it has {} characters, more than {most}{parts}",
            id.len()
        )));
    }
    if kind == CatalogKind::Provider && id.starts_with(PROFILE_PREFIX) {
        return Err(wrong(format!("{what} {id:?} cannot be used: {PROFILE_PREFIX} stands for profiles")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
