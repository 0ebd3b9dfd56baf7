//! The settings of all processes: `tidemill.toml` < environment < flags. One file serves all processes.
//!
//! A key `k` of section `[s]` is `TIDEMILL_S_K` in the environment; Dify's environment variables for limits
//! are read, too. An unknown key or section is an error that names the most similar known one.

mod cors;
mod environment;
mod features;
mod listeners;
mod load;
mod plugins;
mod run;
mod scheduler;
mod uploads;
mod webhooks;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::Table;

use tidemill_storage::store::redis::StoreLimits;

pub use crate::registry::calls::CallsConfig;
pub use crate::telemetry::{LogConfig, LogFormat};
pub use cors::{ANY_ORIGIN, CorsConfig};
pub use environment::variable;
pub use features::{ExtensionConfig, FeaturesConfig, NamedModel, model_of};
pub use load::{Sources, names, nearest};
pub use plugins::{PluginsConfig, Prefer};
pub use run::{CompatConfig, ConversationWrites, NestedAnswers, RunConfig, Undefined};
pub use scheduler::SchedulerConfig;
pub use tidemill_base::hidden::masked_url;
pub use tidemill_storage::files::FilesConfig;
pub use tidemill_storage::store::redis::RedisConfig;
pub use tidemill_workflow::nodes::code::CodeConfig;
pub use tidemill_workflow::nodes::document_extractor::DocumentsConfig;
pub use tidemill_workflow::nodes::knowledge_retrieval::KnowledgeConfig;
pub use tidemill_workflow::nodes::tool::ToolsConfig;
pub use uploads::UploadsConfig;
pub use webhooks::WebhooksConfig;
pub use worker::{HttpConfig, WorkerConfig};

/// An error in the settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// The file is not TOML.
    #[error("{path} is not valid TOML: {reason}")]
    Toml {
        path: PathBuf,
        /// Position and problem.
        reason: String,
    },
    /// A key that does not exist.
    #[error("unknown setting {key} in {origin}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        /// `section.key`.
        key: String,
        /// File, environment or flag.
        origin: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// An invalid value.
    #[error("setting {key} in {origin}: {reason}")]
    Value {
        /// `section.key`.
        key: String,
        /// File, environment or flag.
        origin: String,
        /// The expected value.
        reason: String,
    },
}

/// All settings. The default values document the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub redis: RedisConfig,
    pub scheduler: SchedulerConfig,
    /// Requests of pages in browsers; read by the scheduler.
    pub cors: CorsConfig,
    pub worker: WorkerConfig,
    /// Outgoing requests of workflows.
    pub http: HttpConfig,
    /// Files of nodes.
    pub files: FilesConfig,
    /// Files of clients; read by the scheduler.
    pub uploads: UploadsConfig,
    /// Notices about runs, to servers that an app names; read by the scheduler.
    pub webhooks: WebhooksConfig,
    /// Code nodes; read by the worker.
    pub code: CodeConfig,
    /// Document extractors; read by the worker.
    pub documents: DocumentsConfig,
    /// Tools; read by the worker.
    pub tools: ToolsConfig,
    /// Plugins; read by the worker, and by the scheduler when one is installed.
    pub plugins: PluginsConfig,
    /// Calls of steps; read by the worker.
    pub calls: CallsConfig,
    /// Knowledge bases; read by the worker.
    pub knowledge: KnowledgeConfig,
    /// Defaults of new runs.
    pub run: RunConfig,
    /// Behaviour that differs between Tidemill, bare graphon and versions of Dify.
    pub compat: CompatConfig,
    /// App features beside the workflow.
    pub features: FeaturesConfig,
    /// Logs.
    pub log: LogConfig,
    /// Model providers by name; read by the worker.
    pub providers: HiddenTables,
    /// Profiles by id; read by the worker.
    pub profiles: HiddenTables,
}

impl Config {
    /// The limits that the store enforces.
    pub const fn store_limits(&self) -> StoreLimits {
        StoreLimits {
            shards: self.scheduler.shards,
            inbox_max: self.scheduler.inbox_max,
            run_events_max: self.scheduler.run_events_max,
            queue_max: self.scheduler.queue_max,
            retention_seconds: self.scheduler.retention_seconds,
            conversation_seconds: self.scheduler.conversation_retention_seconds,
            replica_away_seconds: self.scheduler.replica_away_seconds,
        }
    }
}

/// Named tables as written. `Debug` shows only the names, because any value may be a secret.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HiddenTables(pub BTreeMap<String, Table>);

impl fmt::Debug for HiddenTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Deref for HiddenTables {
    type Target = BTreeMap<String, Table>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for HiddenTables {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toml::{Table, Value};

    use super::Config;

    /// Settings with text that are printed: those that cannot be secrets, and URLs, which are printed without
    /// user and query. All other texts have a type that hides them.
    const SHOWN: [&str; 49] = [
        "calls.programs",
        "code.endpoint",
        "code.helper",
        "code.python",
        "code.scratch_folder",
        "cors.exposed_headers",
        "cors.headers",
        "cors.methods",
        "cors.native_origins",
        "cors.origins",
        "documents.unstructured_url",
        "features.moderation_openai_model",
        "features.speech_to_text",
        "features.suggested_model",
        "features.text_to_speech",
        "features.text_to_speech_voice",
        "files.endpoint",
        "files.region",
        "files.url",
        "http.allow",
        "http.ca_file",
        "http.proxy",
        "http.proxy_http",
        "http.proxy_https",
        "knowledge.embedding_model",
        "log.level",
        "plugins.cache",
        "plugins.index_url",
        "plugins.python",
        "plugins.signing_keys",
        "plugins.wheels",
        "redis.ca_file",
        "redis.certificate_file",
        "redis.key_file",
        "redis.namespace",
        "redis.sentinel_user",
        "redis.url",
        "run.budget_price",
        "scheduler.listen",
        "scheduler.metrics_listen",
        "scheduler.tls_certificate_file",
        "scheduler.tls_key_file",
        "scheduler.trusted_proxies",
        "tools.endpoint",
        "uploads.refused_extensions",
        "uploads.url",
        "worker.default_profile",
        "worker.listen",
        "worker.queues",
    ];

    /// A value with the canary text, for each kind of setting that is or contains text.
    fn canary(known: &Value, canary: &str) -> Option<Value> {
        match known {
            Value::String(_) => Some(Value::String(canary.into())),
            Value::Array(_) => Some(Value::Array(vec![Value::String(canary.into())])),
            Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Table(_) => None,
        }
    }

    #[test]
    fn a_setting_that_is_a_text_is_printed_only_if_it_is_known_to_be_no_secret() {
        let defaults = Table::try_from(Config::default()).expect("settings are TOML");
        let mut shown = BTreeSet::new();
        for (section, keys) in &defaults {
            for (key, known) in keys.as_table().expect("a section") {
                let (name, text) = (format!("{section}.{key}"), format!("canary-{section}-{key}"));
                let Some(value) = canary(known, &text) else { continue };
                let mut table = defaults.clone();
                table
                    .get_mut(section)
                    .and_then(Value::as_table_mut)
                    .expect("a section")
                    .insert(key.clone(), value);
                // Settings with fixed choices reject the canary.
                let Ok(config) = table.try_into::<Config>() else { continue };
                if format!("{config:?} {config:#?}").contains(&text) {
                    shown.insert(name);
                }
            }
        }
        assert_eq!(shown, SHOWN.map(String::from).into());
    }

    #[test]
    fn secrets_of_every_place_in_the_settings_are_not_printed() {
        let config: Config = r#"
            [redis]
            url = "redis://hush-user:hush-pw@127.0.0.1:1/0?hush=1"
            sentinel_password = "hush"
            [scheduler]
            admin_key = "hush-admin"
            secret_key = "hush-secret"
            [files]
            url = "s3://bucket"
            endpoint = "https://hush:hush@minio:9000/hush"
            access_key_id = "hush-id"
            secret_access_key = "hush-secret"
            [http]
            proxy = "http://hush:hush@proxy:1"
            proxy_http = "http://hush@proxy:1"
            proxy_https = "http://hush:x@proxy:1"
            [code]
            endpoint = "http://sandbox/hush?key=hush"
            api_key = "hush"
            [documents]
            unstructured_url = "https://hush@service/"
            unstructured_key = "hush"
            [tools]
            endpoint = "https://tools/?token=hush"
            api_key = "hush"
            headers = { X = "hush" }
            [tools.api.one]
            server = "https://hush@api/"
            api_key_value = "hush"
            [tools.mcp.two]
            url = "https://mcp/hush/sse?key=hush"
            headers = { Authorization = "hush" }
            [tools.mcp.three]
            command = ["npx", "--token", "hush"]
            env = { TOKEN = "hush" }
            [knowledge.datasets.four]
            endpoint = "https://know/?key=hush"
            api_key = "hush"
            [features.moderation_extensions.five]
            endpoint = "https://checks/?key=hush"
            api_key = "hush"
            [providers.openai]
            api_key = "hush"
            base_url = "https://hush@api/"
            headers = { X = "hush" }
            [profiles.own]
            provider = "ANTHROPIC"
            api_key = "hush"
            nested = { deep = ["hush"] }
        "#
        .parse::<Table>()
        .and_then(|table| table.try_into())
        .expect("these are settings");
        for shown in [format!("{config:?}"), format!("{config:#?}")] {
            assert!(!shown.contains("hush"), "{shown}");
            assert!(shown.contains("openai") && shown.contains("***@minio"), "{shown}");
        }
    }

    /// So each new setting must be added to the example.
    #[test]
    fn the_example_file_holds_every_setting_at_its_default() {
        let example: Table =
            include_str!("../../../deploy/example.toml").parse().expect("the example is TOML");
        let mut defaults = Table::try_from(Config::default()).expect("settings are TOML");
        // The names of providers and profiles are free; the example shows them as comments.
        defaults.remove("providers");
        defaults.remove("profiles");
        for (section, keys) in &defaults {
            assert_eq!(example.get(section), Some(keys), "[{section}]");
        }
        assert_eq!(example.len(), defaults.len(), "the example has a section that does not exist");
    }
}
