//! `[tools]` of the settings: addresses and keys of tools that are not part of this program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::{Hidden, HiddenCommand, HiddenUrl};

/// `[tools]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// A service that runs tools: `POST {endpoint}/{provider}/{tool}`. Empty: no service.
    pub endpoint: HiddenUrl,
    /// The service's key, sent as `Authorization: Bearer`. Prefer `TIDEMILL_TOOLS_API_KEY`.
    pub api_key: Hidden,
    /// Further headers for the service.
    pub headers: BTreeMap<String, Hidden>,
    /// Longest silence of the service, in seconds.
    pub read_seconds: u64,
    /// Seconds for which a tool's description from the service is cached; 0: it is fetched before each call.
    pub describe_seconds: u64,
    /// Largest answer of a tool, in bytes.
    pub answer_bytes_max: u64,
    /// True when this program's own tools are used.
    pub builtin: bool,
    /// True when apps of this namespace can be called as tools (`provider_type: workflow`); otherwise the service is
    /// called.
    pub workflows: bool,
    /// OpenAPI documents by provider id or name.
    pub api: BTreeMap<String, ApiConfig>,
    /// MCP servers by provider id or name.
    pub mcp: BTreeMap<String, McpConfig>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            endpoint: HiddenUrl::default(),
            api_key: Hidden::default(),
            headers: BTreeMap::new(),
            // Tools call models and wait for web servers.
            read_seconds: 300,
            describe_seconds: 60,
            // Answers contain files, encoded a third larger than their size.
            answer_bytes_max: 32 << 20,
            builtin: true,
            workflows: true,
            api: BTreeMap::new(),
            mcp: BTreeMap::new(),
        }
    }
}

/// `[tools.api.ID]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiConfig {
    /// The file with the document, YAML or JSON.
    pub spec: String,
    /// The server's URL; empty: the first server of the document.
    pub server: HiddenUrl,
    /// Authorization of calls.
    pub auth_type: AuthType,
    /// The header of the key.
    pub api_key_header: String,
    /// The prefix of the key.
    pub api_key_header_prefix: KeyPrefix,
    /// The name of the key in the query.
    pub api_key_query_param: String,
    /// The key; prefer `api_key_env`.
    pub api_key_value: Hidden,
    /// The environment variable with the key.
    pub api_key_env: String,
    /// Longest wait for a connection, in seconds.
    pub connect_seconds: u64,
    /// Longest silence, in seconds.
    pub read_seconds: u64,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            spec: String::new(),
            server: HiddenUrl::default(),
            auth_type: AuthType::default(),
            api_key_header: "Authorization".into(),
            api_key_header_prefix: KeyPrefix::default(),
            api_key_query_param: "key".into(),
            api_key_value: Hidden::default(),
            api_key_env: String::new(),
            // Dify's values.
            connect_seconds: 10,
            read_seconds: 60,
        }
    }
}

/// Authorization of a call, with Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    #[default]
    None,
    /// By a header.
    #[serde(alias = "api_key")]
    ApiKeyHeader,
    /// In the query.
    ApiKeyQuery,
}

/// The prefix of a key in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPrefix {
    /// `Basic`.
    Basic,
    /// `Bearer`.
    #[default]
    Bearer,
    /// No prefix.
    Custom,
}

impl KeyPrefix {
    /// The header's value.
    pub fn before(self, key: &str) -> String {
        match self {
            Self::Basic => format!("Basic {key}"),
            Self::Bearer => format!("Bearer {key}"),
            Self::Custom => key.to_owned(),
        }
    }
}

/// `[tools.mcp.ID]`: a `url`, or a `command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    pub url: HiddenUrl,
    /// The server's program and its arguments.
    pub command: HiddenCommand,
    /// Environment of the program, besides `PATH`, `HOME` and `LANG`; it gets nothing else from the worker's
    /// environment.
    pub env: BTreeMap<String, Hidden>,
    /// Variables of the worker's environment to pass to the program.
    pub pass_env: Vec<String>,
    /// Headers of all requests.
    pub headers: BTreeMap<String, Hidden>,
    /// Headers with values from the environment: header name to variable name.
    pub headers_env: BTreeMap<String, String>,
    /// Longest wait for an answer other than a tool's, in seconds.
    pub timeout_seconds: u64,
    /// Longest silence of a tool, in seconds.
    pub read_seconds: u64,
    /// Seconds for which the list of tools is cached.
    pub list_seconds: u64,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            url: HiddenUrl::default(),
            command: HiddenCommand::default(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            headers: BTreeMap::new(),
            headers_env: BTreeMap::new(),
            // Dify's values.
            timeout_seconds: 30,
            read_seconds: 300,
            list_seconds: 60,
        }
    }
}
