//! `[tools]` of the settings: where tools are that are not part of this program, and the keys to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hidden::{Hidden, HiddenCommand, HiddenUrl};

/// `[tools]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// A service that runs tools: `POST {endpoint}/{provider}/{tool}`; empty: none.
    pub endpoint: HiddenUrl,
    /// Its key, sent as `Authorization: Bearer`. Better given as `TIDEMILL_TOOLS_API_KEY`.
    pub api_key: Hidden,
    /// Further headers for it.
    pub headers: BTreeMap<String, Hidden>,
    /// Longest silence of it, in seconds.
    pub read_seconds: u64,
    /// How long what it says of a tool's parameters is believed, in seconds; 0: it is asked before each call.
    pub describe_seconds: u64,
    /// Largest answer of a tool, in bytes.
    pub answer_bytes_max: u64,
    /// Whether the tools that are part of this program are used.
    pub builtin: bool,
    /// Whether apps of this namespace are called as tools (`provider_type: workflow`); else the service is asked.
    pub workflows: bool,
    /// OpenAPI documents by the provider's id or name.
    pub api: BTreeMap<String, ApiConfig>,
    /// MCP servers by the provider's id or name.
    pub mcp: BTreeMap<String, McpConfig>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            endpoint: HiddenUrl::default(),
            api_key: Hidden::default(),
            headers: BTreeMap::new(),
            // Tools ask models and wait for the web.
            read_seconds: 300,
            describe_seconds: 60,
            // Files come within, a third larger than they are.
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
    /// Where the server is; empty: the first server of the document.
    pub server: HiddenUrl,
    /// How a call says who calls.
    pub auth_type: AuthType,
    /// The header of the key.
    pub api_key_header: String,
    /// What stands before the key.
    pub api_key_header_prefix: KeyPrefix,
    /// The name of the key in the query.
    pub api_key_query_param: String,
    /// The key; better is `api_key_env`.
    pub api_key_value: Hidden,
    /// The environment variable that holds the key.
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
            // Dify's.
            connect_seconds: 10,
            read_seconds: 60,
        }
    }
}

/// How a call says who calls, in Dify's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// It does not.
    #[default]
    None,
    /// By a header.
    #[serde(alias = "api_key")]
    ApiKeyHeader,
    /// In the query.
    ApiKeyQuery,
}

/// What stands before a key in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPrefix {
    /// `Basic`.
    Basic,
    /// `Bearer`.
    #[default]
    Bearer,
    /// Nothing.
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
    /// The server's address.
    pub url: HiddenUrl,
    /// The program that is the server, and its arguments.
    pub command: HiddenCommand,
    /// Environment of the program, besides `PATH`, `HOME` and `LANG`; nothing else of the worker's is handed on.
    pub env: BTreeMap<String, Hidden>,
    /// Variables of the worker's environment that are handed on.
    pub pass_env: Vec<String>,
    /// Headers of every request.
    pub headers: BTreeMap<String, Hidden>,
    /// Headers whose values are in the environment, by the variables' names.
    pub headers_env: BTreeMap<String, String>,
    /// Longest wait for an answer that is not a tool's, in seconds.
    pub timeout_seconds: u64,
    /// Longest silence of a tool, in seconds.
    pub read_seconds: u64,
    /// How long the list of its tools is believed, in seconds.
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
            // Dify's.
            timeout_seconds: 30,
            read_seconds: 300,
            list_seconds: 60,
        }
    }
}
