//! A provider as it is written, in a table `[providers.NAME]` or as an entry in Redis; unknown keys are refused.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use serde::Deserialize;

use crate::limits::MODEL_REFUSALS_MAX;
use crate::store::LimitBounds;

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

/// The tables `[providers.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct ProvidersConfig(pub BTreeMap<String, ProviderConfig>);

/// One table. NAME is the provider as workflows write it (`langgenius/openai/openai`), its last part (`openai`), or
/// `default`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    /// What the API speaks.
    pub kind: ProviderKind,
    /// Address up to `/v1`; absent: OpenAI's or Anthropic's own, for which a key is needed, or an Ollama on this machine.
    pub base_url: Option<String>,
    /// The key itself; better is `api_key_env`.
    pub api_key: Option<Secret>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Which other names it serves, before names are looked at.
    pub serves: Vec<Serves>,
    /// What is known of single models, by the name that workflows use.
    pub models: BTreeMap<String, ModelSettings>,
    /// See [`CONNECT_TIMEOUT_MS`].
    pub connect_timeout_ms: Option<u64>,
    /// See [`READ_TIMEOUT_MS`].
    pub read_timeout_ms: Option<u64>,
    /// See [`RETRIES_MAX`].
    pub max_retries: Option<u32>,
    /// False for a server that refuses `stream_options`; then nothing is counted unless it counts by itself.
    pub stream_usage: Option<bool>,
    /// Version of the API: of Azure's with deployments in its addresses, or Anthropic's.
    pub api_version: Option<String>,
    /// Azure's deployment of a model, where it has another name.
    pub deployment_map: BTreeMap<String, String>,
    /// How files that lie elsewhere are sent.
    pub multimodal_send: MediaSend,
    /// See [`FILES_BYTES_MAX`].
    pub files_bytes_max: Option<u64>,
    /// Most bytes of an answer that comes in one piece, vectors among them; absent: as much as a value may have
    /// ([`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX)).
    pub answer_bytes_max: Option<usize>,
    /// What all its models may do together.
    pub limits: Option<LimitsConfig>,
}

/// What an API speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// `POST {base_url}/chat/completions`.
    #[default]
    OpenaiCompatible,
    /// `POST {base_url}/v1/messages`.
    Anthropic,
    /// OpenAI's API under the addresses of Azure.
    AzureOpenai,
    /// `POST {base_url}/api/chat`.
    Ollama,
}

/// How files that lie elsewhere are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaSend {
    /// Fetched by the worker, so that the provider sees no address (Dify's default).
    #[default]
    Base64,
    /// As the URL that they lie at, where the API takes one.
    Url,
}

/// With what a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedWith {
    /// Messages.
    Chat,
    /// One text.
    Completion,
    /// Texts of which it makes vectors: a model for embeddings.
    Embedding,
}

/// A provider as workflows name it, or one model of it, that a table serves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serves {
    /// The provider as workflows write it.
    pub provider: String,
    /// One model; absent: all.
    #[serde(default)]
    pub model: Option<String>,
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// The name that the API knows it by; absent: the same.
    pub send_as: Option<String>,
    /// What it can do (`tool-call`, `vision`, `structured-output` …); absent: unknown.
    pub features: Option<Vec<String>>,
    /// Tokens that prompt and reply may have together.
    pub context_size: Option<u64>,
    /// What its tokens cost.
    pub pricing: Option<PricingConfig>,
    /// Parameters sent under another name, such as `max_tokens` → `max_completion_tokens`.
    pub param_map: BTreeMap<String, String>,
    /// Parameters that are not sent.
    pub drop_params: Vec<String>,
    /// Longest reply, in tokens, when the workflow says none; absent: the API's own.
    pub max_tokens_default: Option<u64>,
    /// With what it is asked; absent: with messages.
    pub mode: Option<AskedWith>,
    /// Whether it is one of OpenAI's models that reason, which take other parameters; absent: its name decides.
    pub reasoning: Option<bool>,
    /// Most texts of one request for embeddings; absent: [`EMBED_TEXTS_MAX`].
    pub max_chunks: Option<usize>,
    /// What may be asked of it, by all workers together.
    pub limits: Option<LimitsConfig>,
}

/// What may be asked of a model, or of all models of a provider. An empty table bounds nothing but what the provider says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Calls that may begin in a minute.
    pub requests_per_minute: Option<NonZeroU64>,
    /// Tokens of prompts and replies in a minute.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Calls at the same time.
    pub concurrency: Option<NonZeroU64>,
    /// How often the provider may refuse a call because of its limits before the node fails; absent:
    /// [`MODEL_REFUSALS_MAX`].
    pub refusals_max: Option<u32>,
}

impl LimitsConfig {
    /// As the store takes them.
    pub fn bounds(&self) -> LimitBounds {
        let bound = |bound: Option<NonZeroU64>| bound.map_or(0, NonZeroU64::get);
        LimitBounds {
            requests_per_minute: bound(self.requests_per_minute),
            tokens_per_minute: bound(self.tokens_per_minute),
            concurrency: bound(self.concurrency),
        }
    }

    /// See the field.
    pub fn refusals_max(&self) -> u32 {
        self.refusals_max.unwrap_or(MODEL_REFUSALS_MAX)
    }
}

/// Prices as decimal texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricingConfig {
    /// Price of tokens in.
    pub input: String,
    /// Price of tokens out; absent: none.
    pub output: Option<String>,
    /// What one token is of the amount that the prices are for; `0.000001` for prices per million.
    pub unit: String,
    /// Absent: `USD`.
    pub currency: Option<String>,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"***\"")
    }
}
