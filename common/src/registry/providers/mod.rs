//! Connections to models, and profiles over them: their fields, and what can be wrong with them.

pub mod check;
mod config;
mod profile;
mod read;

pub use config::{
    AskedWith, CONNECT_TIMEOUT_MS, EMBED_TEXTS_MAX, FILES_BYTES_MAX, LimitsConfig, MediaSend, ModelSettings,
    PricingConfig, ProviderConfig, ProviderKind, ProvidersConfig, READ_TIMEOUT_MS, RETRIES_MAX, Serves,
};
pub use profile::{Over, PROFILE_PROVIDERS, ProfileConfig};
pub use read::{profile_of, provider_of};
pub use tidemill_workflow::nodes::llm::profile::tool_mode::{PROFILE_PREFIX, ToolMode};
