//! Profiles: models with parameters, known by an id.

use std::sync::Arc;

use tidemill_common::registry::{PROFILE_PREFIX, ProfileConfig, ToolMode};
use tidemill_common::value::JsonMap;

use crate::outside::providers::ModelError;
use crate::outside::providers::profile::OfProfile;
use crate::outside::providers::profile::kept::{KeptProfile, Shelf, Under};
use crate::outside::providers::profile::lookup;
use crate::outside::providers::profile::lookup::{Found, Place, last_part};
use crate::outside::providers::profile::{Model, Providers, not_initialized};

/// Ids of the default profile, unless a profile has such an id.
const DEFAULT_IDS: [&str; 3] = ["", "default", "DEFAULT"];

/// A profile, ready for use.
#[derive(Debug)]
pub struct NamedModel {
    pub id: String,
    /// Changes with each update; 0 for a profile in the worker's settings.
    pub version: u64,
    pub profile: Arc<ProfileConfig>,
    pub stands: Stands,
}

/// The responder behind a profile.
#[derive(Debug)]
pub enum Stands {
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
        let mut shelf = self.shelf(id, false).await?;
        if find(&shelf, id).is_none() {
            // It may have been added a moment ago.
            shelf = self.shelf(id, true).await?;
        }
        let (id, kept) = find(&shelf, id).ok_or_else(|| ProfileError::NotFound { id: id.into() })?;
        let profile = kept.profile.clone().map_err(|reason| unusable((id, kept), "", &reason))?;
        let stands = match &kept.under {
            Ok(Under::Person) => Stands::Person,
            _ => Stands::Model(Box::new(asked(self, &shelf, (id, kept), model)?)),
        };
        Ok(NamedModel { id: id.into(), version: kept.version, profile, stands })
    }
}

/// The profile id in a provider name `profile/ID`.
pub(super) fn asked_for(provider: &str) -> Option<&str> {
    provider.strip_prefix(PROFILE_PREFIX)
}

/// Returns the model of a profile, or another model of the same provider.
pub(super) fn model(providers: &Providers, shelf: &Shelf, id: &str, name: &str) -> Result<Model, ModelError> {
    let not_found = || not_initialized(name, &format!("LLM Profile not found: {id}"));
    let (id, kept) = find(shelf, id).ok_or_else(not_found)?;
    let mut model = asked(providers, shelf, (id, kept), name)?;
    if let Ok(profile) = &kept.profile {
        let provider = profile.provider.clone();
        model.of_profile =
            Some(OfProfile { id: id.into(), version: kept.version, provider, model: model.name.clone() });
    }
    Ok(model)
}

pub(super) fn find<'a>(shelf: &'a Shelf, id: &'a str) -> Option<(&'a str, &'a KeptProfile)> {
    let of_id = |id: &'a str| shelf.profiles.get(id).map(|kept| (id, kept));
    let default = || of_id(shelf.default_profile.as_deref().filter(|_| DEFAULT_IDS.contains(&id))?);
    of_id(id).or_else(default)
}

fn asked(
    providers: &Providers,
    shelf: &Shelf,
    (id, kept): (&str, &KeptProfile),
    name: &str,
) -> Result<Model, ModelError> {
    let wrong = |reason: &str| unusable((id, kept), name, reason);
    let profile = kept.profile.as_ref().map_err(|reason| wrong(reason))?;
    let own = format!("{PROFILE_PREFIX}{id}");
    let found = match kept.under.as_ref().map_err(|reason| wrong(reason))? {
        Under::Provider(provider) => lookup::exactly(&providers.tables, &shelf.providers, provider)
            .ok_or_else(|| wrong("its provider is gone"))?,
        Under::Own(connection, _) => {
            let place = if kept.is_of_settings() { Place::SettingsProfile } else { Place::Profile };
            Found { name: &own, place, connection }
        }
        Under::Person => return Err(wrong("a person answers it (HUMAN_RELAY), no model")),
    };
    let name = if name.is_empty() { profile.model.as_str() } else { name };
    let parameters = Arc::new(profile.parameters.clone());
    providers.model_at(found, last_part(&profile.provider), name, parameters)
}

fn unusable((id, kept): (&str, &KeptProfile), model: &str, reason: &str) -> ModelError {
    let place = if kept.is_of_settings() { format!("[profiles.{id}]") } else { format!("{id} in Redis") };
    not_initialized(model, &format!("The profile {place} cannot be used: {reason}."))
}
