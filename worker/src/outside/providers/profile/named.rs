//! Profiles: models with parameters, known by an id.

use std::sync::Arc;

use tidemill_common::need::Need;
use tidemill_common::registry::check;
use tidemill_common::registry::{PROFILE_PREFIX, ProfileConfig, ToolMode};
use tidemill_common::value::JsonMap;

use crate::outside::providers::ModelError;
use crate::outside::providers::profile::OfProfile;
use crate::outside::providers::profile::catalog::{Base, CatalogProfile, CatalogView};
use crate::outside::providers::profile::lookup;
use crate::outside::providers::profile::lookup::{ConfiguredIn, Found, last_part};
use crate::outside::providers::profile::{Model, Providers, not_initialized};

/// Ids of the default profile, unless a profile has such an id.
pub(crate) const DEFAULT_IDS: [&str; 3] = ["", "default", "DEFAULT"];

/// A profile, ready for use.
#[derive(Debug)]
pub struct NamedModel {
    pub id: String,
    /// Changes with each update; 0 for a profile in the worker's settings.
    pub version: u64,
    pub profile: Arc<ProfileConfig>,
    pub responder: Responder,
}

/// The responder behind a profile.
#[derive(Debug)]
pub enum Responder {
    /// A model; every call gets the profile's parameters.
    Model(Box<Model>),
    /// A person instead of a model.
    Person,
}

/// Reasons why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It is neither in the settings nor in Redis.
    #[error("LLM Profile not found: {id}")]
    NotFound { id: String },
    /// It exists but cannot be used, or Redis does not answer.
    #[error(transparent)]
    Unusable(#[from] ModelError),
}

impl NamedModel {
    /// The parameters of each call.
    pub fn parameters(&self) -> &JsonMap {
        &self.profile.parameters
    }
    /// The way tools are called.
    pub fn tool_mode(&self) -> ToolMode {
        self.profile.tool_mode
    }
}

impl Providers {
    /// Returns a profile by id; the settings come before Redis. An empty id or `default` is the default profile of the
    /// settings, else of the namespace. Later changes do not affect the returned profile.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub async fn profile(&self, id: &str) -> Result<NamedModel, ProfileError> {
        self.profile_with(id, "").await
    }

    /// As [`Self::profile`], with another model of the profile's provider. An empty name means the profile's own model.
    ///
    /// # Errors
    /// As [`Self::profile`].
    pub async fn profile_with(&self, id: &str, model: &str) -> Result<NamedModel, ProfileError> {
        let mut catalog_view = self.catalog_view(id, false).await?;
        if find(&catalog_view, id).is_none() {
            // It may have been added a moment ago.
            catalog_view = self.catalog_view(id, true).await?;
        }
        let (id, entry) = find(&catalog_view, id).ok_or_else(|| ProfileError::NotFound { id: id.into() })?;
        let profile = entry.profile.clone().map_err(|reason| unusable((id, entry), "", &reason))?;
        let responder = match &entry.base {
            Ok(Base::Person) => Responder::Person,
            _ => Responder::Model(Box::new(model_of(self, &catalog_view, (id, entry), model)?)),
        };
        Ok(NamedModel { id: id.into(), version: entry.version, profile, responder })
    }
}

/// The profile id in a provider name `profile/ID`.
pub(super) fn profile_id_in(provider: &str) -> Option<&str> {
    provider.strip_prefix(PROFILE_PREFIX)
}

/// Returns the model of a profile, or another model of the same provider.
pub(super) fn model(
    providers: &Providers,
    catalog_view: &CatalogView,
    id: &str,
    name: &str,
) -> Result<Model, ModelError> {
    let not_found = || {
        not_initialized(name, &format!("LLM Profile not found: {id}"))
            .for_want_of(Need::Profile { id: id.into() })
    };
    let (id, entry) = find(catalog_view, id).ok_or_else(not_found)?;
    let mut model = model_of(providers, catalog_view, (id, entry), name)?;
    if let Ok(profile) = &entry.profile {
        let provider = profile.provider.clone();
        model.of_profile =
            Some(OfProfile { id: id.into(), version: entry.version, provider, model: model.name.clone() });
    }
    Ok(model)
}

pub(super) fn find<'a>(catalog_view: &'a CatalogView, id: &'a str) -> Option<(&'a str, &'a CatalogProfile)> {
    let of_id = |id: &'a str| catalog_view.profiles.get(id).map(|entry| (id, entry));
    let default = || of_id(catalog_view.default_profile.as_deref().filter(|_| DEFAULT_IDS.contains(&id))?);
    of_id(id).or_else(default)
}

fn model_of(
    providers: &Providers,
    catalog_view: &CatalogView,
    (id, entry): (&str, &CatalogProfile),
    name: &str,
) -> Result<Model, ModelError> {
    let wrong = |reason: &str| unusable((id, entry), name, reason);
    let profile = entry.profile.as_ref().map_err(|reason| wrong(reason))?;
    let own = format!("{PROFILE_PREFIX}{id}");
    let found = match entry.base.as_ref().map_err(|reason| wrong(reason))? {
        Base::Provider(provider) => lookup::exactly(&providers.tables, &catalog_view.providers, provider)
            .ok_or_else(|| wrong("its provider is gone"))?,
        Base::Own(connection, _) => {
            let configured_in =
                if entry.is_of_settings() { ConfiguredIn::SettingsProfile } else { ConfiguredIn::Profile };
            Found { name: &own, configured_in, connection }
        }
        Base::Person => return Err(wrong("a person answers it (HUMAN_RELAY), no model")),
    };
    if found.connection.table.plugin {
        return Err(wrong(check::NO_PROFILE));
    }
    let name = if name.is_empty() { profile.model.as_str() } else { name };
    let parameters = Arc::new(profile.parameters.clone());
    providers.model_at(found, last_part(&profile.provider), name, parameters)
}

fn unusable((id, entry): (&str, &CatalogProfile), model: &str, reason: &str) -> ModelError {
    let configured_in =
        if entry.is_of_settings() { format!("[profiles.{id}]") } else { format!("{id} in Redis") };
    not_initialized(model, &format!("The profile {configured_in} cannot be used: {reason}."))
        .for_want_of(Need::Profile { id: id.into() })
}
