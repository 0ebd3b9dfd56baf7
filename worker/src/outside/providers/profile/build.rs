//! Builds clients from provider tables: addresses and headers per API type, keys, prices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use sha2::{Digest, Sha256};
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::mistakes::variable_shown;
use tidemill_common::registry::check::{self, base_url, headers, pricing, sendable};
use tidemill_common::registry::{
    CONNECT_TIMEOUT_MS, FILES_BYTES_MAX, MediaSend, ModelSettings, ProviderConfig, ProviderKind,
    READ_TIMEOUT_MS, RETRIES_MAX, Secret,
};

use crate::outside::providers::ModelProvider;
use crate::outside::providers::anthropic;
use crate::outside::providers::anthropic::Anthropic;
use crate::outside::providers::api::{Api, Settings};
use crate::outside::providers::azure;
use crate::outside::providers::azure::Deployments;
use crate::outside::providers::ollama;
use crate::outside::providers::ollama::Ollama;
use crate::outside::providers::openai::{Addresses, OpenAi};
use crate::outside::providers::profile::{Clients, Connection, FilesSending, OPENAI_BASE_URL};

/// Shortest word in a header that may be a key. Shorter words also appear in many errors by chance.
const HEADER_SECRET_BYTES_MIN: usize = 12;

impl Connection {
    /// Builds the connection of a table. The error says what is wrong with the table.
    pub(super) fn new(
        table: &ProviderConfig,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let (kind, given) = (table.kind, table.base_url.as_deref());
        let base_url = base_url(given.map_or_else(|| usual_address(kind), Ok)?)?;
        let key = match (&table.api_key, &table.api_key_env) {
            _ if table.plugin => Err(check::OF_PLUGIN.to_owned()),
            (Some(_), Some(_)) => return Err(check::TWO_KEYS.into()),
            (Some(key), None) => Ok(Some(sendable(&key.0)?)),
            (None, Some(name)) => {
                environment(name).map(|key| sendable(&key).map(Some)).transpose()?.ok_or_else(|| {
                    let name = variable_shown(name);
                    format!("the environment variable {name} (api_key_env) is not set")
                })
            }
            (None, None) if check::needs_key(table) => Err(check::NO_KEY.to_owned()),
            (None, None) => Ok(None),
        };
        let http = http_client(&base_url, table.connect_timeout_ms.unwrap_or(CONNECT_TIMEOUT_MS))?;
        let own_headers = headers(&table.headers)?;
        let key_mark = key.iter().flatten().next().map(|key| mark(key)).unwrap_or_default();
        let client = match key {
            Ok(secret) => {
                let mut headers = usual_headers(table, secret.as_deref())?;
                headers.extend(own_headers);
                let settings = Settings {
                    headers,
                    read_timeout: Duration::from_millis(table.read_timeout_ms.unwrap_or(READ_TIMEOUT_MS)),
                    retries_max: table.max_retries.unwrap_or(RETRIES_MAX),
                    answer_bytes_max: table.answer_bytes_max.unwrap_or(VALUE_BYTES_MAX),
                    base_url: endpoint(kind, &base_url).to_owned(),
                    secrets: secrets(secret, &table.headers, &base_url),
                };
                let api = Api::new(http, settings);
                let usual = client(table, api.clone());
                Ok(Clients { usual, reporting: client(table, api.reporting_failures()) })
            }
            Err(missing) => Err(missing),
        };
        let files = FilesSending {
            send: table.multimodal_send,
            bytes_max: table.files_bytes_max.unwrap_or(FILES_BYTES_MAX),
        };
        let priced = |(name, settings): (&String, &ModelSettings)| {
            let pricing = settings.pricing.as_ref().map(pricing).transpose();
            let pricing =
                pricing.map_err(|reason| format!("has a wrong price for the model {name}: {reason}"))?;
            Ok((name.clone(), (settings.clone(), pricing)))
        };
        let models = table.models.iter().map(priced).collect::<Result<_, String>>()?;
        let resting_models = Arc::default();
        Ok(Self { client, key_mark, models, files, resting_models, table: table.clone(), is_read: true })
    }

    /// A connection that cannot be used; every call returns the reason.
    pub(super) fn broken(reason: String) -> Self {
        let files = FilesSending { send: MediaSend::default(), bytes_max: FILES_BYTES_MAX };
        let (key_mark, models, resting_models) = (String::new(), BTreeMap::new(), Arc::default());
        Self {
            client: Err(reason),
            key_mark,
            models,
            files,
            resting_models,
            table: ProviderConfig::default(),
            is_read: false,
        }
    }
}

fn client(table: &ProviderConfig, api: Api) -> Arc<dyn ModelProvider> {
    match table.kind {
        ProviderKind::OpenaiCompatible => {
            Arc::new(OpenAi::new(api, Addresses::Plain, table.stream_usage.unwrap_or(true)))
        }
        ProviderKind::AzureOpenai => {
            let (api_version, names) = (table.api_version.clone(), table.deployment_map.clone());
            let deployments = Deployments { api_version, names };
            let stream_usage = table.stream_usage.unwrap_or_else(|| deployments.stream_usage());
            Arc::new(OpenAi::new(api, Addresses::Azure(deployments), stream_usage))
        }
        ProviderKind::Anthropic => Arc::new(Anthropic::new(api)),
        ProviderKind::Ollama => Arc::new(Ollama::new(api)),
    }
}

/// The key, and long words in headers and in the address's query, because some gateways take their keys there.
fn secrets(key: Option<String>, headers: &BTreeMap<String, Secret>, base_url: &str) -> Vec<String> {
    let query = base_url.split_once('?').map_or("", |(_, query)| query);
    let words = headers.values().flat_map(|value| value.0.split_whitespace());
    let words = words.chain(query.split(['&', '=', '#']));
    let long = words.filter(|word| word.len() >= HEADER_SECRET_BYTES_MIN).map(str::to_owned);
    key.into_iter().chain(long).collect()
}

/// Eight hex digits that identify a key.
fn mark(key: &str) -> String {
    Sha256::digest(key).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn usual_address(kind: ProviderKind) -> Result<&'static str, String> {
    match kind {
        ProviderKind::OpenaiCompatible => Ok(OPENAI_BASE_URL),
        ProviderKind::Anthropic => Ok(anthropic::BASE_URL),
        ProviderKind::AzureOpenai => Err(check::AZURE_URL.into()),
        ProviderKind::Ollama => Ok(ollama::BASE_URL),
    }
}

/// The base URL before the client's paths.
fn endpoint(kind: ProviderKind, base_url: &str) -> &str {
    match kind {
        ProviderKind::OpenaiCompatible => base_url,
        ProviderKind::Anthropic => anthropic::endpoint(base_url),
        ProviderKind::AzureOpenai => azure::endpoint(base_url),
        ProviderKind::Ollama => ollama::endpoint(base_url),
    }
}

/// The headers an API type needs, including the key; the table's own headers win.
fn usual_headers(table: &ProviderConfig, key: Option<&str>) -> Result<HeaderMap, String> {
    let mut all = Vec::new();
    if let Some(key) = key {
        all.push(match table.kind {
            ProviderKind::OpenaiCompatible | ProviderKind::Ollama => {
                ("authorization", format!("Bearer {key}"))
            }
            ProviderKind::Anthropic => ("x-api-key", key.to_owned()),
            ProviderKind::AzureOpenai => ("api-key", key.to_owned()),
        });
    }
    if table.kind == ProviderKind::Anthropic {
        let version = table.api_version.as_deref().unwrap_or(anthropic::VERSION);
        all.push(("anthropic-version", version.to_owned()));
    }
    headers(&all.into_iter().map(|(name, value)| (name.to_owned(), Secret(value))).collect())
}

fn http_client(base_url: &str, connect_timeout_ms: u64) -> Result<reqwest::Client, String> {
    // The first call sets the default for the process. Later calls fail, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_millis(connect_timeout_ms))
        // A redirect would send prompts and headers to a server that is not configured.
        .redirect(reqwest::redirect::Policy::none());
    if base_url.starts_with("http://") {
        // Plain HTTP also works on a machine without certificates.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| format!("cannot be used, the HTTP client does not start: {error:?}"))
}
