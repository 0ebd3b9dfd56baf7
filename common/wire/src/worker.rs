//! A worker's own record: what it is, and what it can do. Other workers read it before they hand a job back, and
//! schedulers show it.

use serde::{Deserialize, Serialize};

use super::WireError;
use tidemill_base::need::Need;

const WHAT: &str = "a worker's record";

/// The part of a worker's record that rarely changes. All fields may be absent, because a worker of another
/// version has written it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AboutWorker {
    /// The version of the program.
    pub version: String,
    /// The name of its machine.
    pub host: String,
    pub pid: u32,
    /// Microseconds since 1970.
    pub started_at: i64,
    /// The queues that it takes jobs from.
    pub queues: Vec<String>,
    /// The number of jobs that it runs at once.
    pub permits: usize,
    /// Providers by name, those of its settings first.
    pub providers: Vec<ProviderAbility>,
    pub profiles: Vec<ProfileAbility>,
    /// The profile that is used where none is named.
    pub default_profile: Option<String>,
    /// Sources of tools: `api:ID`, `mcp:ID`, `builtin:ID`, `workflow`, and `service` for a service that runs all others.
    pub tools: Vec<String>,
    /// Plugins that are installed for all workers, and their state here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginAbility>,
    /// Registered Calls, and whether it can use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallAbility>,
    /// Variables of its environment that the catalog names and that are set. Only names.
    pub variables: Vec<String>,
    /// Languages of code nodes that run here.
    pub code: Vec<String>,
    /// Ids and names of the datasets in its settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<String>,
    /// Whether documents are read that need a sandbox.
    pub documents: bool,
    /// Differs between secret keys; `None` without a key.
    pub key: Option<String>,
    /// What the program around the worker executes itself.
    #[serde(skip_serializing_if = "HostedAbility::is_empty")]
    pub hosted: HostedAbility,
    /// Everything that is missing, with the reason.
    pub missing: Vec<Missing>,
}

impl AboutWorker {
    /// Returns true if the worker can run the plugin `author/name:version` with these files.
    pub fn has_plugin(&self, id: &str, sha256: &str) -> bool {
        self.plugin(id, sha256) == Some(PluginState::Ready)
    }

    /// The state of a plugin; `None` if the worker has not seen it yet.
    pub fn plugin(&self, id: &str, sha256: &str) -> Option<PluginState> {
        let found = self.plugins.iter().find(|plugin| plugin.id == id && plugin.sha256 == sha256);
        found.map(|plugin| plugin.state)
    }
}

/// An installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginAbility {
    /// `author/name:version`.
    pub id: String,
    /// The SHA-256 of its files: others may be installed under the same id later.
    pub sha256: String,
    pub state: PluginState,
    /// What is done now, or the reason of a failure; for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Its providers of models, once it is ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

/// The state of a plugin on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginState {
    Ready,
    Failed,
    /// This worker runs no plugins.
    Disabled,
    /// Its files and its environment are being made. A state that this version does not know counts as this one.
    #[default]
    #[serde(other)]
    Preparing,
}

/// The executors of the program around a worker: the nodes that it executes itself, by their ids, their types, the
/// providers of their tools, and their queues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostedAbility {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Node types, as in workflow files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Ids or names of providers of tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Ids of Calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
}

impl HostedAbility {
    /// Returns true if the program executes nothing itself.
    pub fn is_empty(&self) -> bool {
        let Self { nodes, types, tools, queues, calls } = self;
        [nodes, types, tools, queues, calls].into_iter().all(Vec::is_empty)
    }
}

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderAbility {
    pub name: String,
    /// Other names that workflows use for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<ServedName>,
    /// True when it has its credentials.
    pub usable: bool,
}

/// A name that a provider serves besides its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedName {
    pub provider: String,
    /// Only this model; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileAbility {
    pub id: String,
    /// True when its provider has its credentials.
    pub usable: bool,
}

/// A registered Call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallAbility {
    pub id: String,
    /// The version of the Call that was checked.
    pub version: u64,
    pub usable: bool,
    /// The reason why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    #[serde(flatten)]
    pub need: Need,
    /// The reason, for people. Contains no secret.
    #[serde(default)]
    pub reason: String,
    /// True when a job has needed it lately: microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<i64>,
}

/// The form of the present version, with the version that its reader needs.
#[derive(Serialize, Deserialize)]
struct Versioned {
    v: u64,
    #[serde(flatten)]
    about: AboutWorker,
}

/// Writes a record.
pub fn to_json(about: &AboutWorker) -> String {
    let versioned = Versioned { v: 1, about: about.clone() };
    // A struct of texts and numbers always has a JSON form.
    serde_json::to_string(&versioned).unwrap_or_default()
}

/// Reads a record.
///
/// # Errors
/// It is no record, or of a newer version.
pub fn from_json(text: &str) -> Result<AboutWorker, WireError> {
    let mut value = super::read(WHAT, text)?;
    if let Some(missing) = value.get_mut("missing").and_then(serde_json::Value::as_array_mut) {
        // A newer worker may miss what this version does not know.
        missing.retain(|one| serde_json::from_value::<Missing>(one.clone()).is_ok());
    }
    serde_json::from_value(value).map_err(|error| WireError::malformed(WHAT, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> AboutWorker {
        AboutWorker {
            version: "1".into(),
            queues: vec!["default".into()],
            providers: vec![ProviderAbility {
                name: "openai".into(),
                serves: vec![ServedName { provider: "a/b/c".into(), model: None }],
                usable: true,
            }],
            key: Some("ab".into()),
            hosted: HostedAbility { tools: vec!["acme".into()], ..HostedAbility::default() },
            missing: vec![Missing { need: Need::Documents, reason: "no kernel".into(), asked_at: Some(7) }],
            ..AboutWorker::default()
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(from_json(&to_json(&about())), Ok(about()));
    }

    #[test]
    fn a_record_of_another_version_of_the_program_is_read_as_far_as_it_is_known() {
        let text =
            r#"{"v": 1, "host": "h", "wings": 2, "missing": [{"what": "wings"}, {"what": "documents"}]}"#;
        let read = from_json(text).unwrap();
        assert_eq!((read.host.as_str(), read.missing.len()), ("h", 1));
        assert!(from_json(r#"{"v": 99}"#).is_err() && from_json("no").is_err());
    }
}
