//! Masks what may be a key in the MCP servers that an agent's parameters name: the record of a node must not show it.

use serde_json::Value as Json;

use tidemill_base::hidden::masked_url;
use tidemill_base::value::JsonMap;
use tidemill_base::value::secrets::CHARS_MIN;

use super::servers::{NamedServer, PARAMETERS};

/// Replaces secrets.
const MASK: &str = "***";
/// Fields whose values are masked, also those that are not sent: headers that are no text, the environment of a program.
const SECRET_FIELDS: [&str; 2] = ["headers", "env"];
/// Words of a path that are no secret: they name the kind of a server.
const PATH_WORDS: [&str; 2] = ["sse", "mcp"];

/// Masks, in the record of the parameters, values of headers, and the parts of URLs that may be keys: user and password, the
/// words of a path, and the query.
pub fn mask(parameters: &mut JsonMap, servers: &[NamedServer]) {
    let hidden = Hidden::of(servers);
    for parameter in PARAMETERS {
        if let Some(value) = parameters.get_mut(parameter) {
            hidden.hide(value);
        }
    }
}

/// What is hidden.
struct Hidden<'a> {
    /// URLs, and what is shown of them.
    urls: Vec<(&'a str, String)>,
    /// Secrets, longest first, so that one that contains another is hidden as a whole.
    words: Vec<&'a str>,
}

impl<'a> Hidden<'a> {
    fn of(servers: &'a [NamedServer]) -> Self {
        let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
        let headers = servers.iter().flat_map(|server| &server.headers).map(|(_, value)| value.as_str());
        // A short word of a URL would match parts of other words. Within its own URL it is hidden in any case.
        let long =
            urls.iter().flat_map(|url| secrets_of(url)).filter(|word| word.chars().count() >= CHARS_MIN);
        let mut words: Vec<&str> = headers.filter(|value| !value.is_empty()).chain(long).collect();
        words.sort_unstable_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        let urls = urls.into_iter().filter(|url| !url.is_empty()).map(|url| (url, shown(url))).collect();
        Self { urls, words }
    }

    fn hide(&self, value: &mut Json) {
        match value {
            Json::String(text) => *text = self.text(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Json::Object(map) => {
                for (name, item) in map {
                    if SECRET_FIELDS.contains(&name.as_str()) { cover(item) } else { self.hide(item) }
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// JSON is read and written again: it may spell a secret in other ways (`\/`, `\u0041`), or have a field twice.
    fn text(&self, text: &str) -> String {
        if let Ok(mut value @ (Json::Object(_) | Json::Array(_))) = serde_json::from_str(text) {
            self.hide(&mut value);
            return value.to_string();
        }
        let text = self.urls.iter().fold(text.to_owned(), |text, (url, shown)| text.replace(url, shown));
        self.words.iter().fold(text, |text, word| text.replace(word, MASK))
    }
}

/// Masks every value within this one, but no name.
fn cover(value: &mut Json) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(cover),
        Json::Object(map) => map.values_mut().for_each(cover),
        Json::Null => {}
        Json::Bool(_) | Json::Number(_) | Json::String(_) => *value = MASK.into(),
    }
}

/// A URL in its parts.
struct Parts<'a> {
    scheme: &'a str,
    /// User and password.
    user: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (rest, query) = match rest.split_once(['?', '#']) {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        Some(Self { scheme, user, host, path, query })
    }

    fn words(&self) -> impl Iterator<Item = &'a str> {
        self.path.split(['/', '\\'])
    }
}

fn is_secret(word: &str) -> bool {
    !word.is_empty() && !PATH_WORDS.contains(&word)
}

/// The parts of a URL that may be keys.
fn secrets_of(url: &str) -> Vec<&str> {
    let Some(parts) = Parts::of(url) else { return vec![url] };
    let user =
        parts.user.into_iter().flat_map(|user| user.split_once(':').map_or([user, ""], |(a, b)| [a, b]));
    let query = parts.query.into_iter().flat_map(|query| {
        let values =
            query.split(['&', '#']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        std::iter::once(query).chain(values)
    });
    user.chain(query).chain(parts.words().filter(|word| is_secret(word))).collect()
}

/// What is shown of a URL: the host, and what its path says of the kind of server.
fn shown(url: &str) -> String {
    let Some(Parts { scheme, user, host, path, query }) = Parts::of(url) else { return masked_url(url) };
    // A password may contain signs that end a host; then less is shown.
    if path.contains('@') || query.is_some_and(|query| query.contains('@')) {
        return masked_url(url);
    }
    let word = |word| if is_secret(word) { MASK } else { word };
    let path: Vec<&str> = path.split(['/', '\\']).map(word).collect();
    let user = if user.is_some() { "***@" } else { "" };
    let query = if query.is_some() { "?***" } else { "" };
    format!("{scheme}://{user}{host}{}{query}", path.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::servers::read;
    use super::*;

    /// The record of this parameter.
    fn recorded(value: &Json) -> String {
        let mut parameters = JsonMap::from_iter([("mcp_servers_config".to_owned(), value.clone())]);
        let servers = read(&parameters).unwrap();
        mask(&mut parameters, &servers);
        let shown = &parameters["mcp_servers_config"];
        shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
    }

    #[test]
    fn headers_are_hidden_however_the_text_spells_them() {
        for header in [r"Bearer k\/1-secret", r"Bearer \u006b/1-secret", "Bearer k/1-secret"] {
            let text = format!(
                r#"{{"m": {{"url": "http://h/mcp", "headers": {{"Authorization": "{header}"}}, "note": "{header}"}}}}"#
            );
            let shown = recorded(&json!(text));
            assert!(!shown.contains("secret"), "{header}: {shown}");
            assert!(shown.contains("\"Authorization\":\"***\"") && shown.contains("http://h/mcp"), "{shown}");
        }
    }

    #[test]
    fn fields_that_are_not_sent_are_hidden_too() {
        for text in [
            // Only the last of two servers of one name is read.
            r#"{"m": {"url": "http://h/mcp", "headers": {"X": "k-secret"}}, "m": {"url": "http://h/mcp"}}"#,
            r#"{"m": {"url": "http://h/mcp", "headers": {"X": ["k-secret"], "Y": {"Z": "k-secret"}}}}"#,
            r#"{"m": {"command": "npx", "env": {"TOKEN": "k-secret"}}}"#,
        ] {
            let shown = recorded(&json!(text));
            assert!(!shown.contains("secret") && shown.contains("\"m\""), "{text}: {shown}");
        }
        assert!(!recorded(&json!({"m": {"url": "http://h/mcp", "headers": {"X": 4711}}})).contains("4711"));
    }

    #[test]
    fn parts_of_urls_that_may_be_keys_are_hidden() {
        for (url, shown) in [
            ("http://h/mcp", "http://h/mcp"),
            ("http://h:81/sse", "http://h:81/sse"),
            ("https://h", "https://h"),
            ("https://u:pw@h:81/sse?key=k", "https://***@h:81/sse?***"),
            ("https://h/mcp/f00-secret/sse", "https://h/mcp/***/sse"),
            ("https://h/v/x/mcp#part", "https://h/***/***/mcp?***"),
            ("https://h\\secret\\sse", "https://h/***/sse"),
        ] {
            assert_eq!(recorded(&json!(url)), shown);
            let written = recorded(&json!(format!("{{\"m\": {{\"url\": {}}}}}", json!(url))));
            assert_eq!(written, format!("{{\"m\":{{\"url\":\"{shown}\"}}}}"));
            let escaped = format!("{{\"m\": {{\"url\": {}}}}}", json!(url).to_string().replace('/', "\\/"));
            assert_eq!(recorded(&json!(escaped)), written, "{escaped}");
        }
        // A password that is written where a path begins.
        let shown = recorded(&json!("https://u:pw/secret@h/mcp"));
        assert!(!shown.contains("secret"), "{shown}");
        // The long ones also outside of their URL.
        let map = json!({"m": {"url": "https://h/mcp?key=k-secret-1", "args": "k-secret-1", "timeout": 5}});
        let shown = recorded(&map);
        assert!(!shown.contains("secret") && shown.contains("\"timeout\":5"), "{shown}");
    }
}
