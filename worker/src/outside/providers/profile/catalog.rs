//! Caches the providers and profiles from Redis, combined with the profiles of the settings. They are read at the first
//! call to a model, and again when their version changed. Unchanged entries keep their clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::dsl::SealingKey;
use tidemill_common::registry::{
    Over, ProfileConfig, ProfilesConfig, ProviderConfig, opened, profile_of, provider_of,
};
use tidemill_common::store::{Catalog, CatalogEntry, CatalogKind, Jobs, StoreError};

use crate::outside::catalog::CatalogCopy;
use crate::outside::providers::profile::Connection;
use crate::outside::providers::profile::lookup;
use crate::outside::providers::profile::lookup::Found;

type Tables = BTreeMap<String, Arc<Connection>>;
type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The cache of providers and profiles.
pub struct ProviderCatalog {
    catalog: CatalogCopy<CatalogView>,
    key: Option<SealingKey>,
    environment: Environment,
    /// Profiles of the settings; they come before those in Redis.
    settings: ProfilesConfig,
}

/// The entries of one version.
#[derive(Debug, Default)]
pub(super) struct CatalogView {
    /// By id, with the version of each.
    pub(super) providers: BTreeMap<String, (u64, Arc<Connection>)>,
    pub(super) profiles: BTreeMap<String, CatalogProfile>,
    pub(super) default_profile: Option<String>,
}

/// A profile, ready for use.
#[derive(Debug, Clone)]
pub(super) struct CatalogProfile {
    /// 0 for a profile of the settings.
    pub(super) version: u64,
    /// The profile, or the reason it cannot be read.
    pub(super) profile: Result<Arc<ProfileConfig>, String>,
    /// The profile's provider, or the reason there is none.
    pub(super) base: Result<Base, String>,
}

/// The provider of a profile.
#[derive(Debug, Clone)]
pub(super) enum Base {
    /// An existing provider, unchanged, by the name it was found under.
    Provider(String),
    /// The profile's own connection, and the provider's connection it is based on, if any.
    Own(Arc<Connection>, Option<Arc<Connection>>),
    /// A person who answers.
    Person,
}

impl CatalogProfile {
    /// Returns true for a profile of the worker's settings. Versions in Redis begin at 1.
    pub(super) fn is_of_settings(&self) -> bool {
        self.version == 0
    }
}

impl ProviderCatalog {
    /// Creates a cache that is at most `refresh` old. `key` opens secrets; `environment` reads variables of the
    /// process.
    pub fn new(
        jobs: Arc<dyn Jobs>,
        key: Option<SealingKey>,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        refresh: Duration,
    ) -> Self {
        let set = move |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let catalog = CatalogCopy::new(jobs, "providers", refresh);
        Self { catalog, key, environment: Arc::new(set), settings: ProfilesConfig::default() }
    }

    /// Adds the profiles of the worker's settings, which come first.
    #[must_use]
    pub fn after(self, settings: ProfilesConfig) -> Self {
        Self { settings, ..self }
    }

    /// Returns the entries, at most `refresh` old; with `newest`, as they are in Redis now. If Redis does not answer,
    /// the known ones stay.
    ///
    /// # Errors
    /// Nothing is cached and Redis does not answer.
    pub(super) async fn catalog_view(
        &self,
        tables: &Tables,
        newest: bool,
    ) -> Result<Arc<CatalogView>, StoreError> {
        let make = |catalog: Catalog, before: Option<&CatalogView>| {
            let (providers, profiles) = (catalog.providers.len(), catalog.profiles.len());
            tracing::info!(version = catalog.version, providers, profiles, "providers in Redis were read");
            self.made_of(catalog, before.unwrap_or(&CatalogView::default()), tables)
        };
        self.catalog.get(newest, make).await
    }

    fn made_of(&self, catalog: Catalog, before: &CatalogView, tables: &Tables) -> CatalogView {
        let provider = |entry: &CatalogEntry| {
            let same = before.providers.get(&entry.id).filter(|(version, _)| *version == entry.version);
            let made = || Arc::new(self.connection(self.provider(entry)));
            let connection = same.map_or_else(made, |(_, connection)| connection.clone());
            (entry.id.clone(), (entry.version, connection))
        };
        let providers: BTreeMap<_, _> = catalog.providers.iter().map(provider).collect();
        let profile = |entry: &CatalogEntry| {
            let same = before.profiles.get(&entry.id).filter(|known| known.version == entry.version);
            (entry.id.clone(), self.profile(entry, same, tables, &providers))
        };
        let mut profiles: BTreeMap<_, _> = catalog.profiles.iter().map(profile).collect();
        for (id, profile) in &self.settings.profiles {
            let same = before.profiles.get(id).filter(|entry| entry.is_of_settings());
            let same = same.and_then(|entry| entry.base.as_ref().ok());
            let base = self.base(profile, same, tables, &providers);
            profiles.insert(id.clone(), CatalogProfile { version: 0, profile: Ok(profile.clone()), base });
        }
        let default_profile = self.settings.default.clone().or(catalog.default_profile);
        CatalogView { providers, profiles, default_profile }
    }

    fn provider(&self, entry: &CatalogEntry) -> Result<ProviderConfig, String> {
        let object = opened(CatalogKind::Provider, entry, self.key.as_ref());
        provider_of(object.map_err(|error| error.to_string())?)
    }

    fn connection(&self, table: Result<ProviderConfig, String>) -> Connection {
        let made = table.and_then(|table| Connection::new(&table, &*self.environment));
        made.unwrap_or_else(Connection::broken)
    }

    /// `before` is the same version, built from the earlier providers.
    fn profile(
        &self,
        entry: &CatalogEntry,
        before: Option<&CatalogProfile>,
        tables: &Tables,
        providers: &BTreeMap<String, (u64, Arc<Connection>)>,
    ) -> CatalogProfile {
        let read = || {
            let object = opened(CatalogKind::Profile, entry, self.key.as_ref());
            profile_of(object.map_err(|error| error.to_string())?).map(Arc::new)
        };
        let profile = before.map_or_else(read, |before| before.profile.clone());
        let before = before.and_then(|before| before.base.as_ref().ok());
        let base = match &profile {
            Ok(profile) => self.base(profile, before, tables, providers),
            Err(reason) => Err(reason.clone()),
        };
        CatalogProfile { version: entry.version, profile, base }
    }

    fn base(
        &self,
        profile: &ProfileConfig,
        before: Option<&Base>,
        tables: &Tables,
        providers: &BTreeMap<String, (u64, Arc<Connection>)>,
    ) -> Result<Base, String> {
        let provider = &profile.provider;
        if let Some(found) = lookup::exactly(tables, providers, provider) {
            if !profile.has_own_connection() {
                return Ok(Base::Provider(found.name.to_owned()));
            }
            return match before {
                Some(Base::Own(own, Some(base))) if Arc::ptr_eq(base, found.connection) => {
                    Ok(Base::Own(own.clone(), Some(base.clone())))
                }
                _ => self.own(profile, found),
            };
        }
        match (profile.over()?, before) {
            (Over::HumanRelay, _) => Ok(Base::Person),
            (Over::Named, _) => Err(format!(
                "there is no provider {provider}: add it with `tidemill providers add {provider}`, or a table \
                 [providers.{provider}] to the worker's configuration"
            )),
            (Over::Kind { .. }, Some(Base::Own(own, None))) => Ok(Base::Own(own.clone(), None)),
            (Over::Kind { kind, base_url, .. }, _) => {
                let base_url = base_url.map(Into::into);
                let table = profile.on(&ProviderConfig { kind, base_url, ..ProviderConfig::default() });
                Ok(Base::Own(Arc::new(self.connection(Ok(table))), None))
            }
        }
    }

    /// Builds the profile's own connection from its provider.
    fn own(&self, profile: &ProfileConfig, base: Found<'_>) -> Result<Base, String> {
        let Found { name, connection: base, .. } = base;
        // If the table cannot be read, its address is unknown too. Nothing may be sent to the default address instead.
        if let (Err(reason), false) = (&base.client, base.is_read) {
            return Err(format!("its provider {name} cannot be used: {reason}"));
        }
        let table = profile.on(&base.table);
        Ok(Base::Own(Arc::new(self.connection(Ok(table))), Some(base.clone())))
    }
}

impl fmt::Debug for ProviderCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderCatalog").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}
