//! Which API stands behind a provider that a workflow names, and what is known of its models.
//!
//! A workflow only says `langgenius/openai/openai` and `gpt-4o`. Profiles are the worker's: tables `[providers.NAME]`
//! of its configuration, or nothing but `OPENAI_BASE_URL` and `OPENAI_API_KEY` in its environment. Keys stay in here.

//!
//! `config` is how the tables are written, `build` makes clients of them, `model` is what nodes ask.

mod build;
mod config;
mod model;
mod within;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_common::nodes::llm::ModelConfig;
use tidemill_common::nodes::llm::usage::Pricing;

use super::limiter::{Limited, Turns};
use super::media::Reach;
use super::{ErrorClass, ModelError, ModelProvider};

pub use config::{
    AskedWith, LimitsConfig, MediaSend, ModelSettings, PricingConfig, ProviderConfig, ProviderKind,
    ProvidersConfig, Secret, Serves,
};
pub use model::{Model, Question};
pub use within::Within;

/// The profile that serves whatever no other profile serves.
pub const DEFAULT_PROFILE: &str = "default";
/// Where OpenAI itself is.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
/// Longest time to connect, in milliseconds (`connect_timeout_ms`). Dify's generic plugin takes the same.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// Longest silence, in milliseconds, before and within a reply (`read_timeout_ms`). Dify's generic plugin, too.
pub const READ_TIMEOUT_MS: u64 = 300_000;
/// Tries after the first within one call (`max_retries`), as in OpenAI's own clients.
pub const RETRIES_MAX: u32 = 2;
/// Most bytes of all files of one prompt that are fetched (`files_bytes_max`). In base64 they are a third more, and
/// Anthropic takes requests of 32 MB.
pub const FILES_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Most texts of one request for embeddings (`max_chunks`): small enough for servers of one's own, large enough that the
/// way there and back does not matter.
pub const EMBED_TEXTS_MAX: usize = 32;

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("[providers.{name}] {reason}")]
pub struct ProfileError {
    /// The table.
    pub name: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Every profile, ready for use.
#[derive(Debug)]
pub struct Providers {
    profiles: BTreeMap<String, Profile>,
    /// The ways to files of prompts.
    reach: Option<Arc<Reach>>,
    /// Where turns at models with limits are taken.
    turns: Option<Turns>,
}

#[derive(Debug)]
struct Profile {
    /// The client, or what is missing for one.
    client: Result<Clients, String>,
    /// Tells its key from others, and does not tell the key; empty without one.
    key_mark: String,
    /// What all its models may do together.
    limits: Option<LimitsConfig>,
    serves: Vec<Serves>,
    models: BTreeMap<String, (ModelSettings, Option<Pricing>)>,
    files: FilesSending,
}

/// The ways to an API.
#[derive(Debug, Clone)]
struct Clients {
    /// Waits by itself when it is refused.
    usual: Arc<dyn ModelProvider>,
    /// Reports that it was refused because of limits, so that all workers learn it.
    reporting: Arc<dyn ModelProvider>,
}

/// How files of prompts are sent.
#[derive(Debug, Clone, Copy)]
struct FilesSending {
    send: MediaSend,
    bytes_max: u64,
}

impl Providers {
    /// Builds the profiles of a configuration. `environment` looks up a variable of the process: keys named by
    /// `api_key_env`, and `OPENAI_BASE_URL` and `OPENAI_API_KEY`, of which either makes a default profile where the
    /// configuration has none.
    ///
    /// # Errors
    /// A table that cannot be used. A key that is missing is no error here, but of the call that needs it.
    pub fn new(
        config: &ProvidersConfig,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProfileError> {
        let mut tables = config.0.clone();
        let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let (base_url, api_key) = (set("OPENAI_BASE_URL"), set("OPENAI_API_KEY"));
        if base_url.is_some() || api_key.is_some() {
            tables.entry(DEFAULT_PROFILE.into()).or_insert_with(|| ProviderConfig {
                base_url,
                api_key: api_key.map(Secret),
                ..ProviderConfig::default()
            });
        }
        let profile = |(name, table): (String, ProviderConfig)| match Profile::new(table, &set) {
            Ok(profile) => Ok((name, profile)),
            Err(reason) => Err(ProfileError { name, reason }),
        };
        Ok(Self {
            profiles: tables.into_iter().map(profile).collect::<Result<_, _>>()?,
            reach: None,
            turns: None,
        })
    }

    /// The same, with ways to the files of prompts; without them a prompt that has files fails.
    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        Self { reach: Some(Arc::new(reach)), ..self }
    }

    /// The same, with a place where turns at models with limits are taken; without it limits do not hold.
    #[must_use]
    pub fn taking_turns(self, turns: Turns) -> Self {
        Self { turns: Some(turns), ..self }
    }

    /// The model that a workflow names; see [`Providers::model`].
    ///
    /// # Errors
    /// `ProviderTokenNotInitError`, with what to set.
    pub fn resolve(&self, model: &ModelConfig) -> Result<Model, ModelError> {
        self.model(&model.provider, &model.name)
    }

    /// A model of a provider, both by the names that workflows use. First match: a profile that serves exactly this model, one that serves the
    /// provider, one named like the provider, one named like its last part, the default.
    ///
    /// # Errors
    /// `ProviderTokenNotInitError`, with what to set.
    pub fn model(&self, provider: &str, name: &str) -> Result<Model, ModelError> {
        let label = last_part(provider);
        let not_initialized = |what: String| ModelError {
            class: ErrorClass::NotInitialized,
            message: format!("Model {name} credentials is not initialized. {what}"),
            retryable: false,
            retry_after_ms: None,
        };
        let (found, profile) = self.find(provider, name).ok_or_else(|| {
            not_initialized(format!(
                "No profile of this worker serves the provider {provider}: add a table [providers.{label}] to its \
                 configuration, or set OPENAI_BASE_URL and OPENAI_API_KEY in its environment."
            ))
        })?;
        let clients = profile.client.as_ref().map_err(|missing| {
            not_initialized(format!("The profile [providers.{found}] has no key: {missing}."))
        })?;
        let (settings, pricing) = profile.models.get(name).cloned().unwrap_or_default();
        let limits = (settings.limits.as_ref(), profile.limits.as_ref());
        let account = format!("{found}/{}", profile.key_mark);
        let limited = self.turns.as_ref().and_then(|turns| Limited::new(turns, &account, name, limits));
        let client = if limited.is_some() { &clients.reporting } else { &clients.usual }.clone();
        let (label, name, files, reach) = (label.into(), name.into(), profile.files, self.reach.clone());
        Ok(Model { settings, pricing, client, label, name, files, reach, limited })
    }

    fn find(&self, provider: &str, model: &str) -> Option<(&String, &Profile)> {
        let serving = |wanted: Option<&str>| {
            self.profiles.iter().find(|(_, profile)| {
                profile
                    .serves
                    .iter()
                    .any(|s| same_provider(&s.provider, provider) && s.model.as_deref() == wanted)
            })
        };
        let named = |test: &dyn Fn(&str) -> bool| self.profiles.iter().find(|(name, _)| test(name));
        serving(Some(model))
            .or_else(|| serving(None))
            .or_else(|| named(&|name| name == provider))
            .or_else(|| named(&|name| same_provider(name, provider)))
            .or_else(|| named(&|name| name == last_part(provider)))
            .or_else(|| named(&|name| name == DEFAULT_PROFILE))
    }
}

/// Dify writes `openai` for `langgenius/openai/openai` (and `google` for `langgenius/gemini/google`).
fn same_provider(a: &str, b: &str) -> bool {
    let full = |id: &str| match id {
        "google" => "langgenius/gemini/google".to_owned(),
        id if id.contains('/') => id.to_owned(),
        id => format!("langgenius/{id}/{id}"),
    };
    full(a) == full(b)
}

fn last_part(provider: &str) -> &str {
    provider.rsplit('/').next().unwrap_or(provider)
}

#[cfg(test)]
mod tests;
