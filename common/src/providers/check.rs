//! Checks providers before their first call. Schedulers check at registration, workers when they create a
//! client.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{PricingConfig, ProviderConfig, ProviderKind, Secret};
use crate::nodes::llm::decimal::Decimal;
use crate::nodes::llm::usage::Pricing;

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
/// The advice when a key is missing.
pub const NO_KEY: &str = "set api_key_env, or base_url for a server of your own";

/// Whether it needs a key, because it uses the usual address of a service.
pub fn needs_key(config: &ProviderConfig) -> bool {
    config.base_url.is_none() && config.kind != ProviderKind::Ollama
}

/// Removes the line break at the end of a key and checks that it fits in a header.
///
/// # Errors
/// It does not fit.
pub fn sendable(key: &str) -> Result<String, String> {
    let key = key.trim();
    HeaderValue::from_str(key).map_err(|_| "has a key with characters that are not allowed in a header")?;
    Ok(key.to_owned())
}

/// Removes the slash at the end of an address.
///
/// # Errors
/// It is invalid, or contains a key.
pub fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    let wrong = |why: &str| format!("has a wrong base_url: {why}; use one like https://host/v1");
    let url = reqwest::Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it must begin with http:// or https:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("put the key into api_key_env instead"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Headers to send, marked as secrets.
///
/// # Errors
/// Names a header that cannot be sent.
pub fn headers(table: &BTreeMap<String, Secret>) -> Result<HeaderMap, String> {
    let header = |(name, value): (&String, &Secret)| {
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(&value.0).ok());
        let (name, mut value) = parsed.ok_or_else(|| format!("has a header {name:?} that cannot be sent"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    table.iter().map(header).collect()
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
