//! Providers and profiles: how they are written, whether they can be used, and how they are kept in Redis. What else is kept
//! there for all workers ([`crate::calls`]) is kept the same way, and made an entry of here.
//!
//! A *provider* is a connection to models ([`ProviderConfig`]): a table `[providers.NAME]` of a worker's settings, or an
//! entry in Redis. A *profile* is a named model with parameters over a provider, or with a connection of its own
//! ([`ProfileConfig`]), in the same two places. [`draft`](draft()) makes an entry of what somebody asks to keep: checked
//! ([`check`]) and with its secrets sealed ([`secrets`]). Workers make clients of them.

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
