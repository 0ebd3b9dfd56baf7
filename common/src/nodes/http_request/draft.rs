//! A request with the run's variables filled in: address, params and headers as they are sent.
//!
//! The same steps make the request itself and, with secrets masked, what is shown of it; [`Show`] says which.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Authorization, BodyKind, ErrorType, HttpRequestData, KeyConfig, KeyScheme, parse};
use crate::failure::NodeFailure;
use crate::value::Variables;
use crate::value::template::Template;

/// Pairs in order.
pub type Pairs = Vec<(String, String)>;

/// How values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// As they are sent, secrets open.
    Open,
    /// As logs show them, secrets masked.
    Masked,
}

impl Show {
    /// The template, filled in.
    pub fn text(self, template: &Template, variables: &dyn Variables) -> String {
        match self {
            Self::Open => template.render_text(variables),
            Self::Masked => template.render_log(variables),
        }
    }
}

/// Address, params and headers of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The address, without the params.
    pub url: String,
    /// What replaces the address's own query, if there is any.
    pub params: Pairs,
    /// In order; names are unique in their exact spelling.
    pub headers: Pairs,
}

/// The head of the request that `data` means.
///
/// # Errors
/// [`ErrorType::Authorization`] for a key that is missing, [`ErrorType::InvalidUrl`] for an address that cannot be called.
pub fn head(data: &HttpRequestData, variables: &dyn Variables) -> Result<Head, NodeFailure> {
    let key = match &data.authorization {
        Authorization::None => None,
        Authorization::ApiKey(None) => {
            return Err(ErrorType::Authorization.failure("authorization config is required"));
        }
        Authorization::ApiKey(Some(config)) => Some((config, api_key(config, variables)?)),
    };
    let url = data.url.render_text(variables);
    check_url(&url)?;
    let params = params(data, variables, Show::Open);
    let mut headers = headers(data, variables, Show::Open);
    if let Some((config, key)) = key {
        set(&mut headers, config.header_name(), credentials(config.scheme, &key));
    }
    Ok(Head { url, params, headers })
}

fn api_key(config: &KeyConfig, variables: &dyn Variables) -> Result<String, NodeFailure> {
    let key = config.api_key.render_text(variables);
    if key.trim().is_empty() {
        let message = "API key is required for authorization but was empty. Please provide a valid API key.";
        return Err(ErrorType::Authorization.failure(message));
    }
    Ok(key)
}

fn credentials(scheme: KeyScheme, key: &str) -> String {
    match scheme {
        // What has no colon is taken for encoded already.
        KeyScheme::Basic if key.contains(':') => format!("Basic {}", STANDARD.encode(key)),
        KeyScheme::Basic => format!("Basic {key}"),
        KeyScheme::Bearer => format!("Bearer {key}"),
        KeyScheme::Custom => key.to_owned(),
    }
}

fn check_url(url: &str) -> Result<(), NodeFailure> {
    if url.is_empty() {
        return Err(ErrorType::InvalidUrl.failure("url is required"));
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(ErrorType::InvalidUrl.failure("url should start with http:// or https://"));
    }
    Ok(())
}

/// The params, keys and values filled in one by one: a value may hold line breaks.
pub(super) fn params(data: &HttpRequestData, variables: &dyn Variables, show: Show) -> Pairs {
    let filled =
        |(key, value): &(Template, Template)| (show.text(key, variables), show.text(value, variables));
    data.params.iter().map(filled).collect()
}

/// The headers without that of the key. They are filled in as one text, so a value with a line break makes further ones.
pub(super) fn headers(data: &HttpRequestData, variables: &dyn Variables, show: Show) -> Pairs {
    let text = show.text(&data.headers, variables);
    let mut headers = Pairs::new();
    for (name, value) in parse::pairs(&text) {
        set(&mut headers, name, value.to_owned());
    }
    let Some(kind) = data.body.as_ref().map(|body| body.kind) else { return headers };
    let is_content_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
    if kind == BodyKind::FormData {
        headers.retain(|header| !is_content_type(header));
    } else if let Some(content_type) = kind.content_type()
        && !headers.iter().any(is_content_type)
    {
        headers.push(("Content-Type".into(), content_type.into()));
    }
    headers
}

/// Sets a header of exactly this spelling where it stands, or adds it.
pub(super) fn set(headers: &mut Pairs, name: &str, value: String) {
    match headers.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => headers.push((name.to_owned(), value)),
    }
}

/// Pairs as a query, in the way of Python's `urlencode`; pairs of one key stand together, where the first one is.
pub fn query(pairs: &Pairs) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in pairs {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let of_key = |key: &&str| pairs.iter().filter(move |(known, _)| known == key).collect::<Vec<_>>();
    let grouped: Vec<_> = keys.iter().flat_map(of_key).collect();
    encode(grouped.into_iter())
}

/// Pairs in their own order, in the way of Python's `urlencode`.
pub fn encode<'a>(pairs: impl Iterator<Item = &'a (String, String)>) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        quote_into(&mut out, key);
        out.push('=');
        quote_into(&mut out, value);
    }
    out
}

fn quote_into(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_written_as_python_writes_them() {
        let pairs = |list: &[(&str, &str)]| -> Pairs {
            list.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        assert_eq!(query(&pairs(&[("a", "1"), ("b", "x y+&ü~"), ("a", "2")])), "a=1&a=2&b=x+y%2B%26%C3%BC~");
        assert_eq!(encode(pairs(&[("a", "1"), ("b", ""), ("a", "2")]).iter()), "a=1&b=&a=2");
    }
}
