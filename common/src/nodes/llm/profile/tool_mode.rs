//! How tools are told and called: a setting of profiles, which the node's texts are read by.

use serde::Deserialize;

/// How a model is told of tools and calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// By the API's own means.
    #[default]
    FunctionCall,
    /// In the text, as XML.
    Xml,
    /// In the text, as JSON.
    Json,
}

/// How a workflow names a profile where it names a provider: `profile/ID`. No provider is called so.
pub const PROFILE_PREFIX: &str = "profile/";
