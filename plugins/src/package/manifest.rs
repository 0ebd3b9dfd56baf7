//! `manifest.yaml`: who made the plugin, what it needs, and what it asks to be allowed.

use super::spot::{Reader, Spot};

/// The file that makes a folder a plugin.
pub const MANIFEST: &str = "manifest.yaml";
/// The storage that a plugin gets if its manifest names no size, in bytes.
const STORAGE_BYTES: u64 = 1 << 20;

/// A manifest.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    pub author: String,
    pub name: String,
    pub version: String,
    pub label: String,
    pub description: String,
    /// As written, such as `2024-07-12T08:03:44Z`.
    pub created_at: String,
    /// The oldest Dify that it is for.
    pub minimum_dify_version: Option<String>,
    pub runner: Runner,
    /// The machines that it is for, such as `amd64`.
    pub arch: Vec<String>,
    pub permissions: Permissions,
    pub tags: Vec<String>,
    /// The files of its providers.
    pub extensions: Extensions,
}

/// The program that runs the plugin.
#[derive(Debug, Clone, Default)]
pub struct Runner {
    pub language: String,
    /// The version of the language, such as `3.12`.
    pub version: String,
    /// The module that is started.
    pub entrypoint: String,
}

/// The names and patterns of the files of its providers, by kind.
#[derive(Debug, Clone, Default)]
pub struct Extensions {
    pub tools: Vec<String>,
    pub models: Vec<String>,
    pub agent_strategies: Vec<String>,
    pub datasources: Vec<String>,
    pub triggers: Vec<String>,
    pub endpoints: Vec<String>,
}

/// What the plugin asks to be allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    pub tools: bool,
    /// The kinds of models, such as `llm`. Empty without the permission.
    pub models: Vec<String>,
    pub nodes: bool,
    pub apps: bool,
    pub endpoints: bool,
    /// Bytes of storage. `None` without the permission.
    pub storage_bytes: Option<u64>,
}

/// The kinds of models in a manifest.
const MODEL_KINDS: [&str; 6] = ["llm", "text_embedding", "rerank", "tts", "speech2text", "moderation"];

impl Permissions {
    /// The permissions as sentences.
    pub fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.models.is_empty() {
            words.push(format!("may call models: {}", self.models.join(", ")));
        }
        if self.tools {
            words.push("may call other tools".into());
        }
        if self.nodes {
            words.push("may run nodes".into());
        }
        if self.apps {
            words.push("may run apps".into());
        }
        if self.endpoints {
            words.push("may serve HTTP endpoints".into());
        }
        if let Some(bytes) = self.storage_bytes {
            words.push(format!("may store {bytes} bytes"));
        }
        words
    }

    fn read(resource: &Spot<'_>) -> Self {
        let Some(asked) = resource.get("permission") else { return Self::default() };
        let enabled = |name: &str| asked.get(name).is_some_and(|spot| spot.flag("enabled"));
        let models = match asked.get("model") {
            Some(model) if model.flag("enabled") => {
                MODEL_KINDS.iter().filter(|kind| model.flag(kind)).map(ToString::to_string).collect()
            }
            Some(_) | None => Vec::new(),
        };
        let storage_bytes = asked
            .get("storage")
            .filter(|storage| storage.flag("enabled"))
            .map(|storage| storage.get("size").and_then(|size| size.value.as_u64()).unwrap_or(STORAGE_BYTES));
        Self {
            tools: enabled("tool"),
            models,
            nodes: enabled("node"),
            apps: enabled("app"),
            endpoints: enabled("endpoint"),
            storage_bytes,
        }
    }
}

/// Reads the manifest. What is missing is reported and left empty.
pub(super) fn read(reader: &Reader<'_>) -> Option<Manifest> {
    let yaml = reader.read(MANIFEST)?;
    let root = reader.root(&yaml);
    let kind = root.need_text("type");
    if !matches!(kind.as_str(), "plugin" | "") {
        root.error(format!("type is {kind:?}; only plugins are read, not bundles"));
    }
    let resource = root.need("resource");
    Some(Manifest {
        author: author(&root),
        name: name(&root),
        version: version(&root),
        label: root.label("label"),
        description: root.label("description"),
        created_at: root.maybe_text("created_at").unwrap_or_default(),
        minimum_dify_version: root.get("meta").and_then(|meta| meta.maybe_text("minimum_dify_version")),
        runner: runner(&root),
        arch: root.get("meta").map(|meta| meta.texts("arch")).unwrap_or_default(),
        permissions: resource.as_ref().map(Permissions::read).unwrap_or_default(),
        tags: root.texts("tags"),
        extensions: extensions(reader, &root),
    })
}

fn author(root: &Spot<'_>) -> String {
    let author = root.maybe_text("author").unwrap_or_default();
    let is_known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if author.len() > 64 || !author.chars().all(is_known) {
        root.error("author may have at most 64 letters, digits, `_` and `-`".into());
    }
    // The id goes into errors and logs, so it has only these characters in any case.
    author.chars().filter(|c| is_known(*c)).take(64).collect()
}

/// The name: it becomes a part of ids and of paths.
fn name(root: &Spot<'_>) -> String {
    let name = root.need_text("name");
    let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.len() > 128 || !name.chars().all(is_known) {
        root.error("name may have at most 128 lower-case letters, digits, `_` and `-`".into());
    }
    name.chars().filter(|c| is_known(*c)).take(128).collect()
}

fn version(root: &Spot<'_>) -> String {
    let version = root.need_text("version");
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    if version.len() > 64 || !version.chars().all(is_known) {
        root.error("version may have at most 64 letters, digits, `.`, `-`, `_` and `+`".into());
    }
    version.chars().filter(|c| is_known(*c)).take(64).collect()
}

fn runner(root: &Spot<'_>) -> Runner {
    let Some(runner) = root.need("meta").and_then(|meta| meta.need("runner")) else {
        return Runner::default();
    };
    let read = Runner {
        language: runner.need_text("language"),
        version: runner.maybe_text("version").unwrap_or_default(),
        entrypoint: runner.need_text("entrypoint"),
    };
    if !matches!(read.language.as_str(), "python" | "") {
        runner.error(format!("the language is {:?}; only python is known", read.language));
    }
    let is_module = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !read.entrypoint.is_empty() && !read.entrypoint.split('.').all(is_module) {
        runner.error(format!("the entrypoint {:?} is not the name of a module", read.entrypoint));
    }
    read
}

fn extensions(reader: &Reader<'_>, root: &Spot<'_>) -> Extensions {
    let Some(plugins) = root.need("plugins") else { return Extensions::default() };
    let named = |key| reader.named(&plugins.list(key));
    let extensions = Extensions {
        tools: named("tools"),
        models: named("models"),
        agent_strategies: named("agent_strategies"),
        datasources: named("datasources"),
        triggers: named("triggers"),
        endpoints: named("endpoints"),
    };
    let known = ["tools", "models", "agent_strategies", "datasources", "triggers", "endpoints"];
    for (key, spot) in plugins.entries() {
        if !known.contains(&key) {
            spot.warn(format!("{key} is a kind of extension that is not known; it is left out"));
        }
    }
    extensions
}
