//! Which API stands behind a provider that a workflow names, and what is known of its models.
//!
//! A workflow only says `langgenius/openai/openai` and `gpt-4o`. Profiles are the worker's: tables `[providers.NAME]`
//! of its configuration, or nothing but `OPENAI_BASE_URL` and `OPENAI_API_KEY` in its environment. Keys stay in here.

mod config;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tidemill_common::nodes::llm::decimal::Decimal;
use tidemill_common::nodes::llm::message::{Message, ModelFacts, ToolSpec};
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::prompt::Prompt;
use tidemill_common::nodes::llm::usage::Pricing;
use tidemill_common::nodes::llm::{ModelConfig, ModelMode};

use super::openai::{OpenAi, Settings};
use super::{ChatRequest, DeltaSink, ErrorClass, ModelError, ModelProvider, ModelReply};

pub use config::{
    ModelSettings, PricingConfig, ProviderConfig, ProviderKind, ProvidersConfig, Secret, Serves,
};

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
}

#[derive(Debug)]
struct Profile {
    /// The client, or what is missing for one.
    client: Result<Arc<dyn ModelProvider>, String>,
    serves: Vec<Serves>,
    models: BTreeMap<String, (ModelSettings, Option<Pricing>)>,
}

/// A model that can be asked.
#[derive(Debug, Clone)]
pub struct Model {
    /// What is known of it.
    pub settings: ModelSettings,
    /// What its tokens cost.
    pub pricing: Option<Pricing>,
    client: Arc<dyn ModelProvider>,
    label: String,
    name: String,
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The conversation; at least one message.
    pub messages: Vec<Message>,
    /// Parameters of the call and texts that end the reply.
    pub params: Params,
    /// Tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// With messages, or with the one text of the only message.
    pub mode: ModelMode,
    /// Whether the reply is to come in pieces.
    pub stream: bool,
}

impl From<&Prompt> for Question {
    fn from(prompt: &Prompt) -> Self {
        Self {
            messages: prompt.messages.clone(),
            params: prompt.params.clone(),
            tools: Vec::new(),
            mode: ModelMode::Chat,
            stream: true,
        }
    }
}

impl Model {
    /// Its name, as the workflow has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it that decides how it is asked.
    pub fn facts(&self) -> ModelFacts {
        ModelFacts { features: self.settings.features.clone(), context_size: self.settings.context_size }
    }

    /// Asks; see [`ModelProvider::stream_chat`].
    ///
    /// # Errors
    /// What the provider reports.
    pub async fn ask(&self, question: Question, on_delta: DeltaSink<'_>) -> Result<ModelReply, ModelError> {
        let Question { messages, params, tools, mode, stream } = question;
        let kept = params.values.iter().filter(|(key, _)| !self.settings.drop_params.contains(key));
        let named = |key: &String| self.settings.param_map.get(key).unwrap_or(key).clone();
        let request = ChatRequest {
            label: self.label.clone(),
            model: self.settings.send_as.clone().unwrap_or_else(|| self.name.clone()),
            messages,
            params: kept.map(|(key, value)| (named(key), value.clone())).collect(),
            stop: params.stop.clone(),
            tools,
            mode,
            stream,
        };
        self.client.stream_chat(&request, on_delta).await
    }
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
        Ok(Self { profiles: tables.into_iter().map(profile).collect::<Result<_, _>>()? })
    }

    /// The model that a workflow names. First match: a profile that serves exactly this model, one that serves the
    /// provider, one named like the provider, one named like its last part, the default.
    ///
    /// # Errors
    /// `ProviderTokenNotInitError`, with what to set.
    pub fn resolve(&self, model: &ModelConfig) -> Result<Model, ModelError> {
        let label = last_part(&model.provider);
        let not_initialized = |what: String| ModelError {
            class: ErrorClass::NotInitialized,
            message: format!("Model {} credentials is not initialized. {what}", model.name),
            retryable: false,
            retry_after_ms: None,
        };
        let (name, profile) = self.find(&model.provider, &model.name).ok_or_else(|| {
            not_initialized(format!(
                "No profile of this worker serves the provider {}: add a table [providers.{label}] to its \
                 configuration, or set OPENAI_BASE_URL and OPENAI_API_KEY in its environment.",
                model.provider
            ))
        })?;
        let client = profile.client.clone().map_err(|missing| {
            not_initialized(format!("The profile [providers.{name}] has no key: {missing}."))
        })?;
        let (settings, pricing) = profile.models.get(&model.name).cloned().unwrap_or_default();
        Ok(Model { settings, pricing, client, label: label.into(), name: model.name.clone() })
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

impl Profile {
    fn new(table: ProviderConfig, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let ProviderKind::OpenaiCompatible = table.kind;
        let base_url = base_url(table.base_url.as_deref().unwrap_or(OPENAI_BASE_URL))?;
        let key = match (&table.api_key, &table.api_key_env) {
            (Some(_), Some(_)) => return Err("has both api_key and api_key_env: keep one of them".into()),
            (Some(key), None) => Ok(Some(sendable(&key.0)?)),
            (None, Some(name)) => environment(name)
                .map(|key| sendable(&key).map(Some))
                .transpose()?
                .ok_or_else(|| format!("the environment variable {name} (api_key_env) is not set")),
            (None, None) if table.base_url.is_none() => {
                Err("set api_key_env, or base_url for a server of your own".into())
            }
            (None, None) => Ok(None),
        };
        let settings = Settings {
            headers: headers(&table.headers)?,
            read_timeout: Duration::from_millis(table.read_timeout_ms.unwrap_or(READ_TIMEOUT_MS)),
            retries_max: table.max_retries.unwrap_or(RETRIES_MAX),
            stream_usage: table.stream_usage.unwrap_or(true),
            base_url,
            api_key: None,
        };
        let http = http_client(&settings.base_url, table.connect_timeout_ms.unwrap_or(CONNECT_TIMEOUT_MS))?;
        let client =
            key.map(|api_key| Arc::new(OpenAi::new(http, Settings { api_key, ..settings })) as Arc<_>);
        let priced = |(name, settings): (String, ModelSettings)| {
            let pricing = settings.pricing.as_ref().map(pricing).transpose();
            let pricing =
                pricing.map_err(|reason| format!("has a wrong price for the model {name}: {reason}"))?;
            Ok((name, (settings, pricing)))
        };
        let models = table.models.into_iter().map(priced).collect::<Result<_, String>>()?;
        Ok(Self { client, serves: table.serves, models })
    }
}

/// A key without the line break that files leave at its end, if it can stand in a header.
fn sendable(key: &str) -> Result<String, String> {
    let key = key.trim();
    HeaderValue::from_str(key).map_err(|_| "has a key with characters that no key has")?;
    Ok(key.to_owned())
}

fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    let wrong = |why: &str| format!("has a wrong base_url: {why}; it looks like https://host/v1");
    let url = reqwest::Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it must begin with http:// or https:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("a key does not belong there but into api_key_env"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn headers(table: &BTreeMap<String, Secret>) -> Result<HeaderMap, String> {
    let header = |(name, value): (&String, &Secret)| {
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(&value.0).ok());
        let (name, mut value) = parsed.ok_or_else(|| format!("has a header {name:?} that cannot be sent"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    table.iter().map(header).collect()
}

fn http_client(base_url: &str, connect_timeout_ms: u64) -> Result<reqwest::Client, String> {
    // The first call decides for the process; that another one came first is no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_millis(connect_timeout_ms))
        // A redirected request would carry prompts and headers to somewhere nobody configured.
        .redirect(reqwest::redirect::Policy::none());
    if base_url.starts_with("http://") {
        // A server without TLS can be used on a machine without certificates.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| format!("cannot be used, the HTTP client does not start: {error:?}"))
}

fn pricing(config: &PricingConfig) -> Result<Pricing, String> {
    let decimal = |text: &String| text.parse::<Decimal>().map_err(|error| error.to_string());
    Ok(Pricing {
        input: decimal(&config.input)?,
        output: config.output.as_ref().map(decimal).transpose()?,
        unit: decimal(&config.unit)?,
        currency: config.currency.clone().unwrap_or_else(|| "USD".into()),
    })
}

#[cfg(test)]
mod tests;
