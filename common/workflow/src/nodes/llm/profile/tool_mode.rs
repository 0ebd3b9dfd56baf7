//! The format of tool calls: a setting of profiles that the node's parser uses.

use serde::Deserialize;

/// The way a model gets the tools and calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// By the API's tool calls.
    #[default]
    FunctionCall,
    /// In the text, as XML.
    Xml,
    /// In the text, as JSON.
    Json,
}

/// Prefix of a profile where a workflow names a provider: `profile/ID`. No provider has this name.
pub const PROFILE_PREFIX: &str = "profile/";
