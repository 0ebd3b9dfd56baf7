//! Which API stands behind a provider that a workflow names, and what is known of its models.
//!
//! A workflow only says `langgenius/openai/openai` and `gpt-4o`. Where that is, three places know: tables
//! `[providers.NAME]` of the worker's settings, providers that are kept in Redis, and `OPENAI_BASE_URL` and `OPENAI_API_KEY`
//! in the worker's environment. Keys stay in here.
//!
//! `build` makes clients of what is written, `lookup` finds the one that is meant, `kept` knows what is in Redis, `named`
//! finds profiles, `model` is what nodes ask.

mod build;
mod kept;
mod lookup;
mod model;
mod named;
mod vector;
mod within;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_common::nodes::llm::ModelConfig;
use tidemill_common::nodes::llm::usage::Pricing;
use tidemill_common::providers::RETRIES_MAX;
use tidemill_common::value::JsonMap;

use super::limiter::{Limited, Resting, Turns};
use super::media::Reach;
use super::{ErrorClass, ModelError, ModelProvider};
use kept::Shelf;
use lookup::{Found, Place, last_part};

pub use kept::Kept;
pub use model::{Model, OfProfile, Question};
pub use named::{NamedModel, ProfileError, Stands};
pub use tidemill_common::providers::{
    AskedWith, LimitsConfig, MediaSend, ModelSettings, PricingConfig, ProviderConfig, ProviderKind,
    ProvidersConfig, Secret, Serves,
};
pub use within::Within;

/// The provider that serves whatever no other one serves.
pub const DEFAULT_PROVIDER: &str = "default";
/// Where OpenAI itself is.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("[providers.{name}] {reason}")]
pub struct TableError {
    /// The table.
    pub name: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Every provider, ready for use.
#[derive(Debug)]
pub struct Providers {
    /// Those of the settings, and the one of the environment.
    tables: BTreeMap<String, Arc<Connection>>,
    /// Those in Redis.
    kept: Option<Kept>,
    /// The ways to files of prompts.
    reach: Option<Arc<Reach>>,
    /// Where calls take their turns and are counted.
    turns: Option<Turns>,
}

/// A provider with its client, whose pool of connections stays warm as long as this is held.
#[derive(Debug)]
struct Connection {
    /// The client, or what is missing for one.
    client: Result<Clients, String>,
    /// Tells its key from others, and does not tell the key; empty without one.
    key_mark: String,
    /// What is known of its models, prices as numbers.
    models: BTreeMap<String, (ModelSettings, Option<Pricing>)>,
    files: FilesSending,
    /// Which of its models were asked to wait.
    resting: Arc<Resting>,
    /// As it is written.
    table: ProviderConfig,
    /// Whether that could be read.
    is_read: bool,
}

/// The ways to an API.
#[derive(Debug, Clone)]
struct Clients {
    /// Tries again and waits by itself.
    usual: Arc<dyn ModelProvider>,
    /// Reports every failure: jobs count and wait for themselves, and all workers learn that a model refuses.
    reporting: Arc<dyn ModelProvider>,
}

/// How files of prompts are sent.
#[derive(Debug, Clone, Copy)]
struct FilesSending {
    send: MediaSend,
    bytes_max: u64,
}

impl Providers {
    /// Builds the providers of a configuration. `environment` looks up a variable of the process: keys named by
    /// `api_key_env`, and `OPENAI_BASE_URL` and `OPENAI_API_KEY`, of which either makes a default provider where the
    /// configuration has none.
    ///
    /// # Errors
    /// A table that cannot be used. A key that is missing is no error here, but of the call that needs it.
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
        Ok(Self { tables, kept: None, reach: None, turns: None })
    }

    /// The same, with ways to the files of prompts; without them a prompt that has files fails.
    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        Self { reach: Some(Arc::new(reach)), ..self }
    }

    /// The same, with a place where turns at models with limits are taken, and tries counted; without it limits do not hold,
    /// and calls wait where they are made.
    #[must_use]
    pub fn taking_turns(self, turns: Turns) -> Self {
        Self { turns: Some(turns), ..self }
    }

    /// The same, with providers and profiles that are kept in Redis.
    #[must_use]
    pub fn keeping(self, kept: Kept) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// The model that a workflow names; see [`Providers::model`].
    ///
    /// # Errors
    /// As there.
    pub async fn resolve(&self, model: &ModelConfig) -> Result<Model, ModelError> {
        self.model(&model.provider, &model.name).await
    }

    /// A model of a provider, both by the names that workflows use. First match: a provider that serves exactly this
    /// model, one that serves the name, one of this name, one of its last part, the default; in each case one of the
    /// settings before one in Redis. `profile/ID` is the profile of this id. Whoever holds the model keeps what it began
    /// with.
    ///
    /// # Errors
    /// `ProviderTokenNotInitError`, with what to set; Redis, when it has to be asked and does not answer.
    pub async fn model(&self, provider: &str, name: &str) -> Result<Model, ModelError> {
        let label = last_part(provider);
        let mut shelf = self.shelf(label, false).await?;
        if !self.knows(&shelf, provider, name) {
            // It may have been added a moment ago.
            shelf = self.shelf(label, true).await?;
        }
        if let Some(id) = named::asked_for(provider)
            && self.kept.is_some()
        {
            return named::model(self, &shelf, id, name);
        }
        let found = self.find(&shelf, provider, name).ok_or_else(|| {
            not_initialized(
                name,
                &format!(
                    "No provider {provider} is known to this worker: add it with `tidemill providers add {label}`, or a \
                     table [providers.{label}] to the worker's configuration, or set OPENAI_BASE_URL and \
                     OPENAI_API_KEY in its environment."
                ),
            )
        })?;
        self.model_at(found, provider, name, Arc::default())
    }

    fn knows(&self, shelf: &Shelf, provider: &str, model: &str) -> bool {
        match named::asked_for(provider) {
            Some(id) if self.kept.is_some() => named::find(shelf, id).is_some(),
            _ => self.find(shelf, provider, model).is_some(),
        }
    }

    /// What is known of Redis.
    async fn shelf(&self, label: &str, newest: bool) -> Result<Arc<Shelf>, ModelError> {
        let Some(kept) = &self.kept else { return Ok(Arc::default()) };
        kept.shelf(&self.tables, newest).await.map_err(|error| {
            let what = format!("providers in Redis (redis.url) cannot be read: {error}");
            ModelError { retryable: true, ..ModelError::new(label, ErrorClass::Connection, &what) }
        })
    }

    /// A model of a provider that was found.
    fn model_at(
        &self,
        found: Found<'_>,
        provider: &str,
        name: &str,
        parameters: Arc<JsonMap>,
    ) -> Result<Model, ModelError> {
        let Found { name: found, place, connection } = found;
        let clients = connection.client.as_ref().map_err(|missing| {
            not_initialized(
                name,
                &match place {
                    Place::Settings => format!("The provider [providers.{found}] has no key: {missing}."),
                    Place::Kept => format!("The provider {found} in Redis cannot be used: {missing}."),
                    Place::Profile => {
                        let id = named::asked_for(found).unwrap_or(found);
                        format!("The profile {id} in Redis cannot be used: {missing}.")
                    }
                    Place::SettingsProfile => {
                        let id = named::asked_for(found).unwrap_or(found);
                        format!("The profile [profiles.{id}] cannot be used: {missing}.")
                    }
                },
            )
        })?;
        let (settings, pricing) = connection.models.get(name).cloned().unwrap_or_default();
        let limits = (settings.limits.as_ref(), connection.table.limits.as_ref());
        let account = format!("{found}/{}", connection.key_mark);
        let tries = (connection.table.max_retries.unwrap_or(RETRIES_MAX), &connection.resting);
        let limited = self.turns.as_ref().map(|turns| Limited::new(turns, &account, name, limits, tries));
        let client = if limited.is_some() { &clients.reporting } else { &clients.usual }.clone();
        let label = last_part(provider).into();
        let (name, files, reach) = (name.into(), connection.files, self.reach.clone());
        Ok(Model {
            settings,
            pricing,
            client,
            label,
            name,
            files,
            reach,
            parameters,
            limited,
            of_profile: None,
        })
    }
}

fn not_initialized(model: &str, what: &str) -> ModelError {
    let message = format!("Model {model} credentials is not initialized. {what}");
    ModelError { class: ErrorClass::NotInitialized, ..ModelError::value(message) }
}

#[cfg(test)]
mod tests;
