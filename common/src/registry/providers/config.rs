//! A provider as written, in a table `[providers.NAME]` or as an entry in Redis; unknown keys are refused.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::Deserialize;

use crate::registry::secrets::Secret;
use tidemill_base::limits::MODEL_REFUSALS_MAX;
use tidemill_storage::store::LimitBounds;

/// Longest time to connect, in milliseconds (`connect_timeout_ms`). Dify's generic plugin takes the same.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// Longest silence, in milliseconds, before and within a reply (`read_timeout_ms`), as in Dify's generic
/// plugin.
pub const READ_TIMEOUT_MS: u64 = 300_000;
/// Retries within one call (`max_retries`), as in OpenAI's own clients.
pub const RETRIES_MAX: u32 = 2;
/// Most bytes of all files that are fetched for a prompt (`files_bytes_max`). Base64 adds a third, and
/// Anthropic accepts requests of 32 MB.
pub const FILES_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Most texts in one request for embeddings (`max_chunks`): few enough for self-hosted servers, enough that
/// the latency does not matter.
pub const EMBED_TEXTS_MAX: usize = 32;

/// The tables `[providers.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct ProvidersConfig(pub BTreeMap<String, ProviderConfig>);

/// One table. NAME is the provider as workflows write it (`langgenius/openai/openai`), its last part
/// (`openai`), or `default`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    pub kind: ProviderKind,
    /// The address up to `/v1`; `None`: OpenAI's or Anthropic's own, which needs a key, or an Ollama on this
    /// machine.
    pub base_url: Option<String>,
    /// The key itself; `api_key_env` is better.
    pub api_key: Option<Secret>,
    /// The environment variable with the key.
    pub api_key_env: Option<String>,
    /// Sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// An installed plugin with this provider makes the calls; only `limits`, `models` and the like count here.
    pub plugin: bool,
    /// Other provider names that this table serves. Matched before table names.
    pub serves: Vec<Serves>,
    /// Settings of single models, by the name that workflows use.
    pub models: BTreeMap<String, ModelSettings>,
    /// See [`CONNECT_TIMEOUT_MS`].
    pub connect_timeout_ms: Option<u64>,
    /// See [`READ_TIMEOUT_MS`].
    pub read_timeout_ms: Option<u64>,
    /// See [`RETRIES_MAX`].
    pub max_retries: Option<u32>,
    /// `false` for a server that refuses `stream_options`. Then usage is known only if the server reports it
    /// unasked.
    pub stream_usage: Option<bool>,
    /// The API version: of Azure's API with deployments in its addresses, or of Anthropic's.
    pub api_version: Option<String>,
    /// Azure's deployment names of models, where they differ.
    pub deployment_map: BTreeMap<String, String>,
    /// The form in which remote files are sent.
    pub multimodal_send: MediaSend,
    /// See [`FILES_BYTES_MAX`].
    pub files_bytes_max: Option<u64>,
    /// Most bytes of an answer in one piece, including vectors; `None`: the limit of a value
    /// ([`VALUE_BYTES_MAX`](tidemill_base::limits::VALUE_BYTES_MAX)).
    pub answer_bytes_max: Option<usize>,
    /// The limits of all its models together.
    pub limits: Option<LimitsConfig>,
}

/// The protocol of an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// `POST {base_url}/chat/completions`.
    #[default]
    OpenaiCompatible,
    /// `POST {base_url}/v1/messages`.
    Anthropic,
    /// OpenAI's API at Azure's addresses.
    AzureOpenai,
    /// `POST {base_url}/api/chat`.
    Ollama,
}

/// The form in which remote files are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaSend {
    /// Fetched by the worker, so that the provider does not see the address (Dify's default).
    #[default]
    Base64,
    /// As a URL, where the API accepts one.
    Url,
}

/// The input of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedWith {
    /// Messages.
    Chat,
    /// One text.
    Completion,
    /// Texts to turn into vectors: a model for embeddings.
    Embedding,
}

/// A provider name in workflows, or one model of it, that a table serves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serves {
    /// The provider as workflows write it.
    pub provider: String,
    /// One model; `None`: all.
    #[serde(default)]
    pub model: Option<String>,
}

/// The settings of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// The name in the API; `None`: the same.
    pub send_as: Option<String>,
    /// Its features (`tool-call`, `vision`, `structured-output` …); `None`: unknown.
    pub features: Option<Vec<String>>,
    /// Tokens of prompt and reply together.
    pub context_size: Option<u64>,
    pub pricing: Option<PricingConfig>,
    /// Parameters that are sent under another name, such as `max_tokens` → `max_completion_tokens`.
    pub param_map: BTreeMap<String, String>,
    /// Parameters that are not sent.
    pub drop_params: Vec<String>,
    /// Longest reply in tokens when the workflow sets none; `None`: the API's default.
    pub max_tokens_default: Option<u64>,
    /// The kind of input; `None`: messages.
    pub mode: Option<AskedWith>,
    /// Whether it is one of OpenAI's reasoning models, which take other parameters; `None`: decided by its
    /// name.
    pub reasoning: Option<bool>,
    /// Most texts in one request for embeddings; `None`: [`EMBED_TEXTS_MAX`].
    pub max_chunks: Option<usize>,
    /// Limits for all workers together.
    pub limits: Option<LimitsConfig>,
}

/// The limits of a model, or of all models of a provider. An empty table still obeys the provider's own
/// limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Calls that may begin per minute.
    pub requests_per_minute: Option<NonZeroU64>,
    /// Tokens of prompts and replies per minute.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Concurrent calls.
    pub concurrency: Option<NonZeroU64>,
    /// Most refusals of a call by the provider, because of its limits, before the node fails; `None`:
    /// [`MODEL_REFUSALS_MAX`].
    pub refusals_max: Option<u32>,
}

impl LimitsConfig {
    /// The limits in the store's form.
    pub fn bounds(&self) -> LimitBounds {
        let bound = |bound: Option<NonZeroU64>| bound.map_or(0, NonZeroU64::get);
        LimitBounds {
            requests_per_minute: bound(self.requests_per_minute),
            tokens_per_minute: bound(self.tokens_per_minute),
            concurrency: bound(self.concurrency),
        }
    }

    /// The field with its default.
    pub fn refusals_max(&self) -> u32 {
        self.refusals_max.unwrap_or(MODEL_REFUSALS_MAX)
    }
}

/// Prices as decimal texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricingConfig {
    /// Price of input tokens.
    pub input: String,
    /// Price of output tokens; `None`: free.
    pub output: Option<String>,
    /// The amount per token: `0.000001` for prices per million.
    pub unit: String,
    /// `None`: `USD`.
    pub currency: Option<String>,
}
