//! Lists the providers and profiles that this worker can use, for its record.

use tidemill_common::need::Need;
use tidemill_common::wire::worker::{Missing, ProfileAbility, ProviderAbility, ServedName};

use crate::outside::providers::profile::catalog::{Base, CatalogProfile, CatalogView};
use crate::outside::providers::profile::{Connection, Providers, lookup};

/// The providers and profiles, and what is missing.
#[derive(Debug, Default)]
pub(crate) struct ModelAbilities {
    pub(crate) providers: Vec<ProviderAbility>,
    pub(crate) profiles: Vec<ProfileAbility>,
    pub(crate) default_profile: Option<String>,
    pub(crate) missing: Vec<Missing>,
}

impl Providers {
    /// Lists what can be used. Without an answer of the store only what the settings have.
    pub(crate) async fn abilities(&self) -> ModelAbilities {
        let view = match &self.catalog {
            Some(catalog) => catalog.catalog_view(&self.tables, false).await.unwrap_or_default(),
            None => Default::default(),
        };
        let mut abilities =
            ModelAbilities { default_profile: view.default_profile.clone(), ..ModelAbilities::default() };
        let of_redis = view.providers.iter().map(|(name, (_, connection))| (name, connection));
        // A table of a plugin serves nothing itself; the record lists plugins.
        let all = self.tables.iter().chain(of_redis).filter(|(_, connection)| !connection.table.plugin);
        for (name, connection) in all {
            let usable = connection.client.as_ref().map(drop).map_err(String::clone);
            let need = || Need::Provider { provider: name.clone(), model: String::new() };
            abilities.missing.extend(usable.as_ref().err().map(|reason| lacking(need(), reason)));
            abilities.providers.push(ability(name, connection, usable.is_ok()));
        }
        for (id, profile) in &view.profiles {
            let reason = self.why_unusable(&view, profile);
            let need = || Need::Profile { id: id.clone() };
            abilities.missing.extend(reason.as_ref().map(|reason| lacking(need(), reason)));
            abilities.profiles.push(ProfileAbility { id: id.clone(), usable: reason.is_none() });
        }
        abilities
    }

    /// Returns the reason why a profile cannot be used here, if there is one.
    fn why_unusable(&self, view: &CatalogView, profile: &CatalogProfile) -> Option<String> {
        if let Err(reason) = &profile.profile {
            return Some(reason.clone());
        }
        match &profile.base {
            Err(reason) => Some(reason.clone()),
            Ok(Base::Person) => None,
            Ok(Base::Own(connection, _)) => connection.client.as_ref().err().cloned(),
            Ok(Base::Provider(name)) => match lookup::exactly(&self.tables, &view.providers, name) {
                Some(found) => found.connection.client.as_ref().err().cloned(),
                None => Some(format!("there is no provider {name}")),
            },
        }
    }
}

fn ability(name: &str, connection: &Connection, usable: bool) -> ProviderAbility {
    let served = connection.table.serves.iter();
    let served =
        served.map(|it| ServedName { provider: it.provider.clone(), model: it.model.clone() }).collect();
    ProviderAbility { name: name.to_owned(), serves: served, usable }
}

fn lacking(need: Need, reason: &str) -> Missing {
    Missing { need, reason: reason.to_owned(), asked_at: None }
}
