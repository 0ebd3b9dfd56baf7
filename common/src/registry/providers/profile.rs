//! A profile as written: a named model with parameters that uses a provider or its own connection.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ProviderConfig, ProviderKind, check};
use crate::registry::secrets::Secret;
use tidemill_base::value::JsonMap;
use tidemill_workflow::dsl::suggest::nearest;
use tidemill_workflow::nodes::llm::profile::tool_mode::ToolMode;

/// Google's models with OpenAI's API.
const GEMINI_OPENAI_URL: &str = "https://generativelanguage.googleapis.com/v1beta/openai";

/// Values of a profile's `provider` other than the ids of registered providers.
pub const PROFILE_PROVIDERS: [&str; 8] = [
    "OPENAI_CHAT",
    "GEMINI_OPENAI",
    "ANTHROPIC",
    "HUMAN_RELAY",
    "openai_compatible",
    "anthropic",
    "azure_openai",
    "ollama",
];
/// Known to other systems, not supported here.
const REFUSED: [&str; 2] = ["OPENAI_RESPONSE", "GEMINI_NATIVE"];

/// A named model with parameters and, perhaps, its own connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProfileConfig {
    /// For display.
    pub name: String,
    /// The id of a provider, or the protocol of the profile's own API; see [`Over`].
    pub provider: String,
    pub model: String,
    /// Its own key.
    pub api_key: Option<Secret>,
    /// The workers' environment variable with its own key.
    pub api_key_env: Option<String>,
    /// Its own address; then the provider's key and headers are not sent there.
    pub base_url: Option<String>,
    /// Parameters of each call. Those of a node are merged into them and win.
    pub parameters: JsonMap,
    /// Sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Longest silence, in milliseconds; `None`: the provider's.
    pub timeout: Option<u64>,
    /// Retries within one call, 0 for none; `None`: the provider's.
    pub max_retries: Option<u32>,
    /// First wait between retries, in milliseconds. Stored for other systems only: the wait here is what the
    /// provider asks for, else half a second.
    pub retry_delay: Option<u64>,
    /// The way of calling tools.
    pub tool_mode: ToolMode,
    /// Free data stored with the profile.
    pub metadata: JsonMap,
}

/// The meaning of a profile's `provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The profile's own API.
    Kind {
        kind: ProviderKind,
        /// The address, unless the profile has one or the kind has a usual one.
        base_url: Option<&'static str>,
        /// Whether a key is needed at any address.
        needs_key: bool,
    },
    /// A person answers in place of a model.
    HumanRelay,
    /// The id of a provider that is stored separately.
    Named,
}

impl ProfileConfig {
    /// The meaning of its `provider`, if no provider with that id is registered.
    ///
    /// # Errors
    /// An unsupported one, or a misspelling of a supported one.
    pub fn over(&self) -> Result<Over, String> {
        let spec = |kind, base_url| Over::Kind { kind, base_url, needs_key: true };
        let own = |kind| Over::Kind { kind, base_url: None, needs_key: false };
        Ok(match self.provider.as_str() {
            "OPENAI_CHAT" => spec(ProviderKind::OpenaiCompatible, None),
            "GEMINI_OPENAI" => spec(ProviderKind::OpenaiCompatible, Some(GEMINI_OPENAI_URL)),
            "ANTHROPIC" => spec(ProviderKind::Anthropic, None),
            "HUMAN_RELAY" => Over::HumanRelay,
            "openai_compatible" => own(ProviderKind::OpenaiCompatible),
            "anthropic" => own(ProviderKind::Anthropic),
            "azure_openai" => own(ProviderKind::AzureOpenai),
            "ollama" => own(ProviderKind::Ollama),
            refused if REFUSED.contains(&refused) => {
                return Err(format!("Profile provider {refused} is not supported: {}", there_are()));
            }
            shouted if is_shouted(shouted) => {
                let small = PROFILE_PROVIDERS.map(str::to_lowercase);
                let meant = nearest(shouted, small.iter().map(String::as_str));
                let meant = small.iter().position(|name| Some(name.as_str()) == meant);
                let meant =
                    meant.map(|at| format!("did you mean {}? ", PROFILE_PROVIDERS[at])).unwrap_or_default();
                return Err(format!("Profile provider {shouted} is unknown: {meant}{}", there_are()));
            }
            _ => Over::Named,
        })
    }

    /// Checks everything except the environment. `over` is the meaning of its `provider`.
    ///
    /// # Errors
    /// The problem, in the known wording of profile errors.
    pub fn check(&self, over: Over) -> Result<(), String> {
        if self.timeout == Some(0) {
            return Err("Profile timeout must be milliseconds, at least 1".into());
        }
        let own = match over {
            Over::HumanRelay => return Ok(()),
            Over::Kind { kind, base_url, needs_key } => {
                let own = self.on(&ProviderConfig {
                    kind,
                    base_url: base_url.map(Into::into),
                    ..ProviderConfig::default()
                });
                let has_key = own.api_key.is_some() || own.api_key_env.is_some();
                if !has_key && (needs_key || check::needs_key(&own)) {
                    return Err("Profile apiKey is required".into());
                }
                own
            }
            // The provider's own values are checked elsewhere, so an address that needs no key stands in for
            // them.
            Over::Named => {
                let base_url = Some("http://localhost".into());
                self.on(&ProviderConfig { base_url, ..ProviderConfig::default() })
            }
        };
        check::provider(&own).map_err(|reason| format!("Profile {reason}"))
    }

    /// Whether it changes anything about the provider's connection.
    pub fn has_own_connection(&self) -> bool {
        self.api_key.is_some()
            || self.api_key_env.is_some()
            || self.base_url.is_some()
            || !self.headers.is_empty()
            || self.timeout.is_some()
            || self.max_retries.is_some()
    }

    /// The provider with the profile's own values. With another address, the provider's key and headers are
    /// not used.
    pub fn on(&self, provider: &ProviderConfig) -> ProviderConfig {
        let mut own = provider.clone();
        if self.base_url.is_some() {
            own.base_url.clone_from(&self.base_url);
            (own.api_key, own.api_key_env) = (None, None);
            own.headers.clear();
            own.plugin = false;
        }
        if self.api_key.is_some() || self.api_key_env.is_some() {
            (own.api_key, own.api_key_env) = (self.api_key.clone(), self.api_key_env.clone());
        }
        own.headers.extend(self.headers.clone());
        own.read_timeout_ms = self.timeout.or(own.read_timeout_ms);
        own.max_retries = self.max_retries.or(own.max_retries);
        own
    }
}

fn is_shouted(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn there_are() -> String {
    format!("there are {}, and providers by their ids", PROFILE_PROVIDERS.join(", "))
}
