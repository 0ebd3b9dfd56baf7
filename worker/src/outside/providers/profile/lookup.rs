//! Finds the provider for a name in a workflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::outside::providers::profile::catalog::CatalogView;
use crate::outside::providers::profile::{Connection, DEFAULT_PROVIDER, Providers};

/// The place where a provider is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfiguredIn {
    /// The worker's settings or environment.
    Settings,
    /// Redis.
    Redis,
    /// A profile in Redis with its own connection.
    Profile,
    /// A profile in the worker's settings with its own connection.
    SettingsProfile,
}

/// The provider found for a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) name: &'a str,
    pub(super) configured_in: ConfiguredIn,
    pub(super) connection: &'a Arc<Connection>,
}

impl Providers {
    /// Returns the first match. In each step a provider of the settings wins over one in Redis.
    pub(super) fn find<'a>(
        &'a self,
        catalog_view: &'a CatalogView,
        provider: &str,
        model: &str,
    ) -> Option<Found<'a>> {
        let of_settings = self.tables.iter().map(|(name, connection)| Found {
            name,
            configured_in: ConfiguredIn::Settings,
            connection,
        });
        let of_redis = catalog_view.providers.iter().map(|(name, (_, connection))| Found {
            name,
            configured_in: ConfiguredIn::Redis,
            connection,
        });
        let all: Vec<Found<'_>> = of_settings.chain(of_redis).collect();
        let serves = |found: &Found<'_>, test: &dyn Fn(&str, Option<&str>) -> bool| {
            found.connection.table.serves.iter().any(|served| test(&served.provider, served.model.as_deref()))
        };
        first_match(&all, |found| found.name, serves, provider, model).copied()
    }
}

/// Returns the first provider that serves a model, of a list with those of the settings first. `serves` tests the names
/// that a provider serves besides its own: provider, and model if only one is served.
pub(crate) fn first_match<'a, T>(
    all: &'a [T],
    name: impl Fn(&T) -> &str,
    serves: impl Fn(&T, &dyn Fn(&str, Option<&str>) -> bool) -> bool,
    provider: &str,
    model: &str,
) -> Option<&'a T> {
    let serving = |wanted: Option<&str>| {
        let test = |of: &str, only: Option<&str>| same_provider(of, provider) && only == wanted;
        all.iter().find(|it| serves(it, &test))
    };
    let named = |test: &dyn Fn(&str) -> bool| all.iter().find(|it| test(name(it)));
    serving(Some(model))
        .or_else(|| serving(None))
        .or_else(|| named(&|name| name == provider))
        .or_else(|| named(&|name| same_provider(name, provider)))
        .or_else(|| named(&|name| name == last_part(provider)))
        .or_else(|| named(&|name| name == DEFAULT_PROVIDER))
}

/// Finds a profile's provider by its exact name, ignoring case. The settings win here too; there is no default.
pub(super) fn exactly<'a>(
    tables: &'a BTreeMap<String, Arc<Connection>>,
    catalog: &'a BTreeMap<String, (u64, Arc<Connection>)>,
    id: &str,
) -> Option<Found<'a>> {
    let settings = tables.iter().map(|(name, connection)| Found {
        name,
        configured_in: ConfiguredIn::Settings,
        connection,
    });
    let catalog = catalog.iter().map(|(name, (_, connection))| Found {
        name,
        configured_in: ConfiguredIn::Redis,
        connection,
    });
    let all: Vec<Found<'_>> = settings.chain(catalog).collect();
    let same = |found: &&Found<'_>| same_provider(found.name, id);
    all.iter().find(|found| found.name == id).or_else(|| all.iter().find(same)).copied()
}

/// Compares provider names: Dify writes `openai` for `langgenius/openai/openai` (and `google` for
/// `langgenius/gemini/google`).
pub(super) fn same_provider(a: &str, b: &str) -> bool {
    let full = |id: &str| match id {
        "google" => "langgenius/gemini/google".to_owned(),
        id if id.contains('/') => id.to_owned(),
        id => format!("langgenius/{id}/{id}"),
    };
    full(a) == full(b)
}

pub(super) fn last_part(provider: &str) -> &str {
    provider.rsplit('/').next().unwrap_or(provider)
}
