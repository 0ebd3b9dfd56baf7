//! Whether an address, a key or a header can stand in a request: what providers, services and Calls have in common.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::secrets::Secret;

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
