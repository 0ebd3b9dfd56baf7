//! A profile as it is written: a named model with parameters, over a provider or with a connection of its own.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ProviderConfig, ProviderKind, Secret, check};
use crate::dsl::suggest::nearest;
use crate::nodes::llm::profile::tool_mode::ToolMode;
use crate::value::JsonMap;

/// Google's models under OpenAI's API.
const GEMINI_OPENAI_URL: &str = "https://generativelanguage.googleapis.com/v1beta/openai";

/// What a profile can name as its provider besides one that is registered.
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
/// What others know and is not spoken here.
const REFUSED: [&str; 2] = ["OPENAI_RESPONSE", "GEMINI_NATIVE"];

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProfileConfig {
    /// For people.
    pub name: String,
    /// A provider by its id, or what an API of the profile's own speaks; see [`Over`].
    pub provider: String,
    /// The model.
    pub model: String,
    /// A key of its own.
    pub api_key: Option<Secret>,
    /// The environment variable of workers that holds one.
    pub api_key_env: Option<String>,
    /// An address of its own; then key and headers of the provider are not sent there.
    pub base_url: Option<String>,
    /// Parameters of each call; those of a node are merged into them and win.
    pub parameters: JsonMap,
    /// Sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Longest silence, in milliseconds; absent: the provider's.
    pub timeout: Option<u64>,
    /// Tries after the first within one call, 0 for none; absent: the provider's.
    pub max_retries: Option<u32>,
    /// First wait between them, in milliseconds. Kept for others: here the provider's word counts, and else half a second.
    pub retry_delay: Option<u64>,
    /// How tools are called.
    pub tool_mode: ToolMode,
    /// Whatever is to be kept with it.
    pub metadata: JsonMap,
}

/// What a profile's `provider` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// An API that the profile speaks to by itself.
    Kind {
        /// What it speaks.
        kind: ProviderKind,
        /// Where it is, unless the profile says or its kind has a usual address.
        base_url: Option<&'static str>,
        /// A key is needed whatever the address is.
        needs_key: bool,
    },
    /// A person answers in place of a model.
    HumanRelay,
    /// A provider of this id, which others keep.
    Named,
}

impl ProfileConfig {
    /// What its provider is, if no provider of that name is registered.
    ///
    /// # Errors
    /// One that is not spoken, or the misspelling of one that is.
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

    /// Looks at everything but the environment. `over` is what its provider is.
    ///
    /// # Errors
    /// What is wrong, in the words that profiles are known to be refused with.
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
            // Whatever the provider has is right already; an address that needs no key stands in for its own.
            Over::Named => {
                let base_url = Some("http://localhost".into());
                self.on(&ProviderConfig { base_url, ..ProviderConfig::default() })
            }
        };
        check::provider(&own).map_err(|reason| format!("Profile {reason}"))
    }

    /// Whether it changes anything of the connection that it is over.
    pub fn has_own_connection(&self) -> bool {
        self.api_key.is_some()
            || self.api_key_env.is_some()
            || self.base_url.is_some()
            || !self.headers.is_empty()
            || self.timeout.is_some()
            || self.max_retries.is_some()
    }

    /// A provider with what the profile says of its own. Where the profile has another address, neither key nor headers
    /// of the provider go there.
    pub fn on(&self, provider: &ProviderConfig) -> ProviderConfig {
        let mut own = provider.clone();
        if self.base_url.is_some() {
            own.base_url.clone_from(&self.base_url);
            (own.api_key, own.api_key_env) = (None, None);
            own.headers.clear();
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
