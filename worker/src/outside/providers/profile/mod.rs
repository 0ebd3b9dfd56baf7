//! Finds the API of a provider that a workflow names, and the facts about its models.
//!
//! A workflow says only `langgenius/openai/openai` and `gpt-4o`. The connection comes from one of three places: tables
//! `[providers.NAME]` of the worker's settings, providers in Redis, or `OPENAI_BASE_URL` and `OPENAI_API_KEY` in the
//! worker's environment. Keys do not leave this module.
//!
//! `abilities` lists what can be used, `build` creates clients, `lookup` finds the right one, `of_plugin` decides
//! whether an installed plugin comes before it, `catalog` caches the providers in Redis, `named` finds profiles,
//! and `model` is what nodes call.

mod abilities;
mod build;
mod catalog;
mod job_model;
mod lookup;
mod model;
mod named;
mod of_plugin;
mod vector;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_common::config::Prefer;
use tidemill_common::ids::RunId;
use tidemill_common::need::Need;
use tidemill_common::nodes::llm::ModelConfig;
use tidemill_common::nodes::llm::usage::Pricing;
use tidemill_common::registry::RETRIES_MAX;
use tidemill_common::value::JsonMap;

use crate::outside::plugins::PluginHost;
use crate::outside::providers::limiter::{CallPermits, Limited, RestingModels};
use crate::outside::providers::media::FileAccess;
use crate::outside::providers::profile::catalog::CatalogView;
use crate::outside::providers::profile::lookup::{ConfiguredIn, Found, last_part};
use crate::outside::providers::profile::of_plugin::OfPlugins;
use crate::outside::providers::{ErrorClass, ModelError, ModelProvider};

pub use crate::outside::providers::profile::catalog::ProviderCatalog;
pub use crate::outside::providers::profile::job_model::JobModel;
pub(crate) use crate::outside::providers::profile::lookup::first_match;
pub use crate::outside::providers::profile::model::{Model, OfProfile, Question};
pub(crate) use crate::outside::providers::profile::named::DEFAULT_IDS;
pub use crate::outside::providers::profile::named::{NamedModel, ProfileError, Responder};
pub use tidemill_common::registry::{
    AskedWith, LimitsConfig, MediaSend, ModelSettings, PricingConfig, ProviderConfig, ProviderKind,
    ProvidersConfig, Secret, Serves,
};
pub use tidemill_plugins::package::ModelKind;

/// The provider for all models no other provider serves.
pub const DEFAULT_PROVIDER: &str = "default";
/// The failure of a node whose author has not chosen a model.
const NOT_CHOSEN: &str = "no model is chosen: set provider and name of the node's model";
/// OpenAI's own address.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("[providers.{name}] {reason}")]
pub struct TableError {
    pub name: String,
    /// The fault and its fix.
    pub reason: String,
}

/// All providers, ready for use.
#[derive(Debug)]
pub struct Providers {
    /// Those of the settings and of the environment.
    tables: BTreeMap<String, Arc<Connection>>,
    /// Those in Redis.
    catalog: Option<ProviderCatalog>,
    /// Access to the files of prompts.
    file_access: Option<Arc<FileAccess>>,
    /// The store that limits and counts calls.
    permits: Option<CallPermits>,
    /// The installed plugins.
    plugins: Option<OfPlugins>,
}

/// A provider with its client. The client's connection pool lives as long as this.
#[derive(Debug)]
struct Connection {
    /// The client, or the reason there is none.
    client: Result<Clients, String>,
    /// Identifies the key without revealing it; empty without a key.
    key_mark: String,
    /// The settings of its models, with parsed prices.
    models: BTreeMap<String, (ModelSettings, Option<Pricing>)>,
    files: FilesSending,
    /// Models that were asked to wait.
    resting_models: Arc<RestingModels>,
    /// The table as written.
    table: ProviderConfig,
    /// False when the table could not be read.
    is_read: bool,
}

/// The clients of one API.
#[derive(Debug, Clone)]
struct Clients {
    /// Retries and waits itself.
    usual: Arc<dyn ModelProvider>,
    /// Reports every failure at once: the job counts tries and waits, and all workers learn of a refusal.
    reporting: Arc<dyn ModelProvider>,
}

/// Settings for sending the files of prompts.
#[derive(Debug, Clone, Copy)]
struct FilesSending {
    send: MediaSend,
    bytes_max: u64,
}

impl Providers {
    /// Builds the providers of a configuration. `environment` reads variables of the process: keys named by
    /// `api_key_env`, and `OPENAI_BASE_URL` and `OPENAI_API_KEY`. Either of these two creates a default provider if the
    /// configuration has none.
    ///
    /// # Errors
    /// A table that cannot be used. A missing key is reported only by the call that needs it.
    pub fn new(
        config: &ProvidersConfig,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TableError> {
        let mut tables = config.0.clone();
        let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let (base_url, api_key) = (set("OPENAI_BASE_URL"), set("OPENAI_API_KEY"));
        if base_url.is_some() || api_key.is_some() {
            tables.entry(DEFAULT_PROVIDER.into()).or_insert_with(|| ProviderConfig {
                base_url,
                api_key: api_key.map(Secret),
                ..ProviderConfig::default()
            });
        }
        let connection = |(name, table): (String, ProviderConfig)| match Connection::new(&table, &set) {
            Ok(connection) => Ok((name, Arc::new(connection))),
            Err(reason) => Err(TableError { name, reason }),
        };
        let tables = tables.into_iter().map(connection).collect::<Result<_, _>>()?;
        Ok(Self { tables, catalog: None, file_access: None, permits: None, plugins: None })
    }

    /// Adds access to the files of prompts. Without it a prompt with files fails.
    #[must_use]
    pub fn with_files(self, file_access: FileAccess) -> Self {
        Self { file_access: Some(Arc::new(file_access)), ..self }
    }

    /// Adds the store for permits for models with limits and for counting tries. Without it limits have no effect, and
    /// calls wait inside the worker.
    #[must_use]
    pub fn with_call_permits(self, permits: CallPermits) -> Self {
        Self { permits: Some(permits), ..self }
    }

    /// Adds the providers and profiles in Redis.
    #[must_use]
    pub fn with_catalog(self, catalog: ProviderCatalog) -> Self {
        Self { catalog: Some(catalog), ..self }
    }

    /// Adds the models of installed plugins.
    #[must_use]
    pub(crate) fn with_plugins(self, plugins: Arc<PluginHost>, prefer: Prefer) -> Self {
        Self { plugins: Some(OfPlugins::new(plugins, prefer)), ..self }
    }

    /// As [`Providers::resolve_for`], of an LLM for no run.
    ///
    /// # Errors
    /// As [`Providers::model_for`].
    pub async fn resolve(&self, model: &ModelConfig) -> Result<Model, ModelError> {
        self.resolve_for(model, ModelKind::Llm, None).await
    }

    /// Returns the model that a workflow names; see [`Providers::model_for`].
    ///
    /// # Errors
    /// As [`Providers::model_for`].
    pub async fn resolve_for(
        &self,
        model: &ModelConfig,
        kind: ModelKind,
        run: Option<RunId>,
    ) -> Result<Model, ModelError> {
        if !model.is_chosen() {
            return Err(ModelError::value(NOT_CHOSEN));
        }
        self.model_for((&model.provider, &model.name), kind, run).await
    }

    /// As [`Providers::model_for`], of an LLM for no run.
    ///
    /// # Errors
    /// As [`Providers::model_for`].
    pub async fn model(&self, provider: &str, name: &str) -> Result<Model, ModelError> {
        self.model_for((provider, name), ModelKind::Llm, None).await
    }

    /// Returns a model of a provider, both by their workflow names. The first match wins: a provider that serves
    /// exactly this model, one that serves the provider's name, one with this name, one with its last part, the
    /// default. In each case the settings win over Redis. `profile/ID` is the profile with this id. Later changes do
    /// not affect the returned model.
    ///
    /// An installed plugin with this provider comes before the default, unless that is of the provider's kind, or the plugin
    /// cannot serve the model yet; with `plugins.prefer = "plugin"` it comes before all. Its credentials are those for the app
    /// of the run. `kind` matters to plugins only.
    ///
    /// # Errors
    /// `ProviderTokenNotInitError` with instructions, or an error of Redis if it is needed and does not answer.
    pub async fn model_for(
        &self,
        (provider, name): (&str, &str),
        kind: ModelKind,
        run: Option<RunId>,
    ) -> Result<Model, ModelError> {
        let label = last_part(provider);
        // What nothing known serves may have been added a moment ago.
        for newest in [false, true] {
            let catalog_view = self.catalog_view(label, newest).await?;
            if let Some(id) = named::profile_id_in(provider)
                && self.catalog.is_some()
            {
                if !newest && named::find(&catalog_view, id).is_none() {
                    continue;
                }
                return named::model(self, &catalog_view, id, name);
            }
            let found = self.find(&catalog_view, provider, name);
            if let Some(model) = self.of_plugin(found, (provider, name), (kind, run), newest).await? {
                return Ok(model);
            }
            if let Some(found) = found {
                return self.model_at(found, provider, name, Arc::default());
            }
        }
        let plugin =
            self.plugins.as_ref().map(|_| ", or install a plugin that has it (`tidemill plugins add`)");
        let missing = not_initialized(
            name,
            &format!(
                "No provider {provider} is known to this worker: add it with `tidemill providers add {label}`, or a table \
                 [providers.{label}] to the worker's configuration, or set OPENAI_BASE_URL and OPENAI_API_KEY in its \
                 environment{}.",
                plugin.unwrap_or_default()
            ),
        );
        Err(missing.for_want_of(wanted(provider, name)))
    }

    /// Returns the cached state of Redis.
    async fn catalog_view(&self, label: &str, newest: bool) -> Result<Arc<CatalogView>, ModelError> {
        let Some(catalog) = &self.catalog else { return Ok(Arc::default()) };
        catalog.catalog_view(&self.tables, newest).await.map_err(|error| {
            let what = format!("providers in Redis (redis.url) cannot be read: {error}");
            ModelError { retryable: true, ..ModelError::new(label, ErrorClass::Connection, &what) }
        })
    }

    /// Builds the model of a found provider.
    fn model_at(
        &self,
        found: Found<'_>,
        provider: &str,
        name: &str,
        parameters: Arc<JsonMap>,
    ) -> Result<Model, ModelError> {
        let Found { name: found, configured_in, connection } = found;
        let clients = connection.client.as_ref().map_err(|missing| {
            not_initialized(
                name,
                &match configured_in {
                    ConfiguredIn::Settings => {
                        format!("The provider [providers.{found}] has no key: {missing}.")
                    }
                    ConfiguredIn::Redis => {
                        format!("The provider {found} in Redis cannot be used: {missing}.")
                    }
                    ConfiguredIn::Profile => {
                        let id = named::profile_id_in(found).unwrap_or(found);
                        format!("The profile {id} in Redis cannot be used: {missing}.")
                    }
                    ConfiguredIn::SettingsProfile => {
                        let id = named::profile_id_in(found).unwrap_or(found);
                        format!("The profile [profiles.{id}] cannot be used: {missing}.")
                    }
                },
            )
            .for_want_of(match configured_in {
                ConfiguredIn::Settings | ConfiguredIn::Redis => wanted(provider, name),
                ConfiguredIn::Profile | ConfiguredIn::SettingsProfile => {
                    Need::Profile { id: named::profile_id_in(found).unwrap_or(found).into() }
                }
            })
        })?;
        let (settings, pricing) = connection.models.get(name).cloned().unwrap_or_default();
        let limits = (settings.limits.as_ref(), connection.table.limits.as_ref());
        let account = format!("{found}/{}", connection.key_mark);
        let tries = (connection.table.max_retries.unwrap_or(RETRIES_MAX), &connection.resting_models);
        let limited = self
            .permits
            .as_ref()
            .map(|permits| Limited::new(permits, (&account, found), name, limits, tries));
        let client = if limited.is_some() { &clients.reporting } else { &clients.usual }.clone();
        let label = last_part(provider).into();
        let (name, files, file_access) = (name.into(), connection.files, self.file_access.clone());
        Ok(Model {
            settings,
            pricing,
            client,
            label,
            name,
            files,
            file_access,
            parameters,
            limited,
            of_profile: None,
            spoken_max: None,
        })
    }
}

/// The need of a model that a workflow names.
fn wanted(provider: &str, model: &str) -> Need {
    match named::profile_id_in(provider) {
        Some(id) => Need::Profile { id: id.into() },
        None => Need::Provider { provider: provider.into(), model: model.into() },
    }
}

fn not_initialized(model: &str, what: &str) -> ModelError {
    let message = format!("Model {model} credentials is not initialized. {what}");
    ModelError { class: ErrorClass::NotInitialized, ..ModelError::value(message) }
}

#[cfg(test)]
mod tests;
