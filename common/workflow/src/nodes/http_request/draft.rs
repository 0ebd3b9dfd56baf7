//! A request with the run's variables filled in: URL, params and headers.
//!
//! The same steps build the request itself and its record with masked secrets; [`Show`] selects which.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Authorization, BodyKind, ErrorType, HttpRequestData, KeyConfig, KeyScheme, parse};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::Variables;
use tidemill_base::value::template::Template;

/// Pairs in order.
pub type Pairs = Vec<(String, String)>;

/// The treatment of secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Plain, for sending.
    Open,
    /// Masked, for logs.
    Masked,
}

impl Show {
    /// Renders the template.
    pub fn text(self, template: &Template, variables: &dyn Variables) -> String {
        match self {
            Self::Open => template.render_text(variables),
            Self::Masked => template.render_log(variables),
        }
    }
}

/// URL, params and headers of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The URL, without the params.
    pub url: String,
    /// Replaces the URL's own query, unless empty.
    pub params: Pairs,
    /// In order; names are unique in their exact spelling.
    pub headers: Pairs,
}

/// Builds the head from `data`.
///
/// # Errors
/// [`ErrorType::Authorization`] for a missing key, [`ErrorType::InvalidUrl`] for an invalid URL.
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
    let credentials = key.map(|(config, key)| (config.header_name(), credentials(config.scheme, &key)));
    let headers = assembled(data, own_headers(data, variables, Show::Open), credentials);
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
        // A key without a colon counts as already encoded.
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

/// The params. Keys and values are filled in one by one, so a value can contain line breaks.
pub(super) fn params(data: &HttpRequestData, variables: &dyn Variables, show: Show) -> Pairs {
    let filled =
        |(key, value): &(Template, Template)| (show.text(key, variables), show.text(value, variables));
    data.params.iter().map(filled).collect()
}

/// The headers that the workflow writes. They are filled in as one text, so a line break in a value adds a header.
pub(super) fn own_headers(data: &HttpRequestData, variables: &dyn Variables, show: Show) -> Pairs {
    let text = show.text(&data.headers, variables);
    let mut headers = Pairs::new();
    for (name, value) in parse::pairs(&text) {
        set(&mut headers, name, value.to_owned());
    }
    headers
}

/// All headers: those of the workflow, then that of the key, then the body's type. The order is that of Dify, and
/// its record of the request shows it.
pub(super) fn assembled(data: &HttpRequestData, own: Pairs, credentials: Option<(&str, String)>) -> Pairs {
    let mut headers = own;
    if let Some((name, value)) = credentials {
        set(&mut headers, name, value);
    }
    let Some(kind) = data.body.as_ref().map(|body| body.kind) else { return headers };
    if kind == BodyKind::FormData {
        headers.retain(|header| !is_content_type(header));
    } else if let Some(content_type) = kind.content_type()
        && !headers.iter().any(is_content_type)
    {
        headers.push((CONTENT_TYPE.into(), content_type.into()));
    }
    headers
}

/// The header of the body's type, as Dify writes it.
pub(super) const CONTENT_TYPE: &str = "Content-Type";

pub(super) fn is_content_type((name, _): &(String, String)) -> bool {
    name.eq_ignore_ascii_case(CONTENT_TYPE)
}

/// Sets a header with exactly this spelling in place, or adds it.
pub(super) fn set(headers: &mut Pairs, name: &str, value: String) {
    match headers.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => headers.push((name.to_owned(), value)),
    }
}

/// Pairs as a query, like Python's `urlencode`. Pairs with the same key are grouped at the first one's position.
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

/// Pairs in their own order, like Python's `urlencode`.
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
