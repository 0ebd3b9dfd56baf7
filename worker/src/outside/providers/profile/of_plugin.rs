//! Models of installed plugins: whether they come before a provider of the settings or of Redis, and what is known about
//! them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_common::config::Prefer;
use tidemill_common::ids::RunId;
use tidemill_common::registry::check::pricing;
use tidemill_common::registry::{
    AskedWith, FILES_BYTES_MAX, MediaSend, PricingConfig, ProviderKind, RETRIES_MAX,
};
use tidemill_plugins::package::{Facts, ModelKind, Price};

use crate::outside::plugins::{FoundModel, PluginHost, WantedModel};
use crate::outside::providers::limiter::{Limited, RestingModels};
use crate::outside::providers::profile::lookup::{Found, last_part, same_provider};
use crate::outside::providers::profile::{DEFAULT_PROVIDER, FilesSending, ModelSettings, Providers, named};
use crate::outside::providers::{Model, ModelError};

/// Most accounts whose resting models are remembered.
const ACCOUNTS_MAX: usize = 1_000;

/// The installed plugins.
pub(super) struct OfPlugins {
    host: Arc<PluginHost>,
    prefer: Prefer,
    /// By account.
    resting_models: Mutex<BTreeMap<String, Arc<RestingModels>>>,
}

impl OfPlugins {
    pub(super) fn new(host: Arc<PluginHost>, prefer: Prefer) -> Self {
        Self { host, prefer, resting_models: Mutex::default() }
    }

    fn resting_models(&self, account: &str) -> Arc<RestingModels> {
        let mut all = self.resting_models.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ACCOUNTS_MAX {
            all.clear();
        }
        all.entry(account.to_owned()).or_default().clone()
    }
}

impl fmt::Debug for OfPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfPlugins").field("prefer", &self.prefer).finish_non_exhaustive()
    }
}

impl Providers {
    /// The model of an installed plugin, if that comes before the provider that was found. One that only comes before the default
    /// provider leaves the model to it while it is not ready here, or has no fitting credentials. `newest` looks also for a plugin
    /// that was installed just now.
    ///
    /// # Errors
    /// The plugin is not ready on this worker, or there are no credentials for it.
    pub(super) async fn of_plugin(
        &self,
        found: Option<Found<'_>>,
        (provider, name): (&str, &str),
        (kind, run): (ModelKind, Option<RunId>),
        newest: bool,
    ) -> Result<Option<Model>, ModelError> {
        let Some(plugins) = &self.plugins else { return Ok(None) };
        let own = found.filter(|found| is_meant(found, provider));
        let is_own_first = match plugins.prefer {
            Prefer::Own => own.is_some_and(|own| !own.connection.table.plugin),
            Prefer::Plugin => false,
        };
        if is_own_first || named::profile_id_in(provider).is_some() {
            return Ok(None);
        }
        let is_turned = own.is_some_and(|own| own.connection.table.plugin);
        let is_usable = found.is_some_and(|found| found.connection.client.is_ok());
        let has_own = plugins.prefer == Prefer::Own && is_usable && !is_turned;
        let settings = own.and_then(|own| own.connection.models.get(name)).map(|(settings, _)| settings);
        // The plugin knows the model by the name that is sent.
        let model = settings.and_then(|settings| settings.send_as.as_deref()).unwrap_or(name);
        let is_for_embeddings = settings.is_some_and(|it| it.mode == Some(AskedWith::Embedding));
        let kind = if is_for_embeddings { ModelKind::TextEmbedding } else { kind };
        let wanted = WantedModel { provider, model, kind, run, newest, has_own };
        let model = plugins.host.find_model(wanted).await?;
        Ok(model.map(|model| self.model_of_plugin(plugins, own, model, (provider, name))))
    }

    /// `own` is a table for the same provider: its limits and what it says about models hold for the plugin, too.
    fn model_of_plugin(
        &self,
        plugins: &OfPlugins,
        own: Option<Found<'_>>,
        FoundModel { client, account, facts }: FoundModel,
        (provider, name): (&str, &str),
    ) -> Model {
        let of_table = own.and_then(|own| own.connection.models.get(name).cloned());
        let (mut settings, own_price) = of_table.unwrap_or_default();
        if let Some(facts) = &facts {
            add(&mut settings, facts);
        }
        let spoken_max = facts.as_ref().and_then(|facts| facts.word_limit).unwrap_or(usize::MAX);
        let pricing = own_price.or_else(|| pricing(&priced(facts?.price?)).ok());
        let resting_models = plugins.resting_models(&account);
        let table = own.map(|own| &own.connection.table);
        let limits = (settings.limits.as_ref(), table.and_then(|table| table.limits.as_ref()));
        let tries = table.and_then(|table| table.max_retries).unwrap_or(RETRIES_MAX);
        let label = last_part(provider);
        let limited = self
            .permits
            .as_ref()
            .map(|permits| Limited::new(permits, (&account, label), name, limits, (tries, &resting_models)));
        let usual = FilesSending { send: MediaSend::default(), bytes_max: FILES_BYTES_MAX };
        Model {
            pricing,
            client,
            label: label.into(),
            name: name.into(),
            files: own.map_or(usual, |own| own.connection.files),
            file_access: self.file_access.clone(),
            parameters: Arc::default(),
            limited,
            of_profile: None,
            spoken_max: Some(spoken_max),
            settings,
        }
    }
}

/// False for the default provider, where it is only that: it takes the models of all providers, but is meant for those with
/// its API.
fn is_meant(found: &Found<'_>, provider: &str) -> bool {
    let table = &found.connection.table;
    let is_named = found.name != DEFAULT_PROVIDER
        || last_part(provider) == DEFAULT_PROVIDER
        || table.serves.iter().any(|served| same_provider(&served.provider, provider));
    is_named || of_kind(table.kind, last_part(provider))
}

/// Tests whether a provider of this name has such an API.
fn of_kind(kind: ProviderKind, name: &str) -> bool {
    match kind {
        ProviderKind::OpenaiCompatible => ["openai", "openai_api_compatible"].contains(&name),
        ProviderKind::Anthropic => name == "anthropic",
        ProviderKind::AzureOpenai => name == "azure_openai",
        ProviderKind::Ollama => name == "ollama",
    }
}

/// Adds what the plugin says to what the table leaves open.
fn add(settings: &mut ModelSettings, known: &Facts) {
    settings.features.get_or_insert_with(|| known.features.clone());
    settings.context_size = settings.context_size.or(known.context_size);
    settings.max_chunks = settings.max_chunks.or(known.max_chunks);
}

fn priced(price: Price) -> PricingConfig {
    let Price { input, output, unit, currency } = price;
    PricingConfig { input, output, unit, currency: Some(currency) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::providers::profile::catalog::CatalogView;
    use serde_json::json;

    #[test]
    fn the_default_provider_is_meant_for_the_providers_of_its_kind_only() {
        let meant = |tables: serde_json::Value, provider: &str| {
            let providers = Providers::new(&serde_json::from_value(tables).unwrap(), &|_| None).unwrap();
            let view = CatalogView::default();
            providers.find(&view, provider, "m").map(|found| is_meant(&found, provider))
        };
        let default = json!({"default": {"base_url": "http://h/v1"}});
        for (provider, expected) in [
            ("langgenius/openai/openai", true),
            ("openai", true),
            ("langgenius/openai_api_compatible/openai_api_compatible", true),
            ("langgenius/tongyi/tongyi", false),
            ("langgenius/anthropic/anthropic", false),
        ] {
            assert_eq!(meant(default.clone(), provider), Some(expected), "{provider}");
        }
        let named = json!({"tongyi": {"base_url": "http://h/v1"}});
        assert_eq!(meant(named, "langgenius/tongyi/tongyi"), Some(true));
        let serving = json!({"default": {"base_url": "http://h/v1", "serves": [{"provider": "tongyi"}]}});
        assert_eq!(meant(serving, "langgenius/tongyi/tongyi"), Some(true));
        assert_eq!(meant(json!({}), "langgenius/tongyi/tongyi"), None);
    }

    #[test]
    fn what_a_table_says_about_a_model_comes_before_what_the_plugin_says() {
        let known = Facts {
            features: vec!["vision".into()],
            context_size: Some(8192),
            max_chunks: Some(16),
            ..Facts::default()
        };
        let mut settings = ModelSettings { context_size: Some(4096), ..ModelSettings::default() };
        add(&mut settings, &known);
        assert_eq!(settings.features.as_deref(), Some(&["vision".to_owned()][..]));
        assert_eq!((settings.context_size, settings.max_chunks), (Some(4096), Some(16)));
    }
}
