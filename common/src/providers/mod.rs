//! Providers and profiles: their format, their checks, and their storage in Redis. The other kinds of catalog
//! entries ([`crate::calls`]) are stored the same way, and drafted here.
//!
//! A *provider* is a connection to models ([`ProviderConfig`]): a table `[providers.NAME]` in a worker's
//! settings, or an entry in Redis. A *profile* is a named model with parameters that uses a provider or its
//! own connection ([`ProfileConfig`]), in the same two places. [`draft`](draft()) builds an entry from a
//! request: checked ([`check`]) and with sealed secrets ([`secrets`]). Workers create clients from them.

pub mod check;
mod config;
mod draft;
mod entry;
mod profile;
pub(crate) mod reading;
pub mod secrets;
mod settings;

pub use crate::nodes::llm::profile::tool_mode::{PROFILE_PREFIX, ToolMode};
pub use config::{
    AskedWith, CONNECT_TIMEOUT_MS, EMBED_TEXTS_MAX, FILES_BYTES_MAX, LimitsConfig, MediaSend, ModelSettings,
    PricingConfig, ProviderConfig, ProviderKind, ProvidersConfig, READ_TIMEOUT_MS, RETRIES_MAX, Secret,
    Serves,
};
pub use draft::{Draft, DraftError, draft};
pub use entry::{opened, shown};
pub use profile::{Over, PROFILE_PROVIDERS, ProfileConfig};
pub use reading::{profile_of, provider_of, table_in};
pub use settings::{ProfileTableError, ProfilesConfig};
