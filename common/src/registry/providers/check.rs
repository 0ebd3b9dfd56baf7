//! Checks providers before their first call. Schedulers check at registration, workers when they create a
//! client.

use super::{PricingConfig, ProviderConfig, ProviderKind};
use tidemill_workflow::nodes::llm::decimal::Decimal;
use tidemill_workflow::nodes::llm::usage::Pricing;

pub use crate::registry::http::{base_url, headers, sendable};

/// Checks everything except the environment, which only the worker knows.
///
/// # Errors
/// The problem, and what to do.
pub fn provider(config: &ProviderConfig) -> Result<(), String> {
    match &config.base_url {
        Some(url) => drop(base_url(url)?),
        None if config.kind == ProviderKind::AzureOpenai => return Err(AZURE_URL.into()),
        None => {}
    }
    if let Some(key) = &config.api_key
        && sendable(&key.0)?.is_empty()
    {
        return Err("has an empty key".into());
    }
    match (&config.api_key, &config.api_key_env) {
        (Some(_), Some(_)) => return Err(TWO_KEYS.into()),
        (None, None) if needs_key(config) => return Err(NO_KEY.into()),
        _ => {}
    }
    if config.api_key_env.as_ref().is_some_and(|name| name.trim().is_empty()) {
        return Err("has an empty api_key_env: it is the name of an environment variable".into());
    }
    headers(&config.headers)?;
    for (name, model) in &config.models {
        let priced = model.pricing.as_ref().map(pricing).transpose();
        priced.map_err(|reason| format!("has a wrong price for the model {name}: {reason}"))?;
    }
    Ok(())
}

/// The error for an Azure provider without an address.
pub const AZURE_URL: &str = "needs a base_url, the endpoint of the resource: https://NAME.openai.azure.com";
/// The error for a table with two keys.
pub const TWO_KEYS: &str = "has both api_key and api_key_env: keep one of them";
/// The reason why a table of a plugin serves nothing itself.
pub const OF_PLUGIN: &str =
    "an installed plugin makes its calls (plugin), and no installed plugin has this provider";
/// The reason why a profile over such a table serves nothing.
pub const NO_PROFILE: &str = "its provider is served by a plugin (plugin = true), and profiles cannot use providers of plugins: name another \
     provider, or give the profile a base_url";
/// The advice when a key is missing.
pub const NO_KEY: &str = "set api_key_env, or base_url for a server of your own";

/// Whether it needs a key, because it uses the usual address of a service.
pub fn needs_key(config: &ProviderConfig) -> bool {
    config.base_url.is_none() && config.kind != ProviderKind::Ollama && !config.plugin
}

/// Prices as numbers.
///
/// # Errors
/// A text is not a number.
pub fn pricing(config: &PricingConfig) -> Result<Pricing, String> {
    let decimal = |text: &String| text.parse::<Decimal>().map_err(|error| error.to_string());
    Ok(Pricing {
        input: decimal(&config.input)?,
        output: config.output.as_ref().map(decimal).transpose()?,
        unit: decimal(&config.unit)?,
        currency: config.currency.clone().unwrap_or_else(|| "USD".into()),
    })
}
