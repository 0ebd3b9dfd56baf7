//! MCP servers that an agent's parameters name. The agent plugins with MCP of Dify's marketplace have one text for them: a
//! URL (`mcp_server`), or JSON with servers by name (`mcp_servers_config`), also below `mcpServers`.

use serde_json::Value as Json;

use tidemill_base::hidden::{Hidden, HiddenUrl};
use tidemill_base::limits::{AGENT_SERVER_SECONDS_MAX, AGENT_SERVERS_MAX};
use tidemill_base::value::JsonMap;

/// The parameters with servers.
pub const PARAMETERS: [&str; 2] = ["mcp_server", "mcp_servers_config"];

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedServer {
    /// The name in the JSON, or the host of the URL.
    pub name: String,
    /// Empty for a server that only the settings know.
    pub url: HiddenUrl,
    pub headers: Vec<(String, Hidden)>,
    /// How it is spoken to; `None`: its URL decides.
    pub transport: Option<ServerTransport>,
    /// Longest wait for an answer other than a tool's, in seconds.
    pub timeout_seconds: Option<u64>,
    /// Longest silence of a tool, in seconds.
    pub read_seconds: Option<u64>,
}

/// The two transports of MCP over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTransport {
    /// Two URLs, with a stream of events.
    Sse,
    /// One URL.
    StreamableHttp,
}

impl ServerTransport {
    /// Finds a transport by one of its names in configurations of MCP clients.
    fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "sse" => Some(Self::Sse),
            "streamable_http" | "streamable-http" | "streamablehttp" | "http" => Some(Self::StreamableHttp),
            _ => None,
        }
    }
}

impl NamedServer {
    fn at(name: &str, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned().into(),
            headers: Vec::new(),
            transport: None,
            timeout_seconds: None,
            read_seconds: None,
        }
    }

    /// True for a server with two URLs. Where nothing is said, the path of such a server has the word `sse`.
    pub fn has_two_urls(&self) -> bool {
        match self.transport {
            Some(transport) => transport == ServerTransport::Sse,
            None => path_of(&self.url).split('/').any(|word| word == "sse"),
        }
    }
}

/// Reads the servers from the parameters of a strategy, as filled in for this execution.
///
/// # Errors
/// A text that names no servers, or too many of them.
pub fn read(parameters: &JsonMap) -> Result<Vec<NamedServer>, String> {
    let mut servers = Vec::new();
    for parameter in PARAMETERS {
        let value = parameters.get(parameter).unwrap_or(&Json::Null);
        servers.extend(of_value(value).map_err(|problem| format!("{parameter}: {problem}"))?);
    }
    if servers.len() > AGENT_SERVERS_MAX {
        let number = servers.len();
        return Err(format!("an agent may name at most {AGENT_SERVERS_MAX} MCP servers, not {number}"));
    }
    Ok(servers)
}

fn of_value(value: &Json) -> Result<Vec<NamedServer>, String> {
    match value {
        Json::Null => Ok(Vec::new()),
        Json::String(text) => of_text(text.trim()),
        Json::Object(map) => of_map(map),
        Json::Array(items) => items.iter().map(|item| named("", item)).collect(),
        Json::Bool(_) | Json::Number(_) => Err(UNREADABLE.into()),
    }
}

const UNREADABLE: &str =
    "give the URL of an MCP server, or JSON with servers by name: {\"name\": {\"url\": \"…\"}}";

fn of_text(text: &str) -> Result<Vec<NamedServer>, String> {
    match text.chars().next() {
        None => Ok(Vec::new()),
        Some('{' | '[') => match serde_json::from_str(text) {
            Ok(value) => of_value(&value),
            Err(error) => Err(format!("the JSON cannot be read ({error}); {UNREADABLE}")),
        },
        Some(_) if text.starts_with("http://") || text.starts_with("https://") => {
            Ok(vec![NamedServer::at(host_of(text), text)])
        }
        Some(_) => Err(UNREADABLE.into()),
    }
}

fn of_map(map: &JsonMap) -> Result<Vec<NamedServer>, String> {
    match map.get("mcpServers").and_then(Json::as_object) {
        Some(inner) => of_map(inner),
        // A single server without a name.
        None if map.get("url").is_some_and(Json::is_string) => Ok(vec![one("", map)]),
        None => map.iter().map(|(name, server)| named(name, server)).collect(),
    }
}

fn named(name: &str, server: &Json) -> Result<NamedServer, String> {
    server.as_object().map(|map| one(name, map)).ok_or_else(|| UNREADABLE.into())
}

fn one(name: &str, map: &JsonMap) -> NamedServer {
    let text = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default().trim();
    let seconds = |key: &str| {
        let given = map.get(key).and_then(Json::as_f64).filter(|seconds| *seconds > 0.0);
        given.map(|seconds| (seconds.ceil() as u64).clamp(1, AGENT_SERVER_SECONDS_MAX))
    };
    let url = text("url");
    let name =
        [name, text("name"), host_of(url)].into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let headers = map.get("headers").and_then(Json::as_object).into_iter().flatten();
    let header = |(name, value): (&String, &Json)| Some((name.clone(), Hidden(value.as_str()?.to_owned())));
    NamedServer {
        headers: headers.filter_map(header).collect(),
        transport: ["transport", "type"].iter().find_map(|key| ServerTransport::from_name(text(key))),
        timeout_seconds: seconds("timeout"),
        read_seconds: seconds("sse_read_timeout"),
        ..NamedServer::at(name, url)
    }
}

/// The host of a URL, with its port. The rest may have a key.
fn host_of(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    path.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(parameters: Json) -> Result<Vec<(String, String, bool)>, String> {
        let servers = read(parameters.as_object().unwrap())?;
        Ok(servers
            .iter()
            .map(|server| (server.name.clone(), server.url.0.clone(), server.has_two_urls()))
            .collect())
    }

    #[test]
    fn servers_are_read_in_every_form_that_exports_have() {
        for (value, name, url, two_urls) in [
            (json!("http://mcp.example.com/sse"), "mcp.example.com", "http://mcp.example.com/sse", true),
            (json!(" https://u:p@h:81/sse?key=k "), "h:81", "https://u:p@h:81/sse?key=k", true),
            (json!("http://h/sse/f00-ba2"), "h", "http://h/sse/f00-ba2", true),
            (json!("http://h/mcp"), "h", "http://h/mcp", false),
            (json!("{\"maps\": {\"url\": \"http://h/mcp/k/sse\"}}"), "maps", "http://h/mcp/k/sse", true),
            (
                json!("{\"mcpServers\": {\"m\": {\"url\": \"http://h/x\", \"transport\": \"sse\"}}}"),
                "m",
                "http://h/x",
                true,
            ),
            (
                json!({"m": {"url": "http://h/sse", "transport": "streamable_http"}}),
                "m",
                "http://h/sse",
                false,
            ),
            (json!({"m": {"url": "http://h/x", "type": "sse"}}), "m", "http://h/x", true),
            (json!({"m": {"url": "http://h/sse", "type": "http"}}), "m", "http://h/sse", false),
            (json!({"m": {"url": "http://h/sse", "type": "streamable_http"}}), "m", "http://h/sse", false),
            (
                json!({"m": {"url": "http://h/x", "type": "http", "transport": "sse"}}),
                "m",
                "http://h/x",
                true,
            ),
            (json!("{\"url\": \"http://h/mcp\"}"), "h", "http://h/mcp", false),
            (json!("[{\"name\": \"n\", \"url\": \"http://h/mcp\"}]"), "n", "http://h/mcp", false),
            // Only the settings know its program.
            (json!({"files": {"command": "npx"}}), "files", "", false),
        ] {
            for parameter in PARAMETERS {
                let found = of(json!({parameter: value})).unwrap();
                assert_eq!(found, [(name.to_owned(), url.to_owned(), two_urls)], "{value}");
            }
        }
        for nothing in
            [json!(null), json!(""), json!("  "), json!("{}"), json!({"mcpServers": {}}), json!([])]
        {
            assert_eq!(of(json!({"mcp_server": nothing})), Ok(vec![]), "{nothing}");
        }
        assert_eq!(of(json!({"query": "http://h/sse"})), Ok(vec![]));
    }

    #[test]
    fn a_text_that_names_no_server_says_what_to_write() {
        for value in
            [json!("mcp.example.com"), json!("{broken"), json!(5), json!({"m": "http://h"}), json!(["x"])]
        {
            let problem = of(json!({"mcp_server": value})).unwrap_err();
            assert!(
                problem.starts_with("mcp_server: ") && problem.contains("give the URL"),
                "{value}: {problem}"
            );
        }
        let many: JsonMap =
            (0..=AGENT_SERVERS_MAX).map(|n| (n.to_string(), json!({"url": "http://h/mcp"}))).collect();
        assert_eq!(
            of(json!({"mcp_server": many})),
            Err("an agent may name at most 16 MCP servers, not 17".into())
        );
    }

    #[test]
    fn times_are_bounded_and_headers_are_read() {
        let text = json!({"m": {"url": "http://h/mcp", "headers": {"Authorization": "Bearer k-1"}, "timeout": 0.5, "sse_read_timeout": 1e9}});
        let parameters =
            JsonMap::from_iter([("mcp_servers_config".to_owned(), Json::String(text.to_string()))]);
        let servers = read(&parameters).unwrap();
        assert_eq!(
            (servers[0].timeout_seconds, servers[0].read_seconds),
            (Some(1), Some(AGENT_SERVER_SECONDS_MAX))
        );
        assert_eq!(servers[0].headers, [("Authorization".to_owned(), Hidden("Bearer k-1".into()))]);
    }
}
