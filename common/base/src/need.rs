//! What a node needs of the worker that runs it. A worker whose set-up lacks it hands the job to a worker that has it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A part of a worker's set-up that a node needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Need {
    /// A provider that serves this model, with its key.
    Provider {
        /// As the workflow names it.
        provider: String,
        model: String,
    },
    /// A profile that can be used.
    Profile { id: String },
    /// A source of tools.
    Tool {
        /// The kind of the provider, as in workflow files: `api`, `mcp`, …
        kind: String,
        provider: String,
        /// Another name of the provider in workflow files; may be empty.
        also: String,
    },
    /// An installed plugin, prepared.
    Plugin {
        /// `author/name:version`.
        id: String,
        /// The SHA-256 of its files.
        sha256: String,
    },
    /// A registered Call: its program, or its server.
    Call { id: String },
    /// A variable of the environment.
    Variable { name: String },
    /// The key that opens sealed secrets.
    SecretKey {
        /// The sealed thing: a workflow version, or an entry of the catalog.
        of: String,
    },
    /// A sandbox for code of this language.
    Code { language: String },
    /// A process that reads documents.
    Documents,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider { provider, model } if model.is_empty() => write!(f, "the provider {provider}"),
            Self::Provider { provider, model } => write!(f, "a provider {provider} for the model {model}"),
            Self::Profile { id } if id.is_empty() => f.write_str("the default profile"),
            Self::Profile { id } => write!(f, "the profile {id}"),
            Self::Tool { kind, provider, .. } => write!(f, "the {kind} tool provider {provider}"),
            Self::Plugin { id, .. } => write!(f, "the plugin {id}"),
            Self::Call { id } => write!(f, "the Call {id}"),
            Self::Variable { name } => write!(f, "the environment variable {name}"),
            Self::SecretKey { of } => write!(f, "the secret key of {of}"),
            Self::Code { language } => write!(f, "a sandbox for {language}"),
            Self::Documents => f.write_str("a sandbox for documents"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_keeps_its_stored_form() {
        for (need, text) in [
            (
                Need::Provider { provider: "openai".into(), model: "m".into() },
                r#"{"what":"provider","provider":"openai","model":"m"}"#,
            ),
            (Need::SecretKey { of: "v1".into() }, r#"{"what":"secret_key","of":"v1"}"#),
            (Need::Code { language: "python3".into() }, r#"{"what":"code","language":"python3"}"#),
            (Need::Documents, r#"{"what":"documents"}"#),
            (
                Need::Plugin { id: "a/b:1".into(), sha256: "ab".into() },
                r#"{"what":"plugin","id":"a/b:1","sha256":"ab"}"#,
            ),
            (Need::Call { id: "greet".into() }, r#"{"what":"call","id":"greet"}"#),
        ] {
            assert_eq!(serde_json::to_string(&need).unwrap(), text);
            assert_eq!(serde_json::from_str::<Need>(text).unwrap(), need);
        }
    }
}
