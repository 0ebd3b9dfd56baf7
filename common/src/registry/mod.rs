//! Providers and profiles: their format, their checks, and their storage in Redis. The other kinds of catalog
//! entries ([`calls`]) are stored the same way, and drafted here.
//!
//! A *provider* is a connection to models ([`ProviderConfig`]): a table `[providers.NAME]` in a worker's
//! settings, or an entry in Redis. A *profile* is a named model with parameters that uses a provider or its
//! own connection ([`ProfileConfig`]), in the same two places. [`draft`](draft()) builds an entry from a
//! request: checked ([`check`]) and with sealed secrets ([`secrets`]). Workers create clients from them.

pub mod calls;
mod draft;
mod entry;
pub mod http;
pub mod plugin_strategies;
pub mod plugins;
mod providers;
pub(crate) mod reading;
pub mod secrets;
mod settings;

pub use draft::{Draft, DraftError, draft};
pub use entry::{opened, public_form};
pub use providers::{
    AskedWith, CONNECT_TIMEOUT_MS, EMBED_TEXTS_MAX, FILES_BYTES_MAX, LimitsConfig, MediaSend, ModelSettings,
    Over, PROFILE_PREFIX, PROFILE_PROVIDERS, PricingConfig, ProfileConfig, ProviderConfig, ProviderKind,
    ProvidersConfig, READ_TIMEOUT_MS, RETRIES_MAX, Serves, ToolMode, check, profile_of, provider_of,
};
pub use reading::table_in;
pub use secrets::Secret;
pub use settings::{ProfileTableError, ProfilesConfig};
